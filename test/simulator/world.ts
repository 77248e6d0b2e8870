/** People, hosts and time: everything that happens to the objects from outside, on a virtual clock. */
import { hostLeaseTimes, HOST_LEASE_SECONDS } from "../../sdk/contract/host-lease.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import type { Life } from "../../durable/sandbox/life.ts";
import { STEP_CHECK_MS, timersOf } from "../../durable/sandbox/lifecycle.ts";
import { Random } from "../faults/random.ts";
import { Board } from "./board.ts";
import { Fleet } from "./fleet.ts";
import { HostCalls } from "./host-calls.ts";
import { Invariants } from "./invariants.ts";
import { Objects, type Surroundings } from "./objects.ts";
import type { Policy } from "./policy.ts";
import { Population } from "./population.ts";
import { EventQueue } from "./queue.ts";
import { Tally } from "./tally.ts";

/** What happens to a name, and from `lose` on to a host. */
const kinds = [
  ...(["create", "ask", "done", "step", "idle", "lease", "ended", "renew"] as const),
  ...(["lose", "freeze", "restore", "drain", "undrain"] as const),
];
type Kind = (typeof kinds)[number];
const codes = Object.fromEntries(kinds.map((kind, code) => [kind, code])) as Record<Kind, number>;

/** Somebody whose machine did not answer asks again after so long, milliseconds. */
const ASK_AGAIN_MS = 30_000;
/** How long a host waits before it tells a piece of news again, milliseconds (`reporter.ts`). */
const NEWS_AGAIN_MS = 1000;
const NEVER = -1;

export interface WorldOptions {
  readonly hosts: number;
  readonly names: number;
  readonly seed: string;
  readonly policy: Policy;
}

export class World implements Surroundings {
  now = 0;
  tally = new Tally();
  /** Mean time that somebody works with a machine before it falls idle, milliseconds. */
  workMs = 240_000;
  /** How long somebody keeps coming back for room that is not there, milliseconds. */
  patienceMs = Infinity;
  readonly invariants = new Invariants();
  readonly fleet: Fleet;
  readonly board: Board;
  readonly population: Population;
  /** Names whose machines ran on a host when it was lost, and were not served since. */
  readonly lost = new Set<number>();
  readonly #objects: Objects;
  readonly #queue = new EventQueue();
  readonly #people: Random;
  readonly #placement: Random;
  readonly #outages = new Map<number, { readonly how: "cut" | "down"; readonly endsAt: number }>();
  /** Whether somebody comes back for the machine by and by. */
  readonly #comesBack: Uint8Array;
  readonly #idleAt: Float64Array;
  /** Since when somebody waits for the machine. */
  readonly #askedAt: Float64Array;

  constructor({ hosts, names, seed, policy }: WorldOptions) {
    this.#people = new Random(`${seed}/people`);
    this.#placement = new Random(`${seed}/placement`);
    const { invariants } = this;
    this.fleet = new Fleet(hosts, names, invariants);
    this.board = new Board(this.fleet, new Random(`${seed}/board`));
    this.population = new Population(names, invariants);
    const calls = new HostCalls(this.fleet, {
      now: () => this.now,
      callDone: (at, name) => this.at(at, "done", name),
    });
    const { fleet, board, population } = this;
    this.#objects = new Objects({ population, fleet, board, calls, policy, invariants, around: this });
    this.#comesBack = new Uint8Array(names);
    this.#idleAt = new Float64Array(names).fill(NEVER);
    this.#askedAt = new Float64Array(names).fill(NEVER);
  }

  at(time: number, kind: Kind, subject: number, detail = 0): void {
    this.#queue.push(time, codes[kind], subject, detail);
  }

  /** A host is lost from one time to another. */
  loseHost(host: number, how: "cut" | "down", from: number, to: number): void {
    this.#outages.set(host, { how, endsAt: to });
    this.at(from, "lose", host);
    this.at(to, "restore", host);
  }

  /** Let everything happen until nothing more is due. */
  async run(): Promise<void> {
    const queue = this.#queue;
    while (queue.pop()) {
      this.now = queue.at;
      this.board.advance(this.now);
      const kind = kinds[queue.kind];
      if (kind === "done") await this.#objects.done(queue.subject);
      else if (kind) this.#happen(kind, queue.subject, queue.detail);
    }
  }

  random(): number {
    return this.#placement.next();
  }

  stepAt(at: number, name: number): void {
    this.at(at, "step", name);
  }

  ran(name: number, life: Life): void {
    const askedAt = this.#askedAt[name] ?? NEVER;
    if (askedAt !== NEVER) {
      this.tally.waits.push(this.now - askedAt);
      if (this.tally.refusedNames.has(name)) this.tally.refusedWaits.push(this.now - askedAt);
    }
    // Another run falls idle by itself, however long the one before might have gone on.
    this.#idleAt[name] = NEVER;
    if (life.lease.endsAt !== null) this.at(life.lease.endsAt, "lease", name);
    this.#served(name);
  }

