/**
 * The ways out of machines: what the edge told of each is held in memory alone, in force before its CPUs run, and its
 * tunnel is there while it runs. Whatever is not known is closed.
 */
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import type { MachineEgress } from "../../sdk/contract/egress.ts";
import { closedOutside } from "../egress/closed.ts";
import type { Outside, OutsideMachine } from "../egress/outside.ts";
import { Tunnels } from "../egress/tunnel.ts";
import type { Driver } from "./driver.ts";
import type { Held } from "./held.ts";

const AGAIN_MS = 500;
const AGAIN_MOST_MS = 30_000;

export interface WayOutOptions {
  readonly outside?: Outside | undefined;
  /**
   * What the edge says of a run that this host knows nothing of; null: it has no way out.
   * @throws when there was no answer: it is asked again
   */
  readonly recall?: ((machine: OutsideMachine) => Promise<MachineEgress | null>) | undefined;
}

export class WayOut {
  readonly #driver: Driver;
  readonly #outside: Outside;
  readonly #tunnels: Tunnels;
  readonly #recall: WayOutOptions["recall"];
  readonly #closing = new AbortController();

  constructor(driver: Driver, { outside = closedOutside, recall }: WayOutOptions) {
    this.#driver = driver;
    this.#outside = outside;
    this.#tunnels = new Tunnels(outside);
    this.#recall = recall;
  }

  /** What a run may do, before it begins. */
  begin(held: Held, egress: MachineEgress | undefined): void {
    this.cut(held);
    held.egress = egress ?? null;
    this.#outside.changed(machineOf(held), held.egress);
  }

  /** The machine runs: its tunnel opens in a moment. */
  running(held: Held): void {
    held.tunnel?.cut();
    this.#outside.changed(machineOf(held), held.egress);
    held.tunnel = this.#tunnels.begin({
      machine: machineOf(held),
      ready: held.run.ready,
      endpoint: () => this.#driver.endpoint(held.row.id, AGENT_PORT),
      touch: () => held.activity.touch(),
    });
  }

  /** In place of what was in force, unless that is newer; for what is open, too. */
  change(held: Held, egress: MachineEgress | undefined): void {
    if (!egress || (held.egress && held.egress.version > egress.version)) return;
    held.egress = egress;
    this.#outside.changed(machineOf(held), egress);
  }

  /**
   * The machine is about to stand still, or does: its streams end.
   * @returns whether there was a tunnel, whose end the guest is yet to see
   */
  cut(held: Held): boolean {
    const was = held.tunnel !== null;
    held.tunnel?.cut();
    held.tunnel = null;
    this.#outside.gone(held.row.id);
    return was;
  }

  /** The run is over: nothing of what it was told is kept. */
  over(held: Held): void {
    this.cut(held);
    held.egress = null;
  }

  /** Ask the edge about a run that goes on while this host has forgotten, or may have missed, what it was told. */
  async recall(held: Held): Promise<void> {
    if (!this.#recall) return;
    const machine = machineOf(held);
    const isOver = () =>
      this.#closing.signal.aborted ||
      held.row.generation !== machine.generation ||
      (held.row.state !== "running" && held.row.state !== "pausing");
    for (let pauseMs = AGAIN_MS; !isOver(); pauseMs = Math.min(pauseMs * 2, AGAIN_MOST_MS)) {
      try {
        const egress = await this.#recall(machine);
        if (!isOver()) this.change(held, egress ?? undefined);
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, pauseMs).unref());
      }
    }
  }

  close(): void {
    this.#closing.abort();
  }
}

function machineOf({ row: { id, account, generation } }: Held): OutsideMachine {
  return { id, account, generation };
}
