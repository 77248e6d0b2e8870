/** Commands and background processes: started, fed, signalled, remembered. */
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { constants } from "node:os";
import { resolve } from "node:path";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import type { Process as ProcessInfo } from "../../sdk/contract/guest.ts";
import { OutputLog, type Stream } from "./output.ts";

export interface StartRequest {
  readonly command?: string;
  readonly argv?: readonly string[];
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  /** Bytes for stdin, which is closed after them. */
  readonly stdin?: Buffer;
  /** Keep stdin open for `write`. */
  readonly keepStdin: boolean;
  readonly timeoutMs: number | null;
  readonly outputEncoding: "utf8" | "base64";
}

/** After a command ended, how long what it wrote may still be on its way, ms. Its background children may live on. */
const DRAIN_MS = 50;
/** Bytes that a connected reader may be behind before the process waits for it. */
const AHEAD_BYTES = 524_288;
/** Bytes of stdin that wait for the process before more is refused. */
const STDIN_BYTES = 1_048_576;

export class GuestProcess {
  readonly id: string;
  readonly log = new OutputLog();
  readonly outputEncoding: "utf8" | "base64";
  readonly startedMs = Date.now();
  readonly #began = performance.now();
  readonly #request: StartRequest;
  readonly #cwd: string;
  readonly #child: ChildProcess;
  readonly #ended = Promise.withResolvers<void>();
  readonly #readers = new Map<object, number>();
  #timer: NodeJS.Timeout | undefined;
  #stdinOffset = 0;
  state: "running" | "exited" | "killed" | "timed_out" = "running";
  exitCode: number | null = null;
  timedOut = false;
  endedMs: number | null = null;
  durationMs = 0;

