/** Drills: a part of what a sandbox runs on is killed on purpose, and what comes back is compared. */
import { Drill as DrillSchema, DrillList } from "../contract/drill.ts";
import type { CreateDrill, Drill } from "../contract/drill.ts";
import { invalidArgument } from "./errors.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

export interface DrillOptions extends RequestOptions {
  /** Whether to wait for its end; true unless given. */
  wait?: boolean | undefined;
  /** Called with each look at it while it goes on. */
  onProgress?: ((drill: Drill) => void) | undefined;
}

/** Between two looks at a drill, milliseconds. */
const LOOK_MS = 1000;
/** A drill of the edge, or of a slow one's host: calls fail for so long before that is an error, milliseconds. */
const AWAY_MS = 120_000;

/**
 * Drills of the sandbox. Needs a key with full access; `host` and `edge` only where their operator allows it.
 *
 * @example
 * const drill = await sandbox.drills.run({ kill: "vmm" });
 * if (drill.state !== "passed") console.error(drill.lost);
 */
export class Drills {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * Kill that, and wait for what comes back: ten minutes and a half at most.
   * @throws ConflictError `conflict` while another drill goes on
   */
  async run(input: CreateDrill, { wait = true, onProgress, ...options }: DrillOptions = {}): Promise<Drill> {
    let drill = parseAnswer(DrillSchema, await this.#remote.post("/drills", input, options));
    let answeredAt = Date.now();
    while (wait && drill.state === "running") {
      onProgress?.(drill);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      options.signal?.throwIfAborted();
      try {
        drill = await this.get(drill.id, options);
        answeredAt = Date.now();
      } catch (fault) {
        // The edge may be what is killed.
        if (drill.kill !== "edge" || Date.now() - answeredAt > AWAY_MS) throw fault;
      }
    }
    return drill;
  }

  /** The newest first; 50 are kept. */
  async list(options: RequestOptions = {}): Promise<Drill[]> {
    return parseAnswer(DrillList, await this.#remote.get("/drills", options)).data;
  }

  /** @throws NotFoundError `not_found` */
  async get(id: string, options: RequestOptions = {}): Promise<Drill> {
    if (!id.startsWith("drl-")) throw invalidArgument(`${JSON.stringify(id)} is not the id of a drill.`);
    return parseAnswer(DrillSchema, await this.#remote.get(`/drills/${encodeURIComponent(id)}`, options));
  }
}
