/** The way out of one run of a machine: what it may reach, what goes into its requests, and what is open now. */
import type { MachineEgress } from "../../sdk/contract/egress.ts";
import { Counts } from "./counts.ts";
import type { OutsideMachine } from "./outside.ts";
import { closedPolicy, policyOf, type Policy, type Verdict } from "./rules.ts";
import { held, SecretWord, type HeldSecret } from "./secret-word.ts";

/** Questions a second, and how many at once. */
const DNS_RATE = 100;
const DNS_BURST = 300;

/** Something open that the rules are held against again when they change. */
export interface OpenStream {
  judge(way: Way): Verdict;
  /** At once. */
  end(): void;
}

export class Way {
  readonly machine: OutsideMachine;
  readonly counts = new Counts();
  readonly streams = new Set<OpenStream>();
  #policy: Policy = closedPolicy;
  #secrets: readonly HeldSecret[] = [];
  #inside: SecretWord | null = null;
  #version = 0;
  #questions = DNS_BURST;
  #questionsAt = performance.now();

  constructor(machine: OutsideMachine) {
    this.machine = machine;
  }

  get policy(): Policy {
    return this.#policy;
  }

  get secrets(): readonly HeldSecret[] {
    return this.#secrets;
  }

  /** The ticket for the homes of state; null before the host was told. */
  get inside(): SecretWord | null {
    return this.#inside;
  }

  /** From now on; what is open and not allowed any more ends. An older version changes nothing. */
  take(egress: MachineEgress | null): void {
    if (egress && egress.version < this.#version) return;
    this.#version = egress?.version ?? 0;
    this.#policy = egress ? policyOf(egress.network) : closedPolicy;
    this.#secrets = egress?.brokered.map(held) ?? [];
    this.#inside = egress ? new SecretWord(egress.inside) : null;
    for (const stream of this.streams) if (!stream.judge(this).ok) stream.end();
  }

  /** The run is over: nothing of it stays open. */
  close(): void {
    this.take(null);
    for (const stream of this.streams) stream.end();
  }

  /** Whether one more question may be asked now. */
  mayAsk(): boolean {
    const now = performance.now();
    this.#questions = Math.min(DNS_BURST, this.#questions + ((now - this.#questionsAt) / 1000) * DNS_RATE);
    this.#questionsAt = now;
    if (this.#questions < 1) return false;
    this.#questions -= 1;
    return true;
  }
}
