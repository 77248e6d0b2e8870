/** Objects of a sandbox: bytes under keys, outside of its machine. */
import {
  AbortedObjectUpload,
  DeletedObject,
  ObjectList,
  objectLimits,
  ObjectUpload as UploadSchema,
  SignedObject as SignedSchema,
  StoredObject as ObjectSchema,
} from "../contract/object.ts";
import type { ObjectListQuery, ObjectUpload, SignedObject, SignObject, StoredObject } from "../contract/object.ts";
import { bytesOf, concat, sha256Hex } from "./bytes.ts";
import type { Data } from "./bytes.ts";
import { NotFoundError } from "./errors.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/** What is larger goes in parts of this size, bytes. */
const PART = 32 * 1_048_576;

export interface PutObjectOptions extends RequestOptions {
  /** `application/octet-stream` unless given. */
  contentType?: string | undefined;
  /** Only when the object has that etag; null: only when it is not there. */
  ifEtag?: string | null | undefined;
}

export interface GetObjectOptions extends RequestOptions {
  /** Which bytes: from an offset, as many as given or all. */
  range?: { readonly offset: number; readonly length?: number } | undefined;
}

/** What a list has: objects, and with `delimiter` the folders beside them. */
export interface ListedObjects {
  data: StoredObject[];
  prefixes: string[];
  /** For the next page; null after the last. */
  nextCursor: string | null;
}

/**
 * Objects: files of up to 5 GiB that outlive the machine, and that others may be given a URL of.
 *
 * @example
 * await sandbox.objects.put("reports/may.pdf", bytes, { contentType: "application/pdf" });
 * const { url } = await sandbox.objects.sign("reports/may.pdf", { expiresSeconds: 600 });
 */
export class Objects {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * Store an object: whole or not at all, checked by its SHA-256. Above 32 MiB it goes in parts.
   * @throws RouseError `storage_full`
   * @throws ConflictError `version_mismatch`, with `ifEtag`
   */
  async put(
    key: string,
    data: Data | ReadableStream<Uint8Array>,
    options: PutObjectOptions = {},
  ): Promise<StoredObject> {
    const source = data instanceof ReadableStream ? data : new Blob([await bytesOf(data)]).stream();
    const parts = inParts(source);
    const first = await parts.next();
    const second = await parts.next();
    const { contentType = "application/octet-stream", ifEtag, ...rest } = options;
    const { headers, ...extras } = conditional(ifEtag);
    if (second.done === true) {
      const bytes = first.done === true ? new Uint8Array() : first.value;
      const call = {
        method: "PUT",
        path: this.#path(key),
        bytes,
        query: { sha256: await sha256Hex(bytes) },
        ...extras,
        headers: { ...headers, "content-type": contentType },
        ...rest,
      } as const;
      return parseAnswer(ObjectSchema, await this.#remote.transport.json(call));
    }
    const upload = await this.begin(key, { contentType, ...rest });
    try {
      let count = 0;
      const send = async (bytes: Uint8Array<ArrayBuffer>) => {
        count += 1;
        await this.putPart(upload.id, count, bytes, rest);
      };
      if (first.done !== true) await send(first.value);
      await send(second.value);
      for await (const bytes of parts) await send(bytes);
      return await this.complete(upload.id, count, { ifEtag, ...rest });
    } catch (error) {
      await this.abort(upload.id).catch(() => undefined);
      throw error;
    }
  }

  /** Its bytes. @throws NotFoundError `object_not_found` */
  async get(key: string, options: GetObjectOptions = {}): Promise<Uint8Array> {
    return await this.#remote.transport.send(
      this.#read(key, options),
      async (response) => new Uint8Array(await response.arrayBuffer()),
    );
  }

