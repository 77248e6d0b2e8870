/** A client that speaks HTTP badly: bytes as they are, at whatever pace. */
import { connect } from "node:net";

export interface RawOptions {
  /** Sent bit by bit after the rest, one each `everyMs`, until somebody ends the connection. */
  readonly trickle?: string;
  readonly everyMs?: number;
  /** Longest wait for the end of the connection, milliseconds. */
  readonly limitMs: number;
}

export interface RawAnswer {
  /** Of the first line; null when nothing that is HTTP was answered. */
  readonly status: number | null;
  readonly text: string;
  /** The other side ended the connection. */
  readonly ended: boolean;
}

/** Send it to a port of this machine, and answer what came back when the connection ended or the time is up. */
export function sendRaw(
  port: number,
  bytes: string,
  { trickle, everyMs = 200, limitMs }: RawOptions,
): Promise<RawAnswer> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    let text = "";
    let ended = false;
    socket.setEncoding("utf8");
    socket.on("connect", () => socket.write(bytes));
    socket.on("data", (chunk: string) => (text += chunk));
    const drip = trickle === undefined ? undefined : setInterval(() => socket.write(trickle), everyMs);
    const limit = setTimeout(() => socket.destroy(), limitMs);
    const over = () => {
      ended = true;
      socket.destroy();
    };
    socket.on("end", over);
    socket.on("error", over);
    socket.on("close", () => {
      clearInterval(drip);
      clearTimeout(limit);
      const status = /^HTTP\/1\.\d (\d{3})/.exec(text)?.[1];
      resolve({ status: status === undefined ? null : Number(status), text, ended });
    });
  });
}
