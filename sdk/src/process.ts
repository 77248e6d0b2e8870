/** Processes that run in the background of a sandbox. */
import { Process as ProcessSchema } from "../contract/guest.ts";
import type { OutputEvent, Process as ProcessInfo } from "../contract/guest.ts";
import { z } from "zod";
import { bytesOf, fromBase64, toBase64 } from "./bytes.ts";
import type { Data } from "./bytes.ts";
import { OutputCursor } from "./cursor.ts";
import { invalidArgument } from "./errors.ts";
import { followOutput, keptOutput, signalProcess } from "./output.ts";
import type { CommandEvent } from "./output.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { sleep } from "./scope.ts";
import type { RequestOptions } from "./transport.ts";
import { unexpectedAnswer } from "./transport.ts";

const PIECE_BYTES = 1_048_576;
const PIECE_BYTES_AFTER_STALL = 65_536;

/** A signal by name. */
export type Signal = "SIGTERM" | "SIGKILL" | "SIGINT" | "SIGHUP" | "SIGQUIT" | "SIGUSR1" | "SIGUSR2";

/** How a process ended. */
export type ProcessExit = Omit<Extract<OutputEvent, { type: "exit" }>, "type">;

/** Where reading of output begins. */
export interface OutputOptions {
  /** Bytes of output (stdout and stderr together) to skip; 0 unless given. The last MiB is kept in the sandbox. */
  cursor?: number | undefined;
  /** Whether to go on to the exit (default), or to end with what has been written so far. */
  follow?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

/** Output as raw bytes. */
export interface OutputBytes {
  stream: "stdout" | "stderr";
  bytes: Uint8Array;
  offset: number;
}

/**
 * A process in a sandbox. It goes on when this program ends, and over pause and wake.
 *
 * @example
 * const server = await sandbox.spawn("python3 -m http.server 8080");
 * for await (const event of server.output()) if (event.type === "stderr") console.error(event.data);
 */
export class Process {
  readonly #remote: Remote;
  #info: ProcessInfo;
  #written: number;
  #writing: Promise<void> = Promise.resolve();

  /** @internal */
  constructor(remote: Remote, info: ProcessInfo) {
    this.#remote = remote;
    this.#info = info;
    this.#written = info.stdinOffset;
  }

  get id(): string {
    return this.#info.id;
  }

  /** The command line. */
  get command(): string {
    return this.#info.command;
  }

  /** As of the last answer; see {@link Process.refresh}. */
  get state(): ProcessInfo["state"] {
    return this.#info.state;
  }

  /** null while it runs; the negative signal number when a signal ended it. */
  get exitCode(): number | null {
    return this.#info.exitCode;
  }

  /** Everything the last answer said. */
  get info(): ProcessInfo {
    return this.#info;
  }

  /** Read the process again. @throws NotFoundError `process_not_found` */
  async refresh(options: RequestOptions = {}): Promise<this> {
    this.#info = parseAnswer(ProcessSchema, await this.#remote.get(this.#path(), options));
    return this;
  }

