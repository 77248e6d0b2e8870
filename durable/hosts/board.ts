/**
 * The board of hosts: who reported last, and what. One small JSON value that the next heartbeats rebuild, which is why
 * it is the one object made with itty-durable. Only `board-facade.ts` talks to it, and no client request reaches it.
 */
import { createDurable } from "itty-durable/itty-durable.js";

/** A host that was silent for so long is forgotten, milliseconds. */
const FORGET_MS = 7 * 86_400_000;

interface Entry {
  readonly seenAt: number;
  readonly json: string;
  /** Takes no new machines. */
  readonly draining?: boolean;
}

/** What `list` answers. Silence is counted by the board's own clock: it took the heartbeats. */
export interface BoardState {
  readonly now: number;
  /** Since when the board keeps account: a host that it does not know was silent no longer than that. */
  readonly since: number;
  readonly hosts: Entry[];
}

interface Persisting {
  state: { storage: DurableObjectStorage; written?: string };
  getPersistable(): Record<string, unknown>;
}

const Base = createDurable({ autoPersist: true }) as unknown as new (
  state: DurableObjectState,
  env: object,
) => Persisting;

export class HostBoard extends Base {
  hosts: Record<string, Entry> = {};
  since = 0;

  /** Synchronous, as every method here: between read and write nothing may come in. */
  beat(hostId: string, json: string): { draining: boolean } {
    const now = Date.now();
    if (this.since === 0) this.since = now;
    const kept = Object.entries(this.hosts).filter(([, entry]) => now - entry.seenAt < FORGET_MS);
    const draining = this.hosts[hostId]?.draining === true;
    this.hosts = { ...Object.fromEntries(kept), [hostId]: { seenAt: now, json, draining } };
    return { draining };
  }

  /** Whether there is such a host. */
  drain(hostId: string, draining: boolean): { found: boolean } {
    const entry = this.hosts[hostId];
    if (!entry) return { found: false };
    this.hosts = { ...this.hosts, [hostId]: { ...entry, draining } };
    return { found: true };
  }

  /** Forget a host. One that still reports is back with its next heartbeat. */
  remove(hostId: string): { found: boolean } {
    const { [hostId]: entry, ...others } = this.hosts;
    this.hosts = others;
    return { found: entry !== undefined };
  }

  /** @param only one host; all of them without it */
  list(only: string | null = null): BoardState {
    const ids = only === null ? Object.keys(this.hosts).toSorted() : [only];
    const hosts = ids.flatMap((id) => this.hosts[id] ?? []);
    return { now: Date.now(), since: this.since, hosts };
  }

  /** Called after every request: a read that changed nothing must not cost a write. */
  async persist(): Promise<void> {
    const { state: _state, ...value } = this.getPersistable();
    const text = JSON.stringify(value);
    if (text === this.state.written) return;
    this.state.written = text;
    await this.state.storage.put("data", value);
  }
}
