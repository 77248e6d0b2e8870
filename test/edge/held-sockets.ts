/** Clients whose WebSockets are held, for tests. */
import { env } from "cloudflare:workers";
import { Buffer } from "node:buffer";
import type { HeldSocket } from "../../sdk/contract/socket.ts";
import type { SocketSeen } from "../support/fake-sockets.ts";
import { ask, created, edge, eventually, fake, paused, secrets } from "./client.ts";
import { TestedObject } from "./tested-object.ts";

export const key = { authorization: `Bearer ${secrets.apiKey}` };
export const held = { sockets: [{ path: "/ws*" }] };

/** A sandbox that holds what comes to `/ws`, unless its input says otherwise. */
export class Holding extends TestedObject {
  readonly name: string;
  readonly id: string;

  private constructor(name: string, id: string) {
    super();
    this.name = name;
    this.id = id;
  }

  static async make(input: Record<string, unknown> = {}, asleep = false): Promise<Holding> {
    const { name, id } = await (asleep ? paused : created)({ ...held, ...input });
    return new Holding(name, id);
  }

  override get stub(): DurableObjectStub {
    return env.SOCKETS.getByName(`default/${this.name}`);
  }

  /** Ask for a socket, whatever comes of it. */
  ask(path = "/ws", headers: Record<string, string> = {}): Promise<Response> {
    return edge(`http://${this.name}.rouse.test${path}`, { headers: { ...key, upgrade: "websocket", ...headers } });
  }

  async connect(path = "/ws", headers: Record<string, string> = {}): Promise<Client> {
    const response = await this.ask(path, headers);
    if (!response.webSocket) throw new Error(`connect: ${response.status} ${await response.text()}`);
    return new Client(response, response.webSocket);
  }

  async sockets(): Promise<HeldSocket[]> {
    return (await ask<{ data: HeldSocket[] }>("GET", `/v1/sandboxes/${this.name}/sockets`)).body.data;
  }

  /** When the sockets are as wanted. */
  until(holds: (sockets: HeldSocket[]) => boolean): Promise<HeldSocket[]> {
    return eventually(() => this.sockets(), holds);
  }

  async state(): Promise<string> {
    return (await ask("GET", `/v1/sandboxes/${this.name}`)).body.state;
  }

  /** To sleep; every program's connection is seen to be over. */
  async sleep(): Promise<void> {
    const { body } = await ask("POST", `/v1/sandboxes/${this.name}:pause`, {});
    if (body.state !== "paused") throw new Error(`pause: ${JSON.stringify(body)}`);
    await this.until((all) => all.every(({ state }) => state === "detached"));
  }

  async wake(): Promise<void> {
    await ask("POST", `/v1/sandboxes/${this.name}:wake`, {});
  }

  /** How often its machine was woken. */
  async wakes(): Promise<number> {
    return (await fake.state(this.name)).log.filter((line) => line.startsWith("wake")).length;
  }

  seen(): Promise<SocketSeen[]> {
    return fake.sockets(this.name);
  }
}

/** A client's end. */
export class Client {
  readonly response: Response;
  readonly socket: WebSocket;
  readonly messages: string[] = [];
  closed: { code: number; reason: string } | null = null;

  constructor(response: Response, socket: WebSocket) {
    this.response = response;
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => {
      const bytes = typeof data === "string" ? null : new Uint8Array(data as ArrayBuffer);
      this.messages.push(bytes ? `bytes ${Buffer.from(bytes).toString("base64")}` : `text ${String(data)}`);
    });
    socket.addEventListener("close", ({ code, reason }) => {
      this.closed = { code, reason };
    });
    socket.accept();
  }

  send(...messages: (string | Uint8Array)[]): void {
    for (const message of messages) this.socket.send(message);
  }

  /** When so many came. */
  async got(count: number): Promise<string[]> {
    return eventually(
      async () => this.messages,
      (messages) => messages.length >= count,
    );
  }

  async end(): Promise<{ code: number; reason: string } | null> {
    return eventually(
      async () => this.closed,
      (closed) => closed !== null,
    );
  }
}
