/**
 * Makes a sandbox's life happen: commits what the table decides, drives host calls one at a time, keeps timers and the
 * account's index true. Intent is stored before a host is called and the outcome is judged by what is stored then, so
 * a crash at any point leaves a step that the alarm, or the next caller, drives again.
 */
import type { Cause } from "../../sdk/contract/timeline.ts";
import { accountObject } from "../account/api.ts";
import { outboxObject } from "../outbox/api.ts";
import type { Draft } from "../events/draft.ts";
import { EventLog } from "../events/log.ts";
import { isSettled, type Dropped } from "./archive.ts";
import { Archiving } from "./archiving.ts";
import { BootLog } from "./boot.ts";
import { Copies } from "./copies.ts";
import { Differences } from "./differences.ts";
import { Volumes } from "./volumes.ts";
import { Errands, type Detach, type Errand } from "./errands.ts";
import { EgressLog } from "./egress-log.ts";
import { aboutOf, eventsOf } from "./events.ts";
import { HostClient, type HostAddress } from "./host-client.ts";
import { Hosting } from "./hosting.ts";
import { heldUntil, idleSeconds } from "./holds.ts";
import type { LifeEvent } from "./life.ts";
import { hasStep, isLive, isTransitional, reduce, STEP_CHECK_MS, timersOf, type Outcome } from "./lifecycle.ts";
import { bootTold } from "./mcp-settings.ts";
import { concernsSockets, identityOf, isGoneForGood, timerDueAt, toSandbox, type SandboxRecord } from "./record.ts";
import { Outside } from "./outside.ts";
import { unreachable } from "./step.ts";
import { SandboxStore } from "./store.ts";
import { Timeline } from "./timeline.ts";
import { wakeByTimer } from "./timer-wake.ts";
import { Timers, type TimerKind } from "./timers.ts";

/** How long answers with an Idempotency-Key are remembered, milliseconds. */
export const ANSWERS_KEPT_MS = 86_400_000;
/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;
const INDEX_RETRY_MS = STEP_CHECK_MS;
/** Events that were not handed on with the change are, after this, milliseconds. */
const EVENTS_RETRY_MS = 5000;
const CONFIGURE_RETRY_MS = 2000;
/** How long a change waits for the step under way, milliseconds. */
const REST_WAIT_MS = 60_000;
/** Longest that an answer waits for the account's index, milliseconds. */
const INDEX_WAIT_MS = 1000;

type Watcher = (record: SandboxRecord) => void;

