/**
 * `npm run faults [-- --seed TEXT] [--quick] [--only PATTERN]`: kill points, each by its name, and after each the same
 * look at every promise of ARCHITECTURE.md; the last line is `N passed, N failed[, N skipped]`. `--list` shows them.
 * Without `--quick` each is played three times with other draws of the seed, some that take long too, and random play
 * follows.
 * `npm run faults -- --play [--minutes N | --rounds N] [--seed TEXT]`: only random play; the last line is one JSON object.
 * Exit code 1 when a promise was broken, 2 for flags that are not understood.
 */
import { randomInt } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { endAll, guard } from "./exit-guard.ts";
import { playAtRandom } from "./play.ts";
import { points } from "./points/all.ts";
import { Record } from "./record.ts";
import { Runner } from "./runner.ts";
import { unmountBelow } from "./small-disk.ts";

/** Random play after all points, minutes. */
const PLAY_MINUTES = 3;
/** Plays of each point without `--quick`. */
const TIMES = 3;
/** `--quick` begins no point after so long, so that it ends within ten minutes on a busy machine too. Milliseconds. */
const QUICK_MS = 480_000;

const flags = parsedFlags();
const rounds = positive("rounds", flags.rounds);
const minutes = positive("minutes", flags.minutes);
const isPlay = flags.play === true || rounds !== undefined || minutes !== undefined;
if (isPlay && (flags.quick || flags.list || flags.only !== undefined))
  refuse("--play, --rounds and --minutes are random play, which knows no --quick, --only and --list");
const chosen = points.filter(({ name, thorough }) =>
  flags.only === undefined ? !(flags.quick && thorough) : flags.only.some((only) => pattern(only).test(name)),
);
if (chosen.length === 0) refuse(`no point matches ${flags.only?.join(" or ")}; --list shows them all`);
if (flags.list) {
  for (const { name, place, thorough } of chosen)
    console.log(`${name.padEnd(44)}${place}${thorough ? ", not with --quick" : ""}`);
  process.exit(0);
}

const seed = flags.seed ?? String(randomInt(1, 1_000_000));
const record = new Record(seed);
const dir = mkdtempSync(join(tmpdir(), "rouse-faults-"));
const playDir = join(dir, "play");
const runner = new Runner({
  seed,
  times: flags.quick ? 1 : TIMES,
  dir,
  limitMs: flags.quick ? QUICK_MS : Infinity,
});
// Every process of a system has inherited its folder, the machines too.
guard({
  end: () => [...runner.stateDirs, playDir].forEach((state) => endAll("ROUSE_STATE", state, state)),
  rest: () => {
    keep();
    unmountBelow(dir);
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  },
});

console.log(`seed ${seed}`);
let ended = false;
if (isPlay) {
  await playAtRandom(record, {
    stateDir: playDir,
    rounds: rounds ?? Infinity,
    minutes: minutes ?? (rounds === undefined ? PLAY_MINUTES : Infinity),
  });
  record.print();
} else {
  process.on("uncaughtException", (fault) => runner.blame(fault));
  await runner.run(chosen);
  const playsOn = !flags.quick && flags.only === undefined;
  if (playsOn) {
    await playAtRandom(record, { stateDir: playDir, rounds: Infinity, minutes: PLAY_MINUTES });
    record.print();
  }
  console.log(runner.countLine(playsOn ? record.violations.length > 0 : null));
}
ended = true;
process.exit(isFaulty() ? 1 : 0);

function isFaulty(): boolean {
  return !ended || record.violations.length > 0 || runner.results.some(({ outcome }) => outcome === "FAILED");
}

/** Leave what explains a failure. Synchronous, for an exit. */
function keep(): void {
  if (!isFaulty()) return;
  const folder = mkdtempSync(join(tmpdir(), "rouse-faults-kept-"));
  writeFileSync(join(folder, "points.json"), JSON.stringify(runner.results, null, 2));
  for (const state of runner.stateDirs) {
    const to = join(folder, state.slice(dir.length + 1));
    mkdirSync(to);
    for (const log of ["host.log", "edge.log"])
      if (existsSync(join(state, log))) copyFileSync(join(state, log), join(to, log));
  }
  if (existsSync(playDir)) record.keep(playDir, folder);
  console.error(`logs are kept in ${folder}`);
}

function parsedFlags() {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: "string" },
        quick: { type: "boolean" },
        only: { type: "string", multiple: true },
        list: { type: "boolean" },
        play: { type: "boolean" },
        rounds: { type: "string" },
        minutes: { type: "string" },
      },
    });
    return values;
  } catch (fault) {
    return refuse(fault instanceof Error ? fault.message : String(fault));
  }
}

/** A part of a name; `*` stands for anything. */
function pattern(text: string): RegExp {
  return new RegExp(text.replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*"));
}

function positive(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  return value > 0 ? value : refuse(`--${name} is ${JSON.stringify(text)}; it must be a number above 0`);
}

function refuse(why: string): never {
  console.error(why);
  process.exit(2);
}
