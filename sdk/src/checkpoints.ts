/** The mirror of a sandbox's checkpoints, from outside: there while the machine sleeps, and when its disk is lost. */
import {
  CheckpointList,
  CheckpointName,
  CheckpointVersion as VersionSchema,
  decodeCheckpoint,
  DeletedCheckpoint as DeletedSchema,
  encodeCheckpoint,
} from "../contract/checkpoint.ts";
import type { CheckpointHeader, CheckpointInfo, CheckpointVersion, DeletedCheckpoint } from "../contract/checkpoint.ts";
import { concat, utf8 } from "./bytes.ts";
import { invalidArgument } from "./errors.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { unexpectedAnswer } from "./transport.ts";
import type { RequestOptions } from "./transport.ts";

export interface GetCheckpointOptions extends RequestOptions {
  /** The newest unless given. */
  version?: number | undefined;
}

export interface PutCheckpointOptions extends RequestOptions {
  /** One more than the newest unless given. */
  version?: number | undefined;
  step?: number | undefined;
  meta?: Record<string, unknown> | undefined;
}

/** A version that was read, verified. */
export interface MirroredCheckpoint<T = unknown> extends Omit<CheckpointHeader, "format"> {
  /** What was saved: bytes as a `Uint8Array`. */
  value: T;
}

/**
 * What programs in the sandbox saved ({@link Checkpoint}, or `rouse-checkpoint`), the newest five versions of each. No
 * call wakes it.
 *
 * @example
 * const { value, step } = await sandbox.checkpoints.get("report");
 */
export class Checkpoints {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** By name; of each the newest version first. */
  async list(options: RequestOptions = {}): Promise<CheckpointInfo[]> {
    return parseAnswer(CheckpointList, await this.#remote.get("/checkpoints", options)).data;
  }

  /** @throws NotFoundError `checkpoint_not_found` */
  async get<T = unknown>(
    name: string,
    { version, ...options }: GetCheckpointOptions = {},
  ): Promise<MirroredCheckpoint<T>> {
    const { body } = await this.#remote.transport.stream({
      ...{ method: "GET", path: this.#path(name), accept: "application/octet-stream", ...options },
      query: { version: version === undefined ? undefined : String(version) },
    });
    const chunks: Uint8Array[] = [];
    for await (const chunk of body as ReadableStream<Uint8Array>) chunks.push(chunk);
    const read = await decodeCheckpoint(concat(chunks));
    if (!read.ok) throw unexpectedAnswer(`the checkpoint does not verify: ${read.fault}`);
    const { format: _, ...header } = read.header;
    const value = (header.type === "json" ? JSON.parse(new TextDecoder().decode(read.body)) : read.body) as T;
    return { ...header, value };
  }

  /**
   * Put a version into the mirror: bytes as they are, all else as JSON; at most 16 MiB. A program in the sandbox loads it
   * where its own disk has nothing that verifies.
   * @throws RouseError `storage_full`
   */
  async put(name: string, value: unknown, options: PutCheckpointOptions = {}): Promise<CheckpointVersion> {
    const { version: given, step = null, meta = {}, ...rest } = options;
    const version = given ?? (await this.#newest(name, rest)) + 1;
    const isBytes = value instanceof Uint8Array;
    const text = isBytes ? "" : JSON.stringify(value);
    if (text === undefined) throw invalidArgument("That is no JSON: it is undefined, a function or a symbol.");
    const type = isBytes ? "bytes" : "json";
    const body = isBytes ? new Uint8Array(value) : utf8(text);
    const savedAt = new Date().toISOString();
    const bytes = await encodeCheckpoint({ name, version, savedAt, type, step, meta }, body);
    if (!bytes) throw invalidArgument("meta: the header is too long");
    const answer = await this.#remote.transport.json({ method: "PUT", path: this.#path(name), bytes, ...rest });
    return parseAnswer(VersionSchema, answer);
  }

  /** All versions go from the mirror; those on the machine's disk stay. @throws NotFoundError `checkpoint_not_found` */
  async delete(name: string, options: RequestOptions = {}): Promise<DeletedCheckpoint> {
    this.#path(name);
    return parseAnswer(DeletedSchema, await this.#remote.delete(`/checkpoints/${name}`, options));
  }

  async #newest(name: string, options: RequestOptions): Promise<number> {
    const found = (await this.list(options)).find((one) => one.name === name);
    return found?.versions[0]?.version ?? 0;
  }

  /** @throws InvalidRequestError `invalid_argument` */
  #path(name: string): string {
    if (!CheckpointName.safeParse(name).success)
      throw invalidArgument(`${JSON.stringify(name)} is no name of a checkpoint.`);
    return this.#remote.path(`/checkpoints/${name}`);
  }
}