export class Engine {
  readonly timers: Timers;
  readonly timeline: Timeline;
  readonly events: EventLog;
  readonly archiving: Archiving;
  readonly hosting: Hosting;
  readonly copies: Copies;
  readonly differences: Differences;
  readonly volumes: Volumes;
  readonly outside: Outside;
  readonly boots: BootLog;
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #host: HostClient;
  readonly #errands: Errands;
  readonly #watchers = new Set<Watcher>();
  #store: SandboxStore | null;
  #driving: Promise<void> | null = null;
  #pushing: Promise<void> | null = null;
  #stepAbort: AbortController | null = null;
  /** Tries that found no host; whoever waits learns of a new one. */
  #failedTries = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    this.#ctx = ctx;
    this.#env = env;
    this.#host = new HostClient(env.ROUSE_HOST_SECRET);
    this.#errands = new Errands(ctx.storage, env, this.#host);
    this.archiving = new Archiving(this, env);
    this.hosting = new Hosting(this, env, this.#host);
    this.copies = new Copies(this, env, this.#host);
    this.differences = new Differences(this.archiving, env, this.#host, () => this.record());
    this.volumes = new Volumes(this, env, this.#host);
    this.outside = new Outside(this, env, new EgressLog(ctx.storage));
    this.boots = new BootLog(ctx.storage);
    this.#store = SandboxStore.existing(ctx.storage);
    this.timers = new Timers(ctx.storage);
    this.timeline = new Timeline(ctx.storage);
    this.events = new EventLog(ctx.storage.sql, (events) =>
      outboxObject(env.OUTBOX, this.identity().account).take(events),
    );
  }

  /** What the object's name says of the sandbox. */
  identity(): { account: string; label: string } {
    return identityOf(this.#ctx.id.name);
  }

  /** null where nothing was ever created. */
  get store(): SandboxStore | null {
    return this.#store;
  }

  openStore(): SandboxStore {
    this.#store ??= SandboxStore.create(this.#ctx.storage);
    return this.#store;
  }

  record(): SandboxRecord | null {
    return this.#store?.record() ?? null;
  }

  get failedTries(): number {
    return this.#failedTries;
  }

  /**
   * Put an event to the table and store what comes of it. Synchronous: nothing comes between reading and writing.
   * @param cause who had it happen; null for nobody from outside
   */
  commit(id: string, event: LifeEvent, cause: Cause | null = null): Outcome {
    const record = this.record();
    if (record?.id !== id) {
      return { ok: false, failure: { code: "sandbox_gone", message: "The sandbox was deleted." } };
    }
    const outcome = reduce(record.life, event, Date.now());
    if (!outcome.ok || !outcome.changed) return outcome;
    const given =
      event.type === "hostLost" ? this.#givenUp(record) : event.type === "ran" ? this.#arrived(record) : record;
    const after = { ...given, life: outcome.life };
    this.openStore().transaction(() => {
      this.timeline.note(record.life, outcome.life, event, cause, Date.now());
      const run = event.type === "ran" ? this.timeline.runOf(after.life.generation) : null;
      this.save(after, [], [], eventsOf(record, after, event, run));
    });
    if (event.type === "stop" || event.type === "delete") this.#stepAbort?.abort();
    return outcome;
  }

  /** A machine that is given up for good is removed when its host is back. */
  #givenUp(record: SandboxRecord): SandboxRecord {
    const { state, run } = record.life;
    if (!record.host || !(state === "deleted" || (state === "starting" && run === "create"))) return record;
    this.leaveBehind(record, record.host);
    return state === "deleted" ? record : { ...record, host: null };
  }

  /** A move is done: the copy at the host that the sandbox was on goes. */
  #arrived(record: SandboxRecord): SandboxRecord {
    if (record.origin && record.origin.id !== record.host?.id) this.leaveBehind(record, record.origin);
    // What changed while the run began is told to the host after this.
    const egressEnforced = record.configurePending ? record.egressEnforced : record.egressVersion;
    return { ...record, origin: null, fromStore: false, capture: null, egressEnforced };
  }

  /** What a host has of the sandbox is removed, when it can be. */
  leaveBehind({ id, life: { generation } }: SandboxRecord, host: HostAddress): void {
    const now = Date.now();
    this.#errands.add({ kind: "purge", id, generation, host, since: now }, now);
    this.timers.set("errands", this.#errands.dueAt());
  }

  /** The sandbox lives on that host after all. */
  arriveAt(id: string, hostId: string): void {
    this.#errands.dropPurge(id, hostId);
  }

  /** Another is to know of it; it is told from here on. */
  errand(errand: Errand): void {
    this.#errands.add(errand, Date.now());
    this.timers.set("errands", this.#errands.dueAt());
    this.timers.arm();
  }

  /** Hand events on to the account's outbox, if anybody listens there. */
  async handOn(): Promise<void> {
    await this.events.handOn();
    this.timers.set("events", this.events.dueAt());
    this.timers.arm();
  }

  /** Other people may come in now: sockets that are held of those who may not end before this resolves, if it can be. */
  async tellSockets(): Promise<void> {
    const record = this.record();
    if (!record?.holdsSockets) return;
    this.#errands.add({ kind: "sockets", sandboxId: record.id }, Date.now());
    await this.runErrands("sockets");
  }

  /** Tell others what they are to know, of one kind unless that is null. */
  async runErrands(kind: Errand["kind"] | null): Promise<void> {
    await this.#errands.run(this.identity().account, kind, Date.now());
    this.timers.set("errands", this.#errands.dueAt());
    this.timers.arm();
  }

  /** A manifest that may have been given up is needed again. */
  stillNeeds(vault: string, manifest: string): void {
    const record = this.record();
    if (record) this.#errands.dropRelease(vault, record.id, manifest);
  }

  /** A host shows itself with a machine that nothing is known of: what is left of it is removed now. */
  hastenPurge(id: string): void {
    if (!this.#store || !this.#errands.hastenPurge(id, Date.now())) return;
    this.background(this.runErrands("purge"));
  }

  /**
   * Store a record with its timers, and tell whoever waits and the account.
   * @param dropped manifests that the sandbox needs no more
   * @param detached volumes that it has let go of
   * @param events what the change is to the outside
   */
  save(
    given: SandboxRecord,
    dropped: readonly Dropped[] = [],
    detached: readonly Detach[] = [],
    events: readonly Draft[] = [],
  ): void {
    const store = this.openStore();
    const { step, retention, lease } = timersOf(given.life);
    const record = this.#shredded(given);
    const released = record.archive ? dropped : everythingOf(given);
    const { id, life } = given;
    const settled = isSettled(given);
    const letGo = given.volumes.filter((one) => !record.volumes.includes(one));
    const { generation } = life;
    const isGone = isGoneForGood(record) && !isGoneForGood(this.record());
    const tellsSockets = concernsSockets(this.record(), given);
    const errands: readonly Errand[] = [
      ...released.map(({ vault, manifest }) => ({ kind: "release", vault, owner: id, manifest }) as const),
      ...letGo.map(({ attachment }) => ({ kind: "detach", attachment, sandboxId: id, generation, settled }) as const),
      ...detached,
      ...(isGone
        ? (["inbox", "schedules", "homes", "memory", "checkpoints", "drills", "domains", "secrets"] as const).map(
            (kind) => ({
              kind,
              sandboxId: id,
            }),
          )
        : []),
      ...(tellsSockets ? [{ kind: "sockets", sandboxId: id } as const] : []),
    ];
    store.transaction(() => {
      for (const errand of errands) this.#errands.add(errand, Date.now());
      if (errands.length > 0) this.timers.set("errands", this.#errands.dueAt());
      store.saveRecord(record);
      store.nextSequence();
      if (events.length > 0) this.#note(record, events);
      this.timers.set("step", step);
      this.timers.set("retention", retention);
      this.timers.set("lease", lease);
      this.timers.set("timer", timerDueAt(record));
      this.timers.set("holds", heldUntil(record.holds, Date.now()));
      this.timers.set(
        "configure",
        record.configurePending && record.life.state === "running" ? Date.now() + CONFIGURE_RETRY_MS : null,
      );
      this.timers.atLatest("outbox", Date.now() + INDEX_RETRY_MS);
    });
    this.timers.arm();
    for (const watcher of [...this.#watchers]) watcher(record);
    if (tellsSockets) this.background(this.runErrands("sockets"));
    // A pause or wake is over in a moment; telling of its beginning would only slow it down.
    const { state } = record.life;
    if (state !== "pausing" && state !== "resuming") this.background(this.pushIndex());
    if (events.length > 0 && this.events.dueAt() !== null) this.background(this.handOn());
  }

  #note(record: SandboxRecord, events: readonly Draft[]): void {
    const now = Date.now();
    this.events.append(aboutOf(record), events, now);
    const due = this.events.dueAt();
    if (due !== null) this.timers.atLatest("events", now + EVENTS_RETRY_MS);
  }

  /** With the root of its keys, what is stored of a deleted sandbox is gone for good. */
  #shredded(record: SandboxRecord): SandboxRecord {
    return isGoneForGood(record) ? { ...record, archive: null, volumes: [] } : record;
  }

  background(work: Promise<unknown>): void {
    this.#ctx.waitUntil(
      work.catch((fault: unknown) => console.error(JSON.stringify({ level: "error", fault: String(fault) }))),
    );
  }

  /** The record as soon as `done` holds for it, or when the time is up. */
  until(done: (record: SandboxRecord) => boolean, waitMs: number): Promise<SandboxRecord | null> {
    const record = this.record();
    if (!record || done(record) || waitMs <= 0) return Promise.resolve(record);
    return new Promise((resolve) => {
      const finish = (last: SandboxRecord | null) => {
        clearTimeout(timer);
        this.#watchers.delete(watcher);
        resolve(last);
      };
      const watcher = (changed: SandboxRecord) => {
        if (done(changed)) finish(changed);
      };
      const timer = setTimeout(() => finish(this.record()), waitMs);
      this.#watchers.add(watcher);
    });
  }

  /** The record once no step is under way; null when another sandbox has the name by then. */
  async atRest({ id }: SandboxRecord): Promise<SandboxRecord | null> {
    this.background(this.drive());
    const record = await this.until((now) => now.id !== id || !isTransitional(now.life.state), REST_WAIT_MS);
    return record?.id === id ? record : null;
  }

  /** Make host calls until no step is due or no host answers. Concurrent callers share one run. */
  drive(): Promise<void> {
    this.#driving ??= this.#drive().finally(() => {
      this.#driving = null;
    });
    return this.#driving;
  }

  async #drive(): Promise<void> {
    for (;;) {
      const record = this.record();
      if (!record) return;
      if (!hasStep(record.life)) {
        if (record.configurePending && record.life.state === "running") await this.configure();
        return;
      }
      // What can be taken back stays as it is until its time is over; then it is gone for good, stored states too.
      if (record.life.undeleteTo !== null) {
        if ((record.life.nextTryAt ?? 0) > Date.now()) return;
        this.commit(record.id, { type: "delete" });
        continue;
      }
      const event = await this.#step(record);
      if (event.type === "unreachable") this.#failedTries++;
      const outcome = this.commit(record.id, event);
      const after = this.record();
      const moved =
        after?.life.state !== record.life.state ||
        after.life.generation !== record.life.generation ||
        !hasStep(after.life);
      if (moved || event.type === "pauseRefused") continue;
      if (event.type !== "unreachable" && outcome.ok && !outcome.changed) {
        this.#failedTries++;
        const message = `The host reports ${event.type} of a sandbox that is ${record.life.state}.`;
        this.commit(record.id, unreachable(record, { code: "host_unavailable", message }));
      }
      return;
    }
  }

  async #step(record: SandboxRecord): Promise<LifeEvent> {
    const abort = new AbortController();
    this.#stepAbort = abort;
    try {
      return await this.hosting.step(record, abort.signal);
    } finally {
      this.#stepAbort = null;
    }
  }

  /** Give the running machine the settings it does not have yet. */
  async configure(): Promise<void> {
    const record = this.record();
    if (!record?.configurePending || record.life.state !== "running" || !record.host) return;
    const idlePauseSeconds = idleSeconds(record, Date.now());
    // Where secrets can't be asked, it is tried again.
    const outside = await this.outside.of(record).catch(() => null);
    if (!outside) return;
    const boot = bootTold(record);
    const body = { generation: record.life.generation, ...outside, idlePauseSeconds, ...(boot ? { boot } : {}) };
    const answer = await this.#host.act(record.host, record.id, "configure", body);
    const now = this.record();
    if (!answer.ok || now?.id !== record.id) return;
    // Changed again meanwhile: the newer settings are still to be told.
    const settings = [now.env, idleSeconds(now, Date.now()), now.egressVersion, bootTold(now)];
    const said = [record.env, idlePauseSeconds, record.egressVersion, boot];
    const isTold = JSON.stringify(settings) === JSON.stringify(said);
    this.save({ ...now, configurePending: !isTold, egressEnforced: record.egressVersion });
  }

  /** Tell the account's index what is new, until it has taken note. */
  pushIndex(): Promise<void> {
    this.#pushing ??= this.#pushIndex().finally(() => {
      this.#pushing = null;
    });
    return this.#pushing;
  }

