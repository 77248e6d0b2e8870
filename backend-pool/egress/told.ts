/** Which names a machine was told an address for: a program may connect to the address alone. Pure. */
import { formatAddress, type Address } from "./addresses.ts";

const ADDRESSES_MAX = 4096;
const NAMES_MAX = 16;

export class Told {
  /** The ones told last come last. */
  readonly #names = new Map<string, Set<string>>();

  add(name: string, addresses: readonly Address[]): void {
    for (const address of addresses) {
      const key = formatAddress(address);
      const names = this.#names.get(key) ?? new Set<string>();
      this.#names.delete(key);
      names.delete(name);
      names.add(name);
      const first = names.values().next().value;
      if (names.size > NAMES_MAX && first !== undefined) names.delete(first);
      this.#names.set(key, names);
    }
    while (this.#names.size > ADDRESSES_MAX) {
      const oldest = this.#names.keys().next().value;
      if (oldest === undefined) return;
      this.#names.delete(oldest);
    }
  }

  namesOf(address: Address): readonly string[] {
    return [...(this.#names.get(formatAddress(address)) ?? [])];
  }
}
