/** MCP servers in a sandbox: the catalog, and starting, looking at and stopping them. */
import { may } from "../../durable/account/key.ts";
import { iso } from "../../durable/time.ts";
import { sandboxObject, type McpShown } from "../../durable/sandbox/api.ts";
import type { McpServerKept } from "../../durable/sandbox/mcp-settings.ts";
import { secretsObject } from "../../durable/secrets/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import {
  GATEWAY_SERVICE,
  GatewayReport,
  nameOf,
  StartMcp,
  type GatewayServer,
  type McpGateway,
  type McpServer,
} from "../../sdk/contract/mcp.ts";
import { catalogServer, mcpCatalog, shownCatalog } from "../../sdk/contract/mcp-catalog.ts";
import { readJson, readQuery } from "../api/input.ts";
import { causeOf } from "../cause.ts";
import { mustSee } from "../middleware/permission.ts";
import { forward, routeKey, type Destination } from "../proxy/forward.ts";
import { forgetRoute } from "../proxy/route-cache.ts";
import { changeOf, okOrThrow, referenceOf, type Context } from "./context.ts";
import { mustHaveSecrets } from "./secrets.ts";

/** How long a start waits for the gateway, and then for its servers, milliseconds. */
const START_MS = 60_000;
/** One look at a gateway while it starts its servers, milliseconds. */
const LOOK_MS = 10_000;
const RETRY_MS = 250;
/** A secret that only the host has: a server that insists on a variable gets this. */
const PUT_IN_OUTSIDE = "the-host-puts-it-into-requests";

export async function mcpRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, request, url, note } = context;
  if (operation.query) readQuery(operation.query, url.searchParams);
  if (operation.path === "/v1/mcp/catalog") return Response.json({ data: shownCatalog() });
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  const { account } = caller;
  const object = sandboxObject(env.SANDBOX, account, label);
  const to = { account, label };
  if (operation.method === "GET") {
    const { gateway } = okOrThrow(await object.mcp({ kind: "look" }, await changeOf(context, id, {})));
    if (!gateway) return Response.json(none);
    const report = gateway.state === "running" ? await look(context, to, gateway, 0, false).catch(() => null) : null;
    return Response.json(shown(gateway, report, may(caller.access, "use_sandboxes")));
  }
  try {
    if (operation.method === "DELETE") {
      okOrThrow(await object.mcp({ kind: "stop" }, await changeOf(context, id, {})));
      return Response.json({ stopped: true });
    }
    const { value } = await readJson(StartMcp, request);
    const { servers: given, port, replace = false } = value;
    const servers = await kept(context, given);
    const secrets = secretsOf(given);
    const change = await changeOf(context, id, value);
    const { gateway } = okOrThrow(await object.mcp({ kind: "start", servers, port, replace, secrets }, change));
    if (!gateway) throw new RouseFailure("conflict", "The servers were stopped by somebody else at the same time.");
    forgetRoute(routeKey(to));
    return Response.json(shown(gateway, await started(context, to, gateway), true));
  } finally {
    forgetRoute(routeKey(to));
  }
}

function secretsOf(given: readonly McpServer[]): string[] {
  return [...new Set(given.flatMap(({ secrets = {} }) => Object.values(secrets)))];
}

/** As the sandbox keeps them. @throws RouseFailure `mcp_server_not_found`, `invalid_request`, `secret_not_found` */
async function kept({ env, caller }: Context, given: readonly McpServer[]): Promise<McpServerKept[]> {
  const names = secretsOf(given);
  await mustHaveSecrets(env, caller, names);
  const store = secretsObject(env.SECRETS, caller.account);
  const variables = new Map<string, string | null>();
  for (const name of names) variables.set(name, okOrThrow(await store.get("", name)).secret.envName);
  const unknown: string[] = [];
  const issues: { path: string; message: string }[] = [];
  const servers = given.map((server, n): McpServerKept | null => {
    const { secrets = {}, env: values = {} } = server;
    const name = nameOf(server);
    if ("command" in server) {
      const runs = ownServer(server, secrets, values, variables);
      return { name, id: null, runs, secrets };
    }
    const runs = catalogServer(name, server.id, server.options);
    if (runs === null) unknown.push(server.id);
    else if (!("kind" in runs)) issues.push(...runs.map((message) => ({ path: `servers.${n}.options`, message })));
    const known = mcpCatalog.find(({ id }) => id === server.id)?.env.map((one) => one.name) ?? [];
    for (const variable of [...Object.keys(values), ...Object.keys(secrets)])
      if (runs !== null && !known.includes(variable))
        issues.push({ path: `servers.${n}.env`, message: `${server.id} takes no variable ${variable}` });
    return runs !== null && "kind" in runs ? { name, id: server.id, runs, secrets } : null;
  });
  if (unknown.length > 0)
    throw new RouseFailure("mcp_server_not_found", `The catalog has no MCP server ${unknown.join(", ")}.`, {
      details: { ids: unknown, catalog: mcpCatalog.map(({ id }) => id) },
    });
  if (issues.length > 0) {
    const message = `The servers are not valid: ${issues.map((issue) => issue.message).join("; ")}`;
    throw new RouseFailure("invalid_request", message, { details: { issues } });
  }
  return servers.filter((server) => server !== null);
}

