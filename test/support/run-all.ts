/**
 * `npm test [-- PROJECT ...] [-- VITEST ARGUMENTS]`: run the test projects that exist, each in a process of its own.
 * ROUSE_TEST_KEEP=1 keeps the tests' temporary files. The last line is `N passed, N failed[, N skipped]`; the exit code
 * is 0 only when something ran and nothing failed.
 */
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { testProjects } from "./projects.ts";
import { endGroup, leftovers, signalAll, signalGroup, spawnGroup, sweep } from "./process-tree.ts";
import {
  type Exit,
  isGreen,
  type Outcome,
  countLine,
  outcomeOf,
  parseRecords,
  RECORD_FILE,
  report,
  type TestRecord,
} from "./test-record.ts";

/** A project that prints nothing for so long hangs, milliseconds. */
const SILENCE_LIMIT_MS = 20 * 60_000;
/** After so long without output a line says that the project still runs, milliseconds. */
const HEARTBEAT_MS = 60_000;
/** A project that is through and still there after so long without output is ended, milliseconds. */
const EXIT_LIMIT_MS = 20_000;
/** Marks every process a project starts. */
const MARK = "ROUSE_TEST_RUN";

const root = join(import.meta.dirname, "../..");
const runFolder = mkdtempSync(join(tmpdir(), "rt-"));
// Package managers that build images give up their rights and must still get in.
chmodSync(runFolder, 0o755);

const names = new Set(testProjects.map(({ name }) => name));
const args = process.argv.slice(2).filter((arg) => arg !== "--");
const chosen = args.filter((arg) => names.has(arg));
const vitestArgs = args.filter((arg) => !names.has(arg));

const wanted = testProjects.filter(
  ({ name }) =>
    (chosen.length === 0 || chosen.includes(name)) && existsSync(join(root, "test", name, "vitest.config.ts")),
);

/** Process groups at work, by project. */
const running = new Map<string, number>();
let interrupted = false;

/** TMPDIR of a project. Short, as the path of a Unix socket has 107 bytes at most. */
function folderOf(project: string): string {
  return join(runFolder, String(testProjects.findIndex(({ name }) => name === project)));
}

function readRecords(file: string): TestRecord[] {
  return existsSync(file) ? parseRecords(readFileSync(file, "utf8")) : [];
}

async function run(project: string): Promise<Outcome> {
  const startedAt = performance.now();
  const say = (line: string) => process.stdout.write(`[${project}] ${line}\n`);
  const folder = folderOf(project);
  const recordFile = join(runFolder, `${project}.jsonl`);
  mkdirSync(folder);
  say("started");

  const child = spawnGroup(
    process.execPath,
    [
      ...process.execArgv,
      join(root, "node_modules/vitest/vitest.mjs"),
      "run",
      `--config=test/${project}/vitest.config.ts`,
      "--reporter=./test/support/line-reporter.ts",
      "--silent=passed-only",
      ...(vitestArgs.length > 0 ? ["--passWithNoTests", ...vitestArgs] : []),
    ],
    {
      ...process.env,
      NO_COLOR: "1",
      FORCE_COLOR: undefined,
      TMPDIR: folder,
      [RECORD_FILE]: recordFile,
      [MARK]: folder,
    },
    root,
  );
  if (child.pid === undefined) return outcomeOf(project, [], { code: null, signal: null, stopped: "did not start" });
  const leader = child.pid;
  running.set(project, leader);

  let heardAt = performance.now();
  let saidAt = heardAt;
  let stopped: string | undefined;
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue;
    createInterface({ input: stream }).on("line", (line) => {
      heardAt = performance.now();
      say(line);
    });
  }
  const stop = (why: string) => {
    if (stopped) return;
    stopped = why;
    void endGroup(leader);
  };
  const watch = setInterval(() => {
    const now = performance.now();
    const silentMs = now - heardAt;
    if (silentMs > EXIT_LIMIT_MS && readRecords(recordFile).at(-1)?.type === "end") {
      stop("did not exit after its last test: something it started is still at work");
    } else if (silentMs > SILENCE_LIMIT_MS) {
      stop(`no output for ${SILENCE_LIMIT_MS / 60_000} minutes: taken for hanging`);
    } else if (now - Math.max(heardAt, saidAt) > HEARTBEAT_MS) {
      saidAt = now;
      say(`... running for ${Math.round((now - startedAt) / 1000)} s`);
    }
  }, 1000);

  const closed = once(child, "close");
  // Not "close": a child that left the group may hold the pipes open until the sweep ends it.
  const exit = await new Promise<Exit>((resolve) => {
    child.on("error", (error) => resolve({ code: null, signal: null, stopped: error.message }));
    child.on("exit", (code, signal) => resolve({ code, signal }));
  });
  clearInterval(watch);
  await endGroup(leader);
  for (const { pid, command } of await sweep(MARK, folder, folder)) {
    say(`note: ended process ${pid} that the tests left behind: ${command.slice(0, 200)}`);
  }
  running.delete(project);
  await Promise.race([closed, sleep(5000, undefined, { ref: false })]);

  const outcome = outcomeOf(project, readRecords(recordFile), stopped ? { ...exit, stopped } : exit);
  say(`${countLine([outcome])} in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  return outcome;
}

async function runAll(): Promise<Outcome[]> {
  const outcomes = new Map<string, Outcome>();
  const queue = wanted.filter((project) => !project.alone);
  const lane = async () => {
    for (let next = queue.shift(); next && !interrupted; next = queue.shift())
      outcomes.set(next.name, await run(next.name));
  };
  await Promise.all([lane(), lane(), prepareImages()]);
  for (const { name, alone } of wanted) {
    if (alone && !interrupted) outcomes.set(name, await run(name));
  }
  return wanted.flatMap(({ name }) => outcomes.get(name) ?? []);
}

/** What projects with real machines wait for is made beside the others: it takes longer than all of them. */
async function prepareImages(): Promise<void> {
  if (!wanted.some(({ alone }) => alone)) return;
  const file = join(root, "test/support/prepare-images.ts");
  const child = spawnGroup(process.execPath, [...process.execArgv, file], process.env, root);
  if (child.pid === undefined) return;
  running.set("images", child.pid);
  for (const stream of [child.stdout, child.stderr])
    if (stream) createInterface({ input: stream }).on("line", (line) => process.stdout.write(`[images] ${line}\n`));
  // Where it fails, the first project that needs them says why.
  await once(child, "exit").catch(() => undefined);
  running.delete("images");
}

function removeRunFolder(): void {
  if (process.env["ROUSE_TEST_KEEP"]) {
    process.stdout.write(`note: ROUSE_TEST_KEEP is set: ${runFolder} stays\n`);
  } else if (readFileSync("/proc/self/mounts", "utf8").includes(` ${runFolder}/`)) {
    process.stdout.write(`note: ${runFolder} stays, something is mounted in it\n`);
  } else {
    rmSync(runFolder, { recursive: true, force: true, maxRetries: 3 });
  }
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    // The second time the user means it.
    if (interrupted) process.exit(130);
    interrupted = true;
    process.stdout.write(`${signal}: ending the tests\n`);
    for (const leader of running.values()) void endGroup(leader);
  });
}
process.on("exit", () => {
  for (const [project, leader] of running) {
    signalGroup(leader, "SIGKILL");
    if (project !== "images") signalAll(leftovers(MARK, folderOf(project), folderOf(project)), "SIGKILL");
  }
});

const outcomes = await runAll();
removeRunFolder();
console.log(report(outcomes));
if (interrupted) process.exitCode = 130;
else process.exitCode = isGreen(outcomes) ? 0 : 1;
