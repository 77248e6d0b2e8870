/**
 * No two machines of one name ever run: every ordering of cuts, wakes, deletions, deaths and returns, against the real
 * table, the real lease times and the real lease of a host, on clocks that run apart.
 */
import { describe, expect, it } from "vitest";
import type { Life, LifeEvent } from "../../durable/sandbox/life.ts";
import { fateOf, newLife, reduce } from "../../durable/sandbox/lifecycle.ts";
import { HostLease } from "../../backend-pool/machine/host-lease.ts";
import { HOST_LEASE_SECONDS, hostLeaseTimes } from "../../sdk/contract/host-lease.ts";

const failure = { code: "host_unavailable", message: "silent" } as const;
const times = hostLeaseTimes(HOST_LEASE_SECONDS);
const BEAT_MS = 5000;

/** What may happen between two moments. */
const deeds = ["cut", "mend", "wake", "remake", "kill agent", "start agent", "rest"] as const;
type Deed = (typeof deeds)[number];
/** Time passes after each deed: less than a lease, about one, and more. */
const spans = [BEAT_MS, times.freezeAfterMs + 1000, times.lostAfterMs + BEAT_MS] as const;

/** A machine on a host, of one creation of the name. */
interface Machine {
  readonly id: number;
  generation: number;
  state: "running" | "paused" | "frozen";
}

/** One name, the edge, and two hosts of which one can be cut off. */
class World {
  now = 1_000_000;
  /** How fast the cut host's clock runs. */
  readonly drift: number;
  id = 1;
  life: Life;
  host = 0;
  beatAt = this.now;
  isCut = false;
  agent = true;
  readonly machines: [Map<number, Machine>, Map<number, Machine>] = [new Map(), new Map()];
  lease: HostLease;
  /** As the object knows it. */
  session: string;
  /** Calls that the cut kept on their way: they arrive when it is mended. */
  late: { id: number; generation: number; isNew: boolean; session: string }[] = [];
  endsAt = 0;

  constructor(drift: number) {
    this.drift = drift;
    this.life = newLife(30, this.now);
    this.lease = new HostLease({ file: null, now: () => this.now * drift });
    this.session = this.lease.session;
    this.beat();
    this.drive();
  }

  running(): number {
    return this.machines.reduce(
      (sum, host) => sum + [...host.values()].filter(({ state }) => state === "running").length,
      0,
    );
  }

  commit(event: LifeEvent): void {
    const outcome = reduce(this.life, event, this.now);
    if (outcome.ok) this.life = outcome.life;
  }

  get reachable(): boolean {
    return this.host === 1 || (!this.isCut && this.agent);
  }

  get lost(): boolean {
    return this.host === 0 && this.now - this.beatAt > times.lostAfterMs;
  }

  /** The edge takes its step: it calls the host, or gives it up. */
  drive(): void {
    if (this.life.state !== "starting" && this.life.state !== "resuming") return;
    const { generation, run } = this.life;
    const mayRun = this.host === 1 || this.lease.holds;
    const machines = this.machines[this.host === 0 ? 0 : 1];
    if (this.host === 0 && this.isCut)
      this.late.push({ id: this.id, generation, isNew: run === "create", session: this.session });
    if (this.reachable) this.session = this.lease.session;
    if (this.reachable && mayRun && (run === "create" || machines.has(this.id))) {
      machines.set(this.id, { id: this.id, generation, state: "running" });
      return this.commit({ type: "ran", generation, lastActiveAt: this.now });
    }
    if (!this.lost) return;
    this.commit({ type: "hostLost", generation, failure });
    if (this.life.state === "starting") {
      this.host = 1;
      this.drive();
    }
  }

  beat(): void {
    if (this.isCut || !this.agent) return;
    this.beatAt = this.now;
    this.lease.sessionOfBeat();
    this.lease.renew(this.lease.now(), HOST_LEASE_SECONDS);
    this.endsAt = this.now * this.drift + times.endsAfterMs;
    for (const machine of this.machines[0].values()) {
      const known = this.host === 0 && machine.id === this.id;
      if (machine.state === "frozen") {
        const fate = known ? fateOf(this.life, machine.generation) : "end";
        if (fate === "end") this.machines[0].delete(machine.id);
        else machine.state = fate === "run" ? "running" : "paused";
      } else if (machine.state === "paused" && known) {
        this.commit({ type: "paused", generation: machine.generation, reason: "host_lost" });
      }
      if (!known) this.machines[0].delete(machine.id);
    }
  }

