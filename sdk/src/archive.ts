/** Folders of a sandbox as tar archives, of any length; no more than two parts of one are in memory. */
import { Unpacked as UnpackedSchema, Upload as UploadSchema, guestLimits } from "../contract/guest.ts";
import type { Unpacked } from "../contract/guest.ts";
import { z } from "zod";
import { concat, sha256Hex, utf8 } from "./bytes.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { chunksOf } from "./spool.ts";
import type { StreamSource } from "./spool.ts";
import { unexpectedAnswer } from "./transport.ts";
import type { RequestOptions } from "./transport.ts";

const PartAnswer = z.object({ received: z.number() });

export interface ReadArchiveOptions extends RequestOptions {
  /** Whether it is gzipped; it is unless false. */
  gzip?: boolean | undefined;
  /** What is left out: patterns of names, as tar takes them. */
  exclude?: readonly string[] | undefined;
}

export async function readArchive(
  remote: Remote,
  path: string,
  { gzip = true, exclude, ...options }: ReadArchiveOptions,
): Promise<ReadableStream<Uint8Array>> {
  const { body } = await remote.transport.stream({
    method: "GET",
    path: remote.path("/files/archive"),
    query: { path, gzip, exclude },
    accept: gzip ? "application/gzip" : "application/x-tar",
    timeoutMs: 0,
    ...options,
  });
  return body;
}

export async function writeArchive(
  remote: Remote,
  path: string,
  source: StreamSource,
  options: RequestOptions,
): Promise<Unpacked> {
  const parts = partsOf(source, guestLimits.chunkBytes);
  try {
    const first = await nextOf(parts);
    const second = first.length < guestLimits.chunkBytes ? null : await nextOf(parts);
    if (second !== null && second.length > 0) return await inParts(remote, path, [first, second], parts, options);
    const call = { method: "PUT" as const, path: remote.path("/files/archive"), query: { path }, bytes: first };
    return parseAnswer(UnpackedSchema, await remote.transport.json({ ...call, ...options }));
  } finally {
    await parts.return(undefined);
  }
}

/** One after another, each as often as it takes. */
async function inParts(
  remote: Remote,
  path: string,
  begun: readonly Uint8Array<ArrayBuffer>[],
  rest: Parts,
  { idempotencyKey, ...options }: RequestOptions,
): Promise<Unpacked> {
  const callKey = idempotencyKey ?? crypto.randomUUID();
  const keyOf = (phase: string) => sha256Hex(utf8(JSON.stringify(["files.writeArchive", callKey, phase])));
  const beginning = { ...options, idempotencyKey: await keyOf("begin") };
  const upload = parseAnswer(UploadSchema, await remote.post("/files/archive/uploads", { path }, beginning));
  const { chunkBytes } = upload;
  if (chunkBytes < 1 || chunkBytes > guestLimits.chunkBytes) throw unexpectedAnswer(`chunkBytes is ${chunkBytes}`);
  const target = `/files/archive/uploads/${encodeURIComponent(upload.uploadId)}`;
  let sent = 0;
  const send = async (part: Uint8Array<ArrayBuffer>): Promise<void> => {
    for (let at = 0; at < part.length; at += chunkBytes) {
      const bytes = part.subarray(at, at + chunkBytes);
      const call = { method: "PUT" as const, path: remote.path(target), query: { offset: sent }, bytes };
      const { received } = parseAnswer(PartAnswer, await remote.transport.json({ ...call, ...options }));
      sent += bytes.length;
      // More is there where the whole call was made before.
      if (received < sent) throw unexpectedAnswer(`received is ${received}, not ${sent}`);
    }
  };
  try {
    for (const part of begun) await send(part);
    for await (const part of rest) await send(part);
    const committing = { ...options, idempotencyKey: await keyOf("commit") };
    return parseAnswer(UnpackedSchema, await remote.post(`${target}:commit`, {}, committing));
  } catch (error) {
    const giving = { timeoutMs: 5000, idempotencyKey: await keyOf("abort") };
    await remote.post(`${target}:abort`, {}, giving).catch(() => undefined);
    throw error;
  }
}

type Parts = AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined>;

/** Empty at the end. */
async function nextOf(parts: Parts): Promise<Uint8Array<ArrayBuffer>> {
  const { done, value } = await parts.next();
  return done === true ? new Uint8Array() : value;
}

/** The same bytes in pieces of a size, of which the last may have less. */
async function* partsOf(source: StreamSource, size: number): Parts {
  const encoder = new TextEncoder();
  let pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of chunksOf(source)) {
    // The producer may use its buffer again.
    const bytes = typeof piece === "string" ? encoder.encode(piece) : Uint8Array.from(piece);
    for (let at = 0; at < bytes.length;) {
      const taken = bytes.subarray(at, at + size - length);
      pieces.push(taken);
      length += taken.length;
      at += taken.length;
      if (length < size) continue;
      yield concat(pieces);
      [pieces, length] = [[], 0];
    }
  }
  if (length > 0) yield concat(pieces);
}
