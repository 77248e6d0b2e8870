/**
 * TCP connections to ports of this machine over one WebSocket. A binary message is a kind, the number of its stream (four
 * bytes, the first the highest) and what goes with it. The client numbers and opens streams; either side ends its
 * direction (`e`) or drops the stream (`c`); `a` on stream 0 counts what was taken of the client's data, which may be no
 * more than a window ahead of that.
 */
import { connect, type Socket } from "node:net";
import type { WebSocket } from "ws";
import { AGENT_PORT, guestLimits } from "../../sdk/contract/guest-limits.ts";
import { anyAddress } from "./ports.ts";

const HEAD_BYTES = 5;
/** Data of one message, bytes. */
const PIECE_BYTES = 65_536;
/** What may wait for a slow client before programs are not read any more, bytes. */
const WAITING_BYTES = 1_048_576;
const kinds = { open: "o", data: "d", end: "e", close: "c", ack: "a" } as const;
/** Reasons of a close that clients know. */
const reasons = { done: "done", closed: "closed", reserved: "reserved", noSshd: "no-sshd" } as const;
const POLICY = 1008;

interface Stream {
  readonly socket: Socket;
  /** Its client sends no more. */
  inputOver: boolean;
  outputOver: boolean;
}

/** Serve one socket until it closes. @param own address of this machine, for programs that are bound to it alone */
export function serveForwards(socket: WebSocket, own: string | undefined): void {
  const streams = new Map<number, Stream>();
  let taken = 0;
  let received = 0;
  const say = (kind: string, id: number, payload: Uint8Array = Buffer.alloc(0)): void => {
    if (socket.readyState !== socket.OPEN) return;
    const head = Buffer.alloc(HEAD_BYTES);
    head.write(kind, 0, "latin1");
    head.writeUInt32BE(id, 1);
    socket.send(Buffer.concat([head, payload]), () => {
      if (socket.bufferedAmount < WAITING_BYTES) for (const one of streams.values()) one.socket.resume();
    });
  };
  const close = (id: number, reason: string): void => {
    streams.get(id)?.socket.destroy();
    streams.delete(id);
    say(kinds.close, id, Buffer.from(reason));
  };
  const finish = (id: number, stream: Stream): void => {
    if (stream.inputOver && stream.outputOver && streams.get(id) === stream) close(id, reasons.done);
  };
  const open = (id: number, target: string): void => {
    const [, digits] = /^tcp (\d{1,5})$/.exec(target) ?? [];
    const port = Number(digits);
    if (target.startsWith("ssh ")) return close(id, reasons.noSshd);
    if (digits === undefined || port < 1 || port > 65_535) return close(id, `"${target.slice(0, 64)}" is no tcp port`);
    if (port === AGENT_PORT) return close(id, reasons.reserved);
    if (streams.size >= guestLimits.forwarded)
      return close(id, `more than ${guestLimits.forwarded} connections at once`);
    const program = connect({ ...anyAddress(port, own), noDelay: true, allowHalfOpen: true });
    const stream: Stream = { socket: program, inputOver: false, outputOver: false };
    let isOpen = false;
    streams.set(id, stream);
    program.once("connect", () => {
      isOpen = true;
      say(kinds.open, id);
    });
    program.on("data", (data: Buffer) => {
      for (let at = 0; at < data.length; at += PIECE_BYTES) say(kinds.data, id, data.subarray(at, at + PIECE_BYTES));
      // There is one way for all streams: while it is full, none of their programs is read.
      if (socket.bufferedAmount >= WAITING_BYTES) for (const one of streams.values()) one.socket.pause();
    });
    program.once("end", () => {
      stream.outputOver = true;
      say(kinds.end, id);
      finish(id, stream);
    });
    program.once("error", (fault: NodeJS.ErrnoException) => {
      if (streams.get(id) !== stream) return;
      close(id, isOpen ? (fault.code ?? "broken") : reasons.closed);
    });
  };
  const take = (bytes: number): void => {
    taken += bytes;
    const count = Buffer.alloc(8);
    count.writeBigUInt64BE(BigInt(taken));
    say(kinds.ack, 0, count);
  };

  socket.on("error", () => undefined); // what breaks a rule of WebSockets is closed by the library
  socket.on("close", () => {
    for (const stream of streams.values()) stream.socket.destroy();
    streams.clear();
  });
  socket.on("message", (message: Buffer, isBinary: boolean) => {
    if (!isBinary || message.length < HEAD_BYTES) return;
    const kind = message.toString("latin1", 0, 1);
    const id = message.readUInt32BE(1);
    const payload = message.subarray(HEAD_BYTES);
    const stream = streams.get(id);
    switch (kind) {
      case kinds.open:
        if (stream || id === 0) socket.close(POLICY, "that stream is open");
        else open(id, payload.toString());
        break;
      case kinds.data:
        received += payload.length;
        if (received - taken > guestLimits.forwardWindow) return socket.close(POLICY, "more than the window");
        // Of a stream that is over, it has been taken as well.
        if (!stream || stream.inputOver || stream.socket.destroyed) take(payload.length);
        else stream.socket.write(payload, () => take(payload.length));
        break;
      case kinds.end:
        if (!stream || stream.inputOver) break;
        stream.inputOver = true;
        stream.socket.end();
        finish(id, stream);
        break;
      case kinds.close:
        stream?.socket.destroy();
        streams.delete(id);
        break;
      default:
    }
  });
  socket.send(JSON.stringify({ type: "ready" }));
}
