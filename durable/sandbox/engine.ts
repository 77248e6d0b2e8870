/**
 * Makes a sandbox's life happen: commits what the table decides, drives host calls one at a time, keeps timers and the
 * account's index true. Intent is stored before a host is called and the outcome is judged by what is stored then, so
 * a crash at any point leaves a step that the alarm, or the next caller, drives again.
 */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { accountObject } from "../account/api.ts";
import { readBoard } from "../hosts/board-facade.ts";
import { placeOn } from "../hosts/placement.ts";
import type { Host } from "../../sdk/contract/host.ts";
import { HostClient, type HostAddress } from "./host-client.ts";
import { heldUntil, idleSeconds } from "./holds.ts";
import { hasStep, isLive, reduce, STEP_CHECK_MS, timersOf, type LifeEvent, type Outcome } from "./lifecycle.ts";
import { Purges } from "./purges.ts";
import { toSandbox, type SandboxRecord } from "./record.ts";
import { observed, runStep, unreachable } from "./step.ts";
import { SandboxStore } from "./store.ts";
import { Timers, type TimerKind } from "./timers.ts";

/** How long answers with an Idempotency-Key are remembered, milliseconds. */
export const ANSWERS_KEPT_MS = 86_400_000;
/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;
const INDEX_RETRY_MS = STEP_CHECK_MS;
const CONFIGURE_RETRY_MS = 2000;
/** Longest that an answer waits for the account's index, milliseconds. */
const INDEX_WAIT_MS = 1000;

/** Hosts that a new machine is offered to, one after another. */
const PLACEMENT_TRIES = 3;
const noRoom: Failure = { code: "no_capacity", message: "No host has room.", retryAfterMs: 5000 };

type Watcher = (record: SandboxRecord) => void;

export class Engine {
  readonly timers: Timers;
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #host: HostClient;
  readonly #purges: Purges;
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
    this.#purges = new Purges(ctx.storage, this.#host);
    this.#store = SandboxStore.existing(ctx.storage);
    this.timers = new Timers(ctx.storage);
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

  /** Put an event to the table and store what comes of it. Synchronous: nothing comes between reading and writing. */
  commit(id: string, event: LifeEvent): Outcome {
    const record = this.record();
    if (record?.id !== id) {
      return { ok: false, failure: { code: "sandbox_gone", message: "The sandbox was deleted." } };
    }
    const outcome = reduce(record.life, event, Date.now());
    if (!outcome.ok || !outcome.changed) return outcome;
    const given = event.type === "hostLost" ? this.#givenUp(record) : record;
    this.save({ ...given, life: outcome.life });
    if (event.type === "stop" || event.type === "delete") this.#stepAbort?.abort();
    return outcome;
  }

  /** A machine that is given up for good is removed when its host is back. */
  #givenUp(record: SandboxRecord): SandboxRecord {
    const { state, run, generation } = record.life;
    if (!record.host || !(state === "deleted" || (state === "starting" && run === "create"))) return record;
    this.#purges.add(record.id, generation, record.host, Date.now());
    this.timers.set("purges", this.#purges.dueAt());
    return state === "deleted" ? record : { ...record, host: null };
  }

