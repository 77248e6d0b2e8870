/** Writing a file of known size and digest: in one PUT when it is small, else in chunks that may each be sent again. */
import { FileWritten as FileWrittenSchema, Upload as UploadSchema, guestLimits } from "../contract/guest.ts";
import type { FileWritten } from "../contract/guest.ts";
import { z } from "zod";
import { sha256Hex, utf8 } from "./bytes.ts";
import { RouseError } from "./errors.ts";
import { inParallel } from "./parallel.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";
import { unexpectedAnswer } from "./transport.ts";

/** Chunks on their way at once. */
const PARALLEL_CHUNKS = 8;

const ChunkAnswer = z.object({ received: z.number() });

/** Bytes that can be read again from any offset. */
export interface UploadSource {
  size: number;
  /** Hex SHA-256 of the whole. */
  sha256(): Promise<string>;
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
}

/** Bytes in memory as a source. */
export function memorySource(bytes: Uint8Array<ArrayBuffer>): UploadSource {
  return {
    size: bytes.length,
    sha256: () => sha256Hex(bytes),
    read: (offset, length) => Promise.resolve(bytes.subarray(offset, offset + length)),
  };
}

/** Write a source to a path; parents are made, and the file appears whole or not at all. */
export async function writeFile(
  remote: Remote,
  path: string,
  source: UploadSource,
  mode: string | undefined,
  options: RequestOptions,
): Promise<FileWritten> {
  if (source.size > guestLimits.chunkBytes) return await uploadInChunks(remote, path, source, mode, options);
  const answer = await remote.transport.json({
    method: "PUT",
    path: remote.path("/files/content"),
    query: { path, mode },
    bytes: await source.read(0, source.size),
    ...options,
  });
  return parseAnswer(FileWrittenSchema, answer);
}

async function uploadInChunks(
  remote: Remote,
  path: string,
  source: UploadSource,
  mode: string | undefined,
  { idempotencyKey, ...options }: RequestOptions,
): Promise<FileWritten> {
  const callKey = idempotencyKey ?? crypto.randomUUID();
  const phaseKey = (phase: string): Promise<string> => sha256Hex(utf8(JSON.stringify(["files.write", callKey, phase])));
  const sha256 = await source.sha256();
  const begun = parseAnswer(
    UploadSchema,
    await remote.post(
      "/uploads",
      { path, size: source.size, sha256, ...(mode === undefined ? {} : { mode }) },
      { ...options, idempotencyKey: await phaseKey("begin") },
    ),
  );
  const { chunkBytes } = begun;
  if (chunkBytes < 1 || chunkBytes > guestLimits.chunkBytes) throw unexpectedAnswer(`chunkBytes is ${chunkBytes}`);
  const uploadPath = `/uploads/${encodeURIComponent(begun.uploadId)}`;
  const commitKey = await phaseKey("commit");
  const commit = async (): Promise<FileWritten> =>
    parseAnswer(
      FileWrittenSchema,
      await remote.post(`${uploadPath}:commit`, {}, { ...options, idempotencyKey: commitKey }),
    );
  try {
    if (begun.replayed) {
      try {
        return await commit();
      } catch (error) {
        if (!(error instanceof RouseError) || error.code !== "upload_incomplete") throw error;
      }
    }
    const offsets = Array.from({ length: Math.ceil(source.size / chunkBytes) }, (_, index) => index * chunkBytes);
    await inParallel(offsets, PARALLEL_CHUNKS, async (offset) => {
      const bytes = await source.read(offset, Math.min(chunkBytes, source.size - offset));
      const answer = await remote.transport.json({
        method: "PUT",
        path: remote.path(uploadPath),
        query: { offset },
        bytes,
        ...options,
      });
      const { received } = parseAnswer(ChunkAnswer, answer);
      if (received < bytes.length || received > source.size) throw unexpectedAnswer(`received is ${received}`);
    });
    return await commit();
  } catch (error) {
    await remote
      .post(`${uploadPath}:abort`, {}, { timeoutMs: 5000, idempotencyKey: await phaseKey("abort") })
      .catch(() => undefined);
    throw error;
  }
}
