/** MCP over standard input and output, for clients that start their servers: each message goes on to the edge's `/mcp`. */
import { createInterface } from "node:readline";
import { ErrorBody } from "../../contract/errors.ts";
import type { Rouse } from "../../src/index.ts";
import { RouseError } from "../../src/index.ts";
import type { Command } from "../command.ts";

/** JSON-RPC: the server failed, in a way that is its own. */
const SERVER_ERROR = -32_000;
const PARSE_ERROR = -32_700;

interface Message {
  readonly id?: string | number | null;
  readonly method?: string;
  readonly params?: { readonly requestId?: string | number };
}

export const mcpServer: Command = {
  name: "mcp-server",
  summary: "Serve sandboxes as tools over MCP on standard input and output, for clients that start it",
  usage: "",
  details:
    "Clients that take a URL need no program: /mcp of the API, with the key as bearer. To be started by a client, such as\n" +
    "claude mcp add rouse -- rouse mcp-server. For MCP servers inside a sandbox see rouse mcp.",
  words: [0, 0],
  options: {},
  async run({ client }) {
    const bridge = new Bridge(client);
    for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity }))
      if (line.trim() !== "") bridge.take(line);
    await bridge.idle();
    return 0;
  },
};

class Bridge {
  readonly #client: Rouse;
  readonly #open = new Map<string | number, AbortController>();
  readonly #all = new Set<Promise<void>>();
  /** Said at the beginning, and in each request from then on. */
  #version: string | null = null;

  constructor(client: Rouse) {
    this.#client = client;
  }

  take(line: string): void {
    let message: Message;
    try {
      message = JSON.parse(line) as Message;
    } catch {
      return fail(null, PARSE_ERROR, "The message is not JSON.");
    }
    if (message.method === "notifications/cancelled") {
      const of = message.params?.requestId;
      if (of !== undefined) this.#open.get(of)?.abort();
      return;
    }
    const run = this.#pass(line, message).finally(() => this.#all.delete(run));
    this.#all.add(run);
  }

  async idle(): Promise<void> {
    await Promise.all(this.#all);
  }

  async #pass(line: string, { id = null, method }: Message): Promise<void> {
    const abort = new AbortController();
    if (id !== null) this.#open.set(id, abort);
    try {
      const { baseUrl, apiKey } = await this.#client.transport.credentials();
      const response = await this.#client.transport.fetch(new URL("/mcp", baseUrl).href, {
        method: "POST",
        headers: {
          authorization: `Bearer ${apiKey}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...(this.#version === null ? {} : { "mcp-protocol-version": this.#version }),
        },
        body: line,
        signal: abort.signal,
      });
      const text = await response.text();
      if (abort.signal.aborted || text === "") return;
      const answer = JSON.parse(text) as { jsonrpc?: unknown; result?: { protocolVersion?: unknown } };
      if (answer.jsonrpc === undefined) return refused(id, answer);
      const version = answer.result?.protocolVersion;
      if (method === "initialize" && typeof version === "string") this.#version = version;
      write(answer);
    } catch (error) {
      // Nobody waits for the answer to what was cancelled, or has none.
      if (!abort.signal.aborted && id !== null) fail(id, SERVER_ERROR, textOf(error));
    } finally {
      if (id !== null) this.#open.delete(id);
    }
  }
}

/** The API refused the request before it was one of MCP. */
function refused(id: string | number | null, answer: unknown): void {
  const parsed = ErrorBody.safeParse(answer);
  if (!parsed.success) return fail(id, SERVER_ERROR, "What answered is not Rouse. Look at ROUSE_API_URL.");
  const { code, message, hint } = parsed.data.error;
  fail(id, SERVER_ERROR, [message, hint].filter(Boolean).join(" "), { code, ...(hint === undefined ? {} : { hint }) });
}

function textOf(error: unknown): string {
  if (error instanceof RouseError) return [error.message, error.hint].filter(Boolean).join(" ");
  return `Rouse was not reached: ${error instanceof Error ? error.message : String(error)}`;
}

function fail(id: string | number | null, code: number, message: string, data?: object): void {
  write({ jsonrpc: "2.0", id, error: { code, message, ...(data ? { data } : {}) } });
}

function write(message: object): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
