/**
 * The terminal of one program. Node can open one and not set it up: `terminal.py` does that in the program's place and
 * then becomes it, so that nothing stands between the two. Here is the master's end, for the life of the program.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, constants, openSync, writeSync } from "node:fs";
import { Writable, type Readable } from "node:stream";
import { ReadStream } from "node:tty";
import type { TerminalSize } from "../../sdk/contract/guest-limits.ts";

/** A program that takes no input is tried again after so long, then twice as long, and so on, ms. */
const FULL_MS = 5;
const FULL_MOST_MS = 1000;
/** Ctrl-D: what a terminal has in place of an end. */
const END_OF_INPUT = Buffer.from([4]);

export interface TerminalTools {
  readonly python: string;
  /** Path of `terminal.py`. */
  readonly script: string;
}

export class Terminal {
  readonly child: ChildProcess;
  readonly output: ReadStream;
  readonly input: Writable;
  /** The master; closed with `output`. */
  readonly fd: number;
  readonly #tools: TerminalTools;
  /** The program runs in it, with its first size: what sets another one before is undone. */
  readonly #opened: Promise<void>;
  #size: TerminalSize;
  #resizing: Promise<void> | null = null;
  #isClosed = false;

  /** @throws what `spawn` does for a command line or folder that the system does not take */
  constructor(
    tools: TerminalTools,
    program: readonly string[],
    size: TerminalSize,
    options: { readonly cwd: string; readonly env: Record<string, string> },
  ) {
    this.#tools = tools;
    this.#size = size;
    this.fd = openSync("/dev/ptmx", constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK);
    try {
      this.child = this.#run(["open", ...wordsOf(size), ...program], {
        ...options,
        env: { TERM: "xterm-256color", ...options.env },
        // It leads a session, which is what may have a terminal.
        detached: true,
        opened: "pipe",
      });
      this.#opened = new Promise((resolve) => {
        this.child.stdio[4]?.once("close", resolve);
        this.child.once("error", () => resolve());
      });
      (this.child.stdio[4] as Readable | undefined)?.resume();
      this.output = new ReadStream(this.fd);
    } catch (fault) {
      closeSync(this.fd);
      throw fault;
    }
    this.output.once("close", () => (this.#isClosed = true));
    this.input = new MasterInput((data) => (this.#isClosed ? data.length : writeSync(this.fd, data)));
    this.input.on("error", () => undefined);
  }

  /** Resolves when the terminal has the size that was asked for last; null when it has. */
  get resizing(): Promise<void> | null {
    return this.#resizing;
  }

  resize(size: TerminalSize): void {
    if (size.cols === this.#size.cols && size.rows === this.#size.rows) return;
    this.#size = size;
    this.#resizing ??= this.#setSize().finally(() => (this.#resizing = null));
  }

  async #setSize(): Promise<void> {
    await this.#opened;
    for (let set: TerminalSize | null = null; set !== this.#size && !this.#isClosed;) {
      set = this.#size;
      const child = this.#run(["resize", ...wordsOf(set)], {});
      await new Promise<void>((resolve) => {
        child.once("exit", () => resolve());
        child.once("error", () => resolve());
      });
    }
  }

  /** Whoever still uses the terminal is told that it is gone, by SIGHUP. */
  close(): void {
    this.#isClosed = true;
    this.input.destroy();
    this.output.destroy();
  }

  #run(
    args: readonly string[],
    { opened, ...options }: { cwd?: string; env?: Record<string, string>; detached?: boolean; opened?: "pipe" },
  ): ChildProcess {
    return spawn(this.#tools.python, ["-I", "-S", this.#tools.script, ...args], {
      ...options,
      stdio: ["ignore", "ignore", "ignore", this.fd, ...(opened ? [opened] : [])],
    });
  }
}

/** Node's own stream would wait inside the call for a program that does not read, and the whole agent with it. */
class MasterInput extends Writable {
  readonly #write: (data: Buffer) => number;
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (data: Buffer) => number) {
    super({ decodeStrings: true, highWaterMark: 65_536 });
    this.#write = write;
  }

  override _write(data: Buffer, _encoding: string, done: (fault?: Error | null) => void): void {
    this.#push(data, FULL_MS, done);
  }

  override _final(done: (fault?: Error | null) => void): void {
    this.#push(END_OF_INPUT, FULL_MS, done);
  }

  override _destroy(fault: Error | null, done: (fault?: Error | null) => void): void {
    clearTimeout(this.#timer);
    done(fault);
  }

  #push(data: Buffer, waitMs: number, done: (fault?: Error | null) => void): void {
    let taken = 0;
    try {
      taken = this.#write(data);
    } catch (fault) {
      if ((fault as NodeJS.ErrnoException).code !== "EAGAIN") return done(fault as Error);
    }
    if (taken === data.length) return done();
    const wait = taken > 0 ? FULL_MS : waitMs;
    const again = () => this.#push(data.subarray(taken), Math.min(wait * 2, FULL_MOST_MS), done);
    this.#timer = setTimeout(again, wait);
  }
}

function wordsOf({ cols, rows }: TerminalSize): string[] {
  return [String(cols), String(rows)];
}
