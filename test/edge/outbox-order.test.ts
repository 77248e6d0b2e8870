/** Transitions, failing receivers, evictions and crashes of both objects in any order, by seed: each event arrives, in order. */
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Turn } from "../support/fake-program.ts";
import { seeded } from "../support/random.ts";
import { heartbeat } from "./client.ts";
import { TestOutbox } from "./outboxes.ts";
import { instead, shift } from "./volumes.ts";

/** Enough to see a fault within a minute; more are played by hand. */
const SEEDS = 24;
const GROUPS = 4;
/** Longer than any wait that follows the first five tries, milliseconds. */
const LONGEST_WAIT_MS = 31 * 60_000;

afterEach(() => {
  vi.useRealTimers();
});

class Story {
  readonly #box: TestOutbox;
  readonly #random: () => number;
  readonly #names: readonly string[];
  #fails = 0;

  constructor(box: TestOutbox, names: readonly string[], seed: number) {
    this.#box = box;
    this.#names = names;
    this.#random = seeded(seed);
  }

  async play(endpoint: string): Promise<void> {
    const steps = 6 + this.#below(6);
    for (let n = 0; n < steps; n++) await this.#step();
    for (const name of this.#names) await this.#box.verb(name, "wake").catch(() => undefined);
    for (let n = 0; n < 30; n++) {
      await this.#later(LONGEST_WAIT_MS);
      if ((await this.#box.shown(endpoint)).waiting === 0 && (await this.#isHandedOn())) return;
      await scheduler.wait(20);
    }
  }

  async #step(): Promise<void> {
    const box = this.#box;
    const name = this.#names[this.#below(this.#names.length)] ?? "";
    const change = () => box.verb(name, this.#below(2) === 0 ? "pause" : "wake").catch(() => undefined);
    switch (this.#below(8)) {
      case 0:
      case 1:
        await change();
        return;
      case 2:
        return this.#fail();
      case 3:
        await Promise.all([change(), box.evict().catch(() => undefined)]);
        return;
      case 4:
        // A try that it breaks off may count.
        if (this.#fails < 4) await Promise.all([change(), box.crash()]);
        this.#fails += 1;
        return;
      case 5:
        await Promise.all([change(), box.crash(box.sandboxStub(name))]);
        return;
      case 6:
        await instead(box.stub, { take: () => Promise.reject(new Error("not now")) }).catch(() => undefined);
        await change();
        await box.evict().catch(() => undefined);
        return;
      default:
        return this.#later(this.#below(200_000));
    }
  }

  async #fail(): Promise<void> {
    if (this.#fails >= 4) return;
    this.#fails += 1;
    const turns: Turn[] = [
      { status: 500 },
      { hangUp: true },
      { status: 302 },
      { status: 503, headers: { "retry-after": "60" } },
    ];
    const turn = turns[this.#below(turns.length)];
    if (turn) await this.#box.turns(turn);
  }

  async #later(ms: number): Promise<void> {
    shift(ms);
    // Else the host would be lost by now.
    await heartbeat();
    for (const name of this.#names) {
      await runDurableObjectAlarm(this.#box.sandboxStub(name));
      await runDurableObjectAlarm(this.#box.sandboxStub(name));
    }
    await this.#box.alarm();
  }

  /** The receiver saw the newest of each. */
  async #isHandedOn(): Promise<boolean> {
    const seen = new Set((await this.#box.taken()).map(({ id }) => id));
    for (const name of this.#names) {
      await evictDurableObject(this.#box.sandboxStub(name));
      const last = (await this.#box.events(name)).at(-1);
      if (last && !seen.has(last.id)) return false;
    }
    return true;
  }

  #below(most: number): number {
    return Math.floor(this.#random() * most);
  }
}

describe("whatever comes in between", () => {
  it.each(Array.from({ length: GROUPS }, (_, group) => group))(
    "each event arrives at least once, those of a sandbox in order (group %d)",
    { timeout: 280_000 },
    async (group) => {
      for (let seed = group + 1; seed <= SEEDS; seed += GROUPS) {
        vi.useRealTimers();
        await heartbeat();
        const box = await TestOutbox.make();
        const { id: endpoint } = await box.endpoint();
        const made = [await box.create(), await box.create()];
        await new Story(
          box,
          made.map(({ name }) => name),
          seed,
        ).play(endpoint);
        const taken = await box.taken();
        for (const { id } of made) {
          const numbers = taken.filter(({ subject }) => subject === id).map(({ sequence }) => sequence);
          // Each try of an event comes before any of the next.
          const order = numbers.filter((sequence, at) => sequence !== numbers[at - 1]);
          const all = (await box.events(id)).map(({ sequence }) => sequence);
          expect({ seed, all }).toEqual({ seed, all: all.map((_, at) => at + 1) });
          expect({ seed, order }).toEqual({ seed, order: all });
        }
        const ids = new Map(taken.map(({ subject, sequence, id }) => [`${subject} ${sequence}`, id]));
        for (const one of taken) expect(ids.get(`${one.subject} ${one.sequence}`)).toBe(one.id);
      }
    },
  );
});
