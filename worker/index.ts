/** Entry of the edge. Named URLs and domains of sandboxes go straight to the proxy; everything else is the API. */
import { app } from "./app.ts";
import { logRequest, requestIdOf, type RequestNote } from "./log.ts";
import { namedFaultResponse } from "./errors.ts";
import { customDomain } from "./proxy/custom-domain.ts";
import { named } from "./proxy/named.ts";
import { parseTarget } from "./proxy/target.ts";
import { hasDashboard } from "./routes/dashboard.ts";

export { AccountObject } from "../durable/account/object.ts";
export { CheckpointsObject } from "../durable/checkpoints/object.ts";
export { ClaimsObject } from "../durable/claims/object.ts";
export { DatabaseObject } from "../durable/state/database.ts";
export { DomainObject } from "../durable/domains/object.ts";
export { DrillsObject } from "../durable/drills/object.ts";
export { InboxObject } from "../durable/inbox/object.ts";
export { LoginObject } from "../durable/login/object.ts";
export { MemoryObject } from "../durable/memory/object.ts";
export { OutboxObject } from "../durable/outbox/object.ts";
export { HostBoard } from "../durable/hosts/board.ts";
export { SocketsObject } from "../durable/sockets/object.ts";
export { SnapshotsObject } from "../durable/snapshots/object.ts";
export { SchedulesObject } from "../durable/schedules/object.ts";
export { SecretsObject } from "../durable/secrets/object.ts";
export { SandboxObject } from "../durable/sandbox/object.ts";
export { StoresObject } from "../durable/stores/object.ts";
export { StateObject } from "../durable/state/object.ts";
export { VaultObject } from "../durable/vault/object.ts";
export { VolumesObject } from "../durable/volumes/object.ts";

export default {
  async fetch(request, env, ctx): Promise<Response> {
    const note: RequestNote = { id: requestIdOf(request.headers), startedAt: Date.now() };
    const url = new URL(request.url);
    const response = await respond(request, url, env, ctx, note);
    logRequest(env.ROUSE_LOG, request, url, note, response.status);
    return response;
  },
} satisfies ExportedHandler<Env>;

async function respond(
  request: Request,
  url: URL,
  env: Env,
  ctx: ExecutionContext,
  note: RequestNote,
): Promise<Response> {
  let target;
  try {
    // A domain's paths are all its program's, also those that mean a sandbox at the API.
    target = await customDomain(env, url.hostname, Date.now());
  } catch (fault) {
    return namedFaultResponse(fault, note.id);
  }
  target ??= parseTarget(url.host, url.pathname, env.ROUSE_DOMAIN);
  if (!target) return api(request, env, ctx, note);
  note.toProgram = true;
  const response = await named(env, ctx, request, url, target, note);
  return "prefix" in target && target.prefix !== "" && hasDashboard(env) ? apart(response) : response;
}

/**
 * By its path a sandbox is on the origin of the dashboard. Its pages get one of their own in the browser, so that none
 * acts as whoever is signed in there.
 */
function apart(response: Response): Response {
  if (response.webSocket) return response;
  const own = new Response(response.body, response);
  own.headers.append("content-security-policy", `sandbox ${PAGES_MAY}`);
  return own;
}

const PAGES_MAY = "allow-scripts allow-forms allow-popups allow-modals allow-downloads allow-pointer-lock";

async function api(request: Request, env: Env, ctx: ExecutionContext, note: RequestNote): Promise<Response> {
  const response = await app.fetch(request, { ...env, note }, ctx);
  if (response.headers.has("x-request-id")) return response;
  const labelled = new Response(response.body, response);
  labelled.headers.set("x-request-id", note.id);
  return labelled;
}
