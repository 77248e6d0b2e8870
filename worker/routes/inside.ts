/**
 * `http://rouse.internal/...`, as hosts pass it on: what a machine asks of its own homes of state. Who asks is what its
 * ticket says, so that no path of it reaches another sandbox's. The same handlers answer as below `/v1/sandboxes/{id}/`.
 */
import { INSIDE_HOST, INSIDE_TICKET_HEADER, InsideTicket } from "../../sdk/contract/egress.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { signingKey, verify } from "../../sdk/contract/ticket.ts";
import { matcher, type Match } from "../api/operation.ts";
import { operations } from "../api/operations.ts";
import type { RequestNote } from "../log.ts";
import { limitRate } from "../middleware/rate-limit.ts";
import { homeGuide, homeOf } from "./homes.ts";
import type { Place } from "./place.ts";

const PREFIX = "/internal/inside";
const SANDBOXES = "/v1/sandboxes/";

const match = matcher(operations.filter(({ work }) => homeOf(work) !== null));

/** @param request of a host that has shown its key */
export async function insideRoute(env: Env, request: Request, note: RequestNote): Promise<Response> {
  const place = await placeOfTicket(env, request.headers.get(INSIDE_TICKET_HEADER) ?? "");
  note.account = place.account;
  note.sandbox = place.label;
  limitRate(`inside ${place.account}/${place.sandboxId}`, env.ROUSE_RATE_LIMIT, Date.now(), "from inside");
  const url = new URL(request.url);
  const path = url.pathname.slice(PREFIX.length);
  if (path === "" || path === "/") return index(place);
  const { operation, params } = found(request.method, path, place);
  const home = homeOf(operation.work);
  if (!home) throw noRoute(request.method, path);
  const ofSandbox = operation.path.startsWith(SANDBOXES);
  const { account } = place;
  return home({
    ...{ env, request, url, note, operation, account, place, caller: null },
    params: ofSandbox ? params.slice(1) : params,
  });
}

/** @throws RouseFailure `unauthorized` */
async function placeOfTicket(env: Env, ticket: string): Promise<Place> {
  const read = await verify(await signingKey(env.ROUSE_SECRET, "inside"), InsideTicket, ticket, Date.now());
  if (!read) throw new RouseFailure("unauthorized", "The ticket of the machine is missing or wrong.");
  return { account: read.a, sandboxId: read.s, label: read.n, generation: read.g };
}

/** A home of the sandbox itself, or one that the organisation shares. */
function found(method: string, path: string, { sandboxId }: Place): Match {
  let other: Exclude<ReturnType<typeof match>, Match | null> | null = null;
  for (const full of [`${SANDBOXES}${encodeURIComponent(sandboxId)}${path}`, `/v1${path}`]) {
    // Nobody names another sandbox from inside.
    if (path.startsWith("/sandboxes/")) break;
    const one = match(method, full);
    if (one !== null && typeof one === "object") return one;
    other ??= one;
  }
  if (other === "bad_encoding") throw new RouseFailure("invalid_request", "The path is not well percent-encoded.");
  if (other === "method_not_allowed")
    throw new RouseFailure("method_not_allowed", `${method} does not apply to ${path}.`);
  throw noRoute(method, path);
}

function noRoute(method: string, path: string): RouseFailure {
  return new RouseFailure("route_not_found", `There is no ${method} ${path} at ${INSIDE_HOST}.`);
}

/** What there is, for whoever looks. */
function index({ sandboxId, label, generation }: Place): Response {
  const homes = Object.entries(homeGuide).map(([path, what]) => ({ url: `http://${INSIDE_HOST}${path}`, what }));
  return Response.json({ sandbox: { id: sandboxId, label, generation }, homes });
}
