/**
 * The objects of all names, driven as `engine.ts` drives one: intent first, one host call at a time, its outcome put to
 * the table, and the table's timer for the step looked at when it is due. The calls themselves are those of `step.ts`.
 */
import type { Life, LifeEvent } from "../../durable/sandbox/life.ts";
import { hasStep, STEP_CHECK_MS, timersOf } from "../../durable/sandbox/lifecycle.ts";
import type { HostClient } from "../../durable/sandbox/host-client.ts";
import type { SandboxRecord } from "../../durable/sandbox/record.ts";
import { observed, runStep } from "../../durable/sandbox/step.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import { numberOf, type Board } from "./board.ts";
import { MACHINE_MIB, type Fleet } from "./fleet.ts";
import { shown, type HostCalls } from "./host-calls.ts";
import type { Invariants } from "./invariants.ts";
import type { Policy } from "./policy.ts";
import type { Population } from "./population.ts";
import type { Tally } from "./tally.ts";

export const SHAPE = {
  image: defaults.image,
  vcpu: defaults.vcpu,
  memoryMiB: defaults.memoryMiB,
  diskMiB: defaults.diskMiB,
} as const;

/** Hosts that a new machine is offered to, one after another (`engine.ts`). */
const PLACEMENT_TRIES = 3;
const NEVER = -1;
const unaborted = new AbortController().signal;
const nothing = { saved: null, volumes: [], outside: null };

/** What the world does about its objects. */
export interface Surroundings {
  readonly now: number;
  readonly tally: Tally;
  random(): number;
  /** Have `step` called for a name at a time. */
  stepAt(at: number, name: number): void;
  /** A run began. */
  ran(name: number, life: Life): void;
  /** A step ended, and the machine does not run. */
  rests(name: number, life: Life): void;
  /** Nobody answered a step; it is tried again. */
  silence(name: number): void;
}

export class Objects {
  readonly #population: Population;
  readonly #fleet: Fleet;
  readonly #board: Board;
  readonly #calls: HostCalls;
  readonly #policy: Policy;
  readonly #invariants: Invariants;
  readonly #around: Surroundings;
  readonly #steps = new Map<number, Step>();
  readonly #stepAt: Float64Array;

  constructor(parts: {
    population: Population;
    fleet: Fleet;
    board: Board;
    calls: HostCalls;
    policy: Policy;
    invariants: Invariants;
    around: Surroundings;
  }) {
    this.#population = parts.population;
    this.#fleet = parts.fleet;
    this.#board = parts.board;
    this.#calls = parts.calls;
    this.#policy = parts.policy;
    this.#invariants = parts.invariants;
    this.#around = parts.around;
    this.#stepAt = new Float64Array(parts.population.size).fill(NEVER);
  }

  create(name: number): void {
    this.#population.create(name, this.#around.now);
    this.#arm(name);
    this.drive(name, "triesByAsking");
  }

  commit(name: number, event: LifeEvent): void {
    const before = this.#population.life(name);
    const outcome = this.#population.commit(name, event, this.#around.now);
    if (!outcome.ok || !outcome.changed) return;
    if (event.type === "hostLost") this.#giveUp(name, before);
    this.#arm(name);
  }

