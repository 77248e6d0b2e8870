/** Plays kill points in two lanes side by side, real machines and all others, and tells what came of each. */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { dismiss, judge, judgeBooks } from "./judge.ts";
import { Skipped, Stage, type Place, type Point } from "./point.ts";
import { Random } from "./random.ts";
import { SmallDisk } from "./small-disk.ts";
import type { Witness } from "./witness.ts";
import { World } from "./world.ts";

/** A point that takes longer hangs, milliseconds. */
const POINT_MS = 150_000;
const NAME_WIDTH = 46;
const STRUCK_WIDTH = 66;

export interface Result {
  readonly point: string;
  /** What was killed, and when. */
  readonly struck: string;
  readonly ms: number;
  readonly outcome: "ok" | "FAILED" | "skipped";
  readonly faults: readonly string[];
}

export interface RunOptions {
  readonly seed: string;
  /** How often each point is played, each time with other draws of the seed. */
  readonly times: number;
  /** Holds a folder for each system. */
  readonly dir: string;
  /** After so long no more points are begun, milliseconds: they are skipped, and it is said. */
  readonly limitMs: number;
}

/** One play of a point. */
interface Turn {
  readonly point: Point;
  readonly stage: Stage;
  readonly beganAt: number;
  /** Rows of this lane that wait for their books to be settled. */
  readonly settling: Promise<void>[];
}

export class Runner {
  readonly results: Result[] = [];
  /** Folders of the systems that were opened. */
  readonly stateDirs: string[] = [];
  readonly #options: RunOptions;
  readonly #beganAt = performance.now();
  /** What is being played, one in each lane. */
  readonly #playing = new Set<Stage>();
  #labels = 0;

  constructor(options: RunOptions) {
    this.#options = options;
  }

