/**
 * Tells the edge what went out of each run, and what was refused. All are totals of a run, so what was not taken is told
 * with what came since, and what is told twice counts once.
 */
import type { EgressReport } from "../../sdk/contract/egress.ts";

const EVERY_MS = 10_000;
const POST_LIMIT_MS = 10_000;
/** Runs of which something is not told yet, at most; the oldest go first. */
const PENDING_MAX = 4096;
/** Told at once. */
const PARALLEL = 8;

/** Totals of a run. */
export interface RunReport {
  readonly machine: { readonly id: string; readonly account: string; readonly generation: number };
  readonly report: EgressReport;
}

export interface EgressReporterOptions {
  readonly edgeUrl: string;
  readonly hostKey: string;
  /** Totals of the runs of which there may be news since this was asked last, also of those that are over. */
  readonly takeReports: () => readonly RunReport[];
  /** Milliseconds between two times; 10,000 unless given. */
  readonly everyMs?: number;
}

export class EgressReporter {
  readonly #options: EgressReporterOptions;
  readonly #pending = new Map<string, RunReport>();
  readonly #closing = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | null = null;
  #again = false;

  constructor(options: EgressReporterOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.send(), this.#options.everyMs ?? EVERY_MS);
    this.#timer.unref();
  }

  /** Tell what is new now, such as at a run's end; resolves when all of it was tried once. */
  send(): Promise<void> {
    this.#again = true;
    this.#sending ??= this.#drain().finally(() => {
      this.#sending = null;
    });
    return this.#sending;
  }

  /** Tell what is left, once, and end. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.send();
    this.#closing.abort();
  }

  async #drain(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      for (const one of this.#options.takeReports()) this.#keep(one);
      const due = [...this.#pending];
      for (let at = 0; at < due.length; at += PARALLEL)
        await Promise.all(due.slice(at, at + PARALLEL).map(([key, one]) => this.#tell(key, one)));
    }
  }

  #keep(one: RunReport): void {
    const { id, generation } = one.machine;
    const key = `${id} ${generation}`;
    this.#pending.delete(key);
    this.#pending.set(key, one);
    const oldest = this.#pending.keys().next().value;
    if (this.#pending.size > PENDING_MAX && oldest !== undefined) this.#pending.delete(oldest);
  }

  async #tell(key: string, one: RunReport): Promise<void> {
    const status = await this.#post(one);
    // An edge that knows the machine no more, or will never take this, has no use for it.
    const isOver = status !== null && (status < 300 || status === 400 || status === 404 || status === 410);
    if (isOver && this.#pending.get(key) === one) this.#pending.delete(key);
  }

  /** null: the edge is away; the next time finds it. */
  async #post({ machine: { id, account }, report }: RunReport): Promise<number | null> {
    const { edgeUrl, hostKey } = this.#options;
    const path = `/internal/accounts/${account}/machines/${encodeURIComponent(id)}/egress-report`;
    try {
      const answer = await fetch(edgeUrl + path, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${hostKey}` },
        body: JSON.stringify(report),
        signal: AbortSignal.any([AbortSignal.timeout(POST_LIMIT_MS), this.#closing.signal]),
      });
      await answer.body?.cancel();
      return answer.status;
    } catch {
      return null;
    }
  }
}
