/** Volumes of an account and their backups: made, attached, grown, copied, deleted. */
import { hintOf } from "../contract/error-codes.ts";
import { AttachmentId, BackupId } from "../contract/names.ts";
import {
  Attachment as AttachmentSchema,
  VolumeBackup as BackupSchema,
  Volume as VolumeSchema,
  VolumeBackupList,
  VolumeList,
} from "../contract/volume.ts";
import type {
  Attachment,
  BackupPolicy,
  BackupVolume,
  CreateVolume,
  UpdateVolume,
  Volume,
  VolumeBackup,
  VolumeBackupListQuery,
  VolumeListQuery,
  VolumeMode,
} from "../contract/volume.ts";
import { NotFoundError, ServiceUnavailableError, invalidArgument } from "./errors.ts";
import type { ErrorFacts } from "./errors.ts";
import { Page } from "./page.ts";
import { Poll } from "./poll.ts";
import { addressable, parseAnswer } from "./remote.ts";
import type { CallExtras } from "./remote.ts";
import type { Sandbox } from "./sandbox.ts";
import type { RequestOptions, Transport } from "./transport.ts";
import { SETTLE_SECONDS } from "./waits.ts";

/** Whether to wait until a change of a volume is done, and how long. */
export interface VolumeWaitOptions extends RequestOptions {
  /** false answers as soon as the change has begun. */
  wait?: boolean | undefined;
  /** Longest wait until it is done, milliseconds; 10 minutes unless given, 0 for no limit. */
  timeoutMs?: number | undefined;
}

/** How a volume is made from a backup. */
export type RestoreInput = Omit<CreateVolume, "fromBackup">;

/** Which volumes to list; all conditions must hold. */
export interface VolumeFilter extends Omit<VolumeListQuery, "cursor"> {
  /** Volumes per page, 1 to 100. */
  limit?: number | undefined;
}

/** Which backups to list; all conditions must hold. */
export interface BackupFilter extends Omit<VolumeBackupListQuery, "cursor"> {
  /** Id of the volume that they are of, which may be deleted. */
  volumeId?: string | undefined;
  /** Backups per page, 1 to 100. */
  limit?: number | undefined;
}

/** How a backup is called, how long it is kept (7 days unless given, at most 365), and how long to wait for it. */
export interface BackupOptions extends BackupVolume, VolumeWaitOptions {}

/** Where a volume is to appear. */
export interface AttachInput {
  /** A sandbox, or its id or name. */
  sandbox: string | Pick<Sandbox, "id">;
  /** An absolute path in the sandbox, not in a folder of the system. */
  path: string;
  /** `rw` unless given; `snapshot` is read-only: what the volume was when it was last known to be consistent. */
  mode?: VolumeMode | undefined;
}

/**
 * Volumes: disks that outlive sandboxes. A volume is named by its id or its name. Sizes are in MiB.
 *
 * @example
 * const { id } = await rouse.volumes.create({ name: "data", sizeMiB: 10_240 });
 * const sandbox = await rouse.sandboxes.create({ volumes: [{ volumeId: id, path: "/data" }] });
 */
