/** Arrivals, failures, pauses, evictions and crashes in any order, by seed: what is accepted arrives, and in order. */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { inboxObject, type Arrival } from "../../durable/inbox/api.ts";
import type { Turn } from "../support/fake-program.ts";
import { ask, fake, heartbeat } from "./client.ts";
import { TestInbox } from "./inboxes.ts";
import { shift } from "./volumes.ts";
import { seeded } from "../support/random.ts";

/** Enough to see a fault within a minute; `ROUSE_SEEDS=1000` plays the first thousand, `ROUSE_SEEDS=417..417` one. */
const SEEDS = "40";
/** Stories of one sandbox, one after the other. */
const GROUP = 10;
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
    await this.#freeze();
    for (let n = 0; n < 20 && (await this.#waiting()) > 0; n++) await this.#later(LONGEST_WAIT_MS);
  }

  /** What the program saw of it, each try. */
  async seen(): Promise<string[]> {
    const taken = await fake.taken(this.#inbox.name);
    return taken.filter(({ path }) => path === this.#path).map(({ headers }) => headers["webhook-id"] ?? "");
  }

  async #step(): Promise<void> {
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
        return this.#freeze();
      default:
        return this.#later(this.#below(400_000));
    }
  }

  /** Arrivals before, during and after a pause, asked for or of the host's own accord. */
  async #freeze(): Promise<void> {
    const { name } = this.#inbox;
    const byHost = this.#below(2) === 0;
    const arrivals = Array.from({ length: 1 + this.#below(2) }, () => this.#below(25));
    const pause = byHost ? fake.sleep(name) : ask("POST", `/v1/sandboxes/${name}:pause`, {});
    for (const ms of arrivals) {
      await scheduler.wait(ms);
      await this.#arrive();
    }
    await pause;
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

const [first = 1, last = first] = seedsOf(env.ROUSE_SEEDS || SEEDS);
const groups = Array.from({ length: Math.ceil((last - first + 1) / GROUP) }, (_, n) => first + n * GROUP);

describe("whatever comes in between", () => {
  it.each(groups)(
    "each accepted event arrives at least once, in order, and none that was not accepted (from seed %d)",
    { timeout: 280_000 },
    async (from) => {
      await heartbeat();
      const inbox = await TestInbox.make({ provider: "none" });
      for (let seed = from; seed < from + GROUP && seed <= last; seed++) {
        const story = new Story(inbox, seed);
        await story.play();
        const seen = await story.seen();
        // Each try of an event comes before any of the next.
        const order = seen.filter((id, at) => id !== seen[at - 1]);
        expect(order, `seed ${seed}`).toEqual(story.accepted);
        // A try that a pause cut off is sent to the next run at once: twice is the most that one of the timeline comes.
        const untold = [];
        for (const id of story.accepted) {
          const { timeline } = await inbox.event(id);
          const tries = timeline.filter(({ what }) => what === "attempt").length;
          if (seen.filter((one) => one === id).length > 2 * tries) untold.push({ id, timeline });
        }
        expect(untold, `seed ${seed}`).toEqual([]);
        await ask("DELETE", inbox.url(`/${inbox.hook.id}`));
      }
    },
  );
});

/** "40" are the first forty, "417..420" those. */
function seedsOf(text: string): number[] {
  const range = /^(?:(\d+)\.\.)?(\d+)$/.exec(text);
  if (!range) throw new Error(`ROUSE_SEEDS is ${JSON.stringify(text)}; it must be like 1000, or like 417..420`);
  return [Number(range[1] ?? 1), Number(range[2])];
}
