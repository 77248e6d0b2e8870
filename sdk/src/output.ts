/** Following output over as many connections as it takes. */
import { OutputEvent as OutputEventSchema, OutputPage } from "../contract/guest.ts";
import type { OutputEvent } from "../contract/guest.ts";
import { OutputCursor } from "./cursor.ts";
import { ConnectionError, RouseError, errorOfStatus } from "./errors.ts";
import { Patience } from "./patience.ts";
import type { Remote } from "./remote.ts";
import { parseAnswer } from "./remote.ts";
import { isRetryable } from "./retry.ts";
import { sleep } from "./scope.ts";
import { connectionError, isRecord } from "./transport.ts";

/** Time limit of one connection, milliseconds; the server ends its slices well before. */
const SLICE_MS = 180_000;
/** Connections in a row that may end without anything new. */
const QUIET_CLOSES = 4;
/** Bytes of one page of output. */
const PAGE_BYTES = 196_608;
/** Tries of a stream whose start never arrived. */
const START_TRIES = 5;

const eventTypes: ReadonlySet<unknown> = new Set(OutputEventSchema.options.map((option) => option.shape.type.value));

/** What a reader sees: continuations and failures of the wire are dealt with before. */
export type CommandEvent = Exclude<OutputEvent, { type: "continue" | "error" }>;

/** Follow a process's output from a cursor to its exit. */
export async function* followOutput(
  remote: Remote,
  processId: string,
  cursor: OutputCursor,
  signal?: AbortSignal,
): AsyncGenerator<CommandEvent, void, undefined> {
  let quietCloses = 0;
  const patience = new Patience(50);
  for (;;) {
    const before = cursor.position;
    let continued = false;
    let failure: RouseError | null = null;
    try {
      const events = remote.transport.events({
        method: "GET",
        path: remote.path(`/processes/${encodeURIComponent(processId)}/output`),
        query: { cursor: cursor.position, follow: true },
        timeoutMs: SLICE_MS,
        maxRetries: 0,
        signal,
      });
      cursor.join();
      for await (const event of read(events, cursor)) {
        if (event.type === "continue") {
          continued = true;
          break;
        }
        if (event.type === "start") continue;
        yield event;
        if (event.type === "exit") return;
      }
    } catch (error) {
      if (!isTransient(error)) throw error;
      failure = error;
    }
    if (continued || cursor.position > before) {
      quietCloses = 0;
      patience.reset();
      if (failure === null) continue;
    }
    if (failure === null) {
      quietCloses += 1;
      if (quietCloses >= QUIET_CLOSES) throw connectionError("The output ended without an exit");
      continue;
    }
    await sleep(patience.next(failure), signal);
  }
}

/** What has been written from a cursor on, without waiting for more. */
export async function* keptOutput(
  remote: Remote,
  processId: string,
  cursor: OutputCursor,
  signal?: AbortSignal,
): AsyncGenerator<CommandEvent, void, undefined> {
  for (;;) {
    const query = { cursor: cursor.position, maxBytes: PAGE_BYTES };
    const answer = await remote.get(`/processes/${encodeURIComponent(processId)}/output`, { query, signal });
    const page = parseAnswer(OutputPage, answer);
    for (const { stream, text, ...rest } of page.chunks) {
      for (const event of cursor.accept({ type: stream, data: text, ...rest })) {
        if (event.type !== "error" && event.type !== "continue") yield event;
      }
    }
    if (page.chunks.length === 0 || page.nextCursor <= query.cursor) return;
    cursor.position = page.nextCursor;
  }
}

/** Run a command and follow its output to its exit; a cut is bridged by the output that the sandbox keeps. */
export async function* execOutput(
  remote: Remote,
  body: Record<string, unknown>,
  options: { idempotencyKey: string; timeoutMs: number; signal?: AbortSignal | undefined },
): AsyncGenerator<CommandEvent, void, undefined> {
  const cursor = new OutputCursor();
  let processId: string | null = null;
  try {
    for (let tries = 1; processId === null; tries += 1) {
      const events = remote.transport.events({
        method: "POST",
        path: remote.path(":exec"),
        json: { ...body, stream: true },
        ...options,
      });
      try {
        for await (const event of read(events, cursor)) {
          if (event.type === "continue") break;
          if (event.type === "start") processId = event.processId;
          yield event;
          if (event.type === "exit") return;
        }
        if (processId === null) throw connectionError("The stream ended before the command started");
      } catch (error) {
        if (!isTransient(error)) throw error;
        // Without a start there is nothing to follow; the key makes sure that a second try is no second run.
        if (processId === null) {
          if (tries >= START_TRIES || (error.code !== "connection_error" && error.code !== "timeout")) throw error;
          await sleep(250 * 2 ** tries, options.signal);
        }
      }
    }
    yield* followOutput(remote, processId, cursor, options.signal);
  } catch (error) {
    if (processId !== null && error instanceof RouseError && error.code === "cancelled") {
      await signalProcess(remote, processId, "SIGTERM", { timeoutMs: 5000 }).catch(() => undefined);
    }
    throw error;
  }
}

/** Send a signal to a process. */
export async function signalProcess(
  remote: Remote,
  processId: string,
  signal: string,
  options: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined } = {},
): Promise<void> {
  await remote.post(`/processes/${encodeURIComponent(processId)}:signal`, { signal }, options);
}

type WireEvent = Exclude<OutputEvent, { type: "error" }>;

/** Events as the cursor admits them; an `error` event is thrown as if it were the answer's status. */
async function* read(events: AsyncIterable<unknown>, cursor: OutputCursor): AsyncGenerator<WireEvent, void, undefined> {
  for await (const raw of events) {
    // A newer server may say more than this client knows.
    if (!isRecord(raw) || !eventTypes.has(raw["type"])) continue;
    const event = parseAnswer(OutputEventSchema, raw);
    switch (event.type) {
      case "stdout":
      case "stderr":
        for (const accepted of cursor.accept(event)) if (accepted.type !== "error") yield accepted;
        break;
      case "truncated":
        cursor.skipTo(event.resumeAt);
        yield event;
        break;
      case "continue":
        cursor.rewindTo(event.cursor);
        yield event;
        break;
      case "error":
        throw errorOfEvent(event.error);
      default:
        yield event;
    }
  }
}

function errorOfEvent(error: Extract<OutputEvent, { type: "error" }>["error"]): RouseError {
  const status = error.status ?? 500;
  return errorOfStatus({ ...error, status, retryable: isRetryable({ code: error.code, status }) });
}

/** Whether another try may do. */
export function isTransient(error: unknown): error is RouseError {
  if (error instanceof ConnectionError) return true;
  return error instanceof RouseError && isRetryable(error);
}