export class Volumes {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Make a volume, empty or from a backup, and wait until it is ready. `sizeMiB` 64 to 1 048 576; with `fromBackup` at
   * least the backup's, which it is unless given.
   * @throws ConflictError `name_taken`, `disk_too_small`, `quota_exceeded`, or `volume_not_ready`: the backup is not
   * @throws ServiceUnavailableError `volume_failed`
   */
  async create(input: CreateVolume, options: VolumeWaitOptions = {}): Promise<Volume> {
    const volume = await settle<Volume>(options, {
      begin: async (extras) => parseAnswer(VolumeSchema, await this.#post("/v1/volumes", input, extras)),
      again: ({ id }, extras) => this.get(id, extras),
      meanwhile: "creating",
      late: (begun) =>
        begun === null
          ? { message: "The volume was not made in time." }
          : { message: `Volume ${begun.id} is still being made.`, details: { volumeId: begun.id } },
    });
    if (volume.state !== "failed") return volume;
    const details = { volumeId: volume.id };
    throw failed(
      "volume_failed",
      `Volume ${volume.id} was not made`,
      volume.error,
      details,
      "Delete it and try again.",
    );
  }

  /** @throws NotFoundError `volume_not_found` */
  async get(volume: string, options: RequestOptions = {}): Promise<Volume> {
    return parseAnswer(VolumeSchema, await this.#get(pathOf(volume), options));
  }

  /** The volumes that match, newest first, page by page. */
  async list(filter: VolumeFilter = {}, options: RequestOptions = {}): Promise<Page<Volume>> {
    return await this.#volumes(filter, undefined, options);
  }

  /** Change name and labels; a name of null takes it away. @throws ConflictError `name_taken` */
  async update(volume: string, changes: UpdateVolume, options: RequestOptions = {}): Promise<Volume> {
    return parseAnswer(VolumeSchema, await this.#post(pathOf(volume, ":update"), changes, options));
  }

  /**
   * Make it larger, to so many MiB. A sandbox that runs with it sees the new size at once.
   * @throws ConflictError `disk_too_small` for less than it has: a volume never shrinks
   */
  async resize(volume: string, sizeMiB: number, options: RequestOptions = {}): Promise<Volume> {
    return parseAnswer(VolumeSchema, await this.#post(pathOf(volume, ":resize"), { sizeMiB }, options));
  }

  /**
   * Delete for good; its backups stay. One that a sandbox is letting go is waited for, as in {@link Volumes.attach}.
   * @throws ConflictError `volume_attached` while a sandbox has it, `volume_releasing`
   */
  async delete(volume: string, options: RequestOptions = {}): Promise<void> {
    await this.#post(pathOf(volume, ":delete"), {}, { ...options, waitForCapacity: true });
  }

  /**
   * Give it to a sandbox that runs or is stopped, and wait until it is there. A volume that another sandbox is letting
   * go is waited for as long as a creation waits for room (`waitForCapacityMs`, 2 minutes).
   * @throws ConflictError `volume_attached` (another sandbox writes, `details.sandboxId`), `volume_releasing`,
   *   `volume_not_ready` (`snapshot` of one without a consistent state yet), `quota_exceeded`, or `conflict`: the sandbox
   *   sleeps, or has it already
   * @throws ServiceUnavailableError `volume_failed`
   */
  async attach(
    volume: string,
    { sandbox, path, mode }: AttachInput,
    options: VolumeWaitOptions = {},
  ): Promise<Attachment> {
    const sandboxId = typeof sandbox === "string" ? sandbox : sandbox.id;
    const details = { volume, sandboxId };
    const attachment = await settle<Attachment>(options, {
      begin: async (extras) => {
        const call = { ...extras, waitForCapacity: true };
        return parseAnswer(
          AttachmentSchema,
          await this.#post(pathOf(volume, ":attach"), { sandboxId, path, mode }, call),
        );
      },
      again: ({ volumeId, id }, extras) => this.attachment(volumeId, id, extras),
      meanwhile: "attaching",
      late: (begun) => ({
        message: `Volume ${volume} was not attached in time.`,
        details: begun === null ? details : { ...details, attachmentId: begun.id },
      }),
    });
    if (attachment.state === "active" || attachment.state === "attaching") return attachment;
    throw failed("volume_failed", `Volume ${volume} is ${attachment.state}`, attachment.error, {
      ...details,
      attachmentId: attachment.id,
    });
  }

  /**
   * Take it from its sandbox, and wait until what was written is stored off the host, as only then another may write.
   * @param attachment its id: one of {@link Volume.attachments}
   * @throws ConflictError `volume_busy` while a program uses it, `conflict` while the sandbox sleeps
   * @throws ConnectionError `timeout`; the storing goes on
   */
  async detach(volume: string, attachment: string, options: VolumeWaitOptions = {}): Promise<Attachment> {
    const path = attachmentPath(volume, attachment);
    const details = { volume, attachmentId: attachment };
    const after = await settle<Attachment>(options, {
      begin: async (extras) => parseAnswer(AttachmentSchema, await this.#post(`${path}:detach`, {}, extras)),
      again: async (_begun, extras) => parseAnswer(AttachmentSchema, await this.#get(path, extras)),
      meanwhile: "detaching",
      late: () => ({ message: `What was written to volume ${volume} is still being stored.`, details }),
    });
    if (after.state === "detached" || after.state === "detaching") return after;
    throw failed("volume_failed", `Volume ${volume} is still attached`, after.error, details);
  }

  /** How it stays with a sandbox, or stayed. @throws NotFoundError `attachment_not_found` */
  async attachment(volume: string, attachment: string, options: RequestOptions = {}): Promise<Attachment> {
    return parseAnswer(AttachmentSchema, await this.#get(attachmentPath(volume, attachment), options));
  }

  /**
   * Copy it as it is now, and wait until the copy is stored. The sandbox that has it goes on; one that is letting it go
   * is waited for, as in {@link Volumes.attach}.
   * @throws ConflictError `volume_releasing`, or `quota_exceeded`: the account has too many backups
   * @throws ServiceUnavailableError `backup_failed`; the volume is as it was
   * @throws ConnectionError `timeout`; the backup goes on, as `details.backupId`
   */
  async backup(volume: string, options: BackupOptions = {}): Promise<VolumeBackup> {
    const { name, labels, retentionDays, ...rest } = options;
    const json = { name, labels, retentionDays };
    const backup = await settle<VolumeBackup>(rest, {
      begin: async (extras) => {
        const call = { ...extras, waitForCapacity: true };
        return parseAnswer(BackupSchema, await this.#post(pathOf(volume, ":backup"), json, call));
      },
      again: ({ id }, extras) => this.getBackup(id, extras),
      meanwhile: "pending",
      late: (begun) =>
        begun === null
          ? { message: `The backup of volume ${volume} did not begin in time.` }
          : {
              message: `Backup ${begun.id} is still being stored.`,
              details: { backupId: begun.id, volumeId: begun.volumeId },
            },
    });
    const { id, state, error, volumeId } = backup;
    if (state === "ready" || state === "pending") return backup;
    const details = { backupId: id, volumeId, state };
    throw failed("backup_failed", `Backup ${id} is ${state}`, error, details, "The volume is as it was; try again.");
  }

  /** The backups that match, newest first, page by page. They outlive their volume. */
  async backups(filter: BackupFilter = {}, options: RequestOptions = {}): Promise<Page<VolumeBackup>> {
    return await this.#backups(filter, undefined, options);
  }

  /** @throws NotFoundError `backup_not_found` */
  async getBackup(id: string, options: RequestOptions = {}): Promise<VolumeBackup> {
    return parseAnswer(BackupSchema, await this.#get(backupPath(id), options));
  }

  /** Delete for good. Volumes that were made from it stay. */
  async deleteBackup(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#post(backupPath(id, ":delete"), {}, options);
  }

  /** A new volume that begins as a backup, which stays; see {@link Volumes.create}. Without a name unless given. */
  async restore(backup: string, input: RestoreInput = {}, options: VolumeWaitOptions = {}): Promise<Volume> {
    backupPath(backup);
    return await this.create({ ...input, fromBackup: backup }, options);
  }

  /** Whether there is a backup each day (on unless it is turned off), and for how many days each is kept, 1 to 365 (7). */
  async setBackupPolicy(volume: string, policy: BackupPolicy, options: RequestOptions = {}): Promise<Volume> {
    return parseAnswer(VolumeSchema, await this.#post(pathOf(volume, ":backup-policy"), policy, options));
  }

  #get(path: string, extras: CallExtras): Promise<unknown> {
    return this.#transport.json({ method: "GET", path, ...extras });
  }

  #post(path: string, json: unknown, extras: CallExtras): Promise<unknown> {
    return this.#transport.json({ method: "POST", path, json, ...extras });
  }

  async #volumes(filter: VolumeFilter, cursor: string | undefined, options: RequestOptions): Promise<Page<Volume>> {
    const answer = await this.#get("/v1/volumes", { query: { ...filter, cursor }, ...options });
    const { data, nextCursor } = parseAnswer(VolumeList, answer);
    return new Page(data, nextCursor === null ? null : () => this.#volumes(filter, nextCursor, options));
  }

  async #backups(
    filter: BackupFilter,
    cursor: string | undefined,
    options: RequestOptions,
  ): Promise<Page<VolumeBackup>> {
    const answer = await this.#get("/v1/volume-backups", { query: { ...filter, cursor }, ...options });
    const { data, nextCursor } = parseAnswer(VolumeBackupList, answer);
    return new Page(data, nextCursor === null ? null : () => this.#backups(filter, nextCursor, options));
  }
}

/** The stay of a volume with a sandbox. @throws NotFoundError `attachment_not_found` */
export function attachmentWith({ id, attachments }: Volume, sandboxId: string): Attachment {
  const held = attachments.filter((one) => one.sandboxId === sandboxId);
  // One that is being let go may still be listed next to the one that came after it.
  const found = held.find(({ state }) => state !== "detaching") ?? held[0];
  if (found !== undefined) return found;
  throw new NotFoundError({
    code: "attachment_not_found",
    status: 404,
    message: `Sandbox ${sandboxId} does not have volume ${id}.`,
    hint: hintOf("attachment_not_found"),
    details: { volumeId: id, sandboxId },
  });
}

/** A change that the server goes on with after its first answer. */
interface Step<T> {
  readonly begin: (extras: CallExtras) => Promise<T>;
  readonly again: (begun: T, extras: CallExtras) => Promise<T>;
  /** The state while it goes on. */
  readonly meanwhile: string;
  /** What the error says when the time is over; null before the first answer. */
  readonly late: (begun: T | null) => Pick<ErrorFacts, "message" | "details">;
}

async function settle<T extends { readonly state: string }>(
  { wait = true, timeoutMs, signal, idempotencyKey }: VolumeWaitOptions,
  step: Step<T>,
): Promise<T> {
  let begun: T | null = null;
  const hint = "It may go on; read it again later, or pass a larger timeoutMs.";
  const poll = new Poll({ timeoutMs, signal, late: () => ({ hint, ...step.late(begun) }) });
  const waitSeconds = wait ? SETTLE_SECONDS : undefined;
  let now: T = await poll.ask((limits) => step.begin({ ...limits, idempotencyKey, waitSeconds }));
  while (wait && now.state === step.meanwhile) {
    const before = now;
    begun = before;
    await poll.rest();
    now = await poll.ask((limits) => step.again(before, limits));
  }
  return now;
}

function failed(
  code: "volume_failed" | "backup_failed",
  what: string,
  why: string | null,
  details: Record<string, unknown>,
  hint: string = hintOf("volume_failed"),
): ServiceUnavailableError {
  const message = `${what}${why === null ? "" : `: ${why}`}.`;
  return new ServiceUnavailableError({ code, status: 502, message, hint, details });
}

function pathOf(volume: string, suffix = ""): string {
  return `/v1/volumes/${encodeURIComponent(addressable(volume, "volume"))}${suffix}`;
}

/** @throws InvalidRequestError `invalid_argument` for what is no id: it could make a path that means something else */
function attachmentPath(volume: string, id: string): string {
  if (AttachmentId.safeParse(id).success) return pathOf(volume, `/attachments/${id}`);
  throw invalidArgument(`${JSON.stringify(id)} is not an attachment id.`, "The volume lists its attachments.");
}

/** @throws InvalidRequestError `invalid_argument` for what is no id */
function backupPath(id: string, verb = ""): string {
  if (BackupId.safeParse(id).success) return `/v1/volume-backups/${id}${verb}`;
  throw invalidArgument(`${JSON.stringify(id)} is not a backup id.`, "An id is such as bak-0123456789abcdefghij.");
}
