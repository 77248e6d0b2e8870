/** Routes of commands and processes: `/exec` and `/processes`. */
import { guestLimits, signals } from "../../sdk/contract/guest-limits.ts";
import { Fields } from "./fields.ts";
import { Lines, readJson, sendJson, type Call } from "./http.ts";
import type { Piece } from "./output.ts";
import type { GuestProcess, Processes, StartRequest } from "./processes.ts";
import { Replays } from "./replays.ts";
import { Slice } from "./slice.ts";

/** Keys whose process is remembered. */
const KEYS_KEPT = 1024;
/** Longest wait of one read of output, ms. */
const WAIT_MS = 8000;
/**
 * Bytes of one slice of a followed output. What a connection takes with it when it is cut is less, and is still in the
 * log: only the request for the next slice says that this one arrived.
 */
const SLICE_BYTES = 524_288;

export class Commands {
  readonly #processes: Processes;
  readonly #replays = new Replays<GuestProcess>(KEYS_KEPT);

  constructor(processes: Processes) {
    this.#processes = processes;
  }

  async exec(call: Call): Promise<void> {
    const body = await readJson(call);
    const fields = new Fields(body);
    const stream = fields.flag("stream");
    const timeoutMs =
      fields.integer("timeoutMs", 1, guestLimits.execTimeoutMsMax) ??
      (stream ? guestLimits.execTimeoutMsMax : guestLimits.execTimeoutMs);
    const limit = timeoutMs <= guestLimits.execTimeoutMs ? guestLimits.execBytesShort : guestLimits.execBytesLong;
    const request = startRequest(fields, timeoutMs, stream ? 0 : limit);
    const { value: process, replayed } = this.#replays.once(call, body, () => this.#processes.start(request));
    if (stream) {
      const lines = new Lines(call);
      lines.write({ type: "start", processId: process.id, ...(replayed ? { replayed } : {}) });
      return this.#follow(call, lines, process, 0);
    }
    await process.ended;
    const out = process.log.head("stdout", limit);
    const err = process.log.head("stderr", limit);
    sendJson(call, {
      exitCode: process.exitCode,
      stdout: out.data.toString(),
      stderr: err.data.toString(),
      timedOut: process.timedOut,
      stdoutTruncated: out.truncated,
      stderrTruncated: err.truncated,
      durationMs: Math.round(process.durationMs),
      processId: process.id,
      ...(replayed ? { replayed } : {}),
    });
  }

  async spawn(call: Call): Promise<void> {
    const body = await readJson(call);
    const fields = new Fields(body);
    const timeoutMs = fields.integer("timeoutMs", 1, guestLimits.execTimeoutMsMax) ?? null;
    const pty = fields.terminal("pty");
    const asked = startRequest(fields, timeoutMs, 0);
    // What a terminal takes is open for as long as it is.
    const request = pty ? { ...asked, pty, keepStdin: true } : asked;
    const { value: process, replayed } = this.#replays.once(call, body, () => this.#processes.start(request));
    sendJson(call, { ...process.info(), ...(replayed ? { replayed } : {}) });
  }