  async getText(key: string, options: GetObjectOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.get(key, options));
  }

  /** Its bytes as they come. No time limit unless given. */
  async getStream(key: string, options: GetObjectOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return (await this.#remote.transport.stream(this.#read(key, { timeoutMs: 0, ...options }))).body;
  }

  /** What is known of it, without its bytes. @throws NotFoundError `object_not_found` */
  async stat(key: string, options: RequestOptions = {}): Promise<StoredObject> {
    const { data } = await this.list({ prefix: key, limit: 1 }, options);
    const [found] = data;
    if (found?.key === key) return found;
    throw new NotFoundError({ code: "object_not_found", message: "There is no such object." });
  }

  /** In order of their keys. With `delimiter: "/"` what is below a folder is one prefix. */
  async list(query: ObjectListQuery = {}, options: RequestOptions = {}): Promise<ListedObjects> {
    return parseAnswer(ObjectList, await this.#remote.get("/objects", { query: { ...query }, ...options }));
  }

  /** Whether it was there. */
  async delete(key: string, { ifEtag, ...options }: Omit<PutObjectOptions, "contentType"> = {}): Promise<boolean> {
    const call = { method: "DELETE", path: this.#path(key), ...conditional(ifEtag), ...options } as const;
    return parseAnswer(DeletedObject, await this.#remote.transport.json(call)).deleted;
  }

  /** A URL that reads (or with `method: "PUT"` writes) the object without a key, for an hour unless given. */
  async sign(key: string, input: Omit<SignObject, "key"> = {}, options: RequestOptions = {}): Promise<SignedObject> {
    return parseAnswer(SignedSchema, await this.#remote.post("/objects:sign", { key, ...input }, options));
  }

  /** Begin an object in parts. It is not there before `complete`. @throws ConflictError `quota_exceeded` */
  async begin(key: string, { contentType, ...options }: PutObjectOptions = {}): Promise<ObjectUpload> {
    return parseAnswer(UploadSchema, await this.#remote.post("/object-uploads", { key, contentType }, options));
  }

  /** Part 1 to 1,000, of at most 100 MiB; the same number again takes its place. */
  async putPart(upload: string, part: number, data: Data, options: RequestOptions = {}): Promise<ObjectUpload> {
    const bytes = await bytesOf(data);
    const call = {
      method: "PUT",
      path: this.#remote.path(`/object-uploads/${encodeURIComponent(upload)}/parts/${part}`),
      bytes,
      query: { sha256: await sha256Hex(bytes) },
      ...options,
    } as const;
    return parseAnswer(UploadSchema, await this.#remote.transport.json(call));
  }

  /** @param parts how many it has. @throws ConflictError `upload_incomplete` */
  async complete(
    upload: string,
    parts: number,
    { ifEtag, ...options }: Omit<PutObjectOptions, "contentType"> = {},
  ): Promise<StoredObject> {
    const path = `/object-uploads/${encodeURIComponent(upload)}:complete`;
    return parseAnswer(ObjectSchema, await this.#remote.post(path, { parts }, { ...conditional(ifEtag), ...options }));
  }

  async abort(upload: string, options: RequestOptions = {}): Promise<void> {
    const path = `/object-uploads/${encodeURIComponent(upload)}`;
    parseAnswer(AbortedObjectUpload, await this.#remote.delete(path, options));
  }

  #read(key: string, { range, ...options }: GetObjectOptions) {
    const last = range?.length === undefined ? "" : String((range?.offset ?? 0) + range.length - 1);
    return {
      method: "GET",
      path: this.#path(key),
      accept: "application/octet-stream",
      ...(range ? { headers: { range: `bytes=${range.offset}-${last}` } } : {}),
      ...options,
    } as const;
  }

  #path(key: string): string {
    return this.#remote.path(`/objects/${encodeURIComponent(key)}`);
  }
}

/** A repeated one would find what the first did, and take it for somebody else's: so there is none. */
function conditional(etag: string | null | undefined): { headers?: Record<string, string>; maxRetries?: number } {
  if (etag === undefined) return {};
  return { headers: etag === null ? { "if-none-match": "*" } : { "if-match": `"${etag}"` }, maxRetries: 0 };
}

/** A stream in pieces of one size; the last may be smaller. */
async function* inParts(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>, undefined> {
  const size = Math.min(PART, objectLimits.putBytesMax);
  let held: Uint8Array[] = [];
  let length = 0;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    let rest = value;
    while (length + rest.length >= size) {
      const cut = size - length;
      yield concat([...held, rest.subarray(0, cut)]);
      rest = rest.subarray(cut);
      held = [];
      length = 0;
    }
    if (rest.length > 0) held.push(rest);
    length += rest.length;
  }
  if (length > 0) yield concat(held);
  return undefined;
}
