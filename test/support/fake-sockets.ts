/** Programs of the fake host that speak WebSocket: they echo, and do what a test says. */
import { createRequire } from "node:module";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { WebSocket as Socket, WebSocketServer as SocketServer } from "ws";
import { hostHeaders } from "../../sdk/contract/host.ts";

// Resolved as for workerd, "ws" would be a stub.
const { WebSocketServer } = createRequire(import.meta.url)("ws") as { WebSocketServer: typeof SocketServer };

/** What the programs of a sandbox do from now on; each stays until it is said anew. */
export interface SocketOrders {
  /** Answer upgrades with this status; null: take them. */
  readonly refuse?: number | null;
  /** Nothing listens. */
  readonly deaf?: boolean;
  /** Take messages, and say of none that it arrived. */
  readonly mute?: boolean;
  /** Send nothing back. */
  readonly quiet?: boolean;
  /** Break the connection when so many messages have come on it, before it is said that the last arrived. */
  readonly breakAt?: number | null;
  /** Now, on all connections that are open: */
  readonly push?: string;
  readonly close?: { readonly code?: number; readonly reason?: string };
  readonly break?: boolean;
}

/** A connection as its program saw it. */
export interface SocketSeen {
  readonly path: string;
  readonly target: string;
  readonly headers: Record<string, string>;
  /** In order: `text ...`, or `bytes ` and base64. */
  readonly messages: string[];
  /** null while it is open. */
  close: { readonly code: number; readonly reason: string } | null;
}

interface Program {
  orders: SocketOrders;
  readonly seen: SocketSeen[];
  readonly open: Map<Socket, { readonly machine: string; readonly socket: Duplex }>;
}

export class FakeSockets {
  /** The edge takes its time to end a connection that both sides have closed. */
  readonly #server = new WebSocketServer({ noServer: true, ...{ closeTimeout: 200 } });
  readonly #programs = new Map<string, Program>();

  constructor() {
    this.#server.on("headers", (headers, req) => {
      if (req.headers[hostHeaders.socketWord] !== undefined) headers.push(`${hostHeaders.socketWord}: 1`);
    });
  }

  close(): void {
    this.#server.close();
  }

  of(label: string): readonly SocketSeen[] {
    return this.#program(label).seen;
  }

  order(label: string, orders: SocketOrders): void {
    const program = this.#program(label);
    const { push, close, break: breaks, ...lasting } = orders;
    program.orders = { ...program.orders, ...lasting };
    for (const [ws, { socket }] of program.open) {
      if (push !== undefined) ws.send(push);
      if (close) ws.close(close.code, close.reason);
      if (breaks === true) socket.destroy();
    }
  }

  /** The machine sleeps, or ended. */
  cut(machine: string): void {
    for (const { open } of this.#programs.values())
      for (const held of open.values()) if (held.machine === machine) held.socket.destroy();
  }

  upgrade(
    label: string,
    machine: string,
    { target, path }: { target: string; path: string },
    req: IncomingMessage,
    socket: Duplex,
    head: Buffer,
  ): void {
    const program = this.#program(label);
    const { refuse, deaf } = program.orders;
    if (deaf === true) {
      const error = { code: "port_not_listening", status: 502, message: "nothing listens" };
      return answer(socket, 502, JSON.stringify({ error }));
    }
    const headers = Object.fromEntries(Object.entries(req.headers).map(([name, value]) => [name, String(value)]));
    const seen: SocketSeen = { path, target, headers, messages: [], close: null };
    program.seen.push(seen);
    if (typeof refuse === "number") return answer(socket, refuse, "not you");
    const word = req.headers[hostHeaders.socketWord];
    this.#server.handleUpgrade(req, socket, head, (ws) => {
      program.open.set(ws, { machine, socket });
      ws.on("error", () => undefined);
      ws.on("close", (code, reason) => {
        program.open.delete(ws);
        seen.close = { code, reason: reason.toString() };
      });
      ws.on("message", (data, isBinary) => {
        const bytes = data as Buffer;
        seen.messages.push(isBinary ? `bytes ${bytes.toString("base64")}` : `text ${bytes.toString()}`);
        const { mute, quiet, breakAt } = program.orders;
        if (breakAt === seen.messages.length) return void socket.destroy();
        if (typeof word === "string" && mute !== true) ws.send(`${word}:${seen.messages.length}`);
        if (!isBinary && String(bytes) === "close") ws.close(4001, "bye");
        else if (quiet !== true) ws.send(bytes, { binary: isBinary });
      });
    });
  }

  #program(label: string): Program {
    const program = this.#programs.get(label) ?? { orders: {}, seen: [], open: new Map() };
    this.#programs.set(label, program);
    return program;
  }
}

function answer(socket: Duplex, status: number, text: string): void {
  socket.end(
    `HTTP/1.1 ${status} Refused\r\ncontent-type: text/plain\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
  );
}
