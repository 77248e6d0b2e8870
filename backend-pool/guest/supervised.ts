/**
 * A program that outlives the guest agent: its output goes to named pipes that it holds open at both ends, so that it
 * waits rather than dies while nobody reads, and the next agent takes it up by its number.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { closeSync, constants, openSync, readFileSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import type { OutputLog, Stream } from "./output.ts";
import type { Exit } from "./restarts.ts";

export interface Program {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Record<string, string>;
}

/** A process for sure: numbers are given again. */
export interface ProcessId {
  readonly pid: number;
  /** In the kernel's ticks since its start. */
  readonly startTime: string;
}

/** One that is not our child tells nobody of its end: it is looked for so often, milliseconds. */
const LOOK_MS = 1000;
/** How long what it wrote last may take to arrive, milliseconds. */
const DRAIN_MS = 100;
const streams = ["stdout", "stderr"] as const;

export class Supervised {
  readonly id: ProcessId | null;
  readonly #ended = Promise.withResolvers<Exit>();
  readonly #readers: Socket[] = [];
  #isOver = false;

  private constructor(id: ProcessId | null) {
    this.id = id;
  }

  /** @param key names its pipes in the folder; a program of before with that key has ended */
  static start(folder: string, key: string, program: Program, log: OutputLog): Supervised {
    const paths = streams.map((stream) => join(folder, `${key}.${stream}`));
    for (const path of paths) rmSync(path, { force: true });
    const made = spawnSync("mkfifo", ["-m", "600", ...paths], { stdio: "ignore" }).status === 0;
    const readers = made ? streams.map((stream, i) => reader(paths[i] ?? "", stream, log)) : [];
    const ends = made ? paths.map((path) => openSync(path, constants.O_RDWR)) : [];
    const [command = "", ...args] = program.argv;
    let child: ChildProcess | null = null;
    let fault: unknown;
    try {
      const { cwd, env } = program;
      // A group of its own, so that signals reach what it started, too.
      child = spawn(command, args, {
        ...{ cwd, env, detached: true },
        stdio: ["ignore", ends[0] ?? "ignore", ends[1] ?? "ignore"],
      });
    } catch (thrown) {
      fault = thrown;
    }
    for (const end of ends) closeSync(end);
    const { pid } = child ?? {};
    const started = new Supervised(pid === undefined ? null : idOf(pid));
    started.#readers.push(...readers);
    const notStarted = (why: unknown) => {
      log.append("stderr", Buffer.from(`${why instanceof Error ? why.message : String(why)}\n`));
      void started.#over({ code: 127, signal: null });
    };
    if (!child) notStarted(fault);
    child?.once("error", notStarted);
    child?.once("exit", (code, signal) => void started.#over({ code, signal }));
    return started;
  }

  /** Take up one that an agent of before started; null when it has ended. @param exitOf how it ended, where that is kept */
  static adopt(folder: string, key: string, id: ProcessId, log: OutputLog, exitOf: () => Exit): Supervised | null {
    if (!lives(id)) return null;
    const found = new Supervised(id);
    for (const stream of streams) {
      try {
        found.#readers.push(reader(join(folder, `${key}.${stream}`), stream, log));
      } catch {
        // Somebody removed it; what it writes is lost.
      }
    }
    const look = () => {
      if (lives(id)) setTimeout(look, LOOK_MS);
      else void found.#over(exitOf());
    };
    setTimeout(look, LOOK_MS);
    return found;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Resolves when it ended and its output is in the log. */
  get ended(): Promise<Exit> {
    return this.#ended.promise;
  }

  /** To it and all that it started. */
  signal(signal: string): void {
    if (this.id !== null) signalGroup(this.id.pid, signal);
  }

  async #over(exit: Exit): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    // What it left running must not write into the next one's place.
    this.signal("SIGKILL");
    const closed = this.#readers.map((one) => (one.destroyed ? null : new Promise((done) => one.once("close", done))));
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, DRAIN_MS);
    await Promise.race([Promise.all(closed), late.promise]);
    clearTimeout(timer);
    for (const one of this.#readers) one.destroy();
    this.#ended.resolve(exit);
  }
}

/** A program of another user is not ours to signal. */
export function signalGroup(pid: number, signal: string): void {
  try {
    process.kill(-pid, signal as NodeJS.Signals);
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== "EPERM") return;
    spawn("sudo", ["-n", "kill", "-s", signal.replace(/^SIG/, ""), "--", `-${pid}`], { stdio: "ignore" }).on(
      "error",
      () => undefined,
    );
  }
}

/** Of a process that runs now. */
export function idOf(pid: number): ProcessId {
  return { pid, startTime: startTimeOf(pid) ?? "" };
}

export function lives(id: ProcessId): boolean {
  return id.startTime !== "" && startTimeOf(id.pid) === id.startTime;
}

/** null for none, and for one that has ended and that nobody asked about. */
function startTimeOf(pid: number): string | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? null : (fields[19] ?? null);
  } catch {
    return null;
  }
}

function reader(path: string, stream: Stream, log: OutputLog): Socket {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const from = new Socket({ fd, readable: true, writable: false });
  from.on("data", (data: Buffer) => log.append(stream, data));
  from.on("error", () => undefined);
  return from;
}
