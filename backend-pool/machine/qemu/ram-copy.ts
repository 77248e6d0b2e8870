/** A file copied while somebody writes to it; the host's end of `native/ram-copy.c`. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export class RamCopy {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #closed: Promise<unknown>;
  #said = "";

  private constructor(child: ChildProcess, lines: AsyncIterator<string>) {
    this.#child = child;
    this.#lines = lines;
    this.#closed = new Promise((resolve) => child.once("close", resolve));
  }

  /** `to` is made; or it is there, and only what differs is written. */
  static async start(program: string, from: string, to: string): Promise<RamCopy> {
    const child = spawn(program, [from, to], { stdio: ["pipe", "pipe", "pipe"] });
    const copy = new RamCopy(child, createInterface({ input: child.stdout })[Symbol.asyncIterator]());
    child.stderr.on("data", (chunk: Buffer) => (copy.#said = (copy.#said + chunk.toString()).slice(-500)));
    child.stdin.on("error", () => undefined); // its end is told by the answer that does not come
    await once(child, "spawn");
    child.on("error", () => undefined);
    return copy;
  }

  /** Make `to` what `from` is, as far as that does not change meanwhile; answers how many pages were written. */
  copy(): Promise<number> {
    return this.#ask("copy", "ready");
  }

  /** The same for a file that does not change now; the process ends. */
  finish(): Promise<number> {
    return this.#ask("finish", "done");
  }

  /** Give up what is not finished. */
  end(): void {
    this.#child.kill("SIGKILL");
  }

  async #ask(line: string, answer: string): Promise<number> {
    this.#child.stdin?.write(`${line}\n`);
    const { value = "" } = (await this.#lines.next()) as { value?: string };
    const [word, pages] = value.split(" ");
    if (word === answer) return Number(pages);
    // What it said may come after its end.
    this.end();
    await this.#closed;
    throw new Error(`a file could not be copied: ${this.#said.trim() || "its helper ended"}`);
  }
}
