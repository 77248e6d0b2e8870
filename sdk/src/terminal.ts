/** One look at a terminal, over as many connections as it takes. */
import { TerminalMessage } from "../contract/guest.ts";
import type { Process as ProcessInfo } from "../contract/guest.ts";
import { RESTING_CLOSE } from "../contract/guest-limits.ts";
import type { TerminalSize } from "../contract/guest-limits.ts";
import { z } from "zod";
import { bytesOf } from "./bytes.ts";
import type { Data } from "./bytes.ts";
import { NotFoundError, RouseError, errorOfStatus } from "./errors.ts";
import { signalProcess } from "./output.ts";
import { Patience } from "./patience.ts";
import type { Signal } from "./process.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { connectionError } from "./transport.ts";
import type { RequestOptions } from "./transport.ts";
import { beginSocket, endOf } from "./web-socket.ts";

/**
 * Bytes of input in one message, and those that may be on their way: what is said to have been read is not to wait behind
 * more of them than that, as the program may wait for it.
 */
const MESSAGE_BYTES = 65_536;
const WINDOW_BYTES = 65_536;
/** Bytes of output after which the sandbox is told that they have arrived. */
const ACK_BYTES = 65_536;
/** First wait after a connection that does not come about, milliseconds. */
const RETRY_MS = 100;
/** How often a sandbox that sleeps is looked at, milliseconds: at first, and later. Looking does not wake it. */
const LOOK_MS = 2000;
const LOOK_MOST_MS = 30_000;

/** What is known of a terminal: it is a process. */
export type TerminalInfo = ProcessInfo;

/** What a terminal's reader sees. */
export type TerminalEvent =
  | { readonly type: "output"; readonly data: Uint8Array; readonly offset: number }
  /** Output that is kept no more was to come. */
  | { readonly type: "truncated"; readonly droppedBytes: number; readonly resumeAt: number }
  | ({ readonly type: "exit" } & TerminalExit);

export interface TerminalExit {
  /** Negative when a signal ended it; null when that is not known. */
  readonly exitCode: number | null;
}

export interface AttachOptions {
  /** Size of the window in characters; as it is unless both are given. */
  cols?: number | undefined;
  rows?: number | undefined;
  /** Offset of the first byte of output to read; all that is kept, the last MiB, unless given. */
  cursor?: number | undefined;
}

interface Typed {
  readonly data: Uint8Array<ArrayBuffer>;
  /** Bytes typed up to and with this. */
  readonly end: number;
  readonly taken: () => void;
  readonly failed: (error: unknown) => void;
}

const State = z.object({ state: z.string() });
const AT_REST: ReadonlySet<string> = new Set(["pausing", "paused"]);
const OVER: ReadonlySet<string> = new Set(["stopping", "stopped", "deleted"]);

/**
 * A terminal in a sandbox. It goes on when this program ends, and over pause and wake; connections that break are made
 * anew, without loss or repetition of what is typed and written. While the sandbox sleeps, this waits: what is typed
 * wakes it. Read its events: a program that writes waits for a reader that is behind.
 *
 * @example
 * const terminal = await sandbox.terminal.open({ cols: 120, rows: 40 });
 * await terminal.write("echo $SHELL; exit\r");
 * for await (const event of terminal.events()) if (event.type === "output") process.stdout.write(event.data);
 */
export class Terminal {
  readonly id: string;
  readonly #remote: Remote;
  readonly #client = crypto.randomUUID();
  readonly #queue: TerminalEvent[] = [];
  readonly #exit = Promise.withResolvers<TerminalExit>();
  #size: Partial<TerminalSize>;
  #socket: WebSocket | null = null;
  /** Offset of the next byte of output; null until that is known. */
  #cursor: number | null;
  /** Offset of what the reader of the events has not read yet. */
  #read: number | null = null;
  #acknowledged = 0;
  #typed: Typed[] = [];
  #typedBytes = 0;
  /** Those sent over this connection, or taken before it. */
  #sentBytes = 0;
  #takenBytes = 0;
  /** Bytes that were taken before the sandbox began to count. */
  #uncounted = 0;
  #isReady = false;
  #isOver = false;
  #isDetached = false;
  #failure: unknown = null;
  /** Ends what waits: a reader, or the wait for a sleeper. */
  #news = Promise.withResolvers<void>();

  /** @internal */
  constructor(remote: Remote, id: string, { cursor, cols, rows }: AttachOptions) {
    this.#remote = remote;
    this.id = id;
    this.#cursor = cursor ?? null;
    this.#size = cols === undefined || rows === undefined ? {} : { cols, rows };
    this.#exit.promise.catch(() => undefined); // told to who asks
  }