  /** A host obeys a call of its present session, while it has a lease. */
  deliver(): void {
    if (!this.agent) return;
    for (const { id, generation, isNew, session } of this.late) {
      if (!this.lease.holds || session !== this.lease.session) continue;
      const machine = this.machines[0].get(id);
      if (machine && machine.generation <= generation) Object.assign(machine, { generation, state: "running" });
      if (!machine && isNew) this.machines[0].set(id, { id, generation, state: "running" });
    }
  }

  /** Time passes in steps that are finer than anything that is decided by it. */
  pass(ms: number): void {
    for (let left = ms; left > 0; left -= 1000) {
      this.now += 1000;
      if (this.now % BEAT_MS === 0) this.beat();
      for (const machine of this.machines[0].values()) {
        if (machine.state !== "running") continue;
        if (this.agent && !this.lease.holds) machine.state = "paused";
        // The warden, whatever became of the agent.
        else if (!this.agent && this.now * this.drift >= this.endsAt) machine.state = "frozen";
      }
      this.drive();
    }
  }

  do(deed: Deed): void {
    switch (deed) {
      case "cut":
        this.isCut = true;
        break;
      case "mend": {
        this.isCut = false;
        // The heartbeat may be first, or what was on its way.
        this.deliver();
        this.beat();
        this.deliver();
        this.late = [];
        break;
      }
      case "kill agent":
      case "start agent":
        this.agent = deed === "start agent";
        break;
      case "wake": {
        if (this.life.state === "running" && this.lost)
          this.commit({ type: "hostLost", generation: this.life.generation, failure });
        this.commit({ type: "wake" });
        this.drive();
        break;
      }
      case "remake": {
        // The name is free when the old machine is gone, or can't run any more.
        this.commit({ type: "delete" });
        if (this.reachable) this.machines[this.host === 0 ? 0 : 1].delete(this.id);
        else if (!this.lost) break;
        this.id += 1;
        this.host = this.lost || !this.reachable ? 1 : 0;
        this.life = newLife(30, this.now);
        this.drive();
        break;
      }
      default:
    }
  }
}

describe("two machines of one name", () => {
  it("never run, in any order of five deeds with any time between them", () => {
    let histories = 0;
    const faults: string[] = [];
    const play = (drift: number, plan: readonly (readonly [Deed, number])[]) => {
      const world = new World(drift);
      histories += 1;
      for (const [deed, span] of plan) {
        world.do(deed);
        if (world.running() > 1) faults.push(`${drift}: ${plan.join("; ")}`);
        for (let left = span; left > 0; left -= 1000) {
          world.pass(1000);
          if (world.running() > 1) faults.push(`${drift}: ${plan.join("; ")}`);
        }
      }
    };
    const steps = deeds.flatMap((deed) => spans.map((span) => [deed, span] as const));
    // All of three, and of five a part that a fixed stride picks.
    for (const drift of [0.9, 1, 1.1]) {
      for (const a of steps) for (const b of steps) for (const c of steps) play(drift, [a, b, c]);
    }
    const total = steps.length ** 5;
    for (let n = 0; n < total; n += 997) {
      const plan = [0, 1, 2, 3, 4].map((at) => steps[Math.floor(n / steps.length ** at) % steps.length] ?? ["rest", 0]);
      play([0.9, 1, 1.1][n % 3] ?? 1, plan as [Deed, number][]);
    }
    expect(faults.slice(0, 5)).toEqual([]);
    expect(histories).toBeGreaterThan(30_000);
  });

  it("would run if the edge gave a host up at the end of its lease: the check can fail", () => {
    const world = new World(0.85);
    world.do("cut");
    world.do("kill agent");
    world.pass(times.lostAfterMs + 2000);
    world.do("remake");
    expect(world.running()).toBe(2);
  });
});