  /** What nobody caught, in the part of the product that runs in this process: the launcher. */
  blame(fault: unknown): void {
    const full = fault instanceof Error && "code" in fault && fault.code === "ENOSPC";
    for (const stage of this.#playing)
      if (!full || stage.world.disk) stage.complain(`the launcher would have died of this: ${describe(fault)}`);
    if (this.#playing.size === 0) throw fault;
  }

  async run(points: readonly Point[]): Promise<void> {
    console.log(
      `${"point".padEnd(NAME_WIDTH)}  ${"what was done, and when".padEnd(STRUCK_WIDTH)}  ${"ms".padStart(6)}  result`,
    );
    const at = (place: Place) => points.filter((point) => point.place === place);
    const others = async () => {
      await this.#lane("fake", at("fake"));
      await this.#lane("small disk", at("small disk"));
      await this.#lane("small state", at("small state"));
    };
    await Promise.all([this.#lane("qemu", at("qemu")), others()]);
  }

  /** The last line. @param broken whether random play, which counts as one, broke a promise; null when there was none */
  countLine(broken: boolean | null): string {
    const count = (outcome: string) => this.results.filter((one) => one.outcome === outcome).length;
    const passed = count("ok") + (broken === false ? 1 : 0);
    const skipped = count("skipped");
    return `${passed} passed, ${count("FAILED") + (broken ? 1 : 0)} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
  }

  async #lane(place: Place, points: readonly Point[]): Promise<void> {
    if (points.length === 0) return;
    const dir = join(this.#options.dir, place.replace(" ", "-"));
    this.stateDirs.push(dir);
    const disk =
      place === "small disk"
        ? SmallDisk.mount(join(dir, "machines"))
        : place === "small state"
          ? SmallDisk.mount(dir)
          : null;
    if (typeof disk === "string") {
      for (const point of points) this.#skip(point, disk);
      return;
    }
    if (this.#isLate()) {
      for (const point of points) this.#skip(point, "no time left on this busy machine; --only plays it");
      return;
    }
    const world = await World.open(place === "fake" ? "fake" : "qemu", dir, disk);
    const settling: Promise<void>[] = [];
    const turn = (point: Point, n = 1) => this.#turn(point, world, n, settling);
    try {
      const early: Turn[] = [];
      for (const point of points.filter((one) => one.begin)) {
        const begun = turn(point);
        if (await this.#survives(begun, async () => point.begin?.(begun.stage))) early.push(begun);
        else await this.#end(begun);
      }
      for (const point of points.filter((one) => !one.begin))
        for (let n = 1; n <= this.#options.times; n++) {
          if (this.#isLate()) this.#skip(point, "no time left on this busy machine; --only plays it");
          else await this.#play(turn(point, n));
        }
      for (const begun of early) await this.#play({ ...begun, beganAt: performance.now() });
      if (world.standing.length > 0) await this.#play(turn({ name: "all/deleted-at-the-end", place, play: dismiss }));
      await Promise.all(settling);
    } finally {
      await world.close();
      disk?.unmount("host.log", "edge.log");
    }
  }

  #isLate(): boolean {
    return performance.now() - this.#beganAt > this.#options.limitMs;
  }

  #skip({ name }: Point, why: string): void {
    this.#tell({ point: name, struck: why, ms: 0, outcome: "skipped", faults: [] });
  }

  #turn(point: Point, world: World, n: number, settling: Promise<void>[]): Turn {
    // Short and plain, as it becomes a host name and a part of paths.
    const label = `${point.name.replaceAll("/", "-").slice(0, 30).replace(/-$/, "")}-${++this.#labels}`;
    const random = new Random(`${this.#options.seed}/${point.name}/${n}`);
    return { point, stage: new Stage(world, random, label), beganAt: performance.now(), settling };
  }

  async #play(turn: Turn): Promise<void> {
    const { point, stage } = turn;
    this.#playing.add(stage);
    let skipped: Skipped | null = null;
    const played = await this.#survives(
      turn,
      () => point.play(stage),
      (reason) => (skipped = reason),
    );
    await this.#end(turn, skipped ?? undefined, played);
  }

  /** Everything is up again, and judged. */
  async #end(turn: Turn, skipped?: Skipped, played = false): Promise<void> {
    const { stage } = turn;
    await this.#survives(turn, () => stage.world.heal());
    // What could not be played to its end may have left anything; the sandbox is only taken away then.
    const judged = (played || skipped) && (await this.#survives(turn, () => judge(stage)));
    if (!judged) for (const witness of stage.witnesses) await this.#remove(witness);
    this.#playing.delete(stage);
    const ms = Math.round(performance.now() - turn.beganAt);
    turn.settling.push(
      (async () => {
        if (judged) await this.#survives(turn, () => judgeBooks(stage));
        this.#tell({
          point: turn.point.name,
          struck: skipped?.message ?? stage.struck.join("; "),
          ms,
          outcome: stage.faults.length > 0 ? "FAILED" : skipped ? "skipped" : "ok",
          faults: stage.faults,
        });
      })(),
    );
  }

  /** A sandbox of a point that did not end: it must not be in the way of others. */
  async #remove(witness: Witness): Promise<void> {
    const limit = { timeoutMs: 20_000 };
    await witness.patient.delete(limit).catch(() => undefined);
    await witness.world.purge(witness.id);
  }

  /** Do a part of a point: whatever goes wrong is the point's fault, and not the run's end. */
  async #survives(turn: Turn, work: () => Promise<void>, skip?: (reason: Skipped) => void): Promise<boolean> {
    const late = new AbortController();
    const limit = delay(POINT_MS, undefined, { signal: late.signal }).then(() => {
      throw new Error(`it does not end within ${POINT_MS / 1000} s`);
    });
    limit.catch(() => undefined);
    try {
      await Promise.race([work(), limit]);
      return true;
    } catch (fault) {
      if (fault instanceof Skipped && skip) skip(fault);
      else turn.stage.complain(describe(fault));
      return false;
    } finally {
      late.abort();
    }
  }

  #tell(result: Result): void {
    this.results.push(result);
    const { point, struck, ms, outcome, faults } = result;
    const row = [point.padEnd(NAME_WIDTH), struck.padEnd(STRUCK_WIDTH), String(ms).padStart(6), outcome];
    console.log(row.join("  "));
    for (const fault of faults) console.log(`    ${fault.replaceAll("\n", "\n    ")}`);
  }
}

function describe(fault: unknown): string {
  if (!(fault instanceof Error)) return String(fault);
  const code = "code" in fault ? `${String(fault.code)}: ` : "";
  const [, where] = (fault.stack ?? "")
    .split("\n")
    .filter((line) => line.includes("test/faults/") || !line.startsWith("    at"));
  return `${code}${fault.message}${where === undefined ? "" : ` (${where.trim()})`}`;
}
