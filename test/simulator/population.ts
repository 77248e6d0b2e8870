/** The sandboxes: one life each, every change of it through the table, and what must hold after each change. */
import type { Life, LifeEvent } from "../../durable/sandbox/life.ts";
import { isTransitional, newLife, reduce, timersOf, type Outcome } from "../../durable/sandbox/lifecycle.ts";
import { newLease } from "../../durable/sandbox/lease.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import type { Invariants } from "./invariants.ts";

/** Every so-manieth sandbox has a time limit, so that leases are at work too. */
const LIMITED_EVERY = 20;
const LEASE_SECONDS = 600;
const DAY_MS = 86_400_000;

export class Population {
  readonly size: number;
  /** Events that were put to the table. */
  events = 0;
  /** -1: none was chosen yet. */
  readonly hostOf: Int32Array;
  readonly #lives: (Life | undefined)[];
  readonly #invariants: Invariants;

  constructor(size: number, invariants: Invariants) {
    this.size = size;
    this.hostOf = new Int32Array(size).fill(-1);
    this.#lives = Array.from({ length: size });
    this.#invariants = invariants;
  }

  exists(name: number): boolean {
    return this.#lives[name] !== undefined;
  }

  life(name: number): Life {
    const life = this.#lives[name];
    if (!life) throw new Error(`name ${name} was never created`);
    return life;
  }

  /** A new sandbox under a name that is free. */
  create(name: number, now: number): void {
    const last = this.#lives[name];
    this.#invariants.check(
      !last || (last.state === "deleted" && !last.purgePending),
      "a name is given anew only when nothing of the last one is left",
      () => describe(name, last),
    );
    const seconds = name % LIMITED_EVERY === 0 ? LEASE_SECONDS : 0;
    this.hostOf[name] = -1;
    this.#lives[name] = newLife(defaults.retentionDays, now, newLease(seconds, "pause"));
    this.events++;
  }

  /** Put an event to the table, and keep what comes of it. */
  commit(name: number, event: LifeEvent, now: number): Outcome {
    const before = this.life(name);
    const outcome = reduce(before, event, now);
    this.events++;
    this.#invariants.check(outcome.ok || !("generation" in event), "no report of a host is refused", () =>
      describe(name, before, event),
    );
    if (!outcome.ok) return outcome;
    const { life } = outcome;
    this.#lives[name] = life;
    this.#judge(name, before, life, event, now);
    return outcome;
  }

  #judge(name: number, before: Life, life: Life, event: LifeEvent, now: number): void {
    const example = () => describe(name, before, event);
    const begins = isTransitional(life.state) && !isTransitional(before.state);
    const run = begins && (life.state === "starting" || life.state === "resuming");
    const { step, retention, lease } = timersOf(life);
    const { check } = this.#invariants;
    const rule = check.bind(this.#invariants);
    rule(life.generation >= before.generation, "a generation only grows", example);
    rule(!run || life.generation === before.generation + 1, "every run has a generation of its own", example);
    const fresh = life.state !== before.state;
    rule(
      !isTransitional(life.state) || (step !== null && (!fresh || step >= now)),
      "a step under way has a timer, ahead when it begins",
      example,
    );
    rule(life.state !== "deleted" || !life.purgePending || step !== null, "a purge that is due has a timer", example);
    rule(
      life.state !== "paused" || (retention !== null && retention <= now + defaults.retentionDays * DAY_MS),
      "a paused state ends within its retention",
      example,
    );
    rule(
      life.state !== "running" || life.lease.seconds === 0 || (lease !== null && lease <= now + DAY_MS),
      "a run with a time limit has a timer for it",
      example,
    );
    rule(before.state !== "deleted" || life.state === "deleted", "deleted is final", example);
  }
}

function describe(name: number, life: Life | undefined, event?: LifeEvent): string {
  const state = life ? `${life.state} of generation ${life.generation}` : "nothing";
  return `name ${name}, ${state}${event ? `, at ${JSON.stringify(event)}` : ""}`;
}
