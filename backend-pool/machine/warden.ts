/** Starts the warden (`warden.sh`) of a host, or finds the one that an earlier host agent started. */
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const script = fileURLToPath(new URL("warden.sh", import.meta.url));

export class Warden {
  readonly #stateDir: string;

  constructor(stateDir: string) {
    this.#stateDir = stateDir;
  }

  /** See that it watches. Cheap: called with every heartbeat. */
  async watch(): Promise<void> {
    if ((await this.#pid()) !== null) return;
    const child = spawn("/bin/sh", [script, this.#stateDir], { detached: true, stdio: "ignore" });
    child.on("error", () => undefined);
    child.unref();
    if (child.pid !== undefined) await writeFile(this.#file, String(child.pid), { mode: 0o600 });
  }

  /** Nothing runs any more that would need it. */
  async dismiss(): Promise<void> {
    const pid = await this.#pid();
    if (pid === null) return;
    try {
      // Its sleep is in its group.
      process.kill(-pid, "SIGKILL");
    } catch {
      // it ended by itself
    }
  }

  get #file(): string {
    return join(this.#stateDir, "warden.pid");
  }

  async #pid(): Promise<number | null> {
    const pid = Number(await readFile(this.#file, "utf8").catch(() => "0"));
    if (!(pid > 1)) return null;
    // A number alone may belong to somebody else by now.
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    return command.includes(script) && command.includes(this.#stateDir) ? pid : null;
  }
}
