/** Commands and background processes: started, fed, signalled, remembered. */
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, openSync, readSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits, type TerminalSize } from "../../sdk/contract/guest-limits.ts";
import type { Process as ProcessInfo } from "../../sdk/contract/guest.ts";
import { OutputLog, type Stream } from "./output.ts";
import { PipePool, type OutputPipe } from "./pipes.ts";
import { Terminal, type TerminalTools } from "./terminal.ts";

export interface StartRequest {
  readonly command?: string | undefined;
  readonly argv?: readonly string[] | undefined;
  readonly cwd?: string | undefined;
  readonly env?: Record<string, string> | undefined;
  /** Bytes for stdin, which ends after them unless `keepStdin`. */
  readonly stdin?: Buffer | undefined;
  /** Keep stdin open for `write`. */
  readonly keepStdin: boolean;
  readonly timeoutMs: number | null;
  readonly outputEncoding: "utf8" | "base64";
  /** Bytes of the beginning of each stream to keep besides the newest. */
  readonly headBytes: number;
  /** It gets a terminal of that size for stdin, stdout and stderr. */
  readonly pty?: TerminalSize | undefined;
}

/** What a process is started with besides its request. */
interface Surroundings {
  readonly cwd: string;
  readonly env: Record<string, string>;
  readonly pipes: PipePool;
  /** A place for input. */
  readonly folder: string;
  readonly terminals: TerminalTools;
}

/** After a command ended, how long its children may still write before its answer goes, ms. They may live on. */
const GRACE_MS = 50;
/**
 * Bytes past what a reader surely has before the process waits for it: more than a slice of it, and with what the pipes
 * hold still less than the log keeps.
 */
const AHEAD_BYTES = 655_360;
/** How long a process waits for a reader whose connection broke, ms. */
const READER_GONE_MS = 10_000;
/** How long for one that was told to come back for the next slice, and may still be busy with this one, ms. */
const READER_BACK_MS = 60_000;
/** Bytes of stdin that wait for the process before more is refused. */
const STDIN_BYTES = 1_048_576;
/** After SIGKILL at a time limit, how long until the answer goes without the process, ms. */
const KILL_MS = 5000;
/** So long after its end somebody who was cut off may ask what came of a process, ms. */
const RECENT_MS = 600_000;

export class GuestProcess {
  readonly id: string;
  readonly log: OutputLog;
  readonly outputEncoding: "utf8" | "base64";
  readonly startedMs = Date.now();
  readonly #began = performance.now();
  readonly #request: StartRequest;
  readonly #cwd: string;
  readonly #child: ChildProcess;
  readonly #pipes: PipePool;
  readonly #terminal: Terminal | null = null;
  readonly #input: Writable | null;
  readonly #sources: Source[];
  readonly #ended = Promise.withResolvers<void>();
  /** Places of readers, and for one whose connection broke the timer that ends the wait for it. */
  readonly #readers = new Map<object, { cursor: number; gone: NodeJS.Timeout | null }>();
  #timer: NodeJS.Timeout | undefined;
  #stdinOffset = 0;
  #exit: { exitCode: number | null; state: GuestProcess["state"] } | null = null;
  state: "running" | "exited" | "killed" | "timed_out" = "running";
  exitCode: number | null = null;
  timedOut = false;
  endedMs: number | null = null;
  durationMs = 0;

  /** @throws RouseFailure `invalid_request` when the system takes no such command line */
  constructor(id: string, request: StartRequest, around: Surroundings) {
    this.id = id;
    this.#request = request;
    this.#cwd = around.cwd;
    this.#pipes = around.pipes;
    this.log = new OutputLog(guestLimits.outputBytes, request.headBytes);
    this.outputEncoding = request.outputEncoding;
    const { pty } = request;
    if (pty) {
      this.#terminal = this.#spawned(() => new Terminal(around.terminals, programOf(request), pty, around));
      this.#child = this.#terminal.child;
      this.#input = this.#terminal.input;
      this.#sources = [this.#read("stdout", { reader: this.#terminal.output, readFd: this.#terminal.fd })];
    } else {
      const made = [around.pipes.take(), around.pipes.take()] as const;
      this.#child = this.#piped(made, around);
      this.#input = this.#child.stdin;
      this.#sources = [this.#read("stdout", made[0]), this.#read("stderr", made[1])];
    }
    this.#input?.on("error", () => undefined); // it may close its stdin early
    if (request.stdin !== undefined && request.keepStdin) {
      this.#input?.write(request.stdin);
      this.#stdinOffset = request.stdin.length;
    } else if (request.stdin !== undefined) this.#input?.end(request.stdin);
    this.#child.once("error", (fault: NodeJS.ErrnoException) => this.#notStarted(fault));
    this.#child.once("exit", (code, signal) => this.#exited(code, signal));
    if (request.timeoutMs !== null) this.#timer = setTimeout(() => this.#timeUp(), request.timeoutMs);
  }

