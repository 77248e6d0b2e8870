/** The account's sandboxes, kept up to date: read once, and then told of changes by a call that waits for them. */
import { useEffect, useState } from "preact/hooks";
import type { SandboxInfo } from "../../sdk/src/index.ts";
import { rouse } from "./api.ts";

/** How long one call waits for a change, seconds. */
const WAIT_SECONDS = 50;
/** What came of use and cost alone is read anew after this, milliseconds. */
const REREAD_MS = 120_000;
const RETRY_MS = [1000, 2000, 5000, 15_000];

export interface Sandboxes {
  /** null until they were read. */
  readonly all: ReadonlyMap<string, SandboxInfo> | null;
  /** What the last try ended with; null while all is well. */
  readonly fault: unknown;
}

class Feed {
  state: Sandboxes = { all: null, fault: null };
  readonly #told = new Set<() => void>();
  #running: AbortController | null = null;

  subscribe(told: () => void): () => void {
    this.#told.add(told);
    if (!this.#running) void this.#run((this.#running = new AbortController()));
    return () => this.#told.delete(told);
  }

  /** End, and forget what is known: somebody else may sign in. */
  stop(): void {
    this.#running?.abort();
    this.#running = null;
    this.state = { all: null, fault: null };
  }

  /** What an answer said of a sandbox shows at once. */
  put(sandbox: SandboxInfo): void {
    if (!this.state.all) return;
    const next = new Map(this.state.all);
    if (sandbox.state === "deleted") next.delete(sandbox.label);
    else next.set(sandbox.label, sandbox);
    this.#set({ all: next, fault: this.state.fault });
  }

  remove(label: string): void {
    const next = new Map(this.state.all ?? []);
    next.delete(label);
    this.#set({ all: next, fault: this.state.fault });
  }

  async #run({ signal }: AbortController): Promise<void> {
    let tries = 0;
    let after: number | null = null;
    let readAt = 0;
    while (!signal.aborted) {
      try {
        await whenVisible(signal);
        if (after === null || performance.now() - readAt > REREAD_MS) {
          const { nextAfter } = await rouse.sandboxes.changes({ signal });
          const page = await rouse.sandboxes.list({ limit: 100 }, { signal });
          const all = await page.toArray();
          if (signal.aborted) return;
          this.#set({ all: new Map(all.map(({ info }) => [info.label, info])), fault: null });
          after = nextAfter;
          readAt = performance.now();
        }
        const { data, nextAfter } = await rouse.sandboxes.changes({ after, waitSeconds: WAIT_SECONDS, signal });
        if (signal.aborted) return;
        const next = new Map(this.state.all ?? []);
        for (const { label, sandbox } of data)
          if (sandbox && sandbox.state !== "deleted") next.set(label, sandbox);
          else next.delete(label);
        if (data.length > 0 || this.state.fault !== null) this.#set({ all: next, fault: null });
        after = nextAfter;
        tries = 0;
      } catch (fault) {
        if (signal.aborted) return;
        this.#set({ ...this.state, fault });
        await rest(RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)] ?? 0, signal);
        // What was missed meanwhile is read whole.
        after = null;
      }
    }
  }

  #set(state: Sandboxes): void {
    this.state = state;
    for (const told of this.#told) told();
  }
}

export const feed = new Feed();

export function useSandboxes(): Sandboxes {
  const [state, setState] = useState(feed.state);
  useEffect(() => {
    const look = () => setState(feed.state);
    const end = feed.subscribe(look);
    look();
    return end;
  }, []);
  return state;
}

/** A page that nobody looks at asks nothing. */
function whenVisible(signal: AbortSignal): Promise<void> {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.visibilityState !== "visible" && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
  });
}

function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
