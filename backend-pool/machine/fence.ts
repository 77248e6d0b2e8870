/**
 * Keeps this host's machines within its lease: they are put to sleep while it still holds, ended at its end where that
 * failed, and taken up again, with the edge's word, when there is a new one.
 */
import type { FrozenFate } from "../../sdk/contract/host.ts";
import type { HostLease } from "./host-lease.ts";
import type { Machines } from "./machines.ts";

/** So long before the end a machine that could not be put to sleep is ended. */
const HALT_BEFORE_MS = 1000;

export class Fence {
  readonly #lease: HostLease;
  readonly #machines: Machines;
  /** What the edge says of a frozen run; null when it can't be asked now. */
  readonly #fateOf: (id: string) => Promise<FrozenFate | null>;
  #timer: NodeJS.Timeout | undefined;
  #lapsed = true;

  constructor(lease: HostLease, machines: Machines, fateOf: (id: string) => Promise<FrozenFate | null>) {
    this.#lease = lease;
    this.#machines = machines;
    this.#fateOf = fateOf;
  }

  /** The edge took the heartbeat that was sent at `sentAt`. */
  async renewed(sentAt: number, seconds: number): Promise<void> {
    this.#lease.renew(sentAt, seconds);
    if (!this.#lease.holds) return;
    this.#arm();
    if (!this.#lapsed) return;
    this.#lapsed = false;
    await this.thaw();
  }

  /** Do with frozen runs what the edge says. Those it can't be asked of stay frozen. */
  async thaw(): Promise<void> {
    await Promise.all(
      this.#machines.frozen().map(async (id) => {
        const fate = await this.#fateOf(id);
        if (fate === null || !this.#lease.holds) this.#lapsed = true;
        else await this.#machines.unfreeze(id, fate);
      }),
    );
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #arm(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#lapse(), Math.max(0, this.#lease.untilFreezeMs));
    this.#timer.unref();
  }

  async #lapse(): Promise<void> {
    if (this.#lease.holds) return this.#arm();
    this.#lapsed = true;
    const paused = this.#machines.pauseAll("host_lost");
    const late = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, this.#lease.untilEndMs - HALT_BEFORE_MS));
      timer.unref();
      void paused.then(() => clearTimeout(timer)).then(resolve);
    });
    await late;
    if (!this.#lease.holds) await this.#machines.haltAll();
  }
}
