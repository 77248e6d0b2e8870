/** Ports of a sandbox on this machine. */
import { RouseError, errorOfStatus, invalidArgument } from "./errors.ts";
import { nodeModule } from "./node.ts";
import type { Remote } from "./remote.ts";
import { connectionError, isRecord } from "./transport.ts";
import { beginSocket, endOf } from "./web-socket.ts";

/** Data of one message, bytes, and how much may be on its way. */
const PIECE_BYTES = 65_536;
const WINDOW_BYTES = 1_048_576;
/** What a program here may leave unread; there is no way to have the sandbox wait, bytes. */
const UNREAD_BYTES = 67_108_864;
const HEAD_BYTES = 5;
/** Each connection has a WebSocket of its own, and is the only stream in it. */
const STREAM = 1;

export interface ForwardOptions {
  /** Port here; the same as in the sandbox unless given, 0 for a free one. */
  localPort?: number | undefined;
  /** Address here; 127.0.0.1 unless given. */
  address?: string | undefined;
  /** Called with why a connection ended, when that was no end of its own. */
  onError?: ((error: RouseError) => void) | undefined;
}

/** A port of a sandbox that is open on this machine, until it is closed. */
export class Forward {
  readonly port: number;
  readonly localPort: number;
  readonly address: string;
  readonly #close: () => Promise<void>;

  /** @internal */
  constructor(port: number, at: { address: string; port: number }, close: () => Promise<void>) {
    this.port = port;
    this.address = at.address;
    this.localPort = at.port;
    this.#close = close;
  }

  /** Take no more connections, and end those that are open. */
  close(): Promise<void> {
    return this.#close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

type Socket = import("node:net").Socket;

export async function forwardPort(
  remote: Remote,
  port: number,
  { localPort = port, address = "127.0.0.1", onError }: ForwardOptions,
): Promise<Forward> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw invalidArgument(`${port} is not a port.`);
  const net = await nodeModule("node:net");
  if (net === null)
    throw invalidArgument("This runtime has no ports of its own.", "Use sandbox.fetch, or the sandbox's URL.");
  const open = new Set<Socket>();
  const server = net.createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    socket.on("error", () => undefined);
    carry(remote, port, socket).catch((error: unknown) => {
      socket.resetAndDestroy();
      if (error instanceof RouseError) onError?.(error);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) =>
      reject(
        invalidArgument(
          `Port ${localPort} of ${address} can't be had: ${cause.code ?? cause.message}.`,
          "Give another localPort, or 0 for a free one.",
        ),
      ),
    );
    server.listen({ host: address, port: localPort }, resolve);
  });
  return new Forward(port, server.address() as { address: string; port: number }, async () => {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
}

/** One connection to its end. @throws RouseError when it could not be made, or broke */
async function carry(remote: Remote, port: number, local: Socket): Promise<void> {
  const socket = await beginSocket(remote, "/tunnel");
  let [sent, taken] = [0, 0];
  let isClean = false;
  let failure: RouseError | null = null;
  const say = (kind: string, payload: Uint8Array): void => {
    if (socket.readyState === socket.OPEN) socket.send(message(kind, payload));
  };
  local.on("data", (data: Buffer) => {
    for (let at = 0; at < data.length; at += PIECE_BYTES) say("d", data.subarray(at, at + PIECE_BYTES));
    sent += data.length;
    if (sent - taken > WINDOW_BYTES - 2 * PIECE_BYTES) local.pause();
  });
  local.once("end", () => say("e", new Uint8Array()));
  local.once("close", () => socket.close());
  socket.addEventListener("message", ({ data }: { readonly data: unknown }) => {
    if (typeof data === "string") {
      const told: unknown = JSON.parse(data);
      if (!isRecord(told)) return;
      if (told["type"] === "ready") say("o", new TextEncoder().encode(`tcp ${port}`));
      else if (told["type"] === "error") failure = errorOf(told["error"]);
      return;
    }
    if (!(data instanceof ArrayBuffer) || data.byteLength < HEAD_BYTES) return;
    const view = new DataView(data);
    const payload = new Uint8Array(data, HEAD_BYTES);
    switch (String.fromCharCode(view.getUint8(0))) {
      case "o":
        local.resume();
        break;
      case "d":
        local.write(payload);
        if (local.writableLength > UNREAD_BYTES) {
          failure ??= connectionError("The program here reads too slowly");
          socket.close();
        }
        break;
      case "e":
        local.end();
        break;
      case "a":
        taken = Number(view.getBigUint64(HEAD_BYTES));
        if (sent - taken <= WINDOW_BYTES / 2) local.resume();
        break;
      case "c": {
        const reason = new TextDecoder().decode(payload);
        isClean = reason === "done";
        if (!isClean) failure ??= refusal(port, reason);
        socket.close();
        break;
      }
      default:
    }
  });
  const { opened } = await endOf(socket);
  if (isClean) return void local.end();
  if (failure !== null) throw failure;
  // Of a refusal nothing is told here; a plain call says why.
  if (!opened) await remote.get("/processes");
  if (!local.destroyed) throw connectionError("The connection to the sandbox broke");
}

function message(kind: string, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEAD_BYTES + payload.length);
  bytes[0] = kind.charCodeAt(0);
  new DataView(bytes.buffer).setUint32(1, STREAM);
  bytes.set(payload, HEAD_BYTES);
  return bytes;
}

function refusal(port: number, reason: string): RouseError {
  const known: Record<string, string> = {
    closed: `Nothing in the sandbox listens on port ${port}.`,
    reserved: `Port ${port} is the guest agent's own.`,
  };
  return new RouseError({
    code: reason === "closed" ? "port_not_listening" : reason === "reserved" ? "invalid_port" : "upstream_closed",
    message: known[reason] ?? `The connection to port ${port} of the sandbox ended: ${reason}.`,
    details: { port, reason },
  });
}

function errorOf(error: unknown): RouseError {
  const { code, message: text } = isRecord(error) ? error : {};
  return errorOfStatus({ code: String(code), message: String(text), status: 502, retryable: false });
}
