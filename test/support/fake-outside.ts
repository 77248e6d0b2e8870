/** What a host without machines was told of each machine's variables and way out, in order. */
import { RunMachine } from "../../sdk/contract/host.ts";
import type { MachineEgress } from "../../sdk/contract/egress.ts";

export interface ToldOutside {
  /** `create`, `wake`, `boot` or `configure`. */
  readonly action: string;
  readonly id: string;
  readonly generation: number;
  readonly env: Record<string, string>;
  readonly egress: MachineEgress | null;
}

export class FakeOutside {
  readonly #told = new Map<string, ToldOutside[]>();

  take(label: string, id: string, action: string, body: unknown): void {
    if (!["create", "wake", "boot", "configure"].includes(action)) return;
    const { generation, env, egress = null } = RunMachine.parse(body);
    this.#told.set(label, [...this.of(label), { action, id, generation, env, egress }]);
  }

  of(label: string): readonly ToldOutside[] {
    return this.#told.get(label) ?? [];
  }
}
