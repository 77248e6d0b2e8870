/** Variables that the host told of, for the agent that comes after this one. On /run, which is memory and which a boot empties. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export class KeptEnvironment {
  readonly #folder: string | undefined;

  /** @param folder outlives agents; none: nothing is kept */
  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  /** null: nothing was told. */
  get kept(): Record<string, string> | null {
    if (this.#folder === undefined) return null;
    try {
      return JSON.parse(readFileSync(join(this.#folder, "environment.json"), "utf8")) as Record<string, string>;
    } catch {
      return null;
    }
  }

  keep(env: Record<string, string>): void {
    if (this.#folder === undefined) return;
    const file = join(this.#folder, "environment.json");
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      writeFileSync(`${file}.part`, JSON.stringify(env), { mode: 0o600 });
      renameSync(`${file}.part`, file);
    } catch (fault) {
      console.error(fault);
    }
  }
}
