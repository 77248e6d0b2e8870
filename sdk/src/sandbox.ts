/** One sandbox. */
import "./dispose.ts";
import { DeletedSandbox as DeletedSandboxSchema, Sandbox as SandboxSchema, defaults } from "../contract/sandbox.ts";
import type {
  CreateSandbox,
  DeletedSandbox,
  Sandbox as SandboxInfo,
  SandboxState,
  UpdateSandbox,
} from "../contract/sandbox.ts";
import { Diff as DiffSchema, History } from "../contract/snapshot.ts";
import type { Diff, DiffQuery, HistoryPoint, Snapshot } from "../contract/snapshot.ts";
import { Resume as ResumeSchema } from "../contract/boot.ts";
import type { Resume } from "../contract/boot.ts";
import { Why as WhySchema } from "../contract/timeline.ts";
import type { Why } from "../contract/timeline.ts";
import type { Attachment, VolumeMode, VolumeMount } from "../contract/volume.ts";
import { Rouse } from "./client.ts";
import type { ListFilter } from "./client.ts";
import { exec, execStream, spawn } from "./exec.ts";
import type { Command, CommandOptions, ExecOptions, ExecResult, SpawnOptions } from "./exec.ts";
import { RouseError, invalidArgument } from "./errors.ts";
import { fork } from "./forks.ts";
import { forwardPort } from "./forward.ts";
import type { Forward, ForwardOptions } from "./forward.ts";
import type { ForkOptions } from "./forks.ts";
import { transportOfSession } from "./from-session.ts";
import type { FromSession } from "./from-session.ts";
import { undelete } from "./gone.ts";
import { namedFetch } from "./named-fetch.ts";
import { urlOfPort } from "./named-url.ts";
import type { CommandEvent } from "./output.ts";
import type { Page } from "./page.ts";
import type { Process } from "./process.ts";
import { Remote, addressable, parseAnswer } from "./remote.ts";
import { Resources } from "./resources.ts";
import { capture } from "./snapshots.ts";
import type { SnapshotOptions } from "./snapshots.ts";
import type { RequestOptions, Transport } from "./transport.ts";
import { Volumes, attachmentWith } from "./volumes.ts";
import type { VolumeWaitOptions } from "./volumes.ts";
import { SETTLE_SECONDS, untilDurable, untilState } from "./waits.ts";

/** What a sandbox is created with; each field has a default. */
export type CreateInput = Omit<CreateSandbox, "getOrCreate"> & {
  /** false answers at once, while the sandbox starts. */
  wait?: boolean | undefined;
};

/** The client to use; one made from the environment unless given. */
export interface WithClient extends RequestOptions {
  client?: Rouse | undefined;
}

/** Whether to wait until a change is done (default), or only until it has begun. */
export interface SettleOptions extends RequestOptions {
  wait?: boolean | undefined;
}

export interface DeleteOptions extends RequestOptions {
  /** Seconds in which the deletion can be taken back, at most 604 800 (7 days); 0 unless given. */
  graceSeconds?: number | undefined;
}

/** Points to compare, such as `p3`. */
export type DiffOptions = RequestOptions & DiffQuery;

/**
 * A Linux machine with a name, which sleeps with its RAM and wakes on the first request.
 *
 * @example
 * const agent = await Sandbox.getOrCreate("agent-u-42", { idlePauseSeconds: 600 });
 * await agent.exec("echo '- prefers weekly summaries' >> memory.md");
 * console.log(agent.url(), agent.info.reused);
 */
export class Sandbox extends Resources {
  readonly #transport: Transport;
  readonly #remote: Remote;
  #info: SandboxInfo | null;
  /** The named URL of the default port, where it is known before the rest. */
  readonly #url: string | undefined;

  /** @internal */
  constructor(transport: Transport, info: SandboxInfo | { readonly id: string; readonly url?: string | undefined }) {
    const remote = new Remote(transport, info.id);
    super(remote);
    this.#transport = transport;
    this.#info = "kind" in info ? info : null;
    this.#url = info.url;
    this.#remote = remote;
  }

