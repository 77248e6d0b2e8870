/**
 * The account's books against what the host agent told: what `GET /v1/usage` says never goes down, is never more than
 * can have been used, and in the end is just the sum of the newest report of each generation.
 */
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import type { Rouse } from "rouse";
import { add, meters, NOTHING, type Amounts } from "../../sdk/contract/pricing.ts";
import { fromDigits, UsageReports, type UsageReport } from "../../sdk/contract/usage.ts";
import type { Delivered } from "./proxy.ts";

/** Longest until all is told, milliseconds: other points play meanwhile, with parts that are down. */
const SETTLE_MS = 90_000;

export class Books {
  readonly #rouse: Rouse;
  readonly #storeFile: string;
  readonly #delivered: readonly Delivered[];
  #reading: Promise<unknown> = Promise.resolve();
  #read = 0;
  /** The newest report that the edge took of each generation. */
  readonly #newest = new Map<string, UsageReport>();
  readonly #shown = new Map<string, Amounts>();
  /** The books are by month, and a run may see the end of one. */
  readonly #months = new Set<string>();
  /** Faults that no single sandbox is to blame for. */
  readonly faults: string[] = [];

  constructor(rouse: Rouse, storeFile: string, delivered: readonly Delivered[]) {
    this.#rouse = rouse;
    this.#storeFile = storeFile;
    this.#delivered = delivered;
  }

  /** What the account shows of a sandbox, over all months of this run. One read at a time, so that each is a later one. */
  shown(id: string): Promise<Amounts> {
    const read = this.#reading.then(() => this.#lookOn(id));
    this.#reading = read.catch(() => undefined);
    return read;
  }

  /** The edge may be down, for a point that plays beside. */
  async #lookOn(id: string): Promise<Amounts> {
    const endsAt = performance.now() + SETTLE_MS;
    for (;;) {
      try {
        return await this.#look(id);
      } catch (fault) {
        if (performance.now() > endsAt) throw fault;
        await delay(250);
      }
    }
  }

  async #look(id: string): Promise<Amounts> {
    this.#months.add((await this.#rouse.usage()).month);
    const sums = new Map<string, Amounts>();
    for (const month of this.#months) {
      for (const line of (await this.#rouse.usage(month)).lines)
        sums.set(line.sandboxId, add(sums.get(line.sandboxId) ?? NOTHING, fromDigits(line)));
    }
    for (const [one, before] of this.#shown) {
      const now = sums.get(one) ?? NOTHING;
      const lower = meters.filter((meter) => now[meter] < before[meter]);
      for (const meter of lower)
        this.faults.push(`usage of ${one}: ${meter} went from ${before[meter]} to ${now[meter]}`);
    }
    for (const [one, now] of sums) this.#shown.set(one, now);
    return sums.get(id) ?? NOTHING;
  }

  /** The reports of a sandbox that the edge took, each generation's newest. */
  told(id: string): UsageReport[] {
    for (; this.#read < this.#delivered.length; this.#read++) {
      const { letter, status, text } = this.#delivered[this.#read] as Delivered;
      if (letter.path !== "/internal/usage" || status !== 200) continue;
      const { refused } = JSON.parse(text) as { refused?: number };
      if (refused !== 0) this.faults.push(`the edge refused ${refused} reports: an amount went down`);
      for (const report of UsageReports.parse(JSON.parse(letter.body)).reports) {
        const key = `${report.id} ${report.generation}`;
        if ((this.#newest.get(key)?.sequence ?? 0) < report.sequence) this.#newest.set(key, report);
      }
    }
    return [...this.#newest.values()].filter((report) => report.id === id);
  }

  /** What the host agent still keeps of a sandbox that is deleted: nothing once the edge took it all. */
  stored(id: string): { generation: number; sequence: number; taken: number; amounts: Amounts }[] {
    if (!existsSync(this.#storeFile)) return [];
    const db = new DatabaseSync(this.#storeFile, { readOnly: true });
    try {
      db.exec("PRAGMA busy_timeout=5000");
      return db
        .prepare("SELECT * FROM usage WHERE id = ? ORDER BY generation")
        .all(id)
        .map((row) => ({
          generation: Number(row["generation"]),
          sequence: Number(row["sequence"]),
          taken: Number(row["taken"]),
          amounts: fromDigits({
            cpu: String(row["cpu"]),
            memory: String(row["memory"]),
            stored: String(row["stored"]),
          }),
        }));
    } finally {
      db.close();
    }
  }

  /** Wait until host and edge agree about a sandbox; answers what is wrong when they don't. */
  async settle(id: string, gone: boolean): Promise<string[]> {
    const endsAt = performance.now() + SETTLE_MS;
    for (;;) {
      const faults = await this.#disagreement(id, gone).catch((fault: unknown) => [`usage: ${String(fault)}`]);
      if (faults.length === 0 || performance.now() > endsAt) return faults;
      await delay(250);
    }
  }

  async #disagreement(id: string, gone: boolean): Promise<string[]> {
    const rows = this.stored(id);
    const shown = await this.shown(id);
    const told = this.told(id);
    const sum = told.map(fromDigits).reduce(add, NOTHING);
    const faults: string[] = [];
    for (const meter of meters)
      if (shown[meter] !== sum[meter])
        faults.push(`usage: ${meter} is ${shown[meter]}, and the reports that arrived come to ${sum[meter]}`);
    for (const row of rows) {
      const newest = told.find(({ generation }) => generation === row.generation);
      if (row.sequence !== row.taken || newest?.sequence !== row.sequence)
        faults.push(
          `usage: of generation ${row.generation} the host keeps report ${row.sequence}, ${row.taken} is taken, and the edge has ${newest?.sequence ?? "none"}`,
        );
      else if (meters.some((meter) => fromDigits(newest)[meter] !== row.amounts[meter]))
        faults.push(`usage: of generation ${row.generation} host and edge have different amounts`);
    }
    if (gone && rows.length > 0 && faults.length === 0)
      faults.push(`usage: the host still keeps ${rows.length} generations of a deleted sandbox`);
    return faults;
  }
}

/** Whether more was booked than a machine can have used. @param wallMs from before its creation until now */
export function excess(
  shown: Amounts,
  most: { wallMs: number; awakeMs: number; memoryMiB: number; cpus: number; storedBytes: number },
): string[] {
  const limits: readonly [keyof Amounts, number][] = [
    ["cpu", most.wallMs * 1e6 * most.cpus],
    ["memory", most.awakeMs * most.memoryMiB],
    ["stored", most.wallMs * most.storedBytes],
  ];
  return limits
    .filter(([meter, limit]) => shown[meter] > BigInt(Math.ceil(limit)))
    .map(([meter, limit]) => `usage: ${meter} is ${shown[meter]}, and at most ${Math.ceil(limit)} can have been used`);
}
