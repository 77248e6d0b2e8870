/** MCP servers in a sandbox: what a caller may start, what is shown of it, and what the machine's gateway is told. */
import { z } from "zod";
import { SecretName } from "./secret-name.ts";
import { Env, EnvName } from "./variables.ts";

export const mcpLimits = {
  serversMax: 12,
  /** Bytes of all servers' settings together, as JSON. */
  settingsBytesMax: 16_384,
  /** The gateway's port unless another is given. */
  port: 8765,
  /** Characters of a server's output that are shown where it failed. */
  messageMax: 2048,
} as const;

/** The service that the gateway runs as; no service of a sandbox may be called so. */
export const GATEWAY_SERVICE = "rouse-mcp";
/** The variable that the gateway's settings are in. */
export const GATEWAY_VARIABLE = "ROUSE_MCP";

const text = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine((value) => !value.includes("\0"), "no NUL");

/** What a server is called in its URL, and before the names of its tools. */
export const McpName = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/, "1-32 of a-z 0-9 -");
const OptionName = z.string().regex(/^[a-z][A-Za-z0-9]{0,31}$/, "an option of the catalog");

const common = {
  env: Env.optional(),
  /** Variables of the server, each with the account's secret that it is to have. */
  secrets: z.record(EnvName, SecretName).optional(),
};

/** A server of the catalog. `name` is its id unless given. */
const CatalogServer = z.strictObject({
  id: z.string().min(1).max(64),
  name: McpName.optional(),
  options: z.record(OptionName, text(4096)).optional(),
  ...common,
});

/** A program of one's own that speaks MCP over its standard input and output. */
const OwnServer = z.strictObject({
  name: McpName,
  command: z.array(text(8192)).min(1).max(64),
  /** `/workspace` unless given. */
  cwd: text(4096).optional(),
  ...common,
});

export const McpServer = z.union([CatalogServer, OwnServer]).meta({ id: "McpServer" });
export type McpServer = z.infer<typeof McpServer>;

/** `POST /v1/sandboxes/{id}/mcp`. */
export const StartMcp = z
  .strictObject({
    /** Added to those that are there; one of the same name takes its place. */
    servers: z
      .array(McpServer)
      .min(1)
      .max(mcpLimits.serversMax)
      .refine((all) => new Set(all.map(nameOf)).size === all.length, "each name once"),
    /** 8765 unless given. */
    port: z.int().min(1).max(65_535).optional(),
    /** These servers alone, and a new token: the old one opens nothing any more. */
    replace: z.boolean().optional(),
  })
  .meta({ id: "StartMcp" });
export type StartMcp = z.infer<typeof StartMcp>;

/** What a server is called. */
export function nameOf(server: McpServer): string {
  return "command" in server ? server.name : (server.name ?? server.id);
}

/** `asleep`: the machine does not run; the first request wakes it. */
export const mcpStatuses = ["installing", "ready", "failed", "asleep"] as const;

const ServerStatus = z.object({
  name: z.string(),
  status: z.enum(mcpStatuses),
  /** Why it failed: how it ended, and the last that it wrote. */
  message: z.string().nullable(),
});

/** What the gateway says of its servers. */
export const GatewayReport = z.object({
  /** Of the settings that it goes by. */
  version: z.int(),
  servers: z.array(ServerStatus.extend({ status: z.enum(["installing", "ready", "failed"]), restarts: z.int() })),
});
export type GatewayReport = z.infer<typeof GatewayReport>;

export const McpGateway = z
  .object({
    running: z.boolean(),
    port: z.int().nullable(),
    /** All servers at one URL, the tools of each named `<server>__<tool>` where there are several. */
    url: z.string().nullable(),
    /** Opens these URLs and nothing else. null for keys that may not reach machines. */
    token: z.string().nullable(),
    headers: z.record(z.string(), z.string()),
    /** When the token ends; start again for a new one. */
    urlExpiresAt: z.iso.datetime().nullable(),
    servers: z.array(
      ServerStatus.extend({
        /** Of the catalog; null for a command of one's own. */
        id: z.string().nullable(),
        url: z.string(),
        /** How often it was started again since the gateway began; null where the machine is not asked. */
        restarts: z.int().nullable(),
        envNames: z.array(z.string()),
        secrets: z.record(z.string(), z.string()),
      }),
    ),
    warnings: z.array(z.string()),
  })
  .meta({ id: "McpGateway" });
export type McpGateway = z.infer<typeof McpGateway>;

export const StoppedMcp = z.object({ stopped: z.literal(true) }).meta({ id: "StoppedMcp" });

/** A server of the catalog, as it is described. */
export const McpCatalogEntry = z
  .object({
    id: z.string(),
    title: z.string(),
    description: z.string(),
    /** SPDX. */
    license: z.string(),
    source: z.string(),
    version: z.string(),
    env: z.array(
      z.object({
        name: z.string(),
        description: z.string(),
        required: z.boolean(),
        secret: z.boolean(),
        hosts: z.array(z.string()).optional(),
      }),
    ),
    options: z.array(z.object({ name: z.string(), description: z.string(), default: z.string().nullable() })),
    /** Host names that it needs; `*` for what it is asked for. */
    egress: z.array(z.string()),
    /** The day it was last tried with this version. */
    checked: z.string(),
  })
  .meta({ id: "McpCatalogEntry" });
export type McpCatalogEntry = z.infer<typeof McpCatalogEntry>;
export const McpCatalog = z.object({ data: z.array(McpCatalogEntry) }).meta({ id: "McpCatalog" });

/** A server as the gateway runs it. */
export type GatewayServer = { readonly name: string } & (
  | {
      readonly kind: "command";
      readonly command: readonly string[];
      readonly cwd: string;
      readonly env: Readonly<Record<string, string>>;
      /** Variables of the server, each with the machine's variable that it is taken from. */
      readonly fromEnv: Readonly<Record<string, string>>;
    }
  /** A program that comes with the gateway. */
  | { readonly kind: "bundled"; readonly program: string; readonly args: readonly string[] }
  /** A part of the gateway. */
  | { readonly kind: "builtin"; readonly program: string; readonly options: Readonly<Record<string, string>> }
  | { readonly kind: "http"; readonly url: string }
);

/** What is in the gateway's variable. */
export interface GatewaySettings {
  readonly port: number;
  /** Of the bearer token, hex: the token itself is nowhere in the machine. */
  readonly tokenSha256: string;
  /** Said back in reports. */
  readonly version: number;
  readonly servers: readonly GatewayServer[];
}