  /**
   * Make a sandbox and wait until it runs.
   * @throws ConflictError `name_taken`, `volume_attached`, or `no_capacity` and `volume_releasing` when no room or
   *   volume came free within two minutes
   * @throws InvalidRequestError `invalid_request` with every fault in `details.issues`
   * @throws ServiceUnavailableError `start_failed`
   *
   * @example
   * await using sandbox = await Sandbox.create({ labels: { user: "u-42" } });
   * const { stdout } = await sandbox.exec("uname -a");
   */
  static create(input: CreateInput = {}, { client, ...options }: WithClient = {}): Promise<Sandbox> {
    return (client ?? new Rouse()).sandboxes.create(input, options);
  }

  /**
   * The sandbox that holds a name, woken or restarted (`info.reused` is then true), or a new one. The other fields
   * count only for a new one.
   */
  static getOrCreate(
    name: string,
    input: Omit<CreateInput, "name"> = {},
    { client, ...options }: WithClient = {},
  ): Promise<Sandbox> {
    return (client ?? new Rouse()).sandboxes.getOrCreate(name, input, options);
  }

  /** A sandbox that exists, by id or name, without waking it. @throws NotFoundError `not_found` */
  static connect(idOrName: string, { client, ...options }: WithClient = {}): Promise<Sandbox> {
    return (client ?? new Rouse()).sandboxes.get(idOrName, options);
  }

  /** The sandboxes that match, oldest first. */
  static list(filter: ListFilter = {}, { client, ...options }: WithClient = {}): Promise<Page<Sandbox>> {
    return (client ?? new Rouse()).sandboxes.list(filter, options);
  }

  /**
   * The sandbox that a session token is for, as {@link Sessions.create} answered it, in a page, a Worker or any other
   * program. Makes no call: {@link Sandbox.info} is there after a {@link Sandbox.refresh}. Methods that the token's
   * scopes don't allow throw PermissionDeniedError `permission_denied`.
   *
   * @example
   * const session = await (await fetch("/my-server/session")).json();
   * const sandbox = Sandbox.fromSession(session);
   * console.log((await sandbox.exec("date")).stdout);
   */
  static fromSession(session: FromSession): Sandbox {
    return new Sandbox(transportOfSession(session), { id: addressable(session.sandboxId), url: session.url });
  }

  get id(): string {
    return this.#remote.id;
  }

  /** null for a sandbox without a name. */
  get name(): string | null {
    return this.info.name;
  }

