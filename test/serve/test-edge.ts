/** An edge as a process, by Miniflare or on plain workerd, with a fake host; what its users can ask of it, and kills. */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { request, type IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { openHome } from "../../backend-pool/local/home.ts";
import { edgePart, freePort, type EdgeKind, type Part } from "../../backend-pool/local/launcher.ts";
import type { Heartbeat } from "../../sdk/contract/host.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import { FakeHost, type Plan } from "../support/fake-host.ts";

export const HOST = "fake-1";
export const COMPATIBILITY = "machine/cpu/kvm";

export interface Answer<T> {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: T;
}

export class TestEdge {
  readonly dir: string;
  readonly port: number;
  readonly process: Part;
  readonly apiKey: string;
  readonly #host: FakeHost;
  readonly #hostUrl: string;
  readonly #hostKey: string;
  #beats: NodeJS.Timeout | undefined;

  private constructor(
    from: Pick<TestEdge, "dir" | "port" | "process" | "apiKey">,
    host: FakeHost,
    hostUrl: string,
    key: string,
  ) {
    this.dir = from.dir;
    this.port = from.port;
    this.process = from.process;
    this.apiKey = from.apiKey;
    this.#host = host;
    this.#hostUrl = hostUrl;
    this.#hostKey = key;
  }

  /**
   * @param env more settings of it
   * @param agentPort of a guest agent that all machines have
   * @param hasPorts whether ports of machines are those of this one
   */
  static async begin(
    kind: EdgeKind,
    env: Record<string, string> = {},
    agentPort?: number,
    hasPorts = false,
  ): Promise<TestEdge> {
    const dir = await mkdtemp(join(tmpdir(), "rouse-serve-"));
    const { secrets } = await openHome(dir);
    const port = await freePort();
    const host = new FakeHost(
      { host: secrets.hostSecret, signing: secrets.signingSecret },
      undefined,
      agentPort,
      hasPorts,
    );
    const own = {
      ROUSE_HOME: dir,
      ROUSE_STATE: dir,
      ROUSE_EDGE_LISTEN: `127.0.0.1:${port}`,
      ROUSE_RATE_LIMIT: "10000:10000",
    };
    const process = edgePart(kind, { ...own, ROUSE_EVENT_TARGETS: "any", ...env }, dir, false);
    const key = await hostKey(secrets.hostSecret, HOST, FIRST_EPOCH);
    const edge = new TestEdge({ dir, port, process, apiKey: secrets.apiKey }, host, await host.listen(), key);
    try {
      await edge.start();
    } catch (fault) {
      await edge.end();
      throw fault;
    }
    return edge;
  }

  async start(): Promise<void> {
    await this.process.start();
    await this.#beat();
    this.#beats = setInterval(() => void this.#beat().catch(() => undefined), 5000);
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    clearInterval(this.#beats);
    await this.process.kill();
  }

  async end(): Promise<void> {
    clearInterval(this.#beats);
    await this.process.stop();
    await this.#host.close();
    await rm(this.dir, { recursive: true, force: true });
  }

  /** A call of the API. */
  ask<T>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
    return this.send<T>(method, path, {
      headers: { authorization: `Bearer ${this.apiKey}` },
      ...(body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) }),
    });
  }

  /** A call of the host. */
  asHost<T>(
    method: string,
    path: string,
    init: { headers?: Record<string, string>; body?: Buffer } = {},
  ): Promise<Answer<T>> {
    return this.send<T>(method, path, {
      ...init,
      headers: { authorization: `Bearer ${this.#hostKey}`, ...init.headers },
    });
  }

  /** Any request; the answer's body is parsed when it is JSON, and bytes otherwise. */
  send<T>(
    method: string,
    path: string,
    init: { headers?: Record<string, string>; body?: Buffer } = {},
  ): Promise<Answer<T>> {
    const length = init.body === undefined ? {} : { "content-length": String(init.body.length) };
    const options = {
      host: "127.0.0.1",
      port: this.port,
      method,
      path,
      headers: { ...length, ...init.headers },
      agent: false,
    };
    return new Promise((resolve, reject) => {
      const req = request(options, (res) => {
        const chunks: Buffer[] = [];
        res.on("data", (chunk: Buffer) => chunks.push(chunk));
        res.on("error", reject);
        res.on("end", () => {
          const bytes = Buffer.concat(chunks);
          const isJson = res.headers["content-type"]?.startsWith("application/json") === true;
          const body = (isJson ? JSON.parse(bytes.toString()) : bytes) as T;
          resolve({ status: res.statusCode ?? 0, headers: res.headers, body });
        });
      });
      req.on("error", reject);
      req.end(init.body);
    });
  }

  hostOf(name: string): string {
    return `${name}.localhost:${this.port}`;
  }

  /** A request to a named URL. */
  named<T>(
    name: string,
    path: string,
    headers: Record<string, string> = { authorization: `Bearer ${this.apiKey}` },
  ): Promise<Answer<T>> {
    return this.send<T>("GET", path, { headers: { host: this.hostOf(name), ...headers } });
  }

  async connect(name: string, path: string): Promise<Talk> {
    const headers = { host: this.hostOf(name), authorization: `Bearer ${this.apiKey}` };
    const socket = new WebSocket(`ws://127.0.0.1:${this.port}${path}`, { headers });
    const talk = new Talk(socket);
    await new Promise((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", reject);
    });
    return talk;
  }

  async create<T = { id: string }>(input: object = {}): Promise<T & { name: string }> {
    const name = freshName();
    const { status, body } = await this.ask<T>("POST", "/v1/sandboxes", { name, idlePauseSeconds: 0, ...input });
    if (status !== 200) throw new Error(`create: ${status} ${JSON.stringify(body)}`);
    return { ...body, name };
  }

  async state(name: string): Promise<string> {
    return (await this.ask<{ state: string }>("GET", `/v1/sandboxes/${name}`)).body.state;
  }

  async pause(name: string): Promise<void> {
    const { body } = await this.ask<{ state: string }>("POST", `/v1/sandboxes/${name}:pause`, {});
    if (body.state !== "paused") throw new Error(`pause: ${JSON.stringify(body)}`);
  }

  /** Steer the fake host (`/fake`), for one sandbox. */
  async fake<T>(what: string, name: string, extra = ""): Promise<T> {
    const response = await fetch(`${this.#hostUrl}/fake/${what}?label=${name}${extra}`, {
      method: what === "taken" ? "GET" : "POST",
    });
    return (await response.json()) as T;
  }

  async plan(plan: Plan): Promise<void> {
    await fetch(`${this.#hostUrl}/fake/plan`, { method: "POST", body: JSON.stringify(plan) });
  }

  async #beat(): Promise<void> {
    const beat: Heartbeat = {
      hostId: HOST,
      url: this.#hostUrl,
      accelerator: "fake",
      acceleratorReason: "no machine is behind it \u2014 a test",
      qemuVersion: null,
      images: ["default"],
      vcpus: 8,
      memoryMiB: 65_536,
      freeMemoryMiB: 60_000,
      freeDiskMiB: 100_000,
      running: 0,
      paused: 0,
      compatibility: COMPATIBILITY,
    };
    const { status } = await this.asHost("POST", `/internal/hosts/${HOST}/heartbeat`, {
      body: Buffer.from(JSON.stringify(beat)),
    });
    if (status !== 200) throw new Error(`heartbeat: ${status}`);
  }
}

/** A client's WebSocket. */
export class Talk {
  readonly got: string[] = [];
  readonly #socket: WebSocket;
  isOpen = true;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data: Buffer) => this.got.push(data.toString()));
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.isOpen = false;
    });
  }

  say(text: string): void {
    this.#socket.send(text);
  }

  end(): void {
    this.#socket.terminate();
  }
}

export interface TestBlob {
  readonly id: string;
  readonly bytes: Buffer;
}

export function freshBlob(length: number): TestBlob {
  const bytes = randomBytes(length);
  return { id: createHash("sha256").update(bytes).digest("hex"), bytes };
}

export const freshName = (): string => `t-${randomUUID().slice(0, 13)}`;

/** Wait until it holds; fails after a minute. */
export async function eventually<T>(read: () => Promise<T> | T, holds: (value: T) => boolean): Promise<T> {
  const endsAt = performance.now() + 60_000;
  for (;;) {
    const value = await read();
    if (holds(value)) return value;
    if (performance.now() > endsAt) throw new Error(`it never came to hold; last: ${JSON.stringify(value)}`);
    await sleep(50);
  }
}