function ownServer(
  { name, command, cwd = "/workspace" }: Extract<McpServer, { command: string[] }>,
  secrets: Readonly<Record<string, string>>,
  values: Readonly<Record<string, string>>,
  variables: ReadonlyMap<string, string | null>,
): GatewayServer {
  const env: Record<string, string> = { ...values };
  const fromEnv: Record<string, string> = {};
  for (const [variable, secret] of Object.entries(secrets)) {
    const from = variables.get(secret) ?? null;
    if (from === null) env[variable] = PUT_IN_OUTSIDE;
    else fromEnv[variable] = from;
  }
  return { name, kind: "command", command, cwd, env, fromEnv };
}

/** Wait for the gateway that goes by these settings, and for its servers. null: it did not answer yet. @throws RouseFailure `mcp_failed` */
async function started(
  context: Context,
  to: Omit<Destination, "id">,
  gateway: McpShown,
): Promise<GatewayReport | null> {
  const endsAt = Date.now() + START_MS;
  for (;;) {
    // A machine that starts has nothing that listens yet, or still the gateway of before.
    const report = await look(context, to, gateway, LOOK_MS, true).catch((fault: unknown) => {
      if (fault instanceof RouseFailure && !isPassing(fault)) throw fault;
      return null;
    });
    const isLate = Date.now() >= endsAt;
    if (report?.version === gateway.version) {
      const failed = report.servers.find(({ status }) => status === "failed");
      if (failed)
        throw new RouseFailure("mcp_failed", `The MCP server ${failed.name} failed: ${failed.message ?? "it ended"}`, {
          details: { server: failed.name, output: failed.message },
        });
      if (isLate || report.servers.every(({ status }) => status === "ready")) return report;
    } else if (isLate) {
      return null;
    }
    if (report?.version !== gateway.version) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

const passing: ReadonlySet<string> = new Set([
  ...["port_not_listening", "upstream_closed", "sandbox_waking", "host_unavailable"],
  ...["service_not_ready", "service_failed", "guest_failed"],
]);

function isPassing({ code }: RouseFailure): boolean {
  return passing.has(code);
}

/** What the gateway says of itself; null for what is no gateway's answer. @throws RouseFailure as requests to ports do */
async function look(
  { env, request, url, note, caller }: Context,
  to: Omit<Destination, "id">,
  { sandboxId, port, token }: McpShown,
  waitMs: number,
  wake: boolean,
): Promise<GatewayReport | null> {
  if (token === null) return null;
  const out = {
    ...{ method: "GET", path: `/port/${port}/status?waitMs=${waitMs}`, body: { data: null, once: false } },
    headers: new Headers({ authorization: `Bearer ${token}` }),
    ...{ waitMs: START_MS, wake, subject: null },
    cause: causeOf("api", request, url, note, caller.keyId, port),
  };
  const answer = await forward(env, { ...to, id: sandboxId }, out, note);
  const body: unknown = await answer.json().catch(() => null);
  const parsed = GatewayReport.safeParse(body);
  return answer.ok && parsed.success ? parsed.data : null;
}

const none: McpGateway = {
  ...{ running: false, port: null, url: null, token: null, headers: {}, urlExpiresAt: null },
  ...{ servers: [], warnings: [] },
};

/** @param report null: the machine sleeps, or its gateway does not answer @param opens whether the caller may have the token */
function shown(gateway: McpShown, report: GatewayReport | null, opens: boolean): McpGateway {
  const { port, url, token, state, servers, isClosed } = gateway;
  const told = new Map(report?.servers.map((one) => [one.name, one]));
  const unknown = state === "running" ? "installing" : "asleep";
  const shownToken = opens ? token : null;
  return {
    ...{ running: token !== null, port, url: `${url}mcp`, token: shownToken },
    headers: shownToken === null ? {} : { Authorization: `Bearer ${shownToken}` },
    urlExpiresAt: iso(gateway.tokenExpiresAt),
    servers: servers.map(({ name, id, envNames, secrets }) => {
      const { status = unknown, message = null, restarts = null } = told.get(name) ?? {};
      return { name, id, status, message, url: `${url}${name}/mcp`, restarts, envNames, secrets: { ...secrets } };
    }),
    warnings: [
      ...(token === null ? ["The token was revoked, or is over: start the servers again for a new one."] : []),
      ...(report === null && token !== null && state === "running"
        ? [`The gateway does not answer yet; the service ${GATEWAY_SERVICE} has what it wrote.`]
        : []),
      ...(isClosed && servers.some(({ id }) => mcpCatalog.find((one) => one.id === id)?.egress.length)
        ? ["The sandbox's network rules let nothing out."]
        : []),
    ],
  };
}
