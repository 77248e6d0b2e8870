/** A program in a sandbox of the fake host: notes what it is asked below `/in`, and does what a test says. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** What it does with one request. */
export interface Turn {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  /** Wait so long first, milliseconds. */
  readonly delayMs?: number;
  /** It takes the request, and closes the connection without an answer. */
  readonly hangUp?: boolean;
  /** Nothing listens: it never sees the request. */
  readonly deaf?: boolean;
}

/** A request that it saw. */
export interface Taken {
  readonly target: string;
  readonly path: string;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly base64: string;
}

export class FakeProgram {
  readonly taken: Taken[] = [];
  readonly #turns: Turn[] = [];

  plan(turn: Turn): void {
    this.#turns.push(turn);
  }

  async take(
    asked: { target: string; path: string; body: Buffer },
    req: IncomingMessage,
    res: ServerResponse,
  ): Promise<void> {
    const turn = this.#turns.shift() ?? {};
    if (turn.deaf) {
      const error = { code: "port_not_listening", status: 502, message: "nothing listens" };
      res.writeHead(502, { "content-type": "application/json" }).end(JSON.stringify({ error }));
      return;
    }
    const { target, path, body } = asked;
    const headers = Object.fromEntries(Object.entries(req.headers).map(([name, value]) => [name, String(value)]));
    this.taken.push({ target, path, method: req.method ?? "", headers, base64: body.toString("base64") });
    if (turn.delayMs) await new Promise((resolve) => setTimeout(resolve, turn.delayMs));
    if (turn.hangUp) return void req.socket.destroy();
    res.writeHead(turn.status ?? 200, turn.headers).end(turn.body ?? "ok");
  }
}