  /** Whoever was told when to come back does, give or take a tenth. */
  rests(name: number, { state, failure }: Life): void {
    const askedAt = this.#askedAt[name] ?? NEVER;
    if (askedAt === NEVER || failure === null) return;
    if (failure.code === "host_unavailable") return this.silence(name);
    if (this.now - askedAt >= this.patienceMs) {
      this.tally.givenUp++;
      this.#askedAt[name] = NEVER;
      return;
    }
    const waitMs = Math.round((failure.retryAfterMs ?? 1000) * (0.9 + 0.2 * this.#people.next()));
    this.at(this.now + waitMs, state === "deleted" ? "create" : "ask", name);
  }

  /** Whoever waits for a host that is silent asks again by and by. */
  silence(name: number): void {
    if ((this.#askedAt[name] ?? NEVER) === NEVER || this.#comesBack[name] === 1) return;
    this.#comesBack[name] = 1;
    this.at(this.now + ASK_AGAIN_MS, "ask", name);
  }

  #happen(kind: Exclude<Kind, "done">, subject: number, detail: number): void {
    switch (kind) {
      case "create":
        return this.#create(subject);
      case "ask":
        return this.#ask(subject);
      case "step":
        return this.#objects.step(subject);
      case "idle":
        return this.#idle(subject, detail);
      case "lease":
        return this.#leaseEnd(subject);
      case "ended":
        return this.#ended(subject, detail);
      case "renew":
        return this.#renew(subject);
      case "lose":
        return this.#lose(subject);
      case "freeze":
        return this.fleet.freeze(subject);
      case "restore":
        return this.#restore(subject);
      case "drain":
      case "undrain":
        return this.board.drain(subject, kind === "drain");
    }
  }

  #create(name: number): void {
    if (this.population.exists(name)) {
      const { state, purgePending } = this.population.life(name);
      if (state !== "deleted") return;
      if (purgePending) {
        // What is left of the last one goes first; whoever wants the name asks again.
        this.#objects.drive(name, "triesByAsking");
        return this.at(this.now + STEP_CHECK_MS, "create", name);
      }
    }
    this.#wants(name);
    this.#objects.create(name);
  }

  /** Delete a sandbox that sleeps, and make another of its name. */
  #renew(name: number): void {
    if (this.population.life(name).state !== "paused") return;
    this.#objects.commit(name, { type: "delete" });
    this.#objects.drive(name, "triesByAsking");
    this.at(this.now + NEWS_AGAIN_MS, "create", name);
  }

  /** Somebody wants the machine, as a request to its URL or `getOrCreate`. */
  #ask(name: number): void {
    this.#comesBack[name] = 0;
    this.#wants(name);
    if (this.population.life(name).state === "running") {
      const host = this.#objects.hostOf(name);
      if (this.fleet.status[host] === "up" && this.fleet.machine(host, name).state === "running") {
        this.tally.warm++;
        return this.#served(name);
      }
      this.tally.unanswered++;
      this.#objects.verify(name);
      if (this.population.life(name).state === "running") return this.silence(name);
    }
    const { state } = this.population.life(name);
    if (state === "deleted") return this.#create(name);
    this.#objects.commit(name, { type: state === "stopped" ? "restart" : "wake" });
    this.#objects.drive(name, "triesByAsking");
  }

  #wants(name: number): void {
    if ((this.#askedAt[name] ?? NEVER) === NEVER) this.#askedAt[name] = this.now;
  }

  /** The machine is at work for a while, and then idle. */
  #served(name: number): void {
    this.#askedAt[name] = NEVER;
    this.lost.delete(name);
    const workMs = Math.round(-Math.log(1 - this.#people.next()) * this.workMs);
    const idleAt = this.now + workMs + defaults.idlePauseSeconds * 1000;
    if (idleAt <= (this.#idleAt[name] ?? NEVER)) return;
    this.#idleAt[name] = idleAt;
    this.at(idleAt, "idle", name, this.population.life(name).generation);
  }

  /** The host proposes a pause. */
  #idle(name: number, generation: number): void {
    const host = this.#objects.hostOf(name);
    const machine = this.fleet.machine(host, name);
    if (machine.state !== "running" || machine.generation !== generation) return;
    if ((this.#idleAt[name] ?? 0) > this.now) return;
    if (this.fleet.status[host] !== "up") {
      const { endsAt } = this.#outages.get(host) ?? { endsAt: this.now };
      return this.at(endsAt + this.#people.int(1, NEWS_AGAIN_MS), "idle", name, generation);
    }
    const life = this.population.life(name);
    if (life.generation !== generation || life.state !== "running") return;
    this.tally.idlePauses++;
    this.#objects.commit(name, { type: "pause", reason: "idle" });
    this.#objects.drive(name, "triesByTimer");
  }

  #leaseEnd(name: number): void {
    if (timersOf(this.population.life(name)).lease !== this.now) return;
    this.tally.leaseEnds++;
    this.#objects.commit(name, { type: "leaseEnd" });
    this.#objects.drive(name, "triesByTimer");
  }

  /** The host tells that a machine ended by itself, until its object takes note. */
  #ended(name: number, generation: number): void {
    const { state, generation: current } = this.population.life(name);
    if (current !== generation) return;
    if (state === "starting" || state === "resuming")
      return this.at(this.now + NEWS_AGAIN_MS, "ended", name, generation);
    this.#objects.commit(name, { type: "ended", generation, reason: "vm_crashed" });
    if (state === "pausing") this.#objects.drive(name, "triesByTimer");
  }

  #lose(host: number): void {
    const outage = this.#outages.get(host);
    if (!outage) throw new Error(`host ${host} has no outage ahead`);
    for (const name of this.fleet.lose(host, outage.how)) {
      this.lost.add(name);
      this.tally.lostRuns++;
      this.at(this.now + this.#people.int(1, ASK_AGAIN_MS), "ask", name);
    }
    // Its machines run for as long as its lease: the edge gives them up only after that.
    const { freezeAfterMs } = hostLeaseTimes(HOST_LEASE_SECONDS);
    const seenAt = this.board.lose(host);
    if (outage.how === "cut") this.at(seenAt + freezeAfterMs, "freeze", host);
  }

  #restore(host: number): void {
    for (const { name, generation } of this.fleet.restore(host))
      this.at(this.now + this.#people.int(1, NEWS_AGAIN_MS), "ended", name, generation);
    this.board.restore(host);
  }
}
