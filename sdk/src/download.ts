/** Reading a file's bytes, held against the length and digest that the sandbox announced. */
import { sha256Hex } from "./bytes.ts";
import { ConnectionError, RouseError } from "./errors.ts";
import { nodeModule } from "./node.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/** Reads of one file before it is given up. */
const TRIES = 3;

/** Do a read again when bytes were missing or wrong. */
export async function retryIncomplete<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await read();
    } catch (error) {
      const incomplete =
        error instanceof RouseError && (error.code === "download_incomplete" || error.code === "connection_error");
      if (!incomplete || tries === TRIES) throw error;
    }
  }
}

/** A file's bytes, checked. */
export function readBytes(remote: Remote, path: string, options: RequestOptions): Promise<Uint8Array> {
  return retryIncomplete(() =>
    remote.transport.send(contentCall(remote, path, options), async (response) => {
      const bytes = new Uint8Array(await response.arrayBuffer());
      const expected = announced(response.headers);
      if (expected.size !== null && expected.size !== bytes.length) throw incomplete(path, expected.size, bytes.length);
      if (expected.sha256 !== null && expected.sha256 !== (await sha256Hex(bytes))) throw wrongDigest(path);
      return bytes;
    }),
  );
}

/** A file as a stream that fails at its end when bytes were missing or, where the platform can tell, wrong. */
export async function readChecked(
  remote: Remote,
  path: string,
  options: RequestOptions,
): Promise<ReadableStream<Uint8Array>> {
  const { headers, body } = await remote.transport.stream(contentCall(remote, path, options));
  const expected = announced(headers);
  // WebCrypto has no digest over a stream.
  const crypto = expected.sha256 === null ? null : await nodeModule("node:crypto");
  const hash = crypto?.createHash("sha256");
  let size = 0;
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        size += chunk.length;
        hash?.update(chunk);
        controller.enqueue(chunk);
      },
      flush(controller) {
        if (expected.size !== null && expected.size !== size) controller.error(incomplete(path, expected.size, size));
        else if (hash && hash.digest("hex") !== expected.sha256) controller.error(wrongDigest(path));
      },
    }),
  );
}

function contentCall(remote: Remote, path: string, options: RequestOptions) {
  return {
    method: "GET",
    path: remote.path("/files/content"),
    query: { path },
    accept: "application/octet-stream",
    ...options,
  } as const;
}

function announced(headers: Headers): { size: number | null; sha256: string | null } {
  const size = headers.get("x-content-length");
  return {
    size: size !== null && /^\d+$/.test(size) ? Number(size) : null,
    sha256: headers.get("x-content-sha256")?.toLowerCase() ?? null,
  };
}

function incomplete(path: string, expected: number, got: number): ConnectionError {
  return new ConnectionError({
    code: "download_incomplete",
    message: `${path} has ${expected} bytes, but ${got} arrived.`,
    retryable: true,
  });
}

function wrongDigest(path: string): ConnectionError {
  return new ConnectionError({
    code: "download_incomplete",
    message: `The bytes of ${path} that arrived are not those that were sent.`,
    retryable: true,
  });
}
