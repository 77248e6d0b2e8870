/** Routes of commands and processes: `/exec` and `/processes`. */
import { createHash } from "node:crypto";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { Lines, number, readJson, record, sendJson, text, type Call } from "./http.ts";
import type { Piece } from "./output.ts";
import type { GuestProcess, Processes, StartRequest } from "./processes.ts";

/** Keys whose process is remembered, so that a repeated call never runs twice. */
const KEYS_KEPT = 1024;

export class Commands {
  readonly #processes: Processes;
  readonly #keys = new Map<string, { fingerprint: string; process: GuestProcess; captured: Captured | null }>();

  constructor(processes: Processes) {
    this.#processes = processes;
  }

  async exec(call: Call): Promise<void> {
    const body = await readJson(call);
    const stream = body["stream"] === true;
    const timeoutMs = number(body["timeoutMs"]) ?? (stream ? guestLimits.execTimeoutMsMax : guestLimits.execTimeoutMs);
    const { process, captured, replayed } = this.#once(call, body, () => startRequest(body, timeoutMs, false));
    if (stream) {
      const lines = new Lines(call);
      await lines.send({ type: "start", processId: process.id, ...(replayed ? { replayed } : {}) });
      await this.#follow(call, lines, process, 0);
      return;
    }
    await process.ended;
    const limit = timeoutMs <= guestLimits.execTimeoutMs ? guestLimits.execBytesShort : guestLimits.execBytesLong;
    const out = captured?.take("stdout", limit);
    const err = captured?.take("stderr", limit);
    sendJson(call, {
      exitCode: process.exitCode,
      stdout: out?.text ?? "",
      stderr: err?.text ?? "",
      timedOut: process.timedOut,
      stdoutTruncated: out?.truncated ?? false,
      stderrTruncated: err?.truncated ?? false,
      durationMs: Math.round(process.durationMs),
      processId: process.id,
      ...(replayed ? { replayed } : {}),
    });
  }

  async spawn(call: Call): Promise<void> {
    const body = await readJson(call);
    const { process, replayed } = this.#once(call, body, () =>
      startRequest(body, number(body["timeoutMs"]) ?? null, body["stdinMode"] === "pipe"),
    );
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
    const cursor = Number(call.query.get("cursor") ?? 0);
    if (call.query.get("follow") === "true") return this.#follow(call, new Lines(call), process, cursor);
    const maxBytes = Number(call.query.get("maxBytes") ?? guestLimits.outputBytes);
    const waitMs = Number(call.query.get("waitMs") ?? 0);
    if (waitMs > 0) await process.log.change(cursor, AbortSignal.any([call.gone, AbortSignal.timeout(waitMs)]));
    const pieces = process.log.read(cursor, maxBytes, process.outputEncoding === "base64");
    const last = pieces.at(-1);
    sendJson(call, {
      chunks: pieces.map(({ stream, data, offset, base64 }) => ({
        stream,
        text: data,
        offset,
        ...(base64 ? { base64 } : {}),
      })),
      nextCursor: last ? last.offset + last.bytes : Math.max(cursor, process.log.first),
      truncated: cursor < process.log.first,
      process: { state: process.state, exitCode: process.exitCode },
    });
  }

  async write(call: Call, id: string): Promise<void> {
    const process = this.#processes.get(id);
    const body = await readJson(call);
    const offset = process.write(
      number(body["offset"]) ?? 0,
      Buffer.from(text(body["base64"]) ?? "", "base64"),
      body["eof"] === true,
    );
    sendJson(call, { offset });
  }

  async signal(call: Call, id: string): Promise<void> {
    const process = this.#processes.get(id);
    const body = await readJson(call);
    process.kill((text(body["signal"]) ?? "SIGTERM") as NodeJS.Signals);
    sendJson(call, process.info());
  }

  /** Events from a cursor to the end, or until the slice is over. */
  async #follow(call: Call, lines: Lines, process: GuestProcess, from: number): Promise<void> {
    const { log } = process;
    const slice = AbortSignal.any([call.gone, AbortSignal.timeout(guestLimits.followSeconds * 1000)]);
    let cursor = from;
    const reader = {};
    try {
      while (!slice.aborted) {
        process.follow(reader, cursor);
        await log.change(cursor, slice);
        if (call.gone.aborted) return;
        if (cursor < log.first) {
          await lines.send({ type: "truncated", droppedBytes: log.first - cursor, resumeAt: log.first });
          cursor = log.first;
        }
        for (const piece of log.read(cursor, 1_048_576, process.outputEncoding === "base64")) {
          await lines.send(event(piece));
          cursor = piece.offset + piece.bytes;
          process.follow(reader, cursor);
        }
        if (log.ended && cursor >= log.total) {
          const { exitCode, state, timedOut, durationMs } = process;
          await lines.send({ type: "exit", exitCode, state, timedOut, durationMs: Math.round(durationMs) });
          lines.end();
          return;
        }
      }
      await lines.send({ type: "continue", processId: process.id, cursor });
      lines.end();
    } finally {
      process.unfollow(reader);
    }
  }

  /** Start a process, or find the one that the same idempotency key started. */
  #once(
    call: Call,
    body: object,
    request: () => StartRequest,
  ): { process: GuestProcess; captured: Captured | null; replayed: boolean } {
    const key = call.req.headers["idempotency-key"];
    const fingerprint = createHash("sha256")
      .update(`${call.path}\n${JSON.stringify(body)}`)
      .digest("base64");
    if (typeof key === "string") {
      const known = this.#keys.get(key);
      if (known && known.fingerprint !== fingerprint) {
        throw new RouseFailure("idempotency_key_reused", "This Idempotency-Key belongs to another request.");
      }
      if (known) return { ...known, replayed: true };
    }
    const process = this.#processes.start(request());
    const captured =
      call.path === "/exec" && !("stream" in body && body.stream === true) ? new Captured(process) : null;
    if (typeof key === "string") {
      this.#keys.set(key, { fingerprint, process, captured });
      const oldest = this.#keys.keys().next().value;
      if (this.#keys.size > KEYS_KEPT && oldest !== undefined) this.#keys.delete(oldest);
    }
    return { process, captured, replayed: false };
  }
}

