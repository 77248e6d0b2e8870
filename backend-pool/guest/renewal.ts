/**
 * The agent of a machine that sleeps for long is older than its host's. The host brings the newer one while nobody uses
 * the machine, and PID 1 starts it in this one's place, unless this one holds what would end with it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { sendJson, type Call } from "./http.ts";

/** `agent.sh` goes back to what was there before where the newer one does not come up: these files say how far it is. */
const FLAGS = ["renewed", "tried"];
/** From here on it is the newer one's turn, whatever ends this in the middle. */
const REPLACE = `
cd "$1"
rm -rf .next .before
mkdir .next .before
tar -xzf - -C .next --no-same-owner
for new in .next/*; do name=\${new#.next/}; [ ! -e "$name" ] || cp -a "$name" .before/; done
touch "$2"
for new in .next/*; do name=\${new#.next/}; rm -rf "$name"; mv "$new" "$name"; done
rmdir .next
`;

export class Renewal {
  readonly #folder: string;
  readonly #state: string;
  readonly #holds: () => string[];

  /**
   * @param folder of the agent's programs
   * @param state outlives agents
   * @param holds what would be lost
   */
  constructor(folder: string, state: string, holds: () => string[]) {
    this.#folder = folder;
    this.#state = state;
    this.#holds = holds;
  }

  get holds(): string[] {
    return this.#holds();
  }

  /** This agent came up: it stays. */
  confirm(): void {
    for (const flag of FLAGS) rmSync(join(this.#state, flag), { force: true });
  }

  /** The body is a tar of programs, by gzip. @throws RouseFailure `conflict` when something would be lost */
  async renew(call: Call): Promise<void> {
    const held = this.#holds();
    if (held.length > 0) throw new RouseFailure("conflict", `This agent holds ${held.join(", ")}.`);
    const root = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
    const [program = "", ...args] = [...root, "sh", "-ec", REPLACE, "sh", this.#folder, join(this.#state, "renewed")];
    const child = spawn(program, args, { stdio: ["pipe", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-500)));
    const ended = once(child, "close");
    await pipeline(call.req, child.stdin).catch(() => undefined);
    const [code] = (await ended) as [number | null];
    if (code !== 0) throw new RouseFailure("guest_failed", `The newer agent could not be put in place: ${said.trim()}`);
    call.res.once("close", () => process.exit(0));
    sendJson(call, {});
  }
}
