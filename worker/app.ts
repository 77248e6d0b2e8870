/** The API host: routes, authentication, error shape. */
import { Hono } from "hono";
import { RouseFailure } from "../sdk/contract/error-codes.ts";
import { matcher, type Match } from "./api/operation.ts";
import { operations } from "./api/operations.ts";
import { asRuntime } from "./compat/call.ts";
import { isRuntimeClient, meantBy, whyMissing } from "./compat/paths.ts";
import { faultResponse } from "./errors.ts";
import type { RequestNote } from "./log.ts";
import { authenticate, bearerOf, credentialOf, isOfSession, type Caller } from "./middleware/auth.ts";
import {
  foreignOrigin,
  isPreflight,
  mustBeNoKeyOfPage,
  mustComeFromItsOrigin,
  preflightAnswer,
  readableFrom,
} from "./middleware/origin.ts";
import { mustMay } from "./middleware/permission.ts";
import { mustBeItsSandbox, scopesFor } from "./middleware/scope.ts";
import { limitRate } from "./middleware/rate-limit.ts";
import { accountRoute } from "./routes/account.ts";
import { agentRoute } from "./routes/agents.ts";
import type { Context } from "./routes/context.ts";
import { dashboard } from "./routes/dashboard.ts";
import { domainRoute } from "./routes/domains.ts";
import { eventRoute } from "./routes/events.ts";
import { copyRoute } from "./routes/copies.ts";
import { hookRoute } from "./routes/hooks.ts";
import { guestRoute } from "./routes/guest.ts";
import { drillRoute } from "./routes/drills.ts";
import { homeRoute } from "./routes/homes.ts";
import { takeHook } from "./routes/hook-intake.ts";
import { internal } from "./routes/internal.ts";
import { keyRoute } from "./routes/keys.ts";
import { linkRoute } from "./routes/links.ts";
import { login } from "./routes/login.ts";
import { mcpRoute } from "./routes/mcp.ts";
import { networkRoute } from "./routes/network.ts";
import { signedObject } from "./routes/objects.ts";
import { operatorRoute } from "./routes/operator.ts";
import { previewRoute } from "./routes/previews.ts";
import { openApiAnswer, referenceAnswer } from "./routes/reference.ts";
import { rouseMcp } from "./routes/rouse-mcp.ts";
import { sessionRoute } from "./routes/sessions.ts";
import { sandboxRoute } from "./routes/sandboxes.ts";
import { scheduleRoute } from "./routes/schedules.ts";
import { sandboxSecretRoute, secretRoute } from "./routes/secrets.ts";
import { idOfUuid } from "./sandbox-uuid.ts";
import { socketRoute } from "./routes/sockets.ts";
import { tlsCheck } from "./routes/tls-check.ts";
import { volumeRoute } from "./routes/volumes.ts";

interface AppEnv {
  readonly Bindings: Env & { readonly note: RequestNote };
}

const match = matcher(operations);
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export const app = new Hono<AppEnv>();

app.get("/healthz", (c) => c.json({ ok: true }));
app.get("/v1/openapi.json", () => openApiAnswer());
app.get("/docs/api", () => referenceAnswer());
app.route("/internal", internal);
app.route("/", login);
app.route("/", dashboard);
app.all("/signed/objects/:token", (c) => signedObject(c.env, c.req.raw, c.env.note));
app.all("/hooks/:token", (c) => takeHook(c.env, c.req.raw, c.req.param("token"), c.env.note));
app.get("/v1/domains/tls-check", (c) => tlsCheck(c.env, new URL(c.req.url), c.env.note.id));
app.all("/mcp", (c) => rouseMcp(c.env, c.req.raw, c.env.note, (request) => serve(c.env, request, c.env.note)));
app.all("/v1/*", (c) => {
  const origin = foreignOrigin(c.req.raw.headers, new URL(c.req.url));
  return origin === null ? serve(c.env, c.req.raw, c.env.note) : serveToPage(c.env, c.req.raw, origin, c.env.note);
});
app.onError((fault, c) => faultResponse(fault, c.env.note.id));
app.notFound((c) => {
  const { pathname } = new URL(c.req.url);
  return faultResponse(new RouseFailure("route_not_found", `There is no ${c.req.method} ${pathname}.`), c.env.note.id);
});

/** A page of another origin can read what went wrong, whoever it is; all else is for those whom a session token lets in. */
async function serveToPage(
  env: AppEnv["Bindings"],
  request: Request,
  origin: string,
  note: RequestNote,
): Promise<Response> {
  try {
    if (isPreflight(request)) return preflight(request, origin);
    return readableFrom(await serve(env, request, note), origin);
  } catch (fault) {
    return readableFrom(faultResponse(fault, note.id), origin);
  }
}