  list(call: Call): void {
    sendJson(call, { data: this.#processes.list().map((process) => process.info()) });
  }

  get(call: Call, id: string): void {
    sendJson(call, this.#processes.get(id).info());
  }

  async output(call: Call, id: string): Promise<void> {
    const process = this.#processes.get(id);
    const fields = new Fields(call.query);
    const cursor = fields.integer("cursor", 0, Number.MAX_SAFE_INTEGER) ?? 0;
    const maxBytes = fields.integer("maxBytes", 1, guestLimits.outputBytes) ?? guestLimits.outputBytes;
    const waitMs = fields.integer("waitMs", 0, WAIT_MS) ?? 0;
    const follow = fields.flag("follow");
    fields.check();
    if (follow) return this.#follow(call, new Lines(call), process, cursor);
    const { log } = process;
    if (waitMs > 0) {
      const slice = new Slice(call, waitMs);
      await log.change(cursor, slice.signal).finally(() => slice.end());
    }
    const pieces = log.read(cursor, maxBytes, process.outputEncoding === "base64");
    const last = pieces.at(-1);
    sendJson(call, {
      chunks: pieces.map(({ stream, data, offset, base64 }) => ({
        stream,
        text: data,
        offset,
        ...(base64 === undefined ? {} : { base64 }),
      })),
      nextCursor: last ? last.offset + last.bytes : Math.max(cursor, log.first),
      truncated: cursor < log.first,
      process: { state: process.state, exitCode: process.exitCode },
    });
  }

  async write(call: Call, id: string): Promise<void> {
    const process = this.#processes.get(id);
    const fields = new Fields(await readJson(call));
    const data = fields.text("base64");
    const offset = fields.integer("offset", 0, Number.MAX_SAFE_INTEGER);
    const eof = fields.flag("eof");
    if (data === undefined) fields.fault("base64", "missing");
    if (offset === undefined) fields.fault("offset", "missing");
    fields.check();
    sendJson(call, { offset: process.write(offset ?? 0, Buffer.from(data ?? "", "base64"), eof) });
  }

  async signal(call: Call, id: string): Promise<void> {
    const process = this.#processes.get(id);
    const fields = new Fields(await readJson(call));
    const signal = fields.oneOf("signal", signals);
    if (signal === undefined) fields.fault("signal", "missing");
    fields.check();
    process.kill(signal ?? "SIGTERM");
    sendJson(call, process.info());
  }

  async resize(call: Call, id: string): Promise<void> {
    const process = this.#processes.get(id);
    const fields = new Fields(await readJson(call));
    const { cols, rows } = fields.size();
    if (cols === undefined) fields.fault("cols", "missing");
    if (rows === undefined) fields.fault("rows", "missing");
    fields.check();
    process.resize({ cols: cols ?? 0, rows: rows ?? 0 });
    sendJson(call, process.info());
  }

  /** Events from a cursor to the end, or until the slice is over by its bytes or its time. */
  async #follow(call: Call, lines: Lines, process: GuestProcess, from: number): Promise<void> {
    const { log } = process;
    const slice = new Slice(call, guestLimits.followSeconds * 1000);
    const reader = {};
    let cursor = from;
    let end = from + SLICE_BYTES;
    process.follow(reader, from);
    try {
      while (!slice.signal.aborted && cursor < end) {
        await log.change(cursor, slice.signal);
        if (call.gone.aborted) return;
        if (cursor < log.first) {
          lines.write({ type: "truncated", droppedBytes: log.first - cursor, resumeAt: log.first });
          cursor = log.first;
          end = cursor + SLICE_BYTES;
          process.follow(reader, cursor);
        }
        for (const piece of log.read(cursor, guestLimits.outputBytes / 4, process.outputEncoding === "base64")) {
          if (!lines.write(event(piece))) await lines.drained();
          if (call.gone.aborted) return;
          cursor = piece.offset + piece.bytes;
        }
        if (log.ended && cursor >= log.total) {
          const { exitCode, state, timedOut, durationMs } = process;
          lines.write({ type: "exit", exitCode, state, timedOut, durationMs: Math.round(durationMs) });
          lines.end();
          process.unfollow(reader);
          return;
        }
      }
      lines.write({ type: "continue", processId: process.id, cursor });
      lines.end();
      process.lose(reader, "slice");
    } finally {
      slice.end();
      process.lose(reader, "broke");
    }
  }
}

function event({ stream, data, offset, base64 }: Piece): object {
  return { type: stream, data, offset, ...(base64 === undefined ? {} : { base64 }) };
}

/** @throws RouseFailure `invalid_request` with every fault of the body */
function startRequest(fields: Fields, timeoutMs: number | null, headBytes: number): StartRequest {
  const command = fields.text("command");
  const argv = fields.strings("argv");
  const stdin = fields.text("stdin");
  const stdinBase64 = fields.text("stdinBase64");
  const request = {
    command,
    argv,
    cwd: fields.text("cwd"),
    env: fields.env("env"),
    stdin:
      stdinBase64 !== undefined
        ? Buffer.from(stdinBase64, "base64")
        : stdin !== undefined
          ? Buffer.from(stdin)
          : undefined,
    keepStdin: fields.oneOf("stdinMode", ["pipe"]) === "pipe",
    timeoutMs,
    outputEncoding: fields.oneOf("outputEncoding", ["utf8", "base64"]) ?? "utf8",
    headBytes,
  };
  if ((command === undefined) === (argv === undefined)) fields.fault("command", "exactly one of command and argv");
  if (command === "" || command?.includes("\0")) fields.fault("command", "expected text without NUL");
  if (argv?.length === 0 || argv?.[0] === "") fields.fault("argv", "expected a program and its arguments");
  fields.check();
  return request;
}
