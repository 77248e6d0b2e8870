/**
 * What a machine does at its start, seen from the host: its guest agent is told, requests to ports wait for it, and the
 * edge hears what came of it. The guest begins nothing twice for a generation, so whatever is not known to have arrived
 * is told again. Commands and services may hold secrets, so the journal has only that there are some.
 */
import type { Frozen, GuestBoot, MachineBoot, TellKind, TellServices } from "../../sdk/contract/boot.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import type { CreateMachine, MachineEvent } from "../../sdk/contract/host.ts";
import type { JournalRow } from "../store/journal.ts";
import { AgentRefusal, agentBoot, freezeServices, tellServices, thawServices } from "./agent-client.ts";
import { gateOf } from "./boot-gate.ts";
import type { Driver, Endpoint, Woken } from "./driver.ts";
import type { Held } from "./held.ts";

/** How long the beginning of a run waits until its guest agent was told, milliseconds. */
const TELL_LIMIT_MS = 30_000;
const RETRY_MS = 500;
const CHANGE_LIMIT_MS = 10_000;
/** One look of requests that wait, milliseconds. */
const LOOK_MS = 20_000;
/** Tries of a look that gets no answer. */
const LOOK_TRIES = 5;
/** The word of a change waits for so long in an idle guest, milliseconds. */
const WATCH_MS = 600_000;
/** Between two words to the edge: short at first, longer while they keep coming, milliseconds. */
const GAP_MS = 300;
const GAP_MAX_MS = 10_000;
const FREEZE_MAX_SECONDS = 30;
const FREEZE_SECONDS = 10;

type BootEvent = Extract<MachineEvent, { type: "boot" }>;

/** What a host agent holds of a machine's start, beside its journal row. */
export interface HeldBoot {
  /** Stands for the run that was told. */
  readonly run: Woken;
  /** null: an earlier host agent told it, and only its guest knows. */
  spec: MachineBoot | null;
  /** Resolves once the guest agent was told. */
  told: Promise<void>;
  /** Requests need not wait any more. */
  isOpen: boolean;
  /** Of this run: aborted when it is over. */
  over: AbortController;
  isWatched: boolean;
  latest: GuestBoot | null;
  look: Promise<GuestBoot> | null;
  probe: Promise<GuestBoot> | null;
  /** What the edge was not told yet. */
  event: BootEvent | null;
  /** What was said last, to say nothing twice. */
  said: string;
}

export interface BootsOptions {
  readonly driver: Driver;
  readonly commit: (held: Held, change: Partial<JournalRow>) => void;
  /** There is something to tell the edge. */
  readonly news: () => void;
}

/** How a machine that is made begins. */
export function kindOfCreation({ saved, capture, diskOnly }: CreateMachine): TellKind {
  return (saved || capture) && !diskOnly ? "wake" : "boot";
}

export class Boots {
  readonly #options: BootsOptions;

  constructor(options: BootsOptions) {
    this.#options = options;
  }

  /**
   * A run begins. Of one from RAM nobody waits until its guest agent was told.
   * @throws RouseFailure `guest_failed` when that can't be told what to do at a boot
   */
  async begin(held: Held, boot: MachineBoot | undefined, kind: TellKind): Promise<void> {
    await this.over(held);
    if (!boot) {
      if (held.row.boot !== null) this.#options.commit(held, { boot: null });
      held.boot = null;
      return;
    }
    // What serves already goes on while services come to it.
    const serves = kind === "configure" || (kind === "wake" && held.row.boot?.isOpen === true);
    const wasOpen = serves && boot.onWake?.blocking !== true;
    const { generation } = held.row;
    const told = this.#hold(held, boot, wasOpen, () => this.#tell(held, { kind, generation, boot }));
    this.#options.commit(held, { boot: { generation, kind, isTold: false, isOpen: wasOpen } });
    if (kind === "wake") return;
    await inTime(told.told, TELL_LIMIT_MS).catch((fault: unknown) => {
      told.over.abort();
      throw new RouseFailure("guest_failed", "The guest agent could not be told what to start.", { cause: fault });
    });
  }

  /** The beginning is asked for once more: the answer was lost, or the host agent that was asked. */
  async again(held: Held, boot: MachineBoot | undefined, kind: TellKind): Promise<void> {
    if (held.boot?.spec && !held.boot.over.signal.aborted) return void (kind === "boot" && (await held.boot.told));
    await this.begin(held, boot, kind);
  }

