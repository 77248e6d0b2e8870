/** Tells the edge that this host lives, and what its machines did. Tries until the edge takes note. */
import type { z } from "zod";
import {
  EventTaken,
  HeartbeatTaken,
  type FrozenFate,
  type Heartbeat,
  type MachineEvent,
} from "../../sdk/contract/host.ts";
import { toDigits, USAGE_BATCH, type UsageReport } from "../../sdk/contract/usage.ts";
import type { Fence } from "../machine/fence.ts";
import type { HostLease } from "../machine/host-lease.ts";
import type { Machines } from "../machine/machines.ts";
import type { UsageRow } from "../store/usage.ts";
import { REST_REPORT_MS, type Meter } from "./meter.ts";
import type { EdgeClock } from "./edge-clock.ts";
import type { Metering } from "./metering.ts";

const HEARTBEAT_MS = 5000;
const RETRY_MS = 1000;
/** A heartbeat that hangs must not use up the lease that the next one would renew. */
const POST_LIMIT_MS = 10_000;

export interface ReporterOptions {
  readonly edgeUrl: string;
  readonly hostKey: string;
  readonly machines: Machines;
  readonly metering: Metering;
  readonly meter: Meter;
  /** Usage is told so often, and with the next heartbeat after a machine's state changed. */
  readonly usageSeconds: number;
  readonly heartbeat: () => Promise<Heartbeat>;
  readonly lease: HostLease;
  readonly fence: Fence;
  readonly edgeClock: EdgeClock;
  /** Called before each heartbeat. */
  readonly onBeat: () => void;
  /** Called after each that was taken. @param draining this host is to be emptied */
  readonly onTaken: (draining: boolean) => void;
}

export class Reporter {
  readonly #options: ReporterOptions;
  #sending: Promise<void> | null = null;
  #again = false;
  #beat: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;
  #usageAt = 0;

  constructor(options: ReporterOptions) {
    this.#options = options;
    options.machines.on("news", () => void this.sendEvents());
    options.machines.on("state", () => (this.#usageAt = 0));
  }

  /** Send heartbeats from now on. Resolves after the first try, whether the edge is there or not. */
  async start(): Promise<void> {
    await this.#beatOn();
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
    clearTimeout(this.#beat);
    clearTimeout(this.#retry);
  }

  async #drain(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      for (const { account, id, event } of this.#options.machines.pendingEvents()) {
        const { status } = await this.#post(eventPath(account, id), event);
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

  /** Beat now, and again: soon when the edge did not answer, as one that just starts. */
  async #beatOn(): Promise<void> {
    const answered = await this.#sendHeartbeat().catch(() => false);
    if (!this.#closed) this.#beat = setTimeout(() => void this.#beatOn(), answered ? HEARTBEAT_MS : RETRY_MS);
  }

  /** Whether the edge answered. */
  async #sendHeartbeat(): Promise<boolean> {
    const { heartbeat, meter, metering, lease, fence, onBeat, onTaken } = this.#options;
    onBeat();
    const beat = { ...(await heartbeat()), session: lease.sessionOfBeat() };
    await metering.sample();
    const sentAt = lease.now();
    const sentBy = performance.now();
    const { body } = await this.#post(`/internal/hosts/${beat.hostId}/heartbeat`, beat);
    const taken = HeartbeatTaken.safeParse(body);
    if (!taken.success) return false;
    this.#options.edgeClock.heard(taken.data.now, sentBy, performance.now());
    await fence.renewed(sentAt, taken.data.leaseSeconds);
    meter.answered();
    onTaken(taken.data.draining === true);
    if (performance.now() >= this.#usageAt) await this.sendUsage();
    return true;
  }

  /**
   * Tell what was used and not yet told. What the edge does not take is told again with the next.
   * @param restMs how much time of a machine that only rests is worth a report, milliseconds
   */
  async sendUsage(restMs = REST_REPORT_MS): Promise<void> {
    const { meter, usageSeconds } = this.#options;
    this.#usageAt = performance.now() + usageSeconds * 1000;
    const rows = meter.pending(restMs);
    for (let at = 0; at < rows.length; at += USAGE_BATCH) {
      const batch = rows.slice(at, at + USAGE_BATCH);
      const { status } = await this.#post("/internal/usage", { reports: batch.map(reportOf) });
      if (status === null || status >= 300) return;
      for (const row of batch) meter.taken(row);
    }
  }

  /** What becomes of a frozen run; null when the edge can't be asked now. */
  async fateOf(id: string): Promise<FrozenFate | null> {
    const machine = this.#options.machines.list().find((one) => one.id === id);
    if (!machine) return "end";
    const event = { type: "returned", generation: machine.generation } satisfies z.infer<typeof MachineEvent>;
    const { status, body } = await this.#post(eventPath(machine.account, id), event);
    const answer = EventTaken.safeParse(body);
    if (answer.success) return answer.data.fate;
    // The sandbox is gone: nothing of it may run.
    return status === 404 || status === 410 ? "end" : null;
  }

  /** `status` is null when the edge is away; the next beat or retry finds it. */
  async #post(path: string, body: object): Promise<{ status: number | null; body: unknown }> {
    try {
      const answer = await fetch(this.#options.edgeUrl + path, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${this.#options.hostKey}` },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(POST_LIMIT_MS),
      });
      return { status: answer.status, body: await answer.json().catch(() => null) };
    } catch {
      return { status: null, body: null };
    }
  }
}

function eventPath(account: string, id: string): string {
  return `/internal/accounts/${account}/machines/${encodeURIComponent(id)}/events`;
}

function reportOf({ id, account, generation, sequence, amounts }: UsageRow): UsageReport {
  return { id, account, generation, sequence, ...toDigits(amounts) };
}
