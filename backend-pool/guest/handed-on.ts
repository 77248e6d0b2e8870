/** What an agent leaves to the one that comes after it, in a file on /run, which is memory and which a boot empties. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export class HandedOn<T> {
  readonly file: string;

  constructor(file: string) {
    this.file = file;
  }

  /** null: nothing was left. */
  read(): T | null {
    try {
      return JSON.parse(readFileSync(this.file, "utf8")) as T;
    } catch {
      return null;
    }
  }

  /** Whole, or what was there stays. @throws what the file system says */
  write(value: T): void {
    mkdirSync(dirname(this.file), { recursive: true, mode: 0o700 });
    writeFileSync(`${this.file}.part`, JSON.stringify(value), { mode: 0o600 });
    renameSync(`${this.file}.part`, this.file);
  }
}
