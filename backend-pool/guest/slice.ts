/** How long one call may wait. */
import type { Call } from "./http.ts";

/** A bounded wait of one call, over early when its caller goes. */
export class Slice {
  readonly #over = new AbortController();
  readonly #gone: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #abort = () => this.#over.abort();

  constructor(call: Call, ms: number) {
    this.#gone = call.gone;
    this.#timer = setTimeout(this.#abort, ms);
    if (this.#gone.aborted) this.#abort();
    else this.#gone.addEventListener("abort", this.#abort);
  }

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#gone.removeEventListener("abort", this.#abort);
  }
}
