/**
 * The right of this host to run machines, as the edge last granted it. It is counted by the kernel's clock since boot,
 * which no step of the calendar moves and a suspended host does not stop, and kept in a file: the warden reads it when
 * this process can't.
 */
import { randomUUID } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { hostLeaseTimes } from "../../sdk/contract/host-lease.ts";

interface HostLeaseOptions {
  /** The file, or null for none. */
  readonly file: string | null;
  /** Milliseconds since the kernel booted. */
  readonly now?: () => number;
}

export class HostLease {
  readonly #file: string | null;
  readonly #now: () => number;
  #session = randomUUID();
  #freezeAt = 0;
  #endsAt = 0;

  constructor({ file, now = uptimeMs }: HostLeaseOptions) {
    this.#file = file;
    this.#now = now;
    // An earlier host agent's lease holds on: its machines run under it.
    if (file !== null) this.#endsAt = this.#freezeAt = readEnd(file);
  }

  /** See `HostSession`. */
  get session(): string {
    return this.#session;
  }

  /**
   * The session that a heartbeat carries. Without a lease each has another: the edge may take one whose answer is lost, and
   * what it then sends must not begin anything after it has given this host up.
   */
  sessionOfBeat(): string {
    if (!this.holds) this.#session = randomUUID();
    return this.#session;
  }

  /** What a heartbeat is to be stamped with before it is sent. */
  now(): number {
    return this.#now();
  }

  /** The edge took the heartbeat that was sent at `sentAt`. A late answer never shortens the lease. */
  renew(sentAt: number, seconds: number): void {
    const { endsAfterMs, freezeAfterMs } = hostLeaseTimes(seconds);
    if (sentAt + endsAfterMs <= this.#endsAt) return;
    this.#endsAt = sentAt + endsAfterMs;
    this.#freezeAt = sentAt + freezeAfterMs;
    if (this.#file === null) return;
    const part = `${this.#file}.part`;
    // Whole seconds, rounded down: all that a shell can compare.
    writeFileSync(part, `${Math.floor(this.#endsAt / 1000)}\n`, { mode: 0o600 });
    renameSync(part, this.#file);
  }

  /** Whether a run may begin, or go on. */
  get holds(): boolean {
    return this.#now() < this.#freezeAt;
  }

  /** Milliseconds until machines must be put to sleep; below 0 when that is past. */
  get untilFreezeMs(): number {
    return this.#freezeAt - this.#now();
  }

  /** Milliseconds until nothing may run. */
  get untilEndMs(): number {
    return this.#endsAt - this.#now();
  }
}

export function uptimeMs(): number {
  return Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1000;
}

function readEnd(file: string): number {
  try {
    return Number(readFileSync(file, "utf8")) * 1000 || 0;
  } catch {
    return 0;
  }
}
