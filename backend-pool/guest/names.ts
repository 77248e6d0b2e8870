/**
 * Which name each synthetic address stands for (198.18.0.0/15, which no network routes): programs connect to an address,
 * and the host must know the name they meant. Pure but for the file that it is given.
 */

/** Addresses below it are the guest's own: `LOCAL_NAMES`. */
const FIRST = 16;
const BASE = (198 << 24) | (18 << 16);
/** Names that are kept; the one that was used longest ago makes room. */
export const NAMES_KEPT = 16_384;

export interface NamesFile {
  /** All of it; "" when there is none. */
  read(): string;
  append(text: string): void;
  write(text: string): void;
}

export class Names {
  /** By name, the one that was used last at the end. */
  readonly #numbers = new Map<string, number>();
  readonly #names = new Map<number, string>();
  readonly #file: NamesFile | undefined;
  readonly #most: number;
  #lines = 0;

  constructor(file?: NamesFile, most: number = NAMES_KEPT) {
    this.#file = file;
    this.#most = most;
    for (const line of file?.read().split("\n") ?? []) {
      const [, digits = "", name = ""] = /^(\d{1,6}) (\S{1,255})$/.exec(line) ?? [];
      const number = Number(digits);
      if (name !== "" && number >= FIRST && number < FIRST + most) this.#put(number, name);
    }
    if (file && this.#names.size > 0) this.#rewrite();
  }

  /** The address of a name, the same one for as long as it is kept. */
  addressOf(name: string): string {
    const known = this.#numbers.get(name);
    if (known !== undefined) {
      this.#numbers.delete(name);
      this.#numbers.set(name, known);
      return textOf(known);
    }
    const [oldest] = this.#numbers.size >= this.#most ? this.#numbers : [];
    const number = oldest ? oldest[1] : this.#free();
    this.#put(number, name);
    this.#note(number, name);
    return textOf(number);
  }

  knows(name: string): boolean {
    return this.#numbers.has(name);
  }

  /** The name that an address stands for; null: it stands for none. */
  nameOf(address: string): string | null {
    const number = numberOf(address);
    const name = number === null ? undefined : this.#names.get(number);
    if (name === undefined || number === null) return null;
    this.#numbers.delete(name);
    this.#numbers.set(name, number);
    return name;
  }

  #free(): number {
    let number = FIRST + this.#names.size;
    // Lines of a file that was cut short may leave gaps.
    while (this.#names.has(number)) number = number + 1 < FIRST + this.#most ? number + 1 : FIRST;
    return number;
  }

  #put(number: number, name: string): void {
    const old = this.#names.get(number);
    if (old !== undefined) this.#numbers.delete(old);
    const before = this.#numbers.get(name);
    if (before !== undefined) this.#names.delete(before);
    this.#numbers.delete(name);
    this.#numbers.set(name, number);
    this.#names.set(number, name);
  }

  #note(number: number, name: string): void {
    if (!this.#file) return;
    if (++this.#lines > this.#most * 2) this.#rewrite();
    else this.#file.append(`${number} ${name}\n`);
  }

  #rewrite(): void {
    const lines = [...this.#numbers].map(([name, number]) => `${number} ${name}\n`);
    this.#lines = lines.length;
    this.#file?.write(lines.join(""));
  }
}

/** Whether it is one of the synthetic addresses, standing for a name or not. */
export function isSynthetic(address: string): boolean {
  return numberOf(address) !== null;
}

function textOf(number: number): string {
  const all = (BASE + number) >>> 0;
  return [all >>> 24, (all >>> 16) & 255, (all >>> 8) & 255, all & 255].join(".");
}

function numberOf(address: string): number | null {
  const [first, second, third, fourth, ...more] = address.split(".").map(Number);
  if (first !== 198 || (second !== 18 && second !== 19) || more.length > 0) return null;
  return ((second - 18) << 16) | ((third ?? 0) << 8) | (fourth ?? 0);
}
