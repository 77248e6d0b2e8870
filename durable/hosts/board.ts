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

  /** Synchronous, as every method here: between read and write nothing may come in. */
  beat(hostId: string, json: string): { ok: true } {
    const now = Date.now();
    const kept = Object.entries(this.hosts).filter(([, entry]) => now - entry.seenAt < FORGET_MS);
    const draining = this.hosts[hostId]?.draining === true;
    this.hosts = { ...Object.fromEntries(kept), [hostId]: { seenAt: now, json, draining } };
    return { ok: true };
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

  list(): Entry[] {
    return Object.keys(this.hosts)
      .toSorted()
      .flatMap((id) => this.hosts[id] ?? []);
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
