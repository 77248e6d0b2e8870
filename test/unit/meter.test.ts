/** The meter against an independent model, and what is free. */
import { describe, expect, it } from "vitest";
import { FREE_AFTER_MS, Meter } from "../../backend-pool/report/meter.ts";
import type { JournalRow } from "../../backend-pool/store/journal.ts";
import type { UsageRow } from "../../backend-pool/store/usage.ts";

const SHAPE = { image: "default", vcpu: 2, memoryMiB: 2048, diskMiB: 8192 };

class Bench {
  readonly rows = new Map<string, UsageRow>();
  now = 1_000_000;
  meter = this.#start();

  #start(): Meter {
    const key = ({ id, generation }: UsageRow) => `${id} ${generation}`;
    return new Meter(
      {
        put: (row) => void this.rows.set(key(row), row),
        remove: (id, generation) => void this.rows.delete(`${id} ${generation}`),
        all: () => [...this.rows.values()],
      },
      () => this.now,
    );
  }

  /** The host agent died and is back. */
  restart(): void {
    this.meter = this.#start();
  }

  state(state: JournalRow["state"], generation = 1, id = "m"): void {
    this.meter.observe({
      id,
      account: "default",
      generation,
      state,
      shape: SHAPE,
      hostname: id,
      idlePauseSeconds: 60,
      endedGeneration: 0,
      timer: null,
      savedGeneration: null,
      memoryRestored: true,
      endReason: null,
      lastActiveAt: 0,
      lastActionMs: null,
      pendingEvent: null,
      boot: null,
    });
  }

  pass(ms: number): void {
    this.now += ms;
  }

  /** What the edge was told in all, taking every report. */
  told(generation = 1): { cpu: bigint; memory: bigint; stored: bigint } | undefined {
    return this.meter.pending().find((row) => row.generation === generation)?.amounts;
  }
}

