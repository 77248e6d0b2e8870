/** The time a call has: its total limit, its caller's signal, and the limit of each attempt's headers. */
import { ConnectionError, RouseError } from "./errors.ts";

/** Wait. @throws RouseError `cancelled` when the signal aborts meanwhile */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  const scope = new CallScope(0, signal);
  try {
    scope.check();
    await scope.sleep(ms);
  } finally {
    scope.close();
  }
}

/** One attempt of a call. */
interface Attempt {
  readonly signal: AbortSignal;
  /** The headers are there: from now on only the call's limit counts. */
  answered(): void;
}

export class CallScope {
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#end("cancelled");
  #timeoutMs: number;
  #endsAt: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ended: "cancelled" | "timeout" | null = null;
  /** What runs now and must stop when the call ends. */
  #stop: (() => void) | null = null;

  /** `timeoutMs` 0: no limit. */
  constructor(timeoutMs: number, signal: AbortSignal | undefined) {
    this.#timeoutMs = timeoutMs;
    this.#endsAt = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
    this.#signal = signal;
    if (signal?.aborted) this.#ended = "cancelled";
    signal?.addEventListener("abort", this.#onAbort);
    this.#arm();
  }

  /** Milliseconds left, Infinity without limit. */
  leftMs(): number {
    return this.#endsAt - performance.now();
  }

  /** Give the call more time. */
  extend(ms: number): void {
    this.#timeoutMs += ms;
    this.#endsAt += ms;
    this.#arm();
  }

  /** @throws when the call has ended */
  check(): void {
    const failure = this.failure(undefined);
    if (failure !== null) throw failure;
  }

  /** Begin an attempt; it ends with the call, or when its headers take longer than `headersMs`. */
  attempt(headersMs: number): Attempt {
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(new Error("no answer in time")), headersMs);
    this.#stop = () => controller.abort();
    return { signal: controller.signal, answered: () => clearTimeout(timer) };
  }

  /** @throws when the call ends meanwhile */
  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#stop = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.check();
  }

  /** Why the call ended, as the error to throw; null while it has not. */
  failure(cause: unknown): RouseError | null {
    if (this.#ended === "cancelled") {
      return new RouseError({
        code: "cancelled",
        message: "The call was cancelled.",
        cause: this.#signal?.reason ?? cause,
      });
    }
    if (this.#ended === "timeout") {
      return new ConnectionError({
        code: "timeout",
        message: `The call took longer than ${Math.round(this.#timeoutMs)} ms.`,
        hint: "Pass a larger timeoutMs, or 0 for no limit.",
        retryable: true,
        cause,
      });
    }
    return null;
  }

  /** The call is over: nothing is left running. */
  close(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#stop = null;
  }

  #arm(): void {
    clearTimeout(this.#timer);
    // A timer cannot hold more than 2^31 - 1 ms; a limit beyond that is none in practice.
    const left = this.leftMs();
    if (left >= 2 ** 31) return;
    this.#timer = setTimeout(() => this.#end("timeout"), Math.max(0, left));
    // The connection keeps a program alive, not the limit: an answer left unread must not hold up its end.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  #end(why: "cancelled" | "timeout"): void {
    this.#ended ??= why;
    this.#stop?.();
  }
}