  /** Everything the last answer said; see {@link Sandbox.refresh}. */
  get info(): SandboxInfo {
    if (this.#info === null)
      throw invalidArgument("Nothing was read of this sandbox yet.", "Call refresh() on it first.");
    return this.#info;
  }

  /** As of the last answer. */
  get state(): SandboxState {
    return this.info.state;
  }

  /** Its volumes, as of the last answer. */
  get volumes(): readonly VolumeMount[] {
    return this.info.volumes ?? [];
  }

  /** The named URL of a port, 8080 unless given. Opening it wakes the sandbox; it needs an API key or a preview's token. */
  url(port: number = defaults.port): string {
    return urlOfPort(this.#info?.url ?? this.#url ?? this.info.url, port);
  }

  /**
   * Request the program that listens on a port (8080 unless given), with the API key, waking the sandbox. Takes and
   * answers what `fetch` does, and works without wildcard DNS. Redirects are followed inside the sandbox; one that
   * leads elsewhere is followed without key, cookie and authorization. A caller's own `authorization` is replaced by
   * the key.
   *
   * @example
   * const answer = await sandbox.fetch("/notes", { method: "POST", body: "buy milk" });
   */
  async fetch(path: string, init: RequestInit = {}, port: number = defaults.port): Promise<Response> {
    if (this.#info === null && this.#url === undefined) await this.refresh();
    return await namedFetch(this.#transport, { url: this.url(), port }, path, init);
  }

  /**
   * Run a command to its end, waking the sandbox. Text is run by `bash -c`, a list as it is. A non-zero exit code and a
   * timeout are results, unless `check`.
   * @throws CommandError with `check`
   *
   * @example
   * const { exitCode, stdout } = await sandbox.exec("npm test", { cwd: "app", timeoutMs: 300_000 });
   */
  exec(command: Command, options: ExecOptions = {}): Promise<ExecResult> {
    return exec(this.#remote, command, options);
  }

  /**
   * Run a command and iterate over what it writes, ending with an `exit` event. A cut connection is bridged without
   * loss or repetition. Leaving the loop early leaves the command running; aborting `signal` ends it by SIGTERM.
   */
  execStream(command: Command, options: CommandOptions = {}): AsyncGenerator<CommandEvent, void, undefined> {
    return execStream(this.#remote, command, options);
  }

  /**
   * Open a TCP port of the sandbox on this machine, in Node, Deno and Bun. Connections wake the sandbox and keep it awake
   * while they are open, and end when it sleeps all the same; an open port without any does neither.
   * @throws InvalidRequestError `invalid_argument` where the local port is taken, or the runtime has none
   *
   * @example
   * await using database = await sandbox.forward(5432, { localPort: 0 });
   * console.log(`psql -h ${database.address} -p ${database.localPort}`);
   */
  forward(port: number, options: ForwardOptions = {}): Promise<Forward> {
    return forwardPort(this.#remote, port, options);
  }

  /** Start a process that goes on in the background, also over pause and wake. @throws ConflictError `process_limit` */
  spawn(command: Command, options: SpawnOptions = {}): Promise<Process> {
    return spawn(this.#remote, command, options);
  }

  /** Read the sandbox again; this does not wake it. */
  async refresh(options: RequestOptions = {}): Promise<this> {
    return this.#take(await this.#remote.get("", options));
  }

  /**
   * Wait until a state is reached.
   * @param options `timeoutSeconds`: longest wait, 60 unless given.
   * @throws ConnectionError `timeout` when it takes longer
   * @throws ConflictError `conflict` when the sandbox stopped or was deleted instead
   */
  async waitFor(
    state: "running" | "paused" | "stopped",
    options: { timeoutSeconds?: number | undefined; signal?: AbortSignal | undefined } = {},
  ): Promise<this> {
    await untilState(state, options, async (extras) => this.#take(await this.#remote.get("", extras)).info);
    return this;
  }

  /**
   * Wait until what it sleeps with is stored off its host (`info.durability`), so that it can wake elsewhere.
   * @param options `timeoutMs`: longest wait, milliseconds; 10 minutes unless given, 0 for no limit.
   * @throws ConnectionError `timeout` when it takes longer
   * @throws ConflictError `conflict` while it does not sleep: what runs changes all the time
   *
   * @example
   * await sandbox.pause();
   * await sandbox.waitUntilDurable();
   */
  async waitUntilDurable(
    options: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined } = {},
  ): Promise<this> {
    await untilDurable(this, options);
    return this;
  }

  /** Put to sleep with its RAM. @throws ServiceUnavailableError `pause_failed`; the sandbox then runs on */
  pause(options: SettleOptions = {}): Promise<this> {
    return this.#settle(":pause", "paused", options);
  }

  /** Wake; a sandbox that is awake already is left as it is. @throws ServiceUnavailableError `wake_failed` */
  async wake(options: SettleOptions = {}): Promise<this> {
    try {
      return await this.#settle(":wake", "running", options);
    } catch (error) {
      if (!(error instanceof RouseError) || error.code !== "not_paused") throw error;
      await this.refresh({ signal: options.signal });
      if (this.state === "running") return this;
      if (this.state === "starting" || this.state === "resuming")
        return await this.waitFor("running", { signal: options.signal });
      throw error;
    }
  }

  /** End the machine; its disk is kept, its RAM is not. */
  stop(options: SettleOptions = {}): Promise<this> {
    return this.#settle(":stop", "stopped", options);
  }

  /** Boot from disk. */
  restart(options: SettleOptions = {}): Promise<this> {
    return this.#settle(":restart", "running", options);
  }

  /**
   * Run again whatever it takes: from RAM where there is some, else from disk (`info.memoryRestored` says which). One
   * that runs is left as it is.
   * @throws ServiceUnavailableError `wake_failed` or `start_failed`
   */
  recover(options: SettleOptions = {}): Promise<this> {
    return this.#settle(":recover", "running", options);
  }

  /**
   * Delete with everything in it, from any state. Works again on a deleted one. With `graceSeconds` one that runs is
   * first put to sleep; {@link Sandbox.undelete} takes it back within that time. One that can't be put to sleep is
   * deleted for good. Deleting again without `graceSeconds` ends the time.
   */
  async delete({ graceSeconds, ...options }: DeleteOptions = {}): Promise<DeletedSandbox> {
    const extras = { query: { graceSeconds }, ...options };
    const deleted = parseAnswer(DeletedSandboxSchema, await this.#remote.delete("", extras));
    if (this.#info !== null)
      this.#info = { ...this.#info, state: "deleted", status: "deleted", endedAt: deleted.endedAt };
    return deleted;
  }

  /**
   * Take back a deletion within its grace time: it sleeps again, or is stopped. One that is not deleted is left as it is.
   * @throws RouseError `sandbox_gone` (410) when it is deleted for good
   */
  async undelete(options: RequestOptions = {}): Promise<this> {
    return this.#take(await undelete(this.#remote, options));
  }

  /** Change settings. An `env` value of null removes the variable; new values reach processes started from then on. */
  async update(settings: UpdateSandbox, options: RequestOptions = {}): Promise<this> {
    return this.#take(await this.#remote.post(":update", settings, options));
  }

  /**
   * Move the end of the time limit (`info.endsAt`) to so many seconds from now, at most a day. An end that is later
   * already stays; without a time limit nothing changes.
   */
  async extend(seconds: number, options: RequestOptions = {}): Promise<this> {
    return this.#take(await this.#remote.post(":extend", { seconds }, options));
  }

  /**
   * Keep it awake for so many seconds from now, at most a day, however idle it is; `info.holds` shows what holds. The
   * same name again moves the end. A hold neither wakes nor outlasts a pause that somebody asks for.
   */
  async hold(name: string, seconds: number, options: RequestOptions = {}): Promise<this> {
    return this.#take(await this.#remote.post(":hold", { name, seconds }, options));
  }

  /** Let go of a hold. */
  async release(name: string, options: RequestOptions = {}): Promise<this> {
    return this.#take(await this.#remote.post(":release", { name }, options));
  }

  /** Keep the paused state for so many days, 1 to 365; null goes back to the default of 30. */
  async setRetention(days: number | null, options: RequestOptions = {}): Promise<this> {
    return this.#take(await this.#remote.post(":retention", { days }, options));
  }

  /**
   * Take a snapshot and wait until it is ready; see {@link Snapshots.create}. One that runs stands still for a moment
   * and goes on; one that sleeps sleeps on.
   *
   * @example
   * const { id } = await sandbox.snapshot({ name: "before the upgrade" });
   * const copy = await Sandbox.create({ snapshot: id });
   */
  snapshot(options: SnapshotOptions = {}): Promise<Snapshot> {
    return capture(this.#remote, options);
  }

  /**
   * Copy it with its RAM and processes, and wait until the copies run. Each has an identity of its own; the source
   * goes on.
   * @param options `count`: 1 to 16, which answers a list; one sandbox without it. `name`: of the copy, with a count
   *   above 1 `name-1`, `name-2`, ...; none unless given. `labels`: those of the source unless given. `keepSnapshot`:
   *   keep the snapshot they start from.
   * @throws ConflictError `name_taken`, `quota_exceeded`, or `no_capacity`: no host has room now
   * @throws ServiceUnavailableError `snapshot_failed`, or `start_failed` of a copy; the other copies are there
   *
   * @example
   * const attempts = await sandbox.fork({ count: 4, name: "attempt" });
   */
  fork(options?: ForkOptions & { count?: undefined }): Promise<Sandbox>;
  fork(options: ForkOptions & { count: number }): Promise<Sandbox[]>;
  fork(options: ForkOptions): Promise<Sandbox | Sandbox[]>;
  fork(options: ForkOptions = {}): Promise<Sandbox | Sandbox[]> {
    return fork(this.#remote, options, (info) => new Sandbox(this.#transport, info));
  }

  /**
   * What keeps it awake, who had it wake, and when it slept. Never wakes it.
   *
   * @example
   * const { awake, lastRun } = await sandbox.why();
   */
  async why(options: RequestOptions = {}): Promise<Why> {
    return parseAnswer(WhySchema, await this.#remote.get(":why", options));
  }

  /**
   * How its newest run began, what came of the commands and services that it starts with, and whether there is something
   * to go on with: a checkpoint, or tasks. Never wakes it.
   *
   * @example
   * const { memoryRestored, checkpoint, unfinished } = await sandbox.resume();
   */
  async resume(options: RequestOptions = {}): Promise<Resume> {
    return parseAnswer(ResumeSchema, await this.#remote.get(":resume", options));
  }

  /**
   * The states that it slept with and that are still stored, newest first: the last one, and `keepPauses` before it.
   */
  async history(options: RequestOptions = {}): Promise<HistoryPoint[]> {
    return parseAnswer(History, await this.#remote.get("/history", options)).data;
  }

  /**
   * Files that differ between two points of its {@link Sandbox.history}, sorted by path: at most 10,000, then it is
   * `truncated`. The sandbox is left alone: it runs or sleeps on. Volumes are not compared, nor is `/tmp`.
   * @param options `to`: the newest point that is stored unless given. `from`: the one before `to` unless given.
   *   `path`: only what is in that folder; the whole disk takes much longer.
   * @throws NotFoundError `point_not_found`
   * @throws ConflictError `no_capacity`: no host has room now; `incompatible_host`
   *
   * @example
   * const { data } = await sandbox.diff({ from: "p3" });
   */
  async diff({ from, to, path, ...options }: DiffOptions = {}): Promise<Diff> {
    return parseAnswer(DiffSchema, await this.#remote.get("/diff", { query: { from, to, path }, ...options }));
  }

  /**
   * Make it what it was at a point of its {@link Sandbox.history}, under the same name and id. What it is now is a
   * point itself, if it has been stored.
   * @throws NotFoundError `point_not_found`
   *
   * @example
   * const [, before] = await sandbox.history();
   * if (before !== undefined) await sandbox.rollback(before.point);
   */
  async rollback(point: string, options: RequestOptions = {}): Promise<this> {
    return this.#take(await this.#remote.post(":rollback", { point }, { ...options, waitSeconds: SETTLE_SECONDS }));
  }

  /**
   * Plug in a volume at an absolute path, and wait until it is there; see {@link Volumes.attach}.
   * @param volume a volume, or its id or name
   * @param options `mode`: `rw` unless given; `snapshot` is read-only, and any number of sandboxes may have it.
   *
   * @example
   * await sandbox.attachVolume("data", "/data");
   */
  async attachVolume(
    volume: string | { readonly id: string },
    path: string,
    { mode, ...options }: VolumeWaitOptions & { mode?: VolumeMode | undefined } = {},
  ): Promise<Attachment> {
    const input = { sandbox: this.id, path, mode };
    const attachment = await new Volumes(this.#transport).attach(idOf(volume), input, options);
    await this.refresh({ signal: options.signal });
    return attachment;
  }

  /**
   * Unplug a volume, and wait until what was written to it is stored off the host; see {@link Volumes.detach}.
   * @param volume a volume, or its id or name
   * @throws NotFoundError `attachment_not_found` when the sandbox does not have it
   */
  async detachVolume(volume: string | { readonly id: string }, options: VolumeWaitOptions = {}): Promise<Attachment> {
    const volumes = new Volumes(this.#transport);
    const found = await volumes.get(idOf(volume), { signal: options.signal });
    const attachment = await volumes.detach(found.id, attachmentWith(found, this.id).id, options);
    await this.refresh({ signal: options.signal });
    return attachment;
  }

  /** Stops the sandbox at the end of `await using`; its disk is kept. Failures are ignored. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop({ wait: false }).catch(() => undefined);
  }

  async #settle(
    verb: string,
    goal: "running" | "paused" | "stopped",
    { wait = true, ...options }: SettleOptions,
  ): Promise<this> {
    this.#take(await this.#remote.post(verb, {}, { ...options, waitSeconds: wait ? SETTLE_SECONDS : undefined }));
    return wait && this.state !== goal ? await this.waitFor(goal, { signal: options.signal }) : this;
  }

  #take(answer: unknown): this {
    const info = parseAnswer(SandboxSchema, answer);
    // Only the creation's answer says it, and it stays true of this handle.
    this.#info = this.#info?.reused === undefined ? info : { ...info, reused: this.#info.reused };
    return this;
  }
}

function idOf(volume: string | { readonly id: string }): string {
  return typeof volume === "string" ? volume : volume.id;
}
