/** Keeps `rouse-redirect` running; without it programs that know of no proxy have no way out. */
import { spawn } from "node:child_process";

const AGAIN_MS = 100;
const AGAIN_MOST_MS = 5000;
/** One that ran for so long did not fail at its start. */
const GOOD_MS = 10_000;

export function keepRedirect(program: string, port: number, socketPath: string): void {
  let pause = AGAIN_MS;
  const start = (): void => {
    const began = performance.now();
    const child = spawn(program, [String(port), socketPath], { stdio: ["ignore", "ignore", "inherit"] });
    let over = false;
    const again = (): void => {
      if (over) return;
      over = true;
      pause = performance.now() - began > GOOD_MS ? AGAIN_MS : Math.min(pause * 2, AGAIN_MOST_MS);
      setTimeout(start, pause);
    };
    child.on("error", again);
    child.on("exit", again);
  };
  start();
}
