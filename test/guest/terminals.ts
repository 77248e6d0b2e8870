/** A client of terminal sockets that notes what it is told. */
import { once } from "node:events";
import { WebSocket } from "ws";
import type { Agent } from "./agent.ts";

export interface Told {
  readonly type: string;
  readonly [field: string]: unknown;
}

export class Look {
  readonly socket: WebSocket;
  readonly told: Told[] = [];
  output = Buffer.alloc(0);
  readonly closed: Promise<number>;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data: Buffer, isBinary: boolean) => {
      if (isBinary) this.output = Buffer.concat([this.output, data]);
      else this.told.push(JSON.parse(data.toString()) as Told);
      socket.emit("news");
    });
    this.closed = new Promise((resolve) => socket.once("close", resolve));
  }

  get text(): string {
    return this.output.toString();
  }

  /** What was told of a type, once it was. */
  async of(type: string): Promise<Told> {
    for (;;) {
      const found = this.told.find((one) => one.type === type);
      if (found) return found;
      await this.#news();
    }
  }

  async until(text: string | RegExp): Promise<string> {
    while (typeof text === "string" ? !this.text.includes(text) : !text.test(this.text)) await this.#news();
    return this.text;
  }

  type(text: string): void {
    this.socket.send(Buffer.from(text), { binary: true });
  }

  say(message: object): void {
    this.socket.send(JSON.stringify(message));
  }

  async #news(): Promise<void> {
    if (this.socket.readyState === this.socket.CLOSED)
      throw new Error(`closed; told ${JSON.stringify(this.told)}, written ${JSON.stringify(this.text.slice(-400))}`);
    await Promise.race([once(this.socket, "news"), this.closed]);
  }
}

/** A look at a terminal of an agent: at a new one unless the query has its `processId`. */
export function look(agent: Agent, query: Record<string, string | number> = {}): Look {
  const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  return new Look(new WebSocket(`ws://127.0.0.1:${agent.port}/terminal?${search.toString()}`));
}
