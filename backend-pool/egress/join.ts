/** Two streams as one connection, and the first bytes of one before it is let through. */
import { constants, type Http2Stream } from "node:http2";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { isGreeting, sniff, type Sniffed } from "./sniff.ts";

/** From the first byte on. */
const DECIDED_MS = 10_000;
/** Greetings come in few pieces; one in many is made to cost work. */
const PIECES_MAX = 64;
/** What is written already may take so long to leave. */
const FLUSH_MS = 30_000;

/**
 * Bytes go both ways at the pace of who reads, and each end passes on by itself. One that breaks takes the other along.
 * @param done called once, when both are closed
 */
export function join(left: Duplex, right: Duplex, done: () => void = () => undefined): void {
  let open = 2;
  for (const [one, other] of [
    [left, right],
    [right, left],
  ] as const) {
    one.pipe(other);
    const broken = () => breakOff(other);
    one.on("error", broken);
    // Of HTTP/2: a stream that was reset ends as if it were whole.
    one.on("aborted", broken);
    one.once("close", () => {
      if (--open === 0) done();
      if (!one.readableEnded) return breakOff(other);
      if (other.destroyed) return;
      const timer = setTimeout(() => other.destroy(), FLUSH_MS);
      other.once("close", () => clearTimeout(timer));
    });
    if (one.destroyed) breakOff(other);
  }
}

/** Ends a stream so that its other end can't take it for one that is whole. */
export function breakOff(stream: Duplex): void {
  if (stream instanceof Socket) stream.resetAndDestroy();
  else if ("rstCode" in stream) (stream as Http2Stream).close(constants.NGHTTP2_CONNECT_ERROR);
  stream.destroy();
}

export interface First {
  readonly found: Sniffed;
  /** Of a stream that ended with them: they can't be put back any more. */
  readonly taken: Buffer;
}

/**
 * What the first bytes ask for; they are put back where the stream goes on. Null for a stream that breaks, or takes too long.
 * @param enough says whether more is needed after what came so far
 */
export function firstBytes(
  stream: Duplex,
  enough: (found: Sniffed, bytes: Buffer) => boolean = ({ kind }) => kind !== "more",
): Promise<First | null> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    let timer: NodeJS.Timeout | undefined;
    const end = (found: Sniffed | null, taken = Buffer.alloc(0)) => {
      clearTimeout(timer);
      stream.removeListener("data", take);
      stream.removeListener("end", ended);
      stream.removeListener("close", broken);
      stream.removeListener("error", broken);
      resolve(found ? { found, taken } : null);
    };
    const take = (part: Buffer) => {
      parts.push(part);
      timer ??= setTimeout(() => end(null), DECIDED_MS);
      const bytes = Buffer.concat(parts);
      const found = sniff(bytes);
      if (!enough(found, bytes)) return parts.length > PIECES_MAX ? end({ kind: "malformed" }) : undefined;
      stream.pause();
      stream.unshift(bytes);
      end(found);
    };
    const ended = () => {
      const bytes = Buffer.concat(parts);
      const found = sniff(bytes);
      // Half a request is none; half a greeting is one that nobody should see.
      if (found.kind !== "more") end(found, bytes);
      else end({ kind: isGreeting(bytes) ? "malformed" : "other" }, bytes);
    };
    const broken = () => end(null);
    stream.on("data", take);
    stream.once("end", ended);
    stream.once("close", broken);
    stream.once("error", broken);
    if (stream.destroyed) end(null);
    // One that was looked at before stands still.
    else stream.resume();
  });
}