/** The beginning of each stream of a command, for the plain answer: the log keeps only the end. */
class Captured {
  readonly #chunks: Record<"stdout" | "stderr", Buffer[]> = { stdout: [], stderr: [] };
  readonly #size = { stdout: 0, stderr: 0 };

  constructor(process: GuestProcess) {
    void this.#collect(process);
  }

  take(stream: "stdout" | "stderr", limit: number): { text: string; truncated: boolean } {
    const all = Buffer.concat(this.#chunks[stream]);
    return { text: all.subarray(0, limit).toString("utf8"), truncated: this.#size[stream] > limit };
  }

  async #collect(process: GuestProcess): Promise<void> {
    const never = new AbortController().signal;
    for (let cursor = 0; !(process.log.ended && cursor >= process.log.total);) {
      await process.log.change(cursor, never);
      cursor = Math.max(cursor, process.log.first);
      for (const piece of process.log.read(cursor, guestLimits.outputBytes)) {
        const data = piece.base64 === undefined ? Buffer.from(piece.data) : Buffer.from(piece.base64, "base64");
        if (this.#size[piece.stream] < guestLimits.execBytesLong) this.#chunks[piece.stream].push(data);
        this.#size[piece.stream] += piece.bytes;
        cursor = piece.offset + piece.bytes;
      }
    }
  }
}

function event({ stream, data, offset, base64 }: Piece): object {
  return { type: stream, data, offset, ...(base64 === undefined ? {} : { base64 }) };
}

function startRequest(body: Record<string, unknown>, timeoutMs: number | null, keepStdin: boolean): StartRequest {
  const { command, argv } = body;
  const isArgv = Array.isArray(argv) && argv.length > 0 && argv.every((part) => typeof part === "string");
  if ((typeof command === "string") === isArgv)
    throw new RouseFailure("invalid_request", "Give exactly one of command and argv.");
  const stdin =
    text(body["stdinBase64"]) === undefined
      ? text(body["stdin"])
      : Buffer.from(text(body["stdinBase64"]) ?? "", "base64");
  const cwd = text(body["cwd"]);
  const env = record(body["env"]);
  return {
    ...(typeof command === "string" ? { command } : {}),
    ...(isArgv ? { argv: argv as string[] } : {}),
    ...(cwd === undefined ? {} : { cwd }),
    ...(env === undefined ? {} : { env }),
    ...(stdin === undefined ? {} : { stdin: Buffer.from(stdin) }),
    keepStdin,
    timeoutMs,
    outputEncoding: body["outputEncoding"] === "base64" ? "base64" : "utf8",
  };
}
