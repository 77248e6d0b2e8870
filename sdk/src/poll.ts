/** Asking again and again within one time limit. */
import { ConnectionError, RouseError } from "./errors.ts";
import type { ErrorFacts } from "./errors.ts";
import { sleep } from "./scope.ts";
import type { RequestOptions } from "./transport.ts";

/** Milliseconds between two questions. */
const INTERVAL_MS = 500;
/** Longest wait unless the caller says otherwise, milliseconds. */
const TIMEOUT_MS = 600_000;

interface PollOptions {
  /** Milliseconds from now for all questions together; 10 minutes unless given, 0 for no limit. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
  /** What the error says when the time is over. */
  late: () => Pick<ErrorFacts, "message" | "hint" | "details">;
}

export class Poll {
  readonly #options: PollOptions;
  readonly #endsAt: number;

  constructor(options: PollOptions) {
    const { timeoutMs = TIMEOUT_MS } = options;
    this.#options = options;
    this.#endsAt = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
  }

  /** Do a call within the time that is left. @throws ConnectionError `timeout` when it is over */
  async ask<T>(call: (options: RequestOptions) => Promise<T>): Promise<T> {
    const leftMs = this.#leftMs();
    // A call takes 0 for no limit.
    const timeoutMs = leftMs === Infinity ? 0 : Math.ceil(leftMs);
    if (leftMs <= 0) throw this.#late(undefined);
    try {
      return await call({ timeoutMs, signal: this.#options.signal });
    } catch (cause) {
      throw cause instanceof RouseError && cause.code === "timeout" ? this.#late(cause) : cause;
    }
  }

  /** Wait before the next question. @throws RouseError `cancelled` */
  rest(): Promise<void> {
    return sleep(Math.max(0, Math.min(INTERVAL_MS, this.#leftMs())), this.#options.signal);
  }

  #leftMs(): number {
    return this.#endsAt - performance.now();
  }

  #late(cause: unknown): ConnectionError {
    return new ConnectionError({ code: "timeout", retryable: true, cause, ...this.#options.late() });
  }
}
