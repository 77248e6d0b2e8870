/** Blobs at the edge. */
import { setTimeout as pass } from "node:timers/promises";
import { blobPath, VAULT_TICKET_HEADER } from "../../sdk/contract/archive.ts";
import type { Blobs } from "./blobs.ts";
import { DamagedState } from "./damage.ts";

export interface EdgeBlobsOptions {
  readonly edgeUrl: string;
  readonly hostKey: string;
  /** Uploads take no more, all of them together; 0 for no bound. */
  readonly uploadBytesPerSecond: number;
}

/** The edge refused, and will again: a ticket that is over, for example. */
export class BlobsRefused extends Error {
  override readonly name = "BlobsRefused";
  /** HTTP status. */
  readonly status: number;

  constructor(method: string, id: string, status: number) {
    super(`The edge answered ${status} to ${method} of blob ${id}.`);
    this.status = status;
  }
}

/** Tries of a call, and milliseconds before the second; doubled before each later one, up to the longest. */
const TRIES = 7;
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;
/** One try, milliseconds. */
const TRY_LIMIT_MS = 120_000;

interface Call {
  readonly method: "GET" | "HEAD" | "PUT";
  readonly vault: string;
  readonly id: string;
  readonly ticket: string;
  readonly body?: Buffer;
  readonly signal: AbortSignal | undefined;
}

export class EdgeBlobs {
  readonly #options: EdgeBlobsOptions;
  /** When the bytes that were let go have had their time, milliseconds of the process's clock. */
  #freeAt = 0;

  constructor(options: EdgeBlobsOptions) {
    this.#options = options;
  }

  /** The store as the holder of a `VaultTicket` sees it. */
  with(ticket: string): Blobs {
    return {
      get: async (vault, id, signal) => {
        const { status, body } = await this.#call({ method: "GET", vault, id, ticket, signal });
        if (status === 404) throw new DamagedState(id, "missing", "its vault does not have it");
        return body;
      },
      has: async (vault, id, signal) => {
        const { status } = await this.#call({ method: "HEAD", vault, id, ticket, signal });
        return status !== 404;
      },
      put: async (vault, id, bytes, signal) => {
        await this.#pace(bytes.length, signal);
        const { status } = await this.#call({ method: "PUT", vault, id, ticket, body: bytes, signal });
        if (status === 404) throw new BlobsRefused("PUT", id, status);
      },
    };
  }

  /** Resolves when so many bytes may go: blob by blob, so only the average keeps to the bound. */
  async #pace(bytes: number, signal: AbortSignal | undefined): Promise<void> {
    const rate = this.#options.uploadBytesPerSecond;
    if (rate === 0) return;
    const now = performance.now();
    const from = Math.max(now, this.#freeAt);
    this.#freeAt = from + (bytes / rate) * 1000;
    await pass(from - now, undefined, { signal });
  }

  /** Answers success and 404. @throws BlobsRefused, or what kept the last try from being answered */
  async #call(call: Call): Promise<{ status: number; body: Buffer }> {
    for (let tries = 1; ; tries++) {
      call.signal?.throwIfAborted();
      const outcome = await this.#try(call);
      if ("status" in outcome) return outcome;
      call.signal?.throwIfAborted();
      if (!outcome.again || tries === TRIES) throw outcome.fault;
      const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
      // Hosts that failed together should not come back together.
      await pass(Math.max(outcome.afterMs, wait * (0.5 + Math.random() / 2)), undefined, { signal: call.signal });
    }
  }

  async #try(
    call: Call,
  ): Promise<{ status: number; body: Buffer } | { fault: unknown; again: boolean; afterMs: number }> {
    const { method, vault, id, ticket, body, signal } = call;
    const limit = AbortSignal.timeout(TRY_LIMIT_MS);
    try {
      const answer = await fetch(new URL(blobPath(vault, id), this.#options.edgeUrl), {
        method,
        headers: { authorization: `Bearer ${this.#options.hostKey}`, [VAULT_TICKET_HEADER]: ticket },
        redirect: "error",
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
        ...(body && { body: new Uint8Array(body) }),
      });
      const bytes = Buffer.from(await answer.arrayBuffer());
      if (answer.ok || answer.status === 404) return { status: answer.status, body: bytes };
      const again = answer.status === 429 || answer.status >= 500;
      const afterMs = Math.min(LONGEST_WAIT_MS, (Number(answer.headers.get("retry-after")) || 0) * 1000);
      return { fault: new BlobsRefused(method, id, answer.status), again, afterMs };
    } catch (fault) {
      return { fault, again: true, afterMs: 0 };
    }
  }
}
