/** MCP servers in a sandbox: started in its machine, asked by any MCP client over HTTP, woken with it. */
import { McpCatalog, McpGateway as McpGatewaySchema, StoppedMcp } from "../contract/mcp.ts";
import type { McpCatalogEntry, McpGateway, McpServer } from "../contract/mcp.ts";
import { Poll } from "./poll.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions, Transport } from "./transport.ts";

/** The catalog of an installation. */
export class McpServers {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Servers that need no installation, with what each takes. */
  catalog(options: RequestOptions = {}): Promise<McpCatalogEntry[]> {
    return catalogOf(this.#transport, options);
  }
}

export interface StartMcpOptions extends RequestOptions {
  /** Of the gateway; 8765 unless given, or the one that it has. */
  port?: number | undefined;
  /** These servers alone, and a new token; without it they join those that are there. */
  replace?: boolean | undefined;
}

/**
 * MCP servers of a sandbox.
 *
 * @example
 * const { url, headers } = await sandbox.mcp.start([{ id: "memory" }, { id: "filesystem" }]);
 * await client.connect(new StreamableHTTPClientTransport(new URL(url ?? ""), { requestInit: { headers } }));
 */
export class Mcp {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** Servers that need no installation, with what each takes. */
  catalog(options: RequestOptions = {}): Promise<McpCatalogEntry[]> {
    return catalogOf(this.#remote.transport, options);
  }

  /**
   * Start servers of the catalog, or commands of one's own, and wait a minute at most until they are ready. One of the
   * same name takes the place of what was there. Wakes the sandbox.
   * @throws NotFoundError `mcp_server_not_found`, `secret_not_found`
   * @throws RouseError `mcp_failed` with what a server wrote when it ends at its start; it goes on to be started again
   */
  async start(servers: readonly McpServer[], { port, replace, ...options }: StartMcpOptions = {}): Promise<McpGateway> {
    return parseAnswer(McpGatewaySchema, await this.#remote.post("/mcp", { servers, port, replace }, options));
  }

  /** URLs, token, and how the servers are. It does not wake the sandbox. */
  async status(options: RequestOptions = {}): Promise<McpGateway> {
    return parseAnswer(McpGatewaySchema, await this.#remote.get("/mcp", options));
  }

  /** Wait until no server is installing any more. @throws ConnectionError `timeout` after 10 minutes unless given */
  async ready(options: RequestOptions = {}): Promise<McpGateway> {
    const poll = new Poll({
      timeoutMs: options.timeoutMs,
      signal: options.signal,
      late: () => ({ message: "An MCP server is still being installed." }),
    });
    for (;;) {
      const gateway = await poll.ask((asked) => this.status(asked));
      if (!gateway.running || gateway.servers.every(({ status }) => status !== "installing")) return gateway;
      await poll.rest();
    }
  }

  /** End all of them; the token opens nothing any more. */
  async stop(options: RequestOptions = {}): Promise<void> {
    parseAnswer(StoppedMcp, await this.#remote.delete("/mcp", options));
  }
}

async function catalogOf(transport: Transport, options: RequestOptions): Promise<McpCatalogEntry[]> {
  return parseAnswer(McpCatalog, await transport.json({ method: "GET", path: "/v1/mcp/catalog", ...options })).data;
}
