/** What went out of one run of a machine, and what was refused: totals since it began. Pure but for the clock. */
import { egressReportLimits, type EgressReport } from "../../sdk/contract/egress.ts";

/** A connection as far as it is counted. */
export interface Counted {
  /** To the outside. */
  readonly bytesWritten: number;
  readonly bytesRead: number;
}

type Refusal = EgressReport["refusals"][number];
type SecretUse = EgressReport["secretUses"][number];

const RULE_MAX = 300;
const TARGET_MAX = 300;
/** In the place of targets for which there is no room any more. */
const OTHERS = "*";

export class Counts {
  readonly #now: () => number;
  readonly #open = new Set<Counted>();
  readonly #refusals = new Map<string, Refusal>();
  readonly #uses = new Map<string, SecretUse>();
  #bytesOut = 0;
  #bytesIn = 0;
  #connections = 0;
  #changed = false;

  /** @param now Unix milliseconds */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  get open(): number {
    return this.#open.size;
  }

  /** Connections since the run began. */
  get connections(): number {
    return this.#connections;
  }

  /** Counts what the connection carries until `ended` is called. */
  opened(connection: Counted): { ended: () => void } {
    this.#open.add(connection);
    this.#connections++;
    this.#changed = true;
    const ended = () => {
      if (!this.#open.delete(connection)) return;
      this.#bytesOut += connection.bytesWritten;
      this.#bytesIn += connection.bytesRead;
      this.#changed = true;
    };
    return { ended };
  }

  refused(rule: string, target: string): void {
    this.#changed = true;
    const short = { rule: rule.slice(0, RULE_MAX), target: target.slice(0, TARGET_MAX) };
    const key = JSON.stringify([short.rule, short.target]);
    const isRoom = this.#refusals.has(key) || this.#refusals.size < egressReportLimits.refusals - 1;
    // One entry is kept for all that come when there is no more room.
    const entry = isRoom ? short : { rule: OTHERS, target: OTHERS };
    count(this.#refusals, isRoom ? key : OTHERS, entry, this.#now());
  }

  secretUsed(name: string, version: number): void {
    this.#changed = true;
    const key = `${name}\n${version}`;
    const oldest = this.#uses.keys().next().value;
    // Of a run that saw many versions, the first ones are told no more.
    if (!this.#uses.has(key) && this.#uses.size >= egressReportLimits.secretUses && oldest !== undefined)
      this.#uses.delete(oldest);
    count(this.#uses, key, { name, version }, this.#now());
  }

  /** Totals up to now. */
  report(generation: number): EgressReport {
    let bytesOut = this.#bytesOut;
    let bytesIn = this.#bytesIn;
    for (const { bytesWritten, bytesRead } of this.#open) {
      bytesOut += bytesWritten;
      bytesIn += bytesRead;
    }
    const refusals = [...this.#refusals.values()].map((one) => ({ ...one }));
    return { generation, bytesOut, bytesIn, refusals, secretUses: [...this.#uses.values()].map((one) => ({ ...one })) };
  }

  /** Whether there may be news since this was asked last. */
  takeChanged(): boolean {
    const changed = this.#changed || this.#open.size > 0;
    this.#changed = false;
    return changed;
  }
}

function count<T extends object>(
  all: Map<string, T & { count: number; lastAt: number }>,
  key: string,
  entry: T,
  now: number,
): void {
  const known = all.get(key);
  if (known) Object.assign(known, { count: known.count + 1, lastAt: now });
  else all.set(key, { ...entry, count: 1, lastAt: now });
}
