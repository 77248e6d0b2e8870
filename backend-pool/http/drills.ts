/** What a drill has this host end beside machines: its own agent, and the edge where that runs beside it. */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DrillId } from "../../sdk/contract/drill.ts";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import type { KillPart, KillTaken } from "../../sdk/contract/host-drill.ts";
import { isProcess } from "../process-mark.ts";

/** From the answer to the end, milliseconds. */
const PARTING_MS = 50;

export interface DrillSettings {
  readonly stateDir: string;
  /** `own`: machines alone. `all`: this agent and the edge, too, which others use. */
  readonly allowed: "own" | "all";
  /** Where the launcher notes the edge's process (`process-mark.ts`); null where the edge is elsewhere. */
  readonly edgePidFile: string | null;
  /** For tests. */
  readonly kill?: (pid: number) => void;
}

export class HostDrills {
  readonly #settings: DrillSettings;
  readonly #file: string;
  readonly #survived: string | null;
  readonly #taken = new Set<string>();

  constructor(settings: DrillSettings) {
    this.#settings = settings;
    this.#file = join(settings.stateDir, "drill");
    const noted = DrillId.safeParse(textOf(this.#file)?.trim());
    this.#survived = noted.success ? noted.data : null;
  }

  get state(): KillTaken {
    return { survived: this.#survived };
  }

  /** Done a moment later, once for each drill. @throws RouseFailure `unavailable` */
  take({ drill, part }: KillPart): KillTaken {
    const { allowed, edgePidFile, kill = killNow } = this.#settings;
    if (allowed !== "all")
      throw new RouseFailure("unavailable", `This host ends no ${part} for a drill; its ROUSE_DRILLS would be "all".`);
    if (this.#taken.has(drill) || this.#survived === drill) return this.state;
    let pid = process.pid;
    if (part === "edge") {
      const mark = edgePidFile === null ? null : textOf(edgePidFile);
      const edge = mark === null ? null : isProcess(mark);
      if (edge === null)
        throw new RouseFailure("unavailable", "The edge does not run beside this host agent, so it can't be ended.");
      // With what it started: its group.
      pid = -edge;
    } else {
      writeFileSync(`${this.#file}.part`, drill, { mode: 0o600, flush: true });
      renameSync(`${this.#file}.part`, this.#file);
    }
    this.#taken.add(drill);
    setTimeout(() => kill(pid), PARTING_MS);
    return this.state;
  }
}

function killNow(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended meanwhile.
  }
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