  #piped(made: readonly (OutputPipe | null)[], { cwd, env, folder }: Surroundings): ChildProcess {
    const { keepStdin, stdin } = this.#request;
    const input = keepStdin || stdin === undefined ? null : stdinFile(folder, this.id, stdin);
    const wantsStdin = keepStdin || stdin !== undefined;
    const [program = "", ...args] = programOf(this.#request);
    try {
      return this.#spawned(() =>
        spawn(program, args, {
          cwd,
          env,
          // A group of its own, so that signals and time limits reach what it started, too.
          detached: true,
          stdio: [input ?? (wantsStdin ? "pipe" : "ignore"), made[0]?.writeFd ?? "pipe", made[1]?.writeFd ?? "pipe"],
        }),
      );
    } catch (fault) {
      for (const pipe of made) pipe?.reader.destroy();
      throw fault;
    } finally {
      for (const pipe of made) if (pipe) closeSync(pipe.writeFd);
      if (input !== null) closeSync(input);
    }
  }

  #spawned<T>(start: () => T): T {
    try {
      return start();
    } catch (fault) {
      const { code } = fault as NodeJS.ErrnoException;
      if (code !== "E2BIG") throw fault;
      throw new RouseFailure("invalid_request", "The arguments and variables are longer than the system allows.");
    }
  }

  /** Resolves when it ended and its output is in the log. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** @throws RouseFailure `not_running` */
  kill(signal: NodeJS.Signals): void {
    if (this.state !== "running" || this.#exit) throw new RouseFailure("not_running", "The process has ended.");
    this.#signal(signal);
  }

  /** Bytes for stdin at an offset, so that a retry is not written twice. Answers the new total. */
  write(offset: number, data: Buffer, eof: boolean): number {
    const stdin = this.#input;
    if (!this.#request.keepStdin || !stdin) {
      throw new RouseFailure("invalid_request", 'This process has no open stdin; start it with stdinMode "pipe".');
    }
    if (offset > this.#stdinOffset) {
      throw new RouseFailure(
        "invalid_request",
        `Offset ${offset} is past the ${this.#stdinOffset} bytes written so far.`,
      );
    }
    const fresh = data.subarray(this.#stdinOffset - offset);
    if (fresh.length > 0) {
      if (stdin.writableEnded || stdin.destroyed) throw new RouseFailure("not_running", "Its stdin is closed.");
      if (stdin.writableLength > STDIN_BYTES) return this.#stdinOffset;
      stdin.write(fresh);
      this.#stdinOffset += fresh.length;
    }
    if (eof && !stdin.writableEnded) stdin.end();
    return this.#stdinOffset;
  }

  /** Bytes for the terminal, of whoever has it open; resolves when it takes more. */
  async type(data: Buffer): Promise<void> {
    const input = this.#input;
    if (!this.#terminal || !input || this.state !== "running" || input.writableEnded || input.destroyed) return;
    this.#stdinOffset += data.length;
    // What is typed after a new size is read by a program that knows of it.
    await this.#terminal.resizing;
    await new Promise<void>((resolve) => {
      input.write(data, () => resolve());
    });
  }

  /** @throws RouseFailure `invalid_request` for a process without a terminal, `not_running` */
  resize(size: TerminalSize): void {
    if (!this.#terminal) throw new RouseFailure("invalid_request", "This process has no terminal.");
    if (this.state !== "running") throw new RouseFailure("not_running", "The process has ended.");
    this.#terminal.resize(size);
  }

  /** What a reader surely has: while one is far behind, the process waits instead of losing output. */
  follow(reader: object, cursor: number): void {
    const known = this.#readers.get(reader);
    if (known) known.cursor = cursor;
    else {
      // It may be the one that broke off, back again.
      for (const [other, { gone }] of this.#readers) if (gone) this.unfollow(other);
      this.#readers.set(reader, { cursor, gone: null });
    }
    this.#balance();
  }

  /** The reader has what it wants. */
  unfollow(reader: object): void {
    const known = this.#readers.get(reader);
    if (known?.gone) clearTimeout(known.gone);
    this.#readers.delete(reader);
    this.#balance();
  }

  /** The reader's connection broke, or its slice is over: wait a while for its return, then do without. */
  lose(reader: object, how: "broke" | "slice"): void {
    const known = this.#readers.get(reader);
    if (!known || known.gone) return;
    if (this.state !== "running") return this.unfollow(reader);
    known.gone = setTimeout(() => this.unfollow(reader), how === "broke" ? READER_GONE_MS : READER_BACK_MS);
  }

  info(): ProcessInfo {
    const { keepStdin, timeoutMs, command } = this.#request;
    const stdin = this.#input;
    return {
      id: this.id,
      kind: "process",
      state: this.state,
      exitCode: this.exitCode,
      command: command ?? programOf(this.#request).join(" "),
      cwd: this.#cwd,
      pty: this.#terminal !== null,
      stdinOpen: keepStdin && this.state === "running" && stdin?.writableEnded === false && !stdin.destroyed,
      stdinOffset: this.#stdinOffset,
      outputEncoding: this.outputEncoding,
      startedAt: new Date(this.startedMs).toISOString(),
      endedAt: this.endedMs === null ? null : new Date(this.endedMs).toISOString(),
      timeoutMs,
      outputBytes: this.log.total,
      firstOffset: this.log.first,
    };
  }

  #read(stream: Stream, pipe: OutputPipe | Pick<OutputPipe, "reader" | "readFd"> | null): Source {
    const from: Readable = pipe?.reader ?? this.#child[stream] ?? fail(`no ${stream}`);
    const source: Source = { stream, from, fd: pipe?.readFd ?? null, isOpen: true };
    from.on("data", (data: Buffer) => {
      this.log.append(stream, data);
      this.#balance();
    });
    from.on("error", () => undefined);
    from.once("close", () => {
      source.isOpen = false;
      if (pipe && "name" in pipe && from.readableEnded) this.#pipes.giveBack(pipe);
      if (this.#exit && !this.#sources.some((one) => one.isOpen)) this.#finish();
    });
    return source;
  }

  #balance(): void {
    let slowest = this.log.total;
    for (const { cursor } of this.#readers.values()) slowest = Math.min(slowest, cursor);
    const mustWait = this.state === "running" && this.log.total - slowest > AHEAD_BYTES;
    for (const { from } of this.#sources) {
      if (mustWait) from.pause();
      else if (from.isPaused()) from.resume();
    }
  }

  #timeUp(): void {
    this.timedOut = true;
    this.#signal("SIGKILL");
    this.#timer = setTimeout(() => {
      this.#exit ??= { exitCode: null, state: "timed_out" };
      this.#finish();
    }, KILL_MS);
  }

  /** To the process and all it started, also what runs as root by sudo. */
  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch (fault) {
      if ((fault as NodeJS.ErrnoException).code !== "EPERM") return; // it ended this moment
      const sudo = spawn("sudo", ["-n", "kill", "-s", signal.slice(3), "--", `-${pid}`], { stdio: "ignore" });
      sudo.on("error", () => undefined);
    }
  }

  #notStarted(fault: NodeJS.ErrnoException): void {
    const program = this.#child.spawnfile;
    const why =
      fault.code === "ENOENT" ? "not found" : fault.code === "EACCES" ? "not a program one may run" : fault.message;
    this.log.append("stderr", Buffer.from(`${program}: ${why}\n`));
    this.#exit = { exitCode: null, state: "exited" };
    this.#finish();
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    clearTimeout(this.#timer);
    if (this.timedOut) this.#signal("SIGKILL"); // what of its group outlived the first
    this.durationMs = performance.now() - this.#began;
    this.#exit = {
      exitCode: code ?? -(signal === null ? 0 : constants.signals[signal]),
      state: this.timedOut ? "timed_out" : signal === null ? "exited" : "killed",
    };
    // All it wrote is in the pipes by now; what others still write is given a moment.
    this.#drain();
    if (this.#sources.some((one) => one.isOpen)) {
      this.#timer = setTimeout(() => {
        this.#drain();
        this.#finish();
      }, GRACE_MS);
    } else this.#finish();
  }

  /** Take what the pipes hold at this moment, without waiting, and no more than a pipe can hold. */
  #drain(): void {
    for (const { stream, from, fd, isOpen } of this.#sources) {
      if (!isOpen) continue;
      while (from.read() !== null); // reported as data
      if (fd === null || from.readableEnded || from.destroyed) continue;
      const buffer = Buffer.allocUnsafe(65_536);
      try {
        for (let i = 0; i < 4; i++) {
          const size = readSync(fd, buffer, 0, buffer.length, null);
          if (size === 0) break;
          this.log.append(stream, Buffer.from(buffer.subarray(0, size)));
        }
      } catch {
        // EAGAIN: it is empty, and somebody still holds its other end
      }
    }
  }

  #finish(): void {
    if (this.state !== "running" || !this.#exit) return;
    clearTimeout(this.#timer);
    this.state = this.#exit.state;
    this.exitCode = this.#exit.exitCode;
    this.endedMs = Date.now();
    if (this.durationMs === 0) this.durationMs = performance.now() - this.#began;
    this.log.end();
    this.#input?.destroy();
    this.#terminal?.close();
    for (const [reader, { gone }] of this.#readers) if (gone) this.unfollow(reader);
    // Children that live on must not stop at a full pipe: what they write from now on is read and dropped.
    this.#balance();
    this.#ended.resolve();
  }
}

function programOf({ command, argv }: StartRequest): readonly string[] {
  return argv ?? ["/bin/bash", "-c", command ?? ""];
}

interface Source {
  readonly stream: Stream;
  readonly from: Readable;
  readonly fd: number | null;
  isOpen: boolean;
}

/** Input that is known as a whole is a file without a name, as a shell's here-document; null when the disk is full. */
function stdinFile(folder: string, id: string, data: Buffer): number | null {
  const path = join(folder, `stdin-${id}`);
  try {
    writeFileSync(path, data, { mode: 0o600 });
    try {
      return openSync(path, "r");
    } finally {
      unlinkSync(path);
    }
  } catch {
    return null;
  }
}

/** Ended processes that a repeated call may still ask for, and the bytes of output they keep together. */
const KEPT = 1024;
const KEPT_BYTES = 48 * 1_048_576;

export class Processes {
  readonly #all = new Map<string, GuestProcess>();
  readonly #kept: GuestProcess[] = [];
  readonly #home: string;
  readonly #folder: string;
  readonly #pipes: PipePool;
  readonly terminals: TerminalTools;
  #keptBytes = 0;
  #count = 0;
  /** Commands and processes that run now. */
  running = 0;
  /** Given to every process from now on. */
  env: Record<string, string> = {};
  /** The same, where nobody says otherwise: how it gets out. */
  network: Record<string, string> = {};

  /** `folder`: a place of the agent's own, for pipes and input. */
  constructor(home: string, folder: string, terminals: TerminalTools) {
    this.#home = home;
    this.#folder = folder;
    this.terminals = terminals;
    this.#pipes = new PipePool(folder);
    this.#pipes.fill();
  }

  /** @throws RouseFailure `process_limit`, `file_not_found` or `not_a_directory` for its folder, `invalid_request` */
  start(request: StartRequest): GuestProcess {
    if (this.running >= guestLimits.processes) {
      throw new RouseFailure("process_limit", `There are ${guestLimits.processes} processes already.`);
    }
    const cwd = this.path(request.cwd);
    const facts = statSync(cwd, { throwIfNoEntry: false });
    if (!facts) throw new RouseFailure("file_not_found", `There is no folder to run in: ${cwd}`);
    if (!facts.isDirectory()) throw new RouseFailure("not_a_directory", `That is no folder to run in: ${cwd}`);
    const id = `p-${++this.#count}-${randomBytes(3).toString("hex")}`;
    const started = new GuestProcess(id, request, {
      ...{ cwd, env: this.environment(request.env), folder: this.#folder },
      ...{ pipes: this.#pipes, terminals: this.terminals },
    });
    this.#all.set(id, started);
    this.running++;
    void started.ended.then(() => this.#ended(started));
    return started;
  }

  /** @throws RouseFailure `process_not_found` */
  get(id: string): GuestProcess {
    const found = this.#all.get(id);
    if (found) return found;
    const limit = guestLimits.endedProcesses;
    throw new RouseFailure(
      "process_not_found",
      `There is no process ${id}; only the last ${limit} that ended are kept.`,
    );
  }

  list(): GuestProcess[] {
    return [...this.#all.values()];
  }

  /** What would be lost with the agent, in words: also what ended so recently that somebody may yet ask about it. */
  holds(nowMs = Date.now()): string[] {
    const held = this.list().filter(({ endedMs }) => endedMs === null || nowMs - endedMs < RECENT_MS);
    return held.length > 0 ? [`processes: ${held.length}`] : [];
  }

  path(path: string | undefined): string {
    if (path?.includes("\0")) throw new RouseFailure("invalid_path", "A path has no NUL.");
    return resolve(this.#home, path ?? ".");
  }

  environment(more: Record<string, string> | undefined): Record<string, string> {
    const user = process.env["USER"] ?? "runtime";
    return {
      HOME: this.#home,
      USER: user,
      LOGNAME: user,
      SHELL: "/bin/bash",
      LANG: "C.UTF-8",
      PATH: `${this.#home}/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
      ...this.network,
      ...this.env,
      ...more,
    };
  }

  #ended(ended: GuestProcess): void {
    this.running--;
    this.#kept.push(ended);
    this.#keptBytes += ended.log.bytes;
    const unlisted = this.#kept.at(-1 - guestLimits.endedProcesses);
    if (unlisted) this.#all.delete(unlisted.id);
    while (
      this.#kept.length > KEPT ||
      (this.#keptBytes > KEPT_BYTES && this.#kept.length > guestLimits.endedProcesses)
    ) {
      const oldest = this.#kept.shift();
      this.#keptBytes -= oldest?.log.bytes ?? 0;
      oldest?.log.forget();
    }
  }
}

function fail(what: string): never {
  throw new Error(what);
}