  /**
   * The output from `cursor` on, followed to the exit, over cut connections without loss or repetition. Output that
   * the sandbox no longer keeps is reported as a `truncated` event.
   */
  async *output(options: OutputOptions = {}): AsyncGenerator<CommandEvent, void, undefined> {
    const cursor = new OutputCursor(options.cursor ?? 0);
    if (options.follow === false) return yield* keptOutput(this.#remote, this.id, cursor, options.signal);
    for await (const event of followOutput(this.#remote, this.id, cursor, options.signal)) {
      if (event.type === "exit") this.#info = { ...this.#info, state: event.state, exitCode: event.exitCode };
      yield event;
    }
  }

  /** The output that is still to come. */
  async *follow(options: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<CommandEvent, void, undefined> {
    await this.refresh({ signal: options.signal });
    yield* this.output({ ...options, cursor: this.#info.outputBytes });
  }

  /** The output as raw bytes. @throws InvalidRequestError unless spawned with `outputEncoding: "base64"` */
  async *outputBytes(options: Omit<OutputOptions, "follow"> = {}): AsyncGenerator<OutputBytes, void, undefined> {
    if (this.#info.outputEncoding !== "base64") {
      throw invalidArgument("Raw output needs a process spawned with outputEncoding base64.");
    }
    for await (const event of this.output(options)) {
      if (event.type !== "stdout" && event.type !== "stderr") continue;
      if (event.base64 === undefined) throw unexpectedAnswer("an output event has no base64");
      yield { stream: event.type, bytes: fromBase64(event.base64), offset: event.offset };
    }
  }

  /** Wait until the process ends. */
  async wait(options: { signal?: AbortSignal | undefined } = {}): Promise<ProcessExit> {
    for await (const event of this.output({ ...options, cursor: this.#info.outputBytes })) {
      if (event.type !== "exit") continue;
      return { exitCode: event.exitCode, state: event.state, timedOut: event.timedOut, durationMs: event.durationMs };
    }
    throw unexpectedAnswer("the output has no exit");
  }

  /**
   * Write to stdin; waits while the process does not read. Needs `spawn(..., { stdin: "pipe" })`.
   * @param options `eof` closes stdin after the data.
   */
  async write(data: Data, options: RequestOptions & { eof?: boolean | undefined } = {}): Promise<void> {
    const bytes = await bytesOf(data);
    const mine = this.#writing.then(() => this.#writeAll(bytes, options));
    this.#writing = mine.catch(() => undefined);
    await mine;
  }

  /** Send a signal; SIGTERM unless given. */
  async kill(signal: Signal = "SIGTERM", options: RequestOptions = {}): Promise<void> {
    await signalProcess(this.#remote, this.id, signal, options);
  }

  async #writeAll(
    bytes: Uint8Array,
    { eof, ...options }: RequestOptions & { eof?: boolean | undefined },
  ): Promise<void> {
    let at = 0;
    let pieceBytes = PIECE_BYTES;
    do {
      const piece = bytes.subarray(at, at + pieceBytes);
      const last = at + piece.length === bytes.length;
      const answer = await this.#remote.post(
        `${this.#path()}:write`,
        { base64: toBase64(piece), offset: this.#written, ...(eof && last ? { eof: true } : {}) },
        options,
      );
      const { offset } = parseAnswer(WriteAnswer, answer);
      const taken = offset - this.#written;
      if (taken < 0 || taken > piece.length) throw unexpectedAnswer("stdin took more or less than was sent");
      this.#written = offset;
      at += taken;
      if (taken === piece.length && last) return;
      if (taken < piece.length) {
        // The pipe is full: smaller pieces waste less of what it refuses.
        pieceBytes = taken === 0 ? Math.min(pieceBytes, PIECE_BYTES_AFTER_STALL) : Math.max(1024, taken);
        if (taken === 0) await sleep(100, options.signal);
      }
    } while (at < bytes.length || eof);
  }

  #path(): string {
    return `/processes/${encodeURIComponent(this.id)}`;
  }
}

const WriteAnswer = z.object({ offset: z.int() });

/** The processes of a sandbox. */
export class Processes {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** Those that run and the last 16 that ended. */
  async list(options: RequestOptions = {}): Promise<Process[]> {
    const answer = parseAnswer(ProcessList, await this.#remote.get("/processes", options));
    return answer.data.map((info) => new Process(this.#remote, info));
  }

  /** @throws NotFoundError `process_not_found` */
  async get(id: string, options: RequestOptions = {}): Promise<Process> {
    const answer = await this.#remote.get(`/processes/${encodeURIComponent(id)}`, options);
    return new Process(this.#remote, parseAnswer(ProcessSchema, answer));
  }

  /** Send a signal to a process by its id, SIGTERM unless given; that of an `exec` is in its `start` event. */
  async kill(id: string, signal: Signal = "SIGTERM", options: RequestOptions = {}): Promise<void> {
    await signalProcess(this.#remote, id, signal, options);
  }

  /** The output of a process from `cursor` on, followed to its exit; see {@link Process.output}. */
  follow(id: string, options: Omit<OutputOptions, "follow"> = {}): AsyncGenerator<CommandEvent, void, undefined> {
    return followOutput(this.#remote, id, new OutputCursor(options.cursor ?? 0), options.signal);
  }
}

const ProcessList = z.object({ data: z.array(ProcessSchema) });