/** For what session tokens are good for, and nothing else. */
function preflight(request: Request, origin: string): Response {
  const { pathname } = new URL(request.url);
  const method = request.headers.get("access-control-request-method") ?? "";
  const found = match(method, pathname);
  if (found === null || typeof found !== "object" || scopesFor(found.operation) === null)
    throw new RouseFailure("origin_not_allowed", "That is nothing for pages of other origins.", {
      details: { origin },
    });
  return preflightAnswer(origin, method);
}

async function serve(env: Env, request: Request, note: RequestNote): Promise<Response> {
  const given = new URL(request.url);
  const ofRuntime = isRuntimeClient(request.headers);
  const meant = ofRuntime ? meantBy(request.method, given) : { url: given, shape: null };
  const found = meant && match(request.method, meant.url.pathname);
  const isMatch = found !== null && typeof found === "object";
  mustBeNoKeyOfPage(request.headers, foreignOrigin(request.headers, given));
  // On the way to a machine a remembered verdict will do: its host refuses what was revoked.
  const caller = await authenticate(env, request, given, !(isMatch && found.operation.work === "guest"));
  note.account = caller.account;
  mustComeFromItsOrigin(caller, request.headers);
  limitRate(credentialOf(caller), env.ROUSE_RATE_LIMIT, Date.now());
  if (meant === null || (ofRuntime && found === null))
    throw new RouseFailure("unavailable", whyMissing(given.pathname), { details: { path: given.pathname } });
  const { url } = meant;
  if (found === null) throw new RouseFailure("route_not_found", `There is no ${request.method} ${url.pathname}.`);
  if (found === "bad_encoding") throw new RouseFailure("invalid_request", "The path is not well percent-encoded.");
  if (found === "method_not_allowed")
    throw new RouseFailure("method_not_allowed", `${request.method} does not apply to ${url.pathname}.`);
  mustMay(caller, found.operation);
  const params = await paramsOf(env, caller, found, ofRuntime);
  const context = { env, request, url, note, caller, operation: found.operation, params };
  const response = await (ofRuntime ? asRuntime(context, meant.shape, given, run) : run(context));
  return bearerOf(request.headers) === null ? forBrowser(response) : response;
}

/** A sandbox may be named by the UUID of its id. Where there is none of it, that is a name like any other. */
async function paramsOf(
  env: Env,
  caller: Caller,
  { operation, params }: Match,
  idsAlone: boolean,
): Promise<readonly string[]> {
  const [first, ...others] = params;
  if (first === undefined || !operation.path.startsWith("/v1/sandboxes/")) return params;
  if (isOfSession(caller)) return [await mustBeItsSandbox(caller.session, first), ...others];
  const id = await idOfUuid(env, caller.account, first);
  // For clients of Runtime what looks so is never a name.
  if (id === null && idsAlone && UUID.test(first)) throw new RouseFailure("not_found", "There is no such sandbox.");
  return [id ?? first, ...others];
}

/** A browser that has the dashboard's cookie makes no page of this origin of what an answer holds, such as a file. */
function forBrowser(response: Response): Response {
  if (response.webSocket) return response;
  const guarded = new Response(response.body, response);
  guarded.headers.set("x-content-type-options", "nosniff");
  guarded.headers.set("content-security-policy", "sandbox; default-src 'none'");
  guarded.headers.set("cache-control", "no-store");
  return guarded;
}

function run(context: Context): Promise<Response> {
  switch (context.operation.work) {
    case "guest":
      return guestRoute(context);
    case "sandbox":
      return sandboxRoute(context);
    case "copies":
      return copyRoute(context);
    case "preview":
      return previewRoute(context);
    case "hooks":
      return hookRoute(context);
    case "schedules":
      return scheduleRoute(context);
    case "events":
      return eventRoute(context);
    case "network":
      return networkRoute(context);
    case "secrets":
      return secretRoute(context);
    case "sandboxSecrets":
      return sandboxSecretRoute(context);
    case "drills":
      return drillRoute(context);
    case "domains":
      return domainRoute(context);
    case "state":
    case "memory":
    case "sharedMemory":
    case "sharedState":
    case "stores":
    case "checkpoints":
    case "queues":
    case "objects":
      return homeRoute(context);
    case "links":
      return linkRoute(context);
    case "sessions":
      return sessionRoute(context);
    case "agents":
      return agentRoute(context);
    case "mcp":
      return mcpRoute(context);
    case "sockets":
      return socketRoute(context);
    case "volumes":
      return volumeRoute(context);
    case "account":
      return accountRoute(context);
    case "keys":
      return keyRoute(context);
    case "operator":
      return operatorRoute(context);
  }
}
