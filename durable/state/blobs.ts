/** Bytes of objects, between whoever sends or reads them and the blob store; past every object of the edge. */
import { hex } from "../hash.ts";
import { blobStore, type BlobStore, type Range } from "../vault/blob-store.ts";
import { STORE_MS, type Part } from "./api.ts";
import { within } from "./parts.ts";

type Body = ReadableStream<Uint8Array>;

/** Pieces that bytes are passed on in, as far as they come so fast. */
const PIECE = 262_144;

/** Store so many bytes as they come. Answers their SHA-256, hex; null: there were more or fewer, and nothing is stored. */
export async function storeBlob(
  env: Env,
  key: string,
  body: Body,
  bytes: number,
  store: BlobStore = blobStore(env),
): Promise<string | null> {
  const whole = new FixedLengthStream(bytes);
  const sink = whole.writable.getWriter();
  const digest = new crypto.DigestStream("SHA-256");
  const hashed = digest.getWriter();
  const stored = store.put(key, whole.readable, { bytes, sha256: null });
  // Nobody reads on: whoever writes must not wait.
  stored.catch((fault: unknown) => sink.abort(fault).catch(() => undefined));
  const reader = body.getReader({ mode: "byob" });
  const late = setTimeout(() => {
    reader.cancel().catch(() => undefined);
    sink.abort(new Error("the body took too long")).catch(() => undefined);
  }, STORE_MS);
  const sent = send(reader, sink, hashed, bytes);
  const [answer, whether] = await Promise.allSettled([stored, sent]);
  clearTimeout(late);
  // The store fails too where what it was sent is broken off: what came first is said.
  if (whether.status === "fulfilled" && !whether.value) return null;
  if (answer.status === "rejected") throw answer.reason;
  if (whether.status === "rejected") throw whether.reason;
  return answer.value ? hex(new Uint8Array(await digest.digest)) : null;
}

/** Whether it was just so many bytes. The last of them is sent only then. */
async function send(
  reader: ReadableStreamBYOBReader,
  sink: WritableStreamDefaultWriter,
  hashed: WritableStreamDefaultWriter,
  bytes: number,
): Promise<boolean> {
  let seen = 0;
  try {
    for (;;) {
      const { done, value } = await reader.readAtLeast(PIECE, new Uint8Array(PIECE));
      if (done) break;
      if (value.byteLength === 0) continue;
      seen += value.byteLength;
      if (seen > bytes) break;
      // One after the other: whoever takes it may keep its memory.
      await hashed.write(value);
      await sink.write(value);
    }
    if (seen === bytes) {
      await hashed.close();
      await sink.close();
      return true;
    }
    reader.cancel().catch(() => undefined);
    await sink.abort(new Error("these are not the bytes that were announced")).catch(() => undefined);
    return false;
  } catch (fault) {
    reader.cancel().catch(() => undefined);
    await sink.abort(fault).catch(() => undefined);
    throw fault;
  }
}

/** The bytes of an object, or a range of them. null: a blob is not there any more. */
export async function readBlobs(env: Env, parts: readonly Part[], range: Range): Promise<Body | null> {
  const store = blobStore(env);
  const wanted = within(parts, range);
  const [first, ...rest] = wanted;
  if (!first) return new Response(new Uint8Array()).body;
  const begun = await store.get(first.blob, first.range);
  if (!begun) return null;
  if (rest.length === 0) return begun.body;
  const { readable, writable } = new FixedLengthStream(range.length);
  const joined = async () => {
    await begun.body.pipeTo(writable, { preventClose: true });
    for (const { blob, range: part } of rest) {
      const found = await store.get(blob, part);
      if (!found) throw new Error("a part of the object is not there");
      await found.body.pipeTo(writable, { preventClose: true });
    }
    await writable.close();
  };
  joined().catch((fault: unknown) => writable.abort(fault).catch(() => undefined));
  return readable;
}
