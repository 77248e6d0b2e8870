/** When programs of this machine must run next: the host asks before a sleep, and has the machine woken in time. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits, timerName } from "../../sdk/contract/guest-limits.ts";
import type { GuestTimer } from "../../sdk/contract/guest-timer.ts";
import { Fields } from "./fields.ts";
import { readJson, sendJson, type Call } from "./http.ts";

const DAY_MS = 86_400_000;
/** ISO 8601 with an offset: without one a time is whoever's. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

export class Timers {
  readonly #file: string | undefined;
  /** Unix milliseconds by name. */
  #all: ReadonlyMap<string, number>;

  /** @param file keeps them when the agent ends; undefined: they end with it */
  constructor(file: string | undefined) {
    this.#file = file;
    this.#all = new Map(file === undefined ? [] : kept(file));
  }

  list(call: Call): void {
    const data = [...this.#ahead()].toSorted(([, a], [, b]) => a - b).map(([name, at]) => shown(name, at));
    sendJson(call, { data });
  }

  async set(call: Call, name: string): Promise<void> {
    const fields = new Fields(await readJson(call));
    const now = Date.now();
    const last = now + guestLimits.timerDays * DAY_MS;
    if (!timerName.test(name)) fields.fault("name", "expected 1-64 of a-z 0-9 -");
    const text = fields.text("at");
    const seconds = fields.integer("inSeconds", 1, guestLimits.timerDays * 86_400);
    if (fields.has("at") === fields.has("inSeconds")) fields.fault("at", "expected exactly one of at and inSeconds");
    const parsed = text !== undefined && TIME.test(text) ? Date.parse(text) : Number.NaN;
    if (text !== undefined && Number.isNaN(parsed)) fields.fault("at", "expected an ISO 8601 time with an offset");
    else if (parsed <= now) fields.fault("at", "that time has passed");
    else if (parsed > last) fields.fault("at", `expected at most ${guestLimits.timerDays} days ahead`);
    fields.only("at", "inSeconds");
    fields.check();
    const at = seconds === undefined ? parsed : now + seconds * 1000;
    const all = this.#ahead().set(name, at);
    if (all.size > guestLimits.timers)
      throw new RouseFailure("quota_exceeded", `A machine has at most ${guestLimits.timers} timers.`, {
        details: { max: guestLimits.timers },
      });
    this.#keep(all);
    sendJson(call, shown(name, at));
  }

  remove(call: Call, name: string): void {
    const all = this.#ahead();
    const deleted = all.delete(name);
    if (deleted) this.#keep(all);
    sendJson(call, { name, deleted });
  }

  /** What has passed while the machine ran is done with. */
  #ahead(): Map<string, number> {
    const now = Date.now();
    return new Map([...this.#all].filter(([, at]) => at > now));
  }

  /** On the disk first: what was answered outlives the agent. */
  #keep(all: ReadonlyMap<string, number>): void {
    if (this.#file !== undefined) {
      mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
      const part = `${this.#file}.part`;
      writeFileSync(part, JSON.stringify(Object.fromEntries(all)), { mode: 0o600 });
      renameSync(part, this.#file);
    }
    this.#all = all;
  }
}

function shown(name: string, at: number): GuestTimer {
  return { name, at: new Date(at).toISOString() };
}

/** Whatever became of the file: what can't be a timer is none. */
function kept(file: string): [string, number][] {
  const last = Date.now() + guestLimits.timerDays * DAY_MS;
  try {
    const found = JSON.parse(readFileSync(file, "utf8")) as unknown;
    if (typeof found !== "object" || found === null) return [];
    return Object.entries(found)
      .filter((one): one is [string, number] => timerName.test(one[0]) && Number.isInteger(one[1]) && one[1] <= last)
      .slice(0, guestLimits.timers);
  } catch {
    return [];
  }
}
