/**
 * The gateway: Streamable HTTP behind a token, without sessions that could be lost. No stream stays open between requests, so a client that
 * is connected does not keep the machine awake, and none notices that the gateway was started anew.
 */
import { createHash, randomUUID, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { GatewayReport, GatewaySettings } from "../../../sdk/contract/mcp.ts";
import { front } from "./front.ts";
import { Upstream } from "./upstream.ts";

const BODY_MAX = 8 * 1_048_576;
/**
 * Tells a client's requests from another's, so that it can take one back. Nothing is kept under it: any value is good,
 * also that of a gateway before this one.
 */
const SESSION = "mcp-session-id";
/** Longest wait of one look, milliseconds. */
const LOOK_MAX_MS = 25_000;

export class Gateway {
  readonly #settings: GatewaySettings;
  readonly #upstreams: readonly Upstream[];
  readonly #http: Server;
  /** Requests that are being answered, each with what ends it. */
  readonly #underWay = new Map<string, () => void>();

  constructor(settings: GatewaySettings, env: NodeJS.ProcessEnv) {
    this.#settings = settings;
    this.#upstreams = settings.servers.map((server) => new Upstream(server, env));
    this.#http = createServer((req, res) => {
      this.#take(req, res).catch((fault: unknown) => {
        console.error(fault);
        if (res.headersSent) res.destroy();
        else refuse(res, 500, "The gateway failed.");
      });
    });
  }

  /** @returns the port it listens on */
  async start(): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#http.once("error", reject).listen(this.#settings.port, "127.0.0.1", resolve);
    });
    for (const upstream of this.#upstreams) upstream.start();
    const address = this.#http.address();
    return typeof address === "object" && address ? address.port : this.#settings.port;
  }

  async stop(): Promise<void> {
    this.#http.close();
    await Promise.all(this.#upstreams.map((upstream) => upstream.stop()));
    this.#http.closeAllConnections();
  }

  async #take(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (!this.#knows(req.headers.authorization)) {
      res.setHeader("www-authenticate", "Bearer");
      return refuse(res, 401, "A request needs Authorization: Bearer <token>.");
    }
    const url = new URL(req.url ?? "/", "http://gateway");
    if (url.pathname === "/status" && req.method === "GET") {
      const waitMs = Math.min(Number(url.searchParams.get("waitMs")) || 0, LOOK_MAX_MS);
      await Promise.all(this.#upstreams.map((upstream) => upstream.settled(waitMs)));
      const { version } = this.#settings;
      const report: GatewayReport = { version, servers: this.#upstreams.map(({ status }) => status) };
      res.setHeader("content-type", "application/json");
      res.end(JSON.stringify(report));
      return;
    }
    const match = /^(?:\/([a-z0-9-]+))?\/mcp\/?$/.exec(url.pathname);
    const chosen = match?.[1] === undefined ? this.#upstreams : this.#upstreams.filter(({ name }) => name === match[1]);
    if (!match || chosen.length === 0) {
      const names = this.#upstreams.map(({ name }) => `/${name}/mcp`).join(", ");
      return refuse(res, 404, `There is nothing at ${url.pathname}; there are /mcp, ${names}.`);
    }
    // A stream from us to the client would stay open for nothing; sessions there are none to end.
    if (req.method !== "POST") {
      res.setHeader("allow", "POST");
      return refuse(res, 405, "Requests are sent by POST.");
    }
    await this.#serve(chosen, req, res);
  }

  async #serve(upstreams: readonly Upstream[], req: IncomingMessage, res: ServerResponse): Promise<void> {
    const message = await bodyOf(req);
    if (message === undefined) return refuse(res, 400, `The body is JSON of ${BODY_MAX} bytes at most.`);
    const { method, id, params } = isObject(message) ? message : {};
    const session = req.headers[SESSION];
    // It comes as a request of its own.
    if (method === "notifications/cancelled" && isObject(params))
      this.#underWay.get(key(session, params.requestId))?.();
    const server = front(upstreams);
    const end = () => void server.close().catch(() => undefined);
    const name = session === undefined || id === undefined ? null : key(session, id);
    if (name !== null) this.#underWay.set(name, end);
    try {
      // Whoever hangs up wants no answer any more: what was asked of a server is taken back.
      res.on("close", end);
      const transport = new WebStandardStreamableHTTPServerTransport();
      await server.connect(transport);
      const headers = new Headers();
      for (const [header, values = []] of Object.entries(req.headersDistinct))
        for (const value of values) headers.append(header, value);
      const request = new Request("http://gateway/mcp", { method: "POST", headers });
      const answer = await transport.handleRequest(request, { parsedBody: message });
      res.writeHead(answer.status, {
        ...Object.fromEntries(answer.headers),
        ...(method === "initialize" ? { [SESSION]: randomUUID() } : {}),
      });
      res.flushHeaders();
      if (!answer.body) return void res.end();
      // Ends early only where the client is gone.
      const body = Readable.fromWeb(answer.body as Parameters<typeof Readable.fromWeb>[0]);
      await pipeline(body, res).catch(() => undefined);
    } finally {
      if (name !== null && this.#underWay.get(name) === end) this.#underWay.delete(name);
    }
  }

  #knows(authorization: string | undefined): boolean {
    const token = /^Bearer +(\S+)$/i.exec(authorization ?? "")?.[1];
    if (token === undefined) return false;
    const given = createHash("sha256").update(token).digest();
    return timingSafeEqual(given, Buffer.from(this.#settings.tokenSha256, "hex"));
  }
}

/** The body as JSON; undefined where it is none, or larger than is taken. */
async function bodyOf(req: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of req as AsyncIterable<Buffer>) {
    size += part.length;
    if (size <= BODY_MAX) parts.push(part);
  }
  if (size > BODY_MAX) return undefined;
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } catch {
    return undefined;
  }
}

function key(session: string | string[] | undefined, id: unknown): string {
  return `${session} ${JSON.stringify(id)}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refuse(res: ServerResponse, status: number, message: string): void {
  res.writeHead(status, { "content-type": "application/json" });
  res.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32_000, message }, id: null }));
}
