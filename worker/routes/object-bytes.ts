/** Bytes of objects come and go here, past every object of the edge. */
import {
  stateObject,
  type Asker,
  type Berth,
  type Bytes,
  type Condition,
  type StateApi,
} from "../../durable/state/api.ts";
import { readBlobs, storeBlob } from "../../durable/state/blobs.ts";
import { errorResponse, RouseFailure } from "../../sdk/contract/error-codes.ts";
import { objectLimits, type StoredObject } from "../../sdk/contract/object.ts";
import { byteRange } from "../byte-range.ts";
import { readBytes } from "../read-bytes.ts";
import { okOrThrow } from "./context.ts";
import { entityTag, guardHeaders } from "./place.ts";

/** SHA-256 of no bytes. */
const EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/** Longest time for a body of unknown length to arrive, milliseconds. */
const BODY_MS = 120_000;

/** Which object of which place, and who asks. */
export interface ObjectAsk {
  readonly account: string;
  readonly place: string;
  readonly asker: Asker;
  readonly key: string;
}

interface Sent {
  readonly body: ReadableStream<Uint8Array> | null;
  readonly bytes: number;
}

/** @throws RouseFailure `object_not_found` */
export async function sendObject(env: Env, request: Request, ask: ObjectAsk, requestId: string): Promise<Response> {
  const state = stateObject(env.STATE, ask.account, ask.place);
  // What was overwritten between the two is not there any more, but what overwrote it is.
  for (let left = 2; ; left -= 1) {
    const { object, parts } = okOrThrow(await state.object(ask.asker, ask.key));
    const headers = headersOf(object);
    if (asksForAnother(request.headers, object) === false) return new Response(null, { status: 304, headers });
    const range = byteRange(request.headers.get("range"), object.bytes);
    if (range === "unsatisfiable") {
      const details = { issues: [{ path: "range", message: "behind the end" }], bytes: object.bytes };
      const failure = new RouseFailure("invalid_request", `The object has ${object.bytes} bytes.`, { details });
      const refusal = errorResponse(failure, requestId);
      return new Response(refusal.body, {
        status: 416,
        headers: { ...Object.fromEntries(refusal.headers), "content-range": `bytes */${object.bytes}` },
      });
    }
    const { offset, length } = range ?? { offset: 0, length: object.bytes };
    headers.set("content-length", String(length));
    if (range) headers.set("content-range", `bytes ${offset}-${offset + length - 1}/${object.bytes}`);
    const status = range ? 206 : 200;
    if (request.method === "HEAD") return new Response(null, { status, headers });
    const body = length === 0 ? new Uint8Array() : await readBlobs(env, parts, { offset, length });
    if (body !== null) return new Response(body, { status, headers });
    if (left === 0) throw new Error("a blob of the object is not there");
  }
}

/** @throws RouseFailure `payload_too_large`, `digest_mismatch`, `storage_full`, `version_mismatch` */
export async function takeObject(
  env: Env,
  request: Request,
  ask: ObjectAsk,
  terms: {
    readonly contentType: string;
    readonly condition: Condition;
    readonly sha256: string | undefined;
    readonly maxBytes: number;
  },
): Promise<StoredObject> {
  const state = stateObject(env.STATE, ask.account, ask.place);
  const { asker, key } = ask;
  const { contentType, condition } = terms;
  const sent = await sentBy(request, terms.maxBytes);
  const { berth } = okOrThrow(await state.berthObject(asker, key, sent.bytes, contentType, condition));
  const sha256 = await stored(env, state, berth, sent, terms.sha256);
  const landed = await state.landObject(asker, berth.upload, sha256, condition);
  if (!landed.ok) await state.sinkObject(berth.blob);
  return okOrThrow(landed).object;
}

/** A part of an upload. */
export async function takePart(
  env: Env,
  request: Request,
  { account, place, asker }: Omit<ObjectAsk, "key">,
  upload: string,
  part: number,
  sha256: string | undefined,
) {
  const state = stateObject(env.STATE, account, place);
  const sent = await sentBy(request, objectLimits.putBytesMax);
  const { berth } = okOrThrow(await state.berthPart(asker, upload, part, sent.bytes));
  return okOrThrow(await state.landPart(asker, berth.blob, await stored(env, state, berth, sent, sha256))).upload;
}

async function stored(
  env: Env,
  state: StateApi,
  { blob }: Berth,
  { body, bytes }: Sent,
  wanted: string | undefined,
): Promise<string> {
  let sha256: string | null;
  try {
    sha256 = body === null || bytes === 0 ? EMPTY : await storeBlob(env, blob, body, bytes);
  } catch (fault) {
    await state.sinkObject(blob);
    throw fault;
  }
  if (sha256 !== null && (wanted === undefined || wanted === sha256)) return sha256;
  await state.sinkObject(blob);
  if (sha256 === null) throw new RouseFailure("invalid_request", "The body does not have the length that it says.");
  throw new RouseFailure("digest_mismatch", "The bytes do not have that SHA-256; nothing was stored.");
}

/** A body with its length. One that does not say it is taken whole first, and may not be large. */
async function sentBy(request: Request, maxBytes: number): Promise<Sent> {
  const said = request.headers.get("content-length");
  if (said === null && request.body) {
    const max = Math.min(maxBytes, objectLimits.unmeasuredBytesMax);
    const bytes: Bytes = await readBytes(request, max, BODY_MS);
    return { body: new Response(bytes).body, bytes: bytes.length };
  }
  const bytes = Number(said ?? 0);
  if (!Number.isSafeInteger(bytes) || bytes < 0)
    throw new RouseFailure("invalid_request", "The Content-Length is not one.");
  if (bytes > maxBytes)
    throw new RouseFailure("payload_too_large", `The body has more than ${maxBytes} bytes.`, { details: { maxBytes } });
  return { body: request.body as ReadableStream<Uint8Array> | null, bytes: request.body ? bytes : 0 };
}

function headersOf({ contentType, etag, sha256, updatedAt }: StoredObject): Headers {
  return new Headers({
    ...guardHeaders,
    "content-type": contentType,
    etag: entityTag(etag),
    "last-modified": new Date(updatedAt).toUTCString(),
    "accept-ranges": "bytes",
    ...(sha256 === null ? {} : { "x-rouse-sha256": sha256 }),
  });
}

/** Whether what the asker has is another one; null: it does not say what it has. */
function asksForAnother(headers: Headers, { etag }: StoredObject): boolean | null {
  const has = headers.get("if-none-match");
  if (has === null) return null;
  const tags = has.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return !tags.includes("*") && !tags.includes(entityTag(etag));
}
