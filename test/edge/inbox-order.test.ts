/** Arrivals, failures, pauses, evictions and crashes in any order, by seed: what is accepted arrives, and in order. */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { inboxObject, type Arrival } from "../../durable/inbox/api.ts";
import type { Turn } from "../support/fake-program.ts";
import { ask, fake, heartbeat } from "./client.ts";
import { TestInbox } from "./inboxes.ts";
import { shift } from "./volumes.ts";
import { seeded } from "../support/random.ts";

/** Enough to see a fault within a minute; more are played by hand. */
const SEEDS = 40;
const GROUPS = 4;
/** A try that fails is followed by the next within this, milliseconds, as none fails more than three times. */
const LONGEST_WAIT_MS = 36 * 60_000;

afterEach(() => {
  vi.useRealTimers();
});

class Story {
  readonly #inbox: TestInbox;
  readonly #path: string;
  readonly #random: () => number;
  /** Ids of accepted events, in their order. */
  readonly accepted: string[] = [];
  #fails = 0;
  #sent = 0;

  constructor(inbox: TestInbox, seed: number) {
    this.#inbox = inbox;
    this.#path = `/in/${seed}`;
    this.#random = seeded(seed);
  }

  async play(): Promise<void> {
    this.#inbox.hook = await this.#inbox.add({ provider: "none", path: this.#path, timeoutSeconds: 1 });
    const steps = 4 + this.#below(5);
    for (let n = 0; n < steps; n++) await this.#step();
    await this.#arrive();
    for (let n = 0; n < 20 && (await this.#waiting()) > 0; n++) await this.#later(LONGEST_WAIT_MS);
  }

  /** What the program saw of it, each try. */
  async seen(): Promise<string[]> {
    const taken = await fake.taken(this.#inbox.name);
    return taken.filter(({ path }) => path === this.#path).map(({ headers }) => headers["webhook-id"] ?? "");
  }

  async #step(): Promise<void> {
    const { name } = this.#inbox;
    switch (this.#below(7)) {
      case 0:
      case 1:
        return this.#arrive();
      case 2:
        return this.#fail();
      case 3:
        await Promise.all([this.#arrive(), this.#inbox.evict().catch(() => undefined)]);
        return;
      case 4:
        // A try that it breaks off may count.
        if (this.#fails < 3) await this.#inbox.crash();
        this.#fails += 1;
        return;
      case 5:
        await Promise.all([ask("POST", `/v1/sandboxes/${name}:pause`, {}), this.#arrive()]);
        return;
      default:
        return this.#later(this.#below(400_000));
    }
  }

  async #fail(): Promise<void> {
    // As often as later events still wait for the one that fails.
    if (this.#fails >= 3) return;
    this.#fails += 1;
    const quick: Turn[] = [{ status: 500 }, { hangUp: true }, { deaf: true }];
    const turns: Turn[] = [...quick, ...quick, ...quick, { delayMs: 1200 }];
    const turn = turns[this.#below(turns.length)];
    if (turn) await fake.turns(this.#inbox.name, turn);
  }

  /** One event, or the same twice at once, or one that came before. */
  async #arrive(): Promise<void> {
    if (this.#below(4) > 0) this.#sent += 1;
    const arrival: Arrival = {
      ...{ hookId: this.#inbox.hook.id, type: null, providerId: `p${this.#sent}`, headers: [], query: "" },
      ...{ interaction: null, bytes: 2, ignored: false, body: new Uint8Array([123, 125]), blob: null },
    };
    const copies = this.#below(3) === 0 ? [arrival, arrival] : [arrival];
    const send = async (one: Arrival) => {
      try {
        return await inboxObject(env.INBOX, "default", this.#inbox.name).receive(one);
      } catch {
        // What a crash cut off was not accepted; its sender comes again.
        return inboxObject(env.INBOX, "default", this.#inbox.name).receive(one);
      }
    };
    for (const answer of await Promise.all(copies.map(send))) {
      if (!answer.ok) throw new Error(answer.failure.code);
      if (!this.accepted.includes(answer.event.id)) this.accepted.push(answer.event.id);
    }
  }

  async #later(ms: number): Promise<void> {
    shift(ms);
    // Else the host would be lost by now.
    await heartbeat();
    await this.#inbox.alarm();
    await this.#settle();
  }

  /** Until nothing is under way. */
  async #settle(): Promise<void> {
    for (let n = 0; n < 300; n++) {
      const events = await this.#inbox.events(`&state=waiting&hookId=${this.#inbox.hook.id}`);
      // Later ones wait for the first.
      const first = events.find(
        ({ id }) => id === this.accepted.find((one) => events.some((event) => event.id === one)),
      );
      if (!first || Date.parse(first.nextAttemptAt ?? "") > Date.now()) return;
      await scheduler.wait(20);
    }
  }

  async #waiting(): Promise<number> {
    return (await this.#inbox.events(`&state=waiting&hookId=${this.#inbox.hook.id}`)).length;
  }

  #below(most: number): number {
    return Math.floor(this.#random() * most);
  }
}

describe("whatever comes in between", () => {
  it.each(Array.from({ length: GROUPS }, (_, group) => group))(
    "each accepted event arrives at least once, in order, and none that was not accepted (group %d)",
    { timeout: 280_000 },
    async (group) => {
      await heartbeat();
      const inbox = await TestInbox.make({ provider: "none" });
      for (let seed = group + 1; seed <= SEEDS; seed += GROUPS) {
        const story = new Story(inbox, seed);
        await story.play();
        const seen = await story.seen();
        // Each try of an event comes before any of the next.
        const order = seen.filter((id, at) => id !== seen[at - 1]);
        expect(order, `seed ${seed}`).toEqual(story.accepted);
        await ask("DELETE", inbox.url(`/${inbox.hook.id}`));
      }
    },
  );
});