  /** @internal Resolves when the terminal is there. */
  async begin(): Promise<this> {
    const ready = Promise.withResolvers<void>();
    void this.#keep(ready.resolve).catch((error: unknown) => {
      this.#fail(error);
      ready.reject(error);
    });
    await ready.promise;
    return this;
  }

  /** Offset of the next byte of output: where another look would go on. */
  get cursor(): number {
    return this.#cursor ?? 0;
  }

  /** What it writes, to its exit or until {@link Terminal.detach}. For one reader. */
  async *events(): AsyncGenerator<TerminalEvent, void, undefined> {
    for (;;) {
      const event = this.#queue.shift();
      if (event === undefined) {
        if (this.#failure !== null) throw this.#failure;
        if (this.#isOver || this.#isDetached) return;
        await this.#news.promise;
        continue;
      }
      yield event;
      if (event.type === "exit") return;
      this.#acknowledge(event.type === "output" ? event.offset + event.data.length : event.resumeAt);
    }
  }

  /** How it ended. Its events must be read meanwhile. */
  wait(): Promise<TerminalExit> {
    return this.#exit.promise;
  }

  /** Type; resolves when the terminal has taken it. Wakes the sandbox. */
  async write(data: Data): Promise<void> {
    const bytes = Uint8Array.from(await bytesOf(data));
    if (bytes.length === 0) return;
    if (this.#failure !== null) throw this.#failure;
    if (this.#isOver || this.#isDetached) throw ended(this.id);
    this.#typedBytes += bytes.length;
    const taken = new Promise<void>((resolve, reject) => {
      this.#typed.push({ data: bytes, end: this.#typedBytes, taken: resolve, failed: reject });
    });
    this.#sendTyped();
    this.#tell();
    await taken;
  }

  /** Set the size of the window. A sandbox that sleeps learns of it when it wakes. */
  resize(cols: number, rows: number): void {
    this.#size = { cols, rows };
    if (this.#isReady) this.#socket?.send(JSON.stringify({ type: "resize", cols, rows }));
  }

  /** Send a signal: SIGHUP, which ends a shell with what it runs, unless given. */
  async kill(signal: Signal = "SIGHUP", options: RequestOptions = {}): Promise<void> {
    await signalProcess(this.#remote, this.id, signal, options);
  }

  /** Look away; the terminal goes on. What was typed and not taken yet may be lost. */
  detach(): void {
    if (this.#isOver) return;
    this.#isDetached = true;
    this.#socket?.close(1000);
    this.#drop(ended(this.id));
    this.#tell();
  }

  [Symbol.dispose](): void {
    this.detach();
  }

  /** One connection after the other. @param onReady called each time one has come about */
  async #keep(onReady: () => void): Promise<void> {
    const patience = new Patience(RETRY_MS);
    for (;;) {
      let wasReady = false;
      const end = await this.#look(() => {
        wasReady = true;
        onReady();
      });
      if (this.#isOver || this.#isDetached) return;
      if (wasReady) patience.reset();
      // What was refused without a word is asked for in a way that is answered.
      if (!end.opened) await this.#remote.get(`/processes/${encodeURIComponent(this.id)}`);
      else if (this.#typed.length === 0 && (await this.#rests(end.code))) {
        await this.#untilAwake();
        continue;
      }
      if (!wasReady) await this.#pause(patience.next(connectionError("The terminal can't be reached")), false);
    }
  }

  /** One connection, to its end. */
  async #look(onReady: () => void) {
    const socket = await beginSocket(this.#remote, "/terminal", {
      processId: this.id,
      client: this.#client,
      cursor: this.#cursor ?? undefined,
      ...this.#size,
    });
    if (this.#isDetached) socket.close();
    this.#socket = socket;
    let failure: unknown = null;
    socket.addEventListener("message", ({ data }: { readonly data: unknown }) => {
      try {
        if (typeof data === "string") this.#told(data, onReady);
        else if (data instanceof ArrayBuffer) this.#written(new Uint8Array(data));
      } catch (error) {
        failure ??= error;
        socket.close();
      }
    });
    const end = await endOf(socket);
    this.#isReady = false;
    this.#socket = null;
    if (failure !== null && !this.#isOver) throw failure;
    return end;
  }

  #told(text: string, onReady: () => void): void {
    const parsed = TerminalMessage.safeParse(JSON.parse(text));
    // A newer server may say more than this client knows.
    if (!parsed.success) return;
    const message = parsed.data;
    switch (message.type) {
      case "ready": {
        const { cursor, input = 0 } = message;
        if (this.#cursor !== null && cursor > this.#cursor) this.#lost(cursor - this.#cursor, cursor);
        this.#cursor ??= cursor;
        this.#read ??= cursor;
        this.#uncounted = Math.max(this.#uncounted, this.#takenBytes - input);
        this.#taken(input);
        this.#sentBytes = this.#takenBytes;
        this.#isReady = true;
        // From the first of these on it counts what was read of the events here, and no longer what it has sent.
        this.#acknowledged = this.#read;
        this.#socket?.send(JSON.stringify({ type: "ack", cursor: this.#read }));
        this.#sendTyped();
        const { cols, rows } = this.#size;
        if (cols !== undefined) this.#socket?.send(JSON.stringify({ type: "resize", cols, rows }));
        onReady();
        break;
      }
      case "input":
        this.#taken(message.offset);
        this.#sendTyped();
        break;
      case "truncated":
        this.#lost(message.droppedBytes, message.resumeAt);
        break;
      case "exit": {
        const { exitCode } = message;
        this.#isOver = true;
        this.#queue.push({ type: "exit", exitCode });
        this.#exit.resolve({ exitCode });
        this.#drop(ended(this.id));
        this.#tell();
        break;
      }
      case "error": {
        const { status = 500, ...rest } = message.error;
        throw errorOfStatus({ ...rest, status, retryable: false });
      }
    }
  }

  #written(data: Uint8Array): void {
    const offset = this.#cursor ?? 0;
    this.#cursor = offset + data.length;
    this.#queue.push({ type: "output", data, offset });
    this.#tell();
  }

  #lost(droppedBytes: number, resumeAt: number): void {
    this.#cursor = resumeAt;
    this.#queue.push({ type: "truncated", droppedBytes, resumeAt });
    this.#tell();
  }

  #acknowledge(cursor: number): void {
    this.#read = cursor;
    if (!this.#isReady || cursor - this.#acknowledged < ACK_BYTES) return;
    this.#acknowledged = cursor;
    this.#socket?.send(JSON.stringify({ type: "ack", cursor }));
  }

  /** @param counted bytes that the sandbox has taken of this client, by its count */
  #taken(counted: number): void {
    this.#takenBytes = Math.max(this.#takenBytes, counted + this.#uncounted);
    while (this.#typed[0] !== undefined && this.#typed[0].end <= this.#takenBytes) this.#typed.shift()?.taken();
  }

  /** What is typed and was not sent over this connection yet, as far as it may be on its way. */
  #sendTyped(): void {
    if (!this.#isReady) return;
    for (const { data, end } of this.#typed)
      while (this.#sentBytes < end && this.#sentBytes - this.#takenBytes < WINDOW_BYTES) {
        const at = data.length - (end - this.#sentBytes);
        const piece = data.subarray(at, at + MESSAGE_BYTES);
        this.#socket?.send(piece);
        this.#sentBytes += piece.length;
      }
  }

  /** Whether the machine sleeps, or is about to. @throws NotFoundError when it is at its end, and the terminal with it */
  async #rests(code: number | null): Promise<boolean> {
    const { state } = parseAnswer(State, await this.#remote.get(""));
    if (OVER.has(state))
      throw new NotFoundError({
        code: "process_not_found",
        status: 404,
        message: `The sandbox is ${state}, and the terminal ${this.id} ended with its machine.`,
        hint: "Open another terminal once it runs.",
      });
    // A host that sends its machines to sleep by itself says so before the sandbox's record does.
    return AT_REST.has(state) || code === RESTING_CLOSE.code;
  }

  /** Until somebody has it wake, or something is typed. */
  async #untilAwake(): Promise<void> {
    for (let wait = LOOK_MS; ; wait = Math.min(LOOK_MOST_MS, wait * 1.5)) {
      await this.#pause(wait, true);
      if (this.#typed.length > 0 || this.#isDetached || !(await this.#rests(null))) return;
    }
  }

  /** @param isShort whether it ends when something is typed */
  async #pause(ms: number, isShort: boolean): Promise<void> {
    const until = performance.now() + ms;
    for (;;) {
      const left = until - performance.now();
      if (left <= 0 || this.#isDetached || (isShort && this.#typed.length > 0)) return;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const time = new Promise<void>((resolve) => (timer = setTimeout(resolve, left)));
      await Promise.race([time, this.#news.promise]);
      clearTimeout(timer);
    }
  }

  #tell(): void {
    const { resolve } = this.#news;
    this.#news = Promise.withResolvers();
    resolve();
  }

  #fail(error: unknown): void {
    this.#failure = error;
    this.#exit.reject(error);
    this.#drop(error);
    this.#tell();
  }

  #drop(error: unknown): void {
    for (const { failed } of this.#typed.splice(0)) failed(error);
  }
}

function ended(id: string): RouseError {
  return new RouseError({ code: "not_running", message: `The terminal ${id} has ended, or was looked away from.` });
}
