/** What happens to files of a sandbox, told as it happens. */
import { FileWatch as FileWatchSchema, WatchLine } from "../contract/guest.ts";
import type { CreateWatch, FileEvent, FileWatch as FileWatchInfo } from "../contract/guest.ts";
import { z } from "zod";
import { RouseError } from "./errors.ts";
import { isTransient } from "./output.ts";
import { Patience } from "./patience.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { sleep } from "./scope.ts";
import { connectionError } from "./transport.ts";
import type { RequestOptions } from "./transport.ts";

/** Time limit of one connection, milliseconds; the server ends its slices well before. */
const SLICE_MS = 150_000;
/** How often a sandbox that sleeps is looked at, milliseconds: at first, and later. Looking does not wake it. */
const LOOK_MS = 2000;
const LOOK_MOST_MS = 30_000;

const WatchList = z.object({ data: z.array(FileWatchSchema) });

export interface WatchOptions extends Omit<CreateWatch, "path"> {
  /** How the call is made, as against what is watched. */
  request?: RequestOptions | undefined;
}

/** What a reader of a watch sees: an event, or what is missing. */
export type WatchEvent =
  | FileEvent
  /** Events that nobody has, as there were too many; `dropped` is null where their number is not known. */
  | { type: "overflow"; dropped: number | null; reason: "kernel" | "rate" }
  /** What was read too late: the newest MiB is kept. */
  | { type: "lost"; bytes: number }
  /** No more than so many folders are watched. */
  | { type: "limit"; watches: number };

/**
 * A watch of a file or folder. It goes on when this program ends, and over pause and wake.
 *
 * @example
 * const watch = await sandbox.files.watch("src", { recursive: true, exclude: ["node_modules"] });
 * for await (const event of watch.events()) console.log(event.type, event);
 */
export class FileWatch {
  readonly #remote: Remote;
  readonly info: FileWatchInfo;
  /** Where reading goes on; one of another program's may be set. */
  cursor: number;
  /** Why it ended, once reading has come to that; null before. */
  endReason: "stopped" | "timeout" | "root-removed" | null = null;

  /** @internal */
  constructor(remote: Remote, info: FileWatchInfo) {
    this.#remote = remote;
    this.info = info;
    this.cursor = info.cursor;
  }

  get id(): string {
    return this.info.id;
  }

  /**
   * What happens, until the watch ends; over connections that break, and over sleep, without loss or repetition. Reading
   * neither wakes the sandbox nor keeps it awake.
   */
  async *events({ signal }: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<WatchEvent, void, undefined> {
    const patience = new Patience(100);
    let looks = 0;
    for (;;) {
      let failure: RouseError = connectionError("The events of the watch were cut");
      let outcome: "again" | "asleep" | "cut" = "cut";
      try {
        for await (const line of this.#lines(signal)) {
          patience.reset();
          if (line.k !== "paused") looks = 0;
          if (line.k === "end") {
            this.endReason = line.reason;
            return;
          }
          if (line.k === "failure") throw new RouseError({ code: line.code, message: line.message });
          if (line.k === "continue") outcome = "again";
          else if (line.k === "paused") outcome = "asleep";
          else {
            const events = eventsOf(line);
            yield* events.slice(0, -1);
            // With the last of a line: one that its reader leaves half read is told again to whoever reads on.
            this.cursor = line.cursor;
            yield* events.slice(-1);
          }
        }
      } catch (error) {
        if (!isTransient(error)) throw error;
        failure = error;
      }
      if (outcome === "again") continue;
      if (outcome === "asleep") await sleep(Math.min(LOOK_MOST_MS, LOOK_MS * 1.5 ** looks++), signal);
      else await sleep(patience.next(failure), signal);
    }
  }

  /** End it. */
  async stop(options: RequestOptions = {}): Promise<void> {
    await this.#remote.delete(`/files/watches/${encodeURIComponent(this.id)}`, options);
  }

  async *#lines(signal: AbortSignal | undefined): AsyncGenerator<WatchLine, void, undefined> {
    const events = this.#remote.transport.events({
      method: "GET",
      path: this.#remote.path(`/files/watches/${encodeURIComponent(this.id)}/events`),
      query: { cursor: this.cursor, follow: true },
      timeoutMs: SLICE_MS,
      maxRetries: 0,
      signal,
    });
    for await (const line of events) {
      const parsed = WatchLine.safeParse(line);
      // A newer server may say more than this client knows.
      if (parsed.success) yield parsed.data;
    }
  }
}

function eventsOf(line: Exclude<WatchLine, { k: "end" | "failure" | "continue" | "paused" }>): WatchEvent[] {
  if (line.k === "events") return line.events;
  if (line.k === "overflow") return [{ type: "overflow", dropped: line.dropped, reason: line.reason }];
  if (line.k === "lost") return [{ type: "lost", bytes: line.bytes }];
  return [{ type: "limit", watches: line.watches }];
}

export async function watchFiles(
  remote: Remote,
  path: string,
  { request, ...asked }: WatchOptions,
): Promise<FileWatch> {
  const answer = await remote.post("/files/watches", { path, ...asked }, request);
  const info = parseAnswer(FileWatchSchema, answer);
  return new FileWatch(remote, info);
}

export async function listWatches(remote: Remote, options: RequestOptions): Promise<FileWatch[]> {
  const { data } = parseAnswer(WatchList, await remote.get("/files/watches", options));
  return data.map((info) => new FileWatch(remote, info));
}