  /** Before an answer: a list that is read after it shows the change. */
  async indexed(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, INDEX_WAIT_MS);
    await Promise.race([this.pushIndex(), late.promise]);
    clearTimeout(timer);
  }

  async #pushIndex(): Promise<void> {
    for (;;) {
      const record = this.record();
      const { sequence, acknowledged } = this.#store?.outbox() ?? { sequence: 0, acknowledged: 0 };
      if (!record || sequence === acknowledged) {
        this.timers.set("outbox", null);
        this.timers.arm();
        return;
      }
      const deleted = record.life.state === "deleted";
      const sandbox = deleted ? null : toSandbox(record, urlParts(this.#env));
      try {
        const { account, label, host } = record;
        const told = { label, sequence, sandbox, hostId: host?.id ?? null, createdBy: record.createdBy };
        const { governed, listensSince } = await accountObject(this.#env.ACCOUNT, account).applySummary(told);
        this.events.listen(listensSince);
        if (this.events.dueAt() !== null) this.background(this.handOn());
        const current = this.record();
        if (current?.id === record.id && current.governed !== governed)
          this.#store?.saveRecord({ ...current, governed });
      } catch {
        this.timers.set("outbox", Date.now() + INDEX_RETRY_MS);
        this.timers.arm();
        return;
      }
      this.#store?.acknowledge(sequence);
    }
  }

  async alarm(): Promise<void> {
    if (!this.#store) return;
    await this.timers.fired(Date.now() + SAFETY_MS);
    for (const kind of this.timers.due(Date.now())) {
      try {
        await this.#run(kind);
      } catch (fault) {
        console.error(JSON.stringify({ level: "error", timer: kind, fault: String(fault) }));
        this.timers.set(kind, Date.now() + SAFETY_MS);
      }
    }
    this.timers.rearm();
  }

  async #run(kind: TimerKind): Promise<void> {
    const record = this.record();
    switch (kind) {
      case "step":
        if (this.#driving) this.timers.set("step", Date.now() + STEP_CHECK_MS);
        else await this.drive();
        return;
      case "retention":
        if (record && this.commit(record.id, { type: "expire" }).ok) await this.drive();
        return;
      case "lease":
        if (record && this.commit(record.id, { type: "leaseEnd" }).ok) await this.drive();
        return;
      case "timer":
        return wakeByTimer(this);
      case "holds":
        // The last hold is over: the host is told to watch for idleness again.
        if (record) this.save({ ...record, configurePending: record.configurePending || isLive(record.life.state) });
        return this.configure();
      case "outbox":
        return this.pushIndex();
      case "errands":
        this.timers.set("errands", Date.now() + STEP_CHECK_MS);
        return this.runErrands(null);
      case "events":
        this.timers.set("events", Date.now() + EVENTS_RETRY_MS);
        return this.handOn();
      case "configure":
        this.timers.set("configure", Date.now() + CONFIGURE_RETRY_MS);
        if (record?.configurePending && record.life.state === "running") await this.configure();
        else this.timers.set("configure", null);
        return;
      case "answers": {
        const oldest = this.#store?.forgetAnswers(Date.now() - ANSWERS_KEPT_MS) ?? null;
        this.timers.set("answers", oldest === null ? null : oldest + ANSWERS_KEPT_MS);
      }
    }
  }
}

/** Everything that is stored for a sandbox. */
function everythingOf({ archive, volumes }: SandboxRecord): { vault: string; manifest: null }[] {
  if (!archive) return [];
  const vaults = archive.points.flatMap((point) => point.volumes ?? []).map(({ vault }) => vault);
  const all = new Set([archive.vault, ...vaults, ...volumes.map(({ vault }) => vault)]);
  return [...all].map((vault) => ({ vault, manifest: null }));
}

export function urlParts(env: Env): { scheme: string; domain: string } {
  return { scheme: env.ROUSE_SCHEME, domain: env.ROUSE_DOMAIN };
}
