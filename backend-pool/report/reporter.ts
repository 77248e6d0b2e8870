/** Tells the edge that this host lives, and what its machines did. Tries until the edge takes note. */
import type { Heartbeat } from "../../sdk/contract/host.ts";
import type { Machines } from "../machine/machines.ts";

const HEARTBEAT_MS = 5000;
const RETRY_MS = 1000;

export interface ReporterOptions {
  readonly edgeUrl: string;
  readonly hostSecret: string;
  readonly machines: Machines;
  readonly heartbeat: () => Promise<Heartbeat>;
}

export class Reporter {
  readonly #options: ReporterOptions;
  #sending: Promise<void> | null = null;
  #again = false;
  #beat: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ReporterOptions) {
    this.#options = options;
    options.machines.on("news", () => void this.sendEvents());
  }

  /** Send heartbeats from now on. Resolves after the first try, whether the edge is there or not. */
  async start(): Promise<void> {
    this.#beat = setInterval(() => void this.#sendHeartbeat(), HEARTBEAT_MS);
    await this.#sendHeartbeat();
    await this.sendEvents();
  }

  /** Send what is pending; resolves when all of it was tried once. */
  sendEvents(): Promise<void> {
    this.#again = true;
    this.#sending ??= this.#drain().finally(() => {
      this.#sending = null;
    });
    return this.#sending;
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#beat);
    clearTimeout(this.#retry);
  }

  async #drain(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      for (const { account, id, event } of this.#options.machines.pendingEvents()) {
        const path = `/internal/accounts/${account}/machines/${encodeURIComponent(id)}/events`;
        const status = await this.#post(path, event);
        // An edge that knows the machine no more has no use for its news.
        if (status !== null && (status < 300 || status === 404 || status === 410)) {
          this.#options.machines.acknowledge(id, event);
        } else if (!this.#closed) {
          clearTimeout(this.#retry);
          this.#retry = setTimeout(() => void this.sendEvents(), RETRY_MS);
          this.#retry.unref();
        }
      }
    }
  }

  async #sendHeartbeat(): Promise<void> {
    const beat = await this.#options.heartbeat();
    await this.#post(`/internal/hosts/${beat.hostId}/heartbeat`, beat);
  }

  async #post(path: string, body: object): Promise<number | null> {
    try {
      const answer = await fetch(this.#options.edgeUrl + path, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${this.#options.hostSecret}` },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(30_000),
      });
      await answer.arrayBuffer();
      return answer.status;
    } catch {
      return null; // the edge is away; the next beat or retry finds it
    }
  }
}