  constructor(id: string, request: StartRequest, cwd: string, env: Record<string, string>) {
    this.id = id;
    this.#request = request;
    this.#cwd = cwd;
    this.outputEncoding = request.outputEncoding;
    const [program, ...args] = request.argv ?? ["/bin/bash", "-c", request.command ?? ""];
    const wantsStdin = request.keepStdin || request.stdin !== undefined;
    this.#child = spawn(program ?? "", args, {
      cwd,
      env,
      // A group of its own, so that signals and time limits reach what it started, too.
      detached: true,
      stdio: [wantsStdin ? "pipe" : "ignore", "pipe", "pipe"],
    });
    this.#read("stdout");
    this.#read("stderr");
    this.#child.stdin?.on("error", () => undefined); // it may close its stdin early
    if (request.stdin !== undefined && !request.keepStdin) this.#child.stdin?.end(request.stdin);
    else if (request.stdin !== undefined) this.#child.stdin?.write(request.stdin);
    this.#stdinOffset = request.keepStdin ? (request.stdin?.length ?? 0) : 0;
    this.#child.once("error", (fault: NodeJS.ErrnoException) => this.#notStarted(fault));
    this.#child.once("exit", (code, signal) => this.#exited(code, signal));
    if (request.timeoutMs !== null) {
      this.#timer = setTimeout(() => {
        this.timedOut = true;
        this.kill("SIGKILL");
      }, request.timeoutMs);
    }
  }

  /** Resolves when it ended and its output is in the log. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** @throws RouseFailure `not_running` */
  kill(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (this.state !== "running" || pid === undefined) throw new RouseFailure("not_running", "The process has ended.");
    try {
      process.kill(-pid, signal);
    } catch {
      // it ended this moment
    }
  }

  /** Bytes for stdin at an offset, so that a retry is not written twice. Answers the new total. */
  write(offset: number, data: Buffer, eof: boolean): number {
    const { stdin } = this.#child;
    if (!this.#request.keepStdin || !stdin)
      throw new RouseFailure("invalid_request", 'This process has no open stdin; start it with stdinMode "pipe".');
    if (offset > this.#stdinOffset) {
      throw new RouseFailure(
        "invalid_request",
        `Offset ${offset} is past the ${this.#stdinOffset} bytes written so far.`,
      );
    }
    const fresh = data.subarray(this.#stdinOffset - offset);
    if (fresh.length > 0) {
      if (stdin.writableEnded) throw new RouseFailure("not_running", "Its stdin is closed.");
      if (stdin.writableLength > STDIN_BYTES) return this.#stdinOffset;
      stdin.write(fresh);
      this.#stdinOffset += fresh.length;
    }
    if (eof && !stdin.writableEnded) stdin.end();
    return this.#stdinOffset;
  }

  /** A connected reader's place: while one is far behind, the process waits instead of losing output. */
  follow(reader: object, cursor: number): void {
    this.#readers.set(reader, cursor);
    this.#balance();
  }

  unfollow(reader: object): void {
    this.#readers.delete(reader);
    this.#balance();
  }

  info(): ProcessInfo {
    const { command, argv, keepStdin, timeoutMs } = this.#request;
    return {
      id: this.id,
      kind: "process",
      state: this.state,
      exitCode: this.exitCode,
      command: command ?? (argv ?? []).join(" "),
      cwd: this.#cwd,
      pty: false,
      stdinOpen: keepStdin && this.state === "running" && this.#child.stdin?.writableEnded === false,
      stdinOffset: this.#stdinOffset,
      outputEncoding: this.outputEncoding,
      startedAt: new Date(this.startedMs).toISOString(),
      endedAt: this.endedMs === null ? null : new Date(this.endedMs).toISOString(),
      timeoutMs,
      outputBytes: this.log.total,
      firstOffset: this.log.first,
    };
  }

  #read(stream: Stream): void {
    this.#child[stream]?.on("data", (data: Buffer) => {
      this.log.append(stream, data);
      this.#balance();
    });
    this.#child[stream]?.on("error", () => undefined);
  }

  #balance(): void {
    const behind = this.#readers.size === 0 ? 0 : this.log.total - Math.min(...this.#readers.values());
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      if (behind > AHEAD_BYTES) stream?.pause();
      else if (stream?.isPaused()) stream.resume();
    }
  }

  #notStarted(fault: NodeJS.ErrnoException): void {
    // As a shell says it: 127 not found, 126 found but no program.
    const text = fault.code === "ENOENT" ? `not found: ${this.#request.argv?.[0] ?? this.#cwd}` : fault.message;
    this.log.append("stderr", Buffer.from(`${text}\n`));
    this.#finish("exited", fault.code === "ENOENT" ? 127 : 126);
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    const exitCode = code ?? -(signal === null ? 0 : constants.signals[signal]);
    const state = this.timedOut ? "timed_out" : signal === null ? "exited" : "killed";
    this.durationMs = performance.now() - this.#began;
    let done = false;
    const finish = () => {
      if (done) return;
      done = true;
      clearTimeout(drain);
      this.#finish(state, exitCode);
    };
    const drain = setTimeout(() => this.#drained(finish), DRAIN_MS);
    this.#child.once("close", finish);
  }

  /** A slow reader may hold output back that is still to be read: wait for it, not for background children. */
  #drained(finish: () => void): void {
    if ([this.#child.stdout, this.#child.stderr].some((stream) => stream?.isPaused())) {
      setTimeout(() => this.#drained(finish), DRAIN_MS);
    } else finish();
  }

  #finish(state: GuestProcess["state"], exitCode: number): void {
    clearTimeout(this.#timer);
    this.state = state;
    this.exitCode = exitCode;
    this.endedMs = Date.now();
    if (this.durationMs === 0) this.durationMs = performance.now() - this.#began;
    this.log.end();
    this.#ended.resolve();
  }
}

export class Processes {
  readonly #all = new Map<string, GuestProcess>();
  readonly #home: string;
  #count = 0;
  /** Given to every process from now on. */
  env: Record<string, string> = {};

  constructor(home: string) {
    this.#home = home;
  }

  /** @throws RouseFailure `process_limit` */
  start(request: StartRequest): GuestProcess {
    if (this.running >= guestLimits.processes) {
      throw new RouseFailure("process_limit", `There are ${guestLimits.processes} processes already.`);
    }
    const id = `p-${++this.#count}-${randomBytes(3).toString("hex")}`;
    const started = new GuestProcess(id, request, this.path(request.cwd), this.environment(request.env));
    this.#all.set(id, started);
    void started.ended.then(() => this.#forgetOldest());
    return started;
  }

  /** @throws RouseFailure `process_not_found` */
  get(id: string): GuestProcess {
    const found = this.#all.get(id);
    if (!found)
      throw new RouseFailure(
        "process_not_found",
        `There is no process ${id}; ended ones are forgotten after ${guestLimits.endedProcesses} more.`,
      );
    return found;
  }

  list(): GuestProcess[] {
    return [...this.#all.values()];
  }

  get running(): number {
    let count = 0;
    for (const one of this.#all.values()) if (one.state === "running") count++;
    return count;
  }

  path(path: string | undefined): string {
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
      ...this.env,
      ...more,
    };
  }

  #forgetOldest(): void {
    const ended = [...this.#all.values()].filter((one) => one.state !== "running");
    for (const one of ended.slice(0, -guestLimits.endedProcesses)) this.#all.delete(one.id);
  }
}
