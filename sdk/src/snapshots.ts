/** Snapshots of an account: taken, listed, kept longer, deleted. */
import { hintOf } from "../contract/error-codes.ts";
import { SnapshotId } from "../contract/names.ts";
import { Snapshot as SnapshotSchema, SnapshotList } from "../contract/snapshot.ts";
import type { CreateSnapshot, Snapshot, SnapshotListQuery, UpdateSnapshot } from "../contract/snapshot.ts";
import { ServiceUnavailableError, invalidArgument } from "./errors.ts";
import { Page } from "./page.ts";
import { Poll } from "./poll.ts";
import { Remote, addressable, parseAnswer } from "./remote.ts";
import { unexpectedAnswer } from "./transport.ts";
import type { RequestOptions, Transport } from "./transport.ts";
import { SETTLE_SECONDS } from "./waits.ts";

/** What to capture, how it is called, how long it is kept, and how long to wait for it. */
export interface SnapshotOptions extends CreateSnapshot, RequestOptions {
  /** false answers as soon as the capture has begun, with `state` `capturing`. */
  wait?: boolean | undefined;
  /** Longest wait until it is ready, milliseconds; 10 minutes unless given, 0 for no limit. */
  timeoutMs?: number | undefined;
}

/** Which snapshots to list; all conditions must hold. */
export interface SnapshotFilter extends Omit<SnapshotListQuery, "cursor"> {
  /** Id of the sandbox that they are of, which may be deleted. */
  sandboxId?: string | undefined;
  /** Snapshots per page, 1 to 100. */
  limit?: number | undefined;
}

/**
 * Snapshots. They outlive their sandbox, and `sandboxes.create({ snapshot: id })` starts from one.
 *
 * @example
 * for await (const { id, storedBytes } of await rouse.snapshots.list({ name: "nightly" })) console.log(id, storedBytes);
 */
export class Snapshots {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Take a snapshot of a sandbox, by id or name, and wait until it is ready, which it is once it is stored off its host.
   * `mode` is `memory` (RAM, processes and disk) unless given; `retentionDays` 365.
   * @throws ServiceUnavailableError `snapshot_failed`; the sandbox is as it was
   * @throws ConnectionError `timeout`; the snapshot goes on, as `details.snapshotId`
   */
  async create(sandboxId: string, options: SnapshotOptions = {}): Promise<Snapshot> {
    return await capture(new Remote(this.#transport, addressable(sandboxId)), options);
  }

  /** The snapshots that match, page by page. */
  list(filter: SnapshotFilter = {}, options: RequestOptions = {}): Promise<Page<Snapshot>> {
    return this.#page(filter, undefined, options);
  }

  /** @throws NotFoundError `snapshot_not_found` */
  async get(id: string, options: RequestOptions = {}): Promise<Snapshot> {
    return await read(this.#transport, id, options);
  }

  /**
   * Change name and labels; a name of null takes it away. With `ifLabels` only while its labels are just those.
   * @throws ConflictError when its labels are others than `ifLabels`
   */
  async update(id: string, changes: UpdateSnapshot, options: RequestOptions = {}): Promise<Snapshot> {
    return parseAnswer(SnapshotSchema, await this.#post(id, ":update", changes, options));
  }

  /** Keep it for so many days from now, 1 to 365. */
  async extend(id: string, days: number, options: RequestOptions = {}): Promise<Snapshot> {
    return parseAnswer(SnapshotSchema, await this.#post(id, ":extend", { retentionDays: days }, options));
  }

  /** Delete for good. Sandboxes that were made from it stay. */
  async delete(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#post(id, ":delete", {}, options);
  }

  async #post(id: string, verb: string, json: unknown, options: RequestOptions): Promise<unknown> {
    return await this.#transport.json({ method: "POST", path: pathOf(id, verb), json, ...options });
  }

  async #page(filter: SnapshotFilter, cursor: string | undefined, options: RequestOptions): Promise<Page<Snapshot>> {
    const query = { ...filter, cursor };
    const answer = await this.#transport.json({ method: "GET", path: "/v1/snapshots", query, ...options });
    const { data, nextCursor } = parseAnswer(SnapshotList, answer);
    return new Page(data, nextCursor === null ? null : () => this.#page(filter, nextCursor, options));
  }
}

/** Take a snapshot of a sandbox; see {@link Snapshots.create}. */
export async function capture(remote: Remote, options: SnapshotOptions): Promise<Snapshot> {
  const { mode, name, labels, retentionDays, wait = true, timeoutMs, signal, idempotencyKey } = options;
  let snapshot: Snapshot | null = null;
  const poll = new Poll({
    timeoutMs,
    signal,
    late: () =>
      snapshot === null
        ? { message: "The capture did not begin in time.", hint: "Pass a larger timeoutMs." }
        : {
            message: `Snapshot ${snapshot.id} is still being captured.`,
            hint: "It goes on; read it again later, or pass a larger timeoutMs.",
            details: { snapshotId: snapshot.id, sandboxId: snapshot.sourceSandboxId },
          },
  });
  const json = { mode, name, labels, retentionDays };
  const waitSeconds = wait ? SETTLE_SECONDS : undefined;
  snapshot = parseAnswer(
    SnapshotSchema,
    await poll.ask((limits) => remote.post(":snapshot", json, { ...limits, idempotencyKey, waitSeconds })),
  );
  // A server that does not know the mode would store something else without a word.
  if (mode !== undefined && snapshot.mode !== mode)
    throw unexpectedAnswer(`snapshot ${snapshot.id} has mode ${snapshot.mode}, and ${mode} was asked for`);
  if (!wait) return snapshot;
  const { id } = snapshot;
  while (snapshot.state === "capturing") {
    await poll.rest();
    snapshot = await poll.ask((limits) => read(remote.transport, id, limits));
  }
  if (snapshot.state === "ready") return snapshot;
  throw new ServiceUnavailableError({
    code: "snapshot_failed",
    status: 502,
    message: `Snapshot ${id} is ${snapshot.state}${snapshot.error === null ? "" : `: ${snapshot.error}`}.`,
    hint: hintOf("snapshot_failed"),
    details: { snapshotId: id, sandboxId: snapshot.sourceSandboxId, state: snapshot.state },
  });
}

async function read(transport: Transport, id: string, options: RequestOptions): Promise<Snapshot> {
  return parseAnswer(SnapshotSchema, await transport.json({ method: "GET", path: pathOf(id), ...options }));
}

/** @throws InvalidRequestError `invalid_argument` for what is no id: it could make a path that means something else */
function pathOf(id: string, verb = ""): string {
  if (SnapshotId.safeParse(id).success) return `/v1/snapshots/${id}${verb}`;
  throw invalidArgument(`${JSON.stringify(id)} is not a snapshot id.`, "An id is such as snap-0123456789abcdefghij.");
}