  /** Other settings for a machine that runs. */
  async change(held: Held, boot: MachineBoot | undefined): Promise<void> {
    if (!boot) return;
    const { generation } = held.row;
    if (!held.boot) {
      await this.begin(held, boot, "configure");
      return;
    }
    const now = held.boot;
    if (now.spec && JSON.stringify(now.spec) === JSON.stringify(boot)) return;
    await now.told.catch(() => undefined);
    await inTime(this.#tell(held, { kind: "configure", generation, boot }), CHANGE_LIMIT_MS);
    now.spec = boot;
  }

  /** Go on with a run that is there: of an earlier host agent, or after a pause that did not come about. */
  resume(held: Held): void {
    const { boot } = held.row;
    if (!boot) return;
    const { generation } = held.row;
    const { kind } = boot;
    const again = boot.isTold && boot.generation === generation;
    const spec = held.boot?.spec ?? null;
    this.#hold(held, spec, again && boot.isOpen, async () => {
      if (!again) await this.#tell(held, { kind, generation, ...(spec ? { boot: spec } : {}) });
    });
  }

  /** The run is over, or about to be; its guest sees nobody's connection in its sleep. */
  async over({ boot }: Held): Promise<void> {
    if (!boot || boot.over.signal.aborted) return;
    boot.over.abort();
    await new Promise((resolve) => setImmediate(resolve));
  }

  /**
   * Wait until requests to the port may go on.
   * @throws RouseFailure `boot_failed`, `service_failed`, `service_not_ready`
   */
  async admit(held: Held, port: number): Promise<void> {
    const { boot } = held;
    if (!boot || boot.isOpen) return;
    await boot.told.catch(() => undefined);
    let hasLooked = false;
    for (let tries = 0; ;) {
      if (boot.isOpen) return;
      if (boot.over.signal.aborted)
        throw new RouseFailure("upstream_closed", "The machine went to rest before it answered.");
      try {
        const report = hasLooked ? await this.#next(held, boot) : await this.#now(held, boot);
        const gate = gateOf(report, port);
        if (gate.is === "open") return gate.always ? this.#open(held, boot) : undefined;
        if (gate.is === "failed") throw thrown(gate.failure);
        hasLooked = true;
      } catch (fault) {
        if (fault instanceof RouseFailure || boot.over.signal.aborted) throw fault;
        // An agent of before services.
        if (fault instanceof AgentRefusal && fault.status === 404) return this.#open(held, boot);
        // Another agent counts anew.
        boot.latest = null;
        if (++tries >= LOOK_TRIES)
          throw new RouseFailure("service_not_ready", "The guest agent does not say whether services are ready.", {
            ...{ retryAfterMs: 1000, cause: fault },
          });
        await pause(RETRY_MS);
      }
    }
  }

  /**
   * Tell services that a pause comes.
   * @param isIdle nobody asked for it: it can be put off
   * @throws RouseFailure `conflict` for one that is put off, `pause_failed`
   */
  async freeze(held: Held, isIdle: boolean): Promise<void> {
    const { boot } = held;
    const hooks = boot?.spec?.services.flatMap(({ freeze }) => (freeze ? [freeze] : []));
    if (!boot || hooks?.length === 0) return;
    const seconds = hooks?.map(({ timeoutSeconds = FREEZE_SECONDS }) => timeoutSeconds) ?? [FREEZE_MAX_SECONDS];
    let results: Frozen["results"] = [];
    try {
      results = (await freezeServices(await this.#agent(held), Math.max(...seconds) * 1000 + 2000)).results;
    } catch (fault) {
      // An agent of before services has none.
      if (fault instanceof AgentRefusal && fault.status === 404) return;
      // A guest that is stuck sleeps all the same, unless a service was to agree.
      const service = boot.spec?.services.find(({ freeze }) => freeze?.required)?.name;
      if (service) results = [{ service, ok: false, required: true, message: "the guest agent did not answer" }];
    }
    const refused = results.find(({ ok, required }) => required && !ok);
    if (!refused && !(isIdle && held.activity.open > 0)) return;
    await this.thaw(held);
    held.activity.touch();
    if (!refused) throw new RouseFailure("conflict", "The machine was used since it was found idle.");
    const { service, message } = refused;
    const text = `The service ${service} was not ready for a pause: ${message}`;
    throw new RouseFailure(isIdle ? "conflict" : "pause_failed", text, { details: { service, message } });
  }

  /** The pause did not come about. */
  async thaw(held: Held): Promise<void> {
    await thawServices(await this.#agent(held), (FREEZE_MAX_SECONDS + 2) * 1000).catch(() => undefined);
  }

  /** The edge took note. */
  taken(held: Held, event: MachineEvent): void {
    if (held.boot && held.boot.event === event) held.boot.event = null;
  }

  #hold(held: Held, spec: MachineBoot | null, isOpen: boolean, tell: () => Promise<void>): HeldBoot {
    held.boot?.over.abort();
    const { event = null, said = "" } = held.boot ?? {};
    const boot: HeldBoot = {
      ...{ run: held.run, spec, told: Promise.resolve(), isOpen, over: new AbortController(), isWatched: false },
      ...{ latest: null, look: null, probe: null, event, said },
    };
    held.boot = boot;
    boot.told = held.run.ready.then(tell);
    boot.told.then(
      () => void this.#watch(held, boot),
      () => undefined,
    );
    return boot;
  }

  /** Until it has heard, or the run is over. */
  async #tell(held: Held, what: Omit<TellServices, "id">): Promise<void> {
    const { boot } = held;
    const { signal } = boot?.over ?? new AbortController();
    for (;;) {
      try {
        await tellServices(await this.#agent(held), { id: held.row.id, ...what }, signal);
        break;
      } catch (fault) {
        if (signal.aborted) throw fault;
        if (fault instanceof AgentRefusal) {
          // An agent of before services, or one that was never told of any: the edge tells it.
          if (boot) this.#open(held, boot);
          if (fault.status !== 404 && fault.status !== 409) throw fault;
          return;
        }
        await pause(RETRY_MS);
      }
    }
    if (boot) boot.latest = null;
    const { generation, kind } = what;
    const { isOpen = false } = boot ?? {};
    this.#options.commit(held, { boot: { generation, kind, isTold: true, isOpen } });
  }

  #open(held: Held, boot: HeldBoot): void {
    boot.isOpen = true;
    if (held.boot === boot && held.row.boot && !held.row.boot.isOpen)
      this.#options.commit(held, { boot: { ...held.row.boot, isOpen: true } });
  }

  /** How it is now; what is late is looked at by the guest. Concurrent callers share one question. */
  #now(held: Held, boot: HeldBoot): Promise<GuestBoot> {
    boot.probe ??= this.#read(held, boot, { probe: true }).finally(() => (boot.probe = null));
    return boot.probe;
  }

  /** How it is once something has changed. */
  #next(held: Held, boot: HeldBoot): Promise<GuestBoot> {
    const after = boot.latest?.version ?? 0;
    boot.look ??= this.#read(held, boot, { after, waitMs: LOOK_MS }).finally(() => (boot.look = null));
    return boot.look;
  }

  async #read(
    held: Held,
    boot: HeldBoot,
    how: { after?: number; waitMs?: number; probe?: boolean },
  ): Promise<GuestBoot> {
    const report = await agentBoot(await this.#agent(held), how, boot.over.signal);
    if (!boot.latest || report.version > boot.latest.version) boot.latest = report;
    return report;
  }

  /** Hear of each change, and have the edge told. */
  async #watch(held: Held, boot: HeldBoot): Promise<void> {
    const { signal } = boot.over;
    if (boot.isWatched) return;
    boot.isWatched = true;
    let gap = GAP_MS;
    for (let after = 0; !signal.aborted;) {
      const asked = performance.now();
      try {
        const report = await agentBoot(await this.#agent(held), { after, waitMs: after === 0 ? 0 : WATCH_MS }, signal);
        after = report.version;
        this.#say(held, boot, report);
      } catch (fault) {
        if (signal.aborted || (fault instanceof AgentRefusal && fault.status === 404)) return;
        after = 0;
      }
      gap = performance.now() - asked > GAP_MAX_MS ? GAP_MS : Math.min(gap * 2, GAP_MAX_MS);
      await pause(gap);
    }
  }

  #say(held: Held, boot: HeldBoot, report: GuestBoot): void {
    const text = JSON.stringify({ ...report, version: 0 });
    if (text === boot.said || held.boot !== boot) return;
    boot.said = text;
    boot.event = { type: "boot", generation: held.row.generation, report };
    this.#options.news();
  }

  #agent({ row }: Held): Promise<Endpoint> {
    return this.#options.driver.endpoint(row.id, AGENT_PORT);
  }
}

function thrown({ code, message, details, retryAfterMs }: Failure): RouseFailure {
  return new RouseFailure(code, message, {
    ...(details ? { details } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

/** @throws when it takes longer */
async function inTime(work: Promise<void>, limitMs: number): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(() => late.reject(new Error(`nothing within ${limitMs} ms`)), limitMs);
  await Promise.race([work, late.promise]).finally(() => clearTimeout(timer));
}
