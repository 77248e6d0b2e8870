/** A sandbox for the SDK: a real guest agent, behind an edge that sleeps, wakes, cuts and refuses as a test says. */
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { connect, type AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { closeFrame } from "../../backend-pool/http/frames.ts";
import { errorBody } from "../../sdk/contract/errors.ts";
import { RESTING_CLOSE } from "../../sdk/contract/guest-limits.ts";
import { Rouse, type Sandbox } from "../../sdk/src/index.ts";
import { startAgent, type Agent } from "../guest/agent.ts";
import { sandboxInfo, SANDBOX, TEST_KEY } from "./wire-server.ts";

/** Paths of the API that the agent has under another name. */
const RENAMED: Record<string, string> = { "/tunnel": "/forward" };

export class GuestEdge {
  readonly agent: Agent;
  readonly #server: Server;
  readonly #sockets = new Set<Duplex>();
  readonly #answers = new Set<ServerResponse>();
  state: "running" | "paused" | "stopped" = "running";
  /** Wakes so far. */
  wakes = 0;
  /** Upgrades that came. */
  upgrades: string[] = [];
  /** Upgrades that are refused from now on. */
  refusals = 0;
  /** Nothing is answered: every connection breaks. */
  isDown = false;

  private constructor(agent: Agent, server: Server) {
    this.agent = agent;
    this.#server = server;
  }

  static async start(): Promise<GuestEdge> {
    const server = createServer((req, res) => edge.#request(req, res));
    server.on("upgrade", (req, socket, head) => edge.#upgrade(req, socket, head));
    const edge = new GuestEdge(await startAgent(), server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return edge;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.agent.stop();
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get sandbox(): Promise<Sandbox> {
    return new Rouse({ baseUrl: this.url, apiKey: TEST_KEY }).sandboxes.get("demo");
  }

  /** The connections break. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Answers that are under way break off. */
  cutRequests(): void {
    for (const answer of this.#answers) answer.destroy();
  }

  /** The machine goes to sleep; what the agent runs goes on nevertheless, as if it had been written just before. */
  sleep(): void {
    this.state = "paused";
    for (const socket of this.#sockets) socket.end(closeFrame(RESTING_CLOSE.code, RESTING_CLOSE.reason, false));
  }

  #request(req: IncomingMessage, res: ServerResponse): void {
    const url = req.url ?? "";
    if (this.isDown) return void req.destroy();
    if (req.headers.authorization !== `Bearer ${TEST_KEY}`) return refuse(res, "unauthorized");
    if (url === "/v1/sandboxes/demo" || url === SANDBOX)
      return void res.end(JSON.stringify(sandboxInfo({ state: this.state })));
    if (this.state === "stopped") return refuse(res, "sandbox_stopped");
    // Of a watch that sleeps, the edge itself says so.
    if (this.state === "paused" && /\/watches\/[^/]+\/events/.test(url)) {
      const cursor = Number(new URL(url, this.url).searchParams.get("cursor"));
      return void res.end(`${JSON.stringify({ k: "paused", cursor })}\n`);
    }
    this.#answers.add(res);
    res.once("close", () => this.#answers.delete(res));
    this.#wake();
    const asked = request(
      { port: this.agent.port, path: agentPath(url), method: req.method ?? "GET", headers: req.headers },
      (answer) => {
        res.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(res);
      },
    );
    asked.on("error", () => res.destroy());
    req.pipe(asked);
  }

  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => undefined);
    if (this.isDown) return void socket.destroy();
    this.upgrades.push(req.url ?? "");
    const isRefused = this.refusals > 0 || req.headers.authorization !== `Bearer ${TEST_KEY}`;
    if (this.refusals > 0) this.refusals -= 1;
    if (isRefused || this.state === "stopped")
      return void socket.end("HTTP/1.1 503 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    this.#wake();
    const upstream = connect(this.agent.port);
    let lines = `GET ${agentPath(req.url ?? "")} HTTP/1.1\r\n`;
    for (let i = 0; i + 1 < req.rawHeaders.length; i += 2)
      lines += `${req.rawHeaders[i]}: ${req.rawHeaders[i + 1]}\r\n`;
    upstream.write(`${lines}\r\n`);
    upstream.write(head);
    upstream.on("error", () => socket.destroy());
    upstream.pipe(socket);
    socket.pipe(upstream);
    this.#sockets.add(socket);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      upstream.destroy();
    });
    socket.once("finish", () => upstream.destroy());
  }

  #wake(): void {
    if (this.state === "paused") this.wakes += 1;
    this.state = "running";
  }
}

function agentPath(url: string): string {
  const rest = url.replace(SANDBOX, "");
  const [path = "", query] = rest.split("?");
  return `${RENAMED[path] ?? path}${query === undefined ? "" : `?${query}`}`;
}

function refuse(res: ServerResponse, code: "unauthorized" | "sandbox_stopped"): void {
  const body = errorBody({ code, message: `refused: ${code}` }, "req_1");
  res.writeHead(body.error.status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
