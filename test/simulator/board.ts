/** The board of hosts as objects see it: what each host said with its last heartbeat, up to an interval ago. */
import { hostLeaseTimes, HOST_LEASE_SECONDS } from "../../sdk/contract/host-lease.ts";
import { HOST_SILENT_MS } from "../../durable/hosts/placement.ts";
import type { Host } from "../../sdk/contract/host.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import type { Random } from "../faults/random.ts";
import { HOST_MEMORY_MIB, type Fleet } from "./fleet.ts";
import { EventQueue } from "./queue.ts";

/** `backend-pool/report/reporter.ts` beats so often. */
export const HEARTBEAT_MS = 5000;
/** Available memory goes up and down by so much on a host whose machines do nothing, MiB. */
const NOISE_MIB = 128;

export class Board {
  readonly hosts: readonly Host[];
  readonly #fleet: Fleet;
  readonly #random: Random;
  /** When in each interval a host beats, milliseconds. */
  readonly #phases: readonly number[];
  /** Heartbeats that tell something new: of the others the board learns only that the host lives. */
  readonly #beats = new EventQueue();
  readonly #telling = new Set<number>();
  /** When a host that is away was heard of last. */
  readonly #seenAt = new Map<number, number>();
  #now = 0;

  constructor(fleet: Fleet, random: Random) {
    this.#fleet = fleet;
    this.#random = random;
    this.hosts = Array.from({ length: fleet.size }, (_, host) => sample(host));
    this.#phases = this.hosts.map(() => random.int(0, HEARTBEAT_MS - 1));
    for (const host of this.hosts.keys()) this.#take(host);
    fleet.onChange = (host) => this.#toTell(host);
  }

  /** Let all heartbeats up to a time arrive. */
  advance(now: number): void {
    while (this.#beats.dueAt <= now && this.#beats.pop()) {
      const host = this.#beats.subject;
      this.#telling.delete(host);
      if (this.#fleet.status[host] === "up") this.#take(host);
    }
    this.#now = now;
  }

  /** All hosts, as `readBoard` answers them. */
  list(): readonly Host[] {
    for (const [host, seenAt] of this.#seenAt) this.#entry(host).live = this.#now - seenAt <= HOST_SILENT_MS;
    return this.hosts;
  }

  drain(host: number, draining: boolean): void {
    this.#fleet.draining[host] = draining;
    this.#entry(host).draining = draining;
  }

  /** The host can't be heard of from now on. @returns when it was last */
  lose(host: number): number {
    const since = (this.#now - (this.#phases[host] ?? 0)) % HEARTBEAT_MS;
    const seenAt = this.#now - (since < 0 ? since + HEARTBEAT_MS : since);
    this.#seenAt.set(host, seenAt);
    return seenAt;
  }

  /** The host is back, and says so at once. */
  restore(host: number): void {
    this.#seenAt.delete(host);
    this.#entry(host).live = true;
    this.#take(host);
  }

  /** Whether nothing of the host can run any more. */
  isLost(host: number): boolean {
    const { lostAfterMs } = hostLeaseTimes(HOST_LEASE_SECONDS);
    return this.#now - (this.#seenAt.get(host) ?? this.#now) > lostAfterMs;
  }

  #toTell(host: number): void {
    if (this.#telling.has(host)) return;
    this.#telling.add(host);
    const phase = this.#phases[host] ?? 0;
    this.#beats.push(phase + HEARTBEAT_MS * Math.ceil((this.#now - phase) / HEARTBEAT_MS), 0, host);
  }

  #take(host: number): void {
    const entry = this.#entry(host);
    entry.freeMemoryMiB = this.#fleet.freeMiB(host) - this.#random.int(0, NOISE_MIB);
    entry.freeDiskMiB = this.#fleet.freeDiskMiB(host);
  }

  #entry(host: number): Host {
    const entry = this.hosts[host];
    if (!entry) throw new Error(`there is no host ${host}`);
    return entry;
  }
}

/** The number of a host of this board. */
export function numberOf({ id }: { readonly id: string }): number {
  return Number(id.slice(1));
}

/** A host as its first heartbeat describes it. */
export function sample(host: number): Host {
  return {
    hostId: `h${String(host).padStart(6, "0")}`,
    url: `https://h${String(host).padStart(6, "0")}.hosts.example:8788`,
    accelerator: "kvm",
    acceleratorReason: "/dev/kvm can be opened",
    qemuVersion: "10.0.2",
    images: [defaults.image],
    vcpus: 16,
    memoryMiB: HOST_MEMORY_MIB,
    freeMemoryMiB: HOST_MEMORY_MIB,
    freeDiskMiB: 0,
    running: 0,
    paused: 0,
    lastSeenAt: "2026-11-01T00:00:00.000Z",
    live: true,
    draining: false,
  };
}
