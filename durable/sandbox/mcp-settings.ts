/** MCP servers of a sandbox, as its record has them, and the service that its machine is told of for them. Pure. */
import type { MachineBoot, Service } from "../../sdk/contract/boot.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import {
  GATEWAY_SERVICE,
  GATEWAY_VARIABLE,
  mcpLimits,
  type GatewayServer,
  type GatewaySettings,
} from "../../sdk/contract/mcp.ts";

/** A server as it is kept. */
export interface McpServerKept {
  readonly name: string;
  /** Of the catalog; null for a command of the caller's own. */
  readonly id: string | null;
  readonly runs: GatewayServer;
  /** Variables of it, each with the account's secret that it has. */
  readonly secrets: Readonly<Record<string, string>>;
}

export interface McpKept {
  readonly port: number;
  readonly servers: readonly McpServerKept[];
  /** The share link that is the gateway's token, and what the machine knows the token by. */
  readonly linkId: string;
  readonly tokenSha256: string;
  /** Unix milliseconds. */
  readonly linkExpiresAt: number;
  /** Raised by each change: whoever waits knows the gateway that goes by it from the one before. */
  readonly version: number;
}

const NODE = "/usr/lib/rouse/rouse-mcp";
const PROGRAM = "/usr/lib/rouse/mcp/gateway.js";

/** What the machine starts with, the gateway last. null: it is told nothing. */
export function bootTold({ boot, mcp }: { boot: MachineBoot | null; mcp: McpKept | null }): MachineBoot | null {
  if (!mcp) return boot;
  const { onBoot, onWake, services } = boot ?? { onBoot: null, onWake: null, services: [] };
  return { onBoot, onWake, services: [...services, serviceOf(mcp)] };
}

function serviceOf({ port, tokenSha256, version, servers }: McpKept): Service {
  const settings: GatewaySettings = { port, tokenSha256, version, servers: servers.map(({ runs }) => runs) };
  const env = { [GATEWAY_VARIABLE]: JSON.stringify(settings) };
  return { name: GATEWAY_SERVICE, command: [NODE, PROGRAM], cwd: "/workspace", env, port, stopSeconds: 5 };
}

/** The servers with others: one of the same name takes the place of what was there. */
export function mergedServers(
  before: readonly McpServerKept[],
  given: readonly McpServerKept[],
  replace: boolean,
): readonly McpServerKept[] | Failure {
  const names = new Set(given.map(({ name }) => name));
  const servers = [...(replace ? [] : before.filter(({ name }) => !names.has(name))), ...given];
  if (servers.length > mcpLimits.serversMax)
    return {
      code: "quota_exceeded",
      message: `A sandbox has at most ${mcpLimits.serversMax} MCP servers.`,
      details: { max: mcpLimits.serversMax },
    };
  if (new TextEncoder().encode(JSON.stringify(servers)).length > mcpLimits.settingsBytesMax) {
    const message = `the settings of all servers hold at most ${mcpLimits.settingsBytesMax} bytes together`;
    return {
      code: "invalid_request",
      message: `The servers are not valid: ${message}`,
      details: { issues: [{ path: "servers", message }] },
    };
  }
  return servers;
}

/** Names of the variables that a caller gave to a server. Values are written only. */
export function envNamesOf({ runs, secrets }: McpServerKept): string[] {
  return runs.kind === "command" ? Object.keys(runs.env).filter((name) => !Object.hasOwn(secrets, name)) : [];
}
