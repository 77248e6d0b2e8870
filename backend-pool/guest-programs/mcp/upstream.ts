/** One server behind the gateway: started, started again when it ended, and asked. */
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js";
import { mcpLimits, type GatewayReport, type GatewayServer } from "../../../sdk/contract/mcp.ts";
import { afterExit } from "../../guest/restarts.ts";
import { ChildTransport, type Program } from "./child-transport.ts";
import { freshFetch } from "./fresh-fetch.ts";
import { builtin } from "./servers/builtin.ts";

/** Time that a server has to get ready; the first start of one may install packages, milliseconds. */
const START_MS = 180_000;
/** How long a call waits for a server that starts, milliseconds: less than clients wait for an answer. */
const WAIT_MS = 45_000;

type Status = GatewayReport["servers"][number];

/** What the gateway says of itself to servers. */
const SELF = { name: "rouse-mcp", version: "0.1.0" };

export class Upstream {
  readonly name: string;
  readonly #server: GatewayServer;
  readonly #env: NodeJS.ProcessEnv;
  /** Resolves when it gets ready, or fails. */
  #settled = Promise.withResolvers<void>();
  #client: Client | null = null;
  #state: Status["status"] = "installing";
  #message: string | null = null;
  #tail = "";
  #restarts = 0;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  /** @param env of the machine's programs */
  constructor(server: GatewayServer, env: NodeJS.ProcessEnv) {
    this.name = server.name;
    this.#server = server;
    this.#env = env;
  }

  get status(): Status {
    return { name: this.name, status: this.#state, message: this.#message, restarts: this.#restarts };
  }

  /** It is not starting any more, or the time is up. */
  async settled(waitMs: number): Promise<void> {
    if (this.#state !== "installing") return;
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, waitMs);
    await Promise.race([this.#settled.promise, late.promise]);
    clearTimeout(timer);
  }

  /** @throws McpError where it does not run */
  async client(): Promise<Client> {
    await this.settled(WAIT_MS);
    if (this.#client && this.#state === "ready") return this.#client;
    const why = this.#state === "installing" ? "is starting" : `is not running: ${this.#message ?? "it ended"}`;
    throw new McpError(ErrorCode.ConnectionClosed, `The server ${this.name} ${why}`);
  }

  start(): void {
    if (this.#isStopped) return;
    const startedAt = performance.now();
    this.#tail = "";
    const client = new Client(SELF, { capabilities: {} });
    const transport = this.#transport();
    let isOver = false;
    const over = (why: string) => {
      if (isOver) return;
      isOver = true;
      if (this.#client === client) this.#client = null;
      void client.close().catch(() => undefined);
      this.#over(why, performance.now() - startedAt);
    };
    client.onclose = () => over(transport instanceof ChildTransport ? (transport.end ?? "it ended") : "it ended");
    client.connect(transport, { timeout: START_MS }).then(
      () => {
        if (isOver || this.#isStopped) return void client.close();
        this.#client = client;
        this.#become("ready", null);
      },
      (fault: unknown) => over(transport instanceof ChildTransport && transport.end ? transport.end : textOf(fault)),
    );
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#client?.close().catch(() => undefined);
  }

  #transport(): Transport {
    const server = this.#server;
    if (server.kind === "http")
      return new StreamableHTTPClientTransport(new URL(server.url), { fetch: freshFetch }) as Transport;
    if (server.kind === "builtin") {
      const [ours, theirs] = InMemoryTransport.createLinkedPair();
      void builtin(server.program, server.options).connect(theirs);
      return ours;
    }
    return new ChildTransport(programOf(server, this.#env), (text) => {
      this.#tail = (this.#tail + text).slice(-mcpLimits.messageMax);
    });
  }

  #over(why: string, ranMs: number): void {
    if (this.#isStopped) return;
    const end = { policy: "always", exit: { code: null, signal: null }, ranMs, failures: this.#failures } as const;
    const verdict = afterExit(end);
    if (verdict.next !== "again") return;
    this.#failures = verdict.failures;
    const said = this.#tail.trim();
    this.#become("failed", `${why}${said === "" ? "" : `\n${said}`}`.slice(0, mcpLimits.messageMax));
    this.#timer = setTimeout(() => {
      this.#restarts++;
      this.start();
    }, verdict.afterMs);
  }

  #become(state: Status["status"], message: string | null): void {
    this.#state = state;
    this.#message = message;
    this.#settled.resolve();
  }
}

function programOf(server: Extract<GatewayServer, { kind: "command" | "bundled" }>, env: NodeJS.ProcessEnv): Program {
  if (server.kind === "bundled") {
    const file = join(import.meta.dirname, `${server.program}.js`);
    return { command: [process.execPath, file, ...server.args], cwd: "/", env };
  }
  const taken = Object.entries(server.fromEnv).map(([name, from]) => [name, env[from]]);
  return {
    command: server.command,
    cwd: server.cwd,
    env: { ...env, ...(Object.fromEntries(taken) as NodeJS.ProcessEnv), ...server.env },
  };
}

function textOf(fault: unknown): string {
  if (!(fault instanceof Error)) return String(fault);
  return fault.cause instanceof Error ? `${fault.message}: ${fault.cause.message}` : fault.message;
}