  /** Make the host call that is due, unless one is under way. */
  drive(name: number, counter: Counter): void {
    const life = this.#population.life(name);
    if (this.#steps.has(name) || !hasStep(life)) return;
    if (this.hostOf(name) >= 0) return this.#call(name, counter, null);
    if (life.state === "deleted") return this.#answered(name, { type: "purged" });
    const failure = this.#place(name, []);
    if (failure) this.#answered(name, unplaced(life, failure));
    else this.#call(name, counter, []);
  }

  /** The host call of a name is over. What comes of it may be the next one. */
  async done(name: number): Promise<void> {
    if (!this.#calls.done(name)) return;
    const step = this.#steps.get(name);
    if (!step) throw new Error(`no step of name ${name} is under way`);
    const event = await step.event;
    this.#steps.delete(name);
    if (event.type === "unreachable") {
      this.#around.tally[step.counter]++;
      return this.#answered(name, this.#isLost(name) ? this.#hostLost(name) : event);
    }
    if (!step.passedOver || !isFull(event)) return this.#answered(name, event);
    // The board was late: another host is asked, but not that one again.
    this.#around.tally.staleChoices++;
    const passedOver = [...step.passedOver, this.hostOf(name)];
    const failed = passedOver.length >= PLACEMENT_TRIES || this.#place(name, passedOver) !== null;
    if (failed) this.#answered(name, event);
    else this.#call(name, step.counter, passedOver);
  }

  /** Look at a machine that should run, because its host said that it does not, or nothing. */
  verify(name: number): void {
    const host = this.hostOf(name);
    if (this.#fleet.status[host] !== "up") {
      if (this.#isLost(name)) this.commit(name, this.#hostLost(name));
      return;
    }
    const life = this.#population.life(name);
    this.commit(name, observed(this.#record(name, life), shown(this.#fleet.machine(host, name), this.#around.now)));
  }

  /** The object's alarm for its step. */
  step(name: number): void {
    const { now, tally } = this.#around;
    if (this.#stepAt[name] !== now) return;
    if (!this.#steps.has(name)) return this.drive(name, "triesByTimer");
    tally.watchAlarms++;
    this.#setStep(name, now + STEP_CHECK_MS);
  }

  hostOf(name: number): number {
    return this.#population.hostOf[name] ?? -1;
  }

  #answered(name: number, event: LifeEvent): void {
    const before = this.#population.life(name);
    this.commit(name, event);
    if (isFull(event) && !(before.state === "starting" && before.run === "create")) {
      this.#around.tally.wakeRefusals++;
      this.#around.tally.refusedNames.add(name);
      this.#around.tally.refusingHosts.add(this.hostOf(name));
    }
    const life = this.#population.life(name);
    const moved = life.state !== before.state || life.generation !== before.generation;
    if (moved && life.state === "running") this.#around.ran(name, life);
    else if (hasStep(life) && moved) this.drive(name, "triesByTimer");
    else if (hasStep(life)) this.#around.silence(name);
    else this.#around.rests(name, life);
  }

  #call(name: number, counter: Counter, passedOver: readonly number[] | null): void {
    const record = this.#record(name, this.#population.life(name));
    if (!record.host) throw new Error(`name ${name} has no host`);
    const event = runStep(this.#calls as unknown as HostClient, record.host, record, nothing, unaborted);
    this.#steps.set(name, { event, counter, passedOver });
  }

  /** Choose a host. @returns why there is none */
  #place(name: number, passedOver: readonly number[]): Failure | null {
    const { tally } = this.#around;
    tally.creations++;
    const hosts = this.#board.list();
    const left = passedOver.length === 0 ? hosts : hosts.filter((_, host) => !passedOver.includes(host));
    const placement = this.#policy(left, () => this.#around.random());
    if ("failure" in placement) {
      tally.boardRefusals++;
      return placement.failure;
    }
    const { host } = placement;
    const number = numberOf({ id: host.hostId });
    const example = () => `name ${name} on ${host.hostId}`;
    this.#invariants.check(!this.#fleet.draining[number], "no new machine lands on a draining host", example);
    this.#invariants.check(
      host.live && host.freeMemoryMiB >= MACHINE_MIB,
      "a host is chosen that lives and has room, as far as the board knows",
      example,
    );
    if (this.#fleet.status[number] !== "up") tally.stranded++;
    this.#population.hostOf[name] = number;
    return null;
  }

  #isLost(name: number): boolean {
    return this.#board.isLost(this.hostOf(name));
  }

  #hostLost(name: number): LifeEvent {
    this.#around.tally.hostLost++;
    const { generation } = this.#population.life(name);
    const failure = { code: "host_unavailable", message: "The host does not answer.", retryAfterMs: 1000 } as const;
    return { type: "hostLost", generation, failure };
  }

  /** What is left on a host that was given up is removed when that is back (`errands.ts`). */
  #giveUp(name: number, before: Life): void {
    const host = this.hostOf(name);
    this.#invariants.check(
      this.#fleet.machine(host, name).state !== "running",
      "nothing runs any more on a host that is given up",
      () => `name ${name} on host ${host}`,
    );
    if (before.state === "deleted") this.#fleet.leave(host, name);
    if (before.state === "starting" && before.run === "create") {
      this.#fleet.leave(host, name);
      this.#population.hostOf[name] = -1;
    }
  }

  /** Set the object's timer to what the table says. */
  #arm(name: number): void {
    const due = timersOf(this.#population.life(name)).step;
    // One that was due during the call under way goes off at once.
    this.#setStep(name, due === null ? NEVER : Math.max(due, this.#around.now));
  }

  #setStep(name: number, at: number): void {
    if (at === this.#stepAt[name]) return;
    this.#stepAt[name] = at;
    if (at !== NEVER) this.#around.stepAt(at, name);
  }

  /** What `step.ts` reads of a record. */
  #record(name: number, life: Life): SandboxRecord {
    const host = this.hostOf(name);
    const id = this.#board.hosts[host]?.hostId;
    return {
      id: String(name),
      account: "simulated",
      label: `name-${name}`,
      shape: SHAPE,
      env: {},
      holds: {},
      idlePauseSeconds: defaults.idlePauseSeconds,
      // States stay on their hosts here.
      archive: null,
      origin: null,
      fromStore: false,
      capture: null,
      volumes: [],
      wakeRules: [],
      maxWakesPerHour: null,
      sockets: [],
      localhostPorts: [],
      holdsSockets: false,
      boot: null,
      host: id === undefined ? null : { id, url: `https://${id}` },
      life,
    } as unknown as SandboxRecord;
  }
}

type Counter = "triesByAsking" | "triesByTimer";

/** A host call under way. */
interface Step {
  readonly event: Promise<LifeEvent>;
  /** What it is counted under if nobody answers. */
  readonly counter: Counter;
  /** Hosts that were full, of a creation that looks for one; null once there is a host. */
  readonly passedOver: readonly number[] | null;
}

function isFull(event: LifeEvent): boolean {
  return event.type === "runFailed" && event.failure.code === "no_capacity";
}

function unplaced({ generation }: Life, failure: Failure): LifeEvent {
  return { type: "runFailed", generation, memory: "none", nothingMade: true, failure };
}
