/** A secret as the host holds it: in memory, and in nothing that is printed. */
import { inspect } from "node:util";
import type { BrokeredSecret } from "../../sdk/contract/egress.ts";

const SHOWN = "[secret]";

export class SecretWord {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself: for the request that it goes into, and for nothing else. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  [inspect.custom](): string {
    return SHOWN;
  }
}

export interface HeldSecret extends Omit<BrokeredSecret, "value"> {
  readonly word: SecretWord;
}

export function held({ value, ...rest }: BrokeredSecret): HeldSecret {
  return { ...rest, word: new SecretWord(value) };
}
