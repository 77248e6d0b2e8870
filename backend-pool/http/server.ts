/** The host agent's HTTP side: control routes for the edge's objects, data routes into guests. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { errorBody, RouseFailure, statusOf } from "../../sdk/contract/errors.ts";
import type { Machines } from "../machine/machines.ts";
import { Control } from "./control.ts";
import type { HostDrills } from "./drills.ts";
import { Revocations } from "./revocations.ts";
import { Tunnel } from "./tunnel.ts";

export interface HostServerOptions {
  readonly machines: Machines;
  /** What the edge's objects show this host. */
  readonly controlSecret: string;
  /** Signs tickets for this host. */
  readonly ticketSecret: string;
  readonly about: () => Promise<object>;
  /** What it ends for drills beside machines; nothing unless given. */
  readonly drills?: HostDrills;
  /** The edge's clock, Unix milliseconds; this host's own unless given. */
  readonly now?: () => number;
}

export async function hostServer(options: HostServerOptions): Promise<Server> {
  const revocations = new Revocations();
  const control = new Control(options.machines, revocations, options.controlSecret, options.about, options.drills);
  const tunnel = await Tunnel.open(options.machines, revocations, options.ticketSecret, options.now ?? Date.now);
  const server = createServer({ keepAliveTimeout: 60_000, requestTimeout: 0, headersTimeout: 30_000 }, (req, res) => {
    const handled = req.url?.startsWith("/m/") ? tunnel.request(req, res) : control.request(req, res);
    handled.catch((fault: unknown) => refuse(req, res, fault));
  });
  server.on("upgrade", (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => undefined);
    tunnel.upgrade(req, socket, head).catch((fault: unknown) => refuseUpgrade(req, socket, fault));
  });
  return server;
}

function failureOf(fault: unknown): RouseFailure {
  if (fault instanceof RouseFailure) return fault;
  return new RouseFailure("internal_error", "The host agent failed.", { cause: fault });
}

function bodyOf(req: IncomingMessage, fault: unknown): { status: number; text: string } {
  const failure = failureOf(fault);
  if (failure.code === "internal_error")
    process.stderr.write(`${JSON.stringify({ level: "error", fault: describe(fault) })}\n`);
  const requestId = req.headers["x-request-id"];
  const body = errorBody(failure, typeof requestId === "string" ? requestId : undefined);
  return { status: statusOf(failure.code), text: JSON.stringify(body) };
}

function refuse(req: IncomingMessage, res: ServerResponse, fault: unknown): void {
  if (res.headersSent) {
    res.destroy();
    return;
  }
  const { status, text } = bodyOf(req, fault);
  const retry =
    fault instanceof RouseFailure && fault.retryAfterMs !== undefined
      ? { "retry-after": String(Math.max(1, Math.ceil(fault.retryAfterMs / 1000))) }
      : {};
  res.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    ...retry,
  });
  res.end(text);
  // A body that nobody reads would hold the connection; small ones are read away so that it can be used again.
  req.resume();
}

function refuseUpgrade(req: IncomingMessage, socket: Duplex, fault: unknown): void {
  const { status, text } = bodyOf(req, fault);
  socket.end(
    `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
  );
}

function describe(fault: unknown): string {
  return fault instanceof Error ? (fault.stack ?? fault.message) : String(fault);
}
