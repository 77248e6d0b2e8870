/** Nothing of this program outlives it, however it ends. Everything here is synchronous: an exit waits for nothing else. */
import { leftovers, signalAll } from "../support/process-tree.ts";

const LOOKS = 250;
const LOOK_MS = 20;

/** Do `end`, then `rest`, at every exit: in order, by a fault that nobody caught, or by a signal. */
export function guard(work: { readonly end: () => void; readonly rest: () => void }): void {
  process.on("exit", () => {
    work.end();
    work.rest();
  });
  // They stay listened to: a second signal, which a terminal or `timeout` often sends, must not cut the work short.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));
}

/** Kill every process that carries `NAME=value` or works below `path`, and see it gone. */
export function endAll(name: string, value: string, path: string): void {
  const waiting = new Int32Array(new SharedArrayBuffer(4));
  // What a process starts in its last moment is found by the next look.
  for (let look = 0; look < LOOKS; look++) {
    const left = leftovers(name, value, path);
    if (left.length === 0) return;
    signalAll(left, "SIGKILL");
    Atomics.wait(waiting, 0, 0, LOOK_MS);
  }
}