  /** A host shows itself with a machine that nothing is known of: what is left of it is removed now. */
  hastenPurge(id: string): void {
    if (!this.#store || !this.#purges.hasten(id, Date.now())) return;
    this.background(this.#purge());
  }

  async #purge(): Promise<void> {
    await this.#purges.run(await readBoard(this.#env), Date.now());
    this.timers.set("purges", this.#purges.dueAt());
    this.timers.arm();
  }

  /** Store a record with its timers, and tell whoever waits and the account. */
  save(record: SandboxRecord): void {
    const store = this.openStore();
    const { step, retention, lease } = timersOf(record.life);
    store.transaction(() => {
      store.saveRecord(record);
      store.nextSequence();
      this.timers.set("step", step);
      this.timers.set("retention", retention);
      this.timers.set("lease", lease);
      this.timers.set("holds", heldUntil(record.holds, Date.now()));
      this.timers.set(
        "configure",
        record.configurePending && record.life.state === "running" ? Date.now() + CONFIGURE_RETRY_MS : null,
      );
      this.timers.atLatest("outbox", Date.now() + INDEX_RETRY_MS);
    });
    this.timers.arm();
    for (const watcher of [...this.#watchers]) watcher(record);
    // A pause or wake is over in a moment; telling of its beginning would only slow it down.
    const { state } = record.life;
    if (state !== "pausing" && state !== "resuming") this.background(this.pushIndex());
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
      // What can be taken back stays as it is until its time is over.
      if (record.life.undeleteTo !== null && (record.life.nextTryAt ?? 0) > Date.now()) return;
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
      const refusal = await this.#refusal(record);
      if (refusal) return { type: "refused", generation: record.life.generation, failure: refusal };
      if (!record.host) return await this.#place(record, abort.signal);
      // A host that was silent before may hang, and a call to it would wait in vain.
      const { stopReason, attempts } = record.life;
      const doubtful = stopReason === "host_lost" || attempts > 0;
      if (doubtful && (await this.#whereabouts(record)) === "lost") return hostLost(record);
      const event = await runStep(this.#host, record.host, record, abort.signal);
      if (event.type !== "unreachable" || abort.signal.aborted) return event;
      const now = await this.#whereabouts(record);
      if (now === "lost") return hostLost(record);
      return now ? await runStep(this.#host, now, record, abort.signal) : event;
    } finally {
      this.#stepAbort = null;
    }
  }

  /** Why the account does not allow the run that is about to begin; null when it does. */
  async #refusal(record: SandboxRecord): Promise<Failure | null> {
    const { life } = record;
    const asked = record.governed || record.maxTotalCostMicros !== null;
    if (!asked || (life.state !== "starting" && life.state !== "resuming")) return null;
    const { id, label, shape, createdBy, maxTotalCostMicros } = record;
    const isNew = life.run === "create";
    const ask = { id, label, generation: life.generation, isNew, shape, keyId: createdBy, maxTotalCostMicros };
    try {
      const answer = await accountObject(this.#env.ACCOUNT, record.account).admitRun(ask);
      return answer.ok ? null : answer.failure;
    } catch {
      return { code: "host_unavailable", message: "The account can't be asked now.", retryAfterMs: 1000 };
    }
  }

  /** Choose the host, once for the sandbox's whole life. */
  async #place(record: SandboxRecord, signal: AbortSignal): Promise<LifeEvent> {
    if (record.life.state === "deleted") return { type: "purged" };
    if (record.life.state === "stopping") return { type: "stopped", generation: record.life.generation };
    const { hosts } = await readBoard(this.#env);
    let refusal: Failure | null = null;
    for (let left = [...hosts], tries = 0; ; tries++) {
      const placement = placeOn(left, record.shape);
      if ("failure" in placement || tries >= PLACEMENT_TRIES) {
        const failure = refusal ?? ("failure" in placement ? placement.failure : noRoom);
        return { type: "runFailed", generation: record.life.generation, memory: "none", nothingMade: true, failure };
      }
      const event = await this.#tryHost(record, placement.host, signal);
      const full = event.type === "runFailed" && event.nothingMade && event.failure.code === "no_capacity";
      if (!full) return event;
      // The board was late: the host is fuller than it said. Not that one again, now.
      refusal = event.failure;
      left = left.filter(({ hostId }) => hostId !== placement.host.hostId);
    }
  }

  async #tryHost(record: SandboxRecord, chosen: Host, signal: AbortSignal): Promise<LifeEvent> {
    const current = this.record();
    // Deleted or stopped while the board was asked: then no host must learn of it.
    if (current?.id !== record.id || current.life.state !== record.life.state) {
      return unreachable(record, { code: "host_unavailable", message: "The sandbox changed." });
    }
    const host = { id: chosen.hostId, url: chosen.url, session: chosen.session };
    const placed = { ...current, host };
    // After a creation that was given up it may be the same host again.
    this.#purges.drop(placed.id, host.id);
    this.save(placed);
    return runStep(this.#host, host, placed, signal);
  }

  /** A host may come back under another address, or in another session: that, when it did. `lost` when nothing of it can run any more. */
  async #whereabouts(record: SandboxRecord): Promise<HostAddress | "lost" | null> {
    const { host } = record;
    if (!host) return null;
    const board = await readBoard(this.#env);
    if (board.isLost(host.id)) return "lost";
    const found = board.hosts.find((one) => one.hostId === host.id);
    const current = this.record();
    const isSame = found?.url === host.url && found.session === host.session;
    if (!found || isSame || current?.id !== record.id) return null;
    const moved = { id: host.id, url: found.url, session: found.session };
    this.save({ ...current, host: moved });
    return moved;
  }

  /** Why a sleeper can't be woken now: its host is lost. Nothing is changed or tried for it. */
  async outOfReach(id: string): Promise<Failure | null> {
    const record = this.record();
    if (record?.id !== id || record.life.state !== "paused" || record.life.stopReason !== "host_lost") return null;
    return (await this.#whereabouts(record)) === "lost" ? lostFailure : null;
  }

  /** Ask the host whether a sandbox that should run does, and take note. A failure says that it can't be known. */
  async verify(record: SandboxRecord): Promise<Failure | null> {
    if (!record.host) return null;
    let seen = await this.#host.get(record.host, record.id);
    if (!seen.ok && !seen.reached) {
      const now = await this.#whereabouts(record);
      if (now === "lost") {
        this.commit(record.id, hostLost(record));
        return null;
      }
      if (now) seen = await this.#host.get(now, record.id);
    }
    if (seen.ok) {
      const event = observed(record, seen.value);
      if (event.type === "unreachable") return event.failure;
      this.commit(record.id, event);
      return null;
    }
    if (seen.reached && seen.failure.code === "not_found") {
      this.commit(record.id, { type: "ended", generation: record.life.generation, reason: "host_lost" });
      return null;
    }
    return { ...seen.failure, code: "host_unavailable", retryAfterMs: seen.failure.retryAfterMs ?? 1000 };
  }

  /** Give the running machine the settings it does not have yet. */
  async configure(): Promise<void> {
    const record = this.record();
    if (!record?.configurePending || record.life.state !== "running" || !record.host) return;
    const body = {
      generation: record.life.generation,
      env: { ...record.env },
      idlePauseSeconds: idleSeconds(record, Date.now()),
    };
    const answer = await this.#host.act(record.host, record.id, "configure", body);
    const now = this.record();
    if (!answer.ok || now?.id !== record.id) return;
    // Changed again meanwhile: the newer settings are still to be told.
    if (JSON.stringify([now.env, idleSeconds(now, Date.now())]) === JSON.stringify([body.env, body.idlePauseSeconds])) {
      this.save({ ...now, configurePending: false });
    }
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
        const { governed } = await accountObject(this.#env.ACCOUNT, account).applySummary(told);
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
      case "holds":
        // The last hold is over: the host is told to watch for idleness again.
        if (record) this.save({ ...record, configurePending: record.configurePending || isLive(record.life.state) });
        return this.configure();
      case "outbox":
        return this.pushIndex();
      case "purges":
        this.timers.set("purges", Date.now() + STEP_CHECK_MS);
        return this.#purge();
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

const lostFailure: Failure = {
  code: "host_unavailable",
  message: "The sandbox's host has been silent for longer than its lease.",
  retryAfterMs: 5000,
};

function hostLost({ life: { generation } }: SandboxRecord): LifeEvent {
  return { type: "hostLost", generation, failure: lostFailure };
}

export function urlParts(env: Env): { scheme: string; domain: string } {
  return { scheme: env.ROUSE_SCHEME, domain: env.ROUSE_DOMAIN };
}