describe("the meter", () => {
  it("counts memory while a machine runs, CPU that it took, and storage while it rests", () => {
    const bench = new Bench();
    bench.state("creating");
    bench.pass(5000);
    bench.state("running");
    bench.meter.sample("m", { cpuNs: 7_000_000_000n, storedBytes: 1 });
    bench.pass(10_000);
    bench.meter.sample("m", { cpuNs: 9_500_000_000n, storedBytes: 1 });
    bench.meter.answered();
    expect(bench.told()).toMatchObject({ cpu: 2_500_000_000n, memory: 2048n * 10_000n, stored: 0n });
    bench.state("pausing");
    bench.pass(300);
    bench.state("paused");
    bench.meter.sample("m", { cpuNs: 9_600_000_000n, storedBytes: 500_000_000 });
    bench.pass(1000);
    bench.meter.answered();
    expect(bench.told()).toMatchObject({ cpu: 2_600_000_000n, memory: 2048n * 10_000n, stored: 500_000_000n * 1000n });
  });

  it("begins each run's CPU anew: a boot and a load are free", () => {
    const bench = new Bench();
    bench.state("running");
    bench.meter.sample("m", { cpuNs: 100n, storedBytes: 0 });
    bench.state("paused");
    bench.meter.sample("m", { cpuNs: 150n, storedBytes: 0 });
    bench.state("waking", 2);
    bench.meter.sample("m", { cpuNs: 40n, storedBytes: 0 });
    bench.state("running", 2);
    bench.meter.sample("m", { cpuNs: 1000n, storedBytes: 0 });
    bench.meter.sample("m", { cpuNs: 1030n, storedBytes: 0 });
    bench.meter.answered();
    expect([bench.told(1)?.cpu, bench.told(2)?.cpu]).toEqual([50n, 30n]);
  });

  it("drops what was measured while the edge did not answer", () => {
    const bench = new Bench();
    bench.state("running");
    bench.meter.answered();
    bench.pass(FREE_AFTER_MS);
    bench.meter.answered();
    const paid = bench.told()?.memory;
    expect(paid).toBe(2048n * BigInt(FREE_AFTER_MS));
    bench.pass(3_600_000);
    bench.meter.answered();
    expect(bench.told()?.memory).toBe(paid);
    bench.pass(1000);
    bench.meter.answered();
    expect(bench.told()?.memory).toBe((paid ?? 0n) + 2048n * 1000n);
  });

  it("goes on after the host agent died, and the time of its absence is free", () => {
    const bench = new Bench();
    bench.state("running");
    bench.pass(5000);
    bench.meter.answered();
    bench.pass(62_000);
    bench.restart();
    bench.state("running");
    bench.pass(3000);
    bench.meter.answered();
    expect(bench.told()).toMatchObject({ memory: 2048n * 8000n });
  });

  it("reports what a machine that is gone used, once, and forgets it", () => {
    const bench = new Bench();
    bench.state("running");
    bench.pass(4000);
    bench.meter.forget("m");
    bench.pass(60_000);
    // The last answer was long ago, but what counts is that it answers within the limit.
    expect(bench.meter.pending()).toEqual([]);
    bench.now -= 55_000;
    bench.meter.answered();
    const [row] = bench.meter.pending();
    expect(row).toMatchObject({ done: true, amounts: { memory: 2048n * 4000n } });
    if (row) bench.meter.taken(row);
    expect(bench.meter.pending()).toEqual([]);
    expect(bench.rows.size).toBe(0);
  });

  it("equals an independent model over random histories", () => {
    for (let seed = 1; seed <= 200; seed++) {
      let random = seed;
      const next = (n: number) => (random = (random * 48_271) % 2_147_483_647) % n;
      const bench = new Bench();
      let generation = 0;
      let state: JournalRow["state"] = "stopped";
      let stored = 0;
      let cpu = 0n;
      // The model: amounts by generation, moved to `sure` when the edge answers in time.
      const sure = new Map<number, bigint[]>();
      let unsure = new Map<number, bigint[]>();
      let answeredAt = bench.now;
      const put = (at: number, amounts: bigint[]) =>
        unsure.set(
          at,
          (unsure.get(at) ?? [0n, 0n, 0n]).map((sum, i) => sum + (amounts[i] ?? 0n)),
        );
      for (let step = 0; step < 80; step++) {
        const ms = next(9000);
        bench.pass(ms);
        if (generation > 0) {
          if (state === "running") put(generation, [0n, 2048n * BigInt(ms), 0n]);
          else put(generation, [0n, 0n, BigInt(stored) * BigInt(ms)]);
        }
        switch (next(5)) {
          case 0:
            if (state !== "running") {
              generation++;
              state = "running";
              bench.state(state, generation);
              stored = 0;
              bench.meter.sample("m", { cpuNs: cpu, storedBytes: 0 });
            }
            break;
          case 1:
            if (state === "running") {
              state = "paused";
              bench.state(state, generation);
              stored = next(1000);
              bench.meter.sample("m", { cpuNs: cpu, storedBytes: stored });
            }
            break;
          case 2:
            if (state === "running") {
              const took = BigInt(next(5000));
              cpu += took;
              put(generation, [took, 0n, 0n]);
              bench.meter.sample("m", { cpuNs: cpu, storedBytes: 0 });
            }
            break;
          default: {
            const inTime = bench.now - answeredAt <= FREE_AFTER_MS;
            answeredAt = bench.now;
            bench.meter.answered();
            if (inTime)
              for (const [at, amounts] of unsure)
                sure.set(
                  at,
                  (sure.get(at) ?? [0n, 0n, 0n]).map((sum, i) => sum + (amounts[i] ?? 0n)),
                );
            unsure = new Map();
          }
        }
      }
      for (const [at, amounts] of sure) {
        const told = bench.told(at) ?? { cpu: 0n, memory: 0n, stored: 0n };
        expect([seed, at, told.cpu, told.memory, told.stored]).toEqual([seed, at, ...amounts]);
      }
    }
  });

  it("writes and tells nothing of a machine that only rests, until an hour of it has come together", () => {
    const bench = new Bench();
    let writes = 0;
    const put = bench.rows.set.bind(bench.rows);
    bench.rows.set = (key, row) => {
      writes++;
      return put(key, row);
    };
    bench.state("running");
    bench.state("paused");
    bench.meter.sample("m", { cpuNs: 0n, storedBytes: 1000 });
    bench.pass(5000);
    bench.meter.answered();
    const [first] = bench.meter.pending(3_600_000);
    expect(first?.amounts.stored).toBe(5_000_000n);
    if (first) bench.meter.taken(first);
    writes = 0;
    for (let beat = 0; beat < 719; beat++) {
      bench.pass(5000);
      bench.meter.answered();
      expect(bench.meter.pending(3_600_000)).toEqual([]);
    }
    expect(writes).toBe(0);
    // An outage in between is free, as ever.
    bench.pass(600_000);
    bench.meter.answered();
    bench.pass(5000);
    bench.meter.answered();
    expect(bench.meter.pending(3_600_000)).toMatchObject([{ amounts: { stored: 5_000_000n + 3_600_000_000n } }]);
    expect(writes).toBe(1);
  });
});
