/**
 * Kernel pipes for what commands write. The pipes Node makes are sockets, and a program can't open a socket again by
 * its path: `echo failed > /dev/stderr` would fail in every script. Named pipes are made ahead, a batch at a time, and
 * used again once nobody holds their other end.
 */
import { spawnSync } from "node:child_process";
import { closeSync, constants, mkdirSync, openSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";

const BATCH = 32;

export interface OutputPipe {
  readonly name: string;
  readonly reader: Socket;
  readonly readFd: number;
  /** The end for the child; closed here once the child has it. */
  readonly writeFd: number;
}

export class PipePool {
  readonly #folder: string;
  #free: string[] = [];
  #made = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Make pipes before they are needed. */
  fill(): void {
    const names = Array.from({ length: BATCH }, () => join(this.#folder, `pipe-${process.pid}-${this.#made++}`));
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    } catch {
      return;
    }
    if (spawnSync("mkfifo", ["-m", "600", ...names], { stdio: "ignore" }).status === 0) this.#free.push(...names);
  }

  /** A pipe that is open at both ends; null when none can be made, such as on a full disk. */
  take(): OutputPipe | null {
    for (let tries = 0; tries < 2; tries++) {
      if (this.#free.length === 0) this.fill();
      const name = this.#free.pop();
      if (name === undefined) return null;
      try {
        const readFd = openSync(name, constants.O_RDONLY | constants.O_NONBLOCK);
        try {
          const writeFd = openSync(name, constants.O_WRONLY);
          return { name, readFd, writeFd, reader: new Socket({ fd: readFd, readable: true, writable: false }) };
        } catch (fault) {
          closeSync(readFd);
          throw fault;
        }
      } catch {
        // Somebody cleaned the folder: none of the others is there either.
        this.#free = [];
      }
    }
    return null;
  }

  /** Only for a pipe that came to its end: then no other process has it open. */
  giveBack(pipe: OutputPipe): void {
    this.#free.push(pipe.name);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
