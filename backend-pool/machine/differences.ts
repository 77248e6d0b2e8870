/**
 * Which files differ between the disks of two saved states. No host reads the file system of a guest: a machine that
 * is made for it and thrown away does. One comparison at a time; others wait.
 */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { SavedState } from "../../sdk/contract/archive.ts";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import type { DiffFound, DiffStates } from "../../sdk/contract/host.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import type { Blobs } from "../archive/blobs.ts";
import { openManifest } from "../archive/manifest.ts";
import { agentExec, agentFile } from "./agent-client.ts";
import { asFailure } from "./archiver.ts";
import type { Driver } from "./driver.ts";
import { entriesOf, MOUNTS, RESULT, RESULT_BYTES, SCRIPT } from "./file-differences.ts";
import type { Bases } from "./qemu/bases.ts";
import { StateFacts, type SleepFiles } from "./qemu/sleep-files.ts";

export interface DifferencesOptions {
  readonly driver: Driver;
  readonly files: SleepFiles;
  readonly bases: Bases;
  /** The store, with the right to reach one vault. */
  readonly blobs: (ticket: string) => Blobs;
  readonly log: (entry: object) => void;
}

/** From its turn on, milliseconds. */
const LIMIT_MS = 120_000;
/** How long it waits for its turn, milliseconds. */
const TURN_MS = 60_000;
const READ_LIMIT_MS = 20_000;

export class Differences {
  readonly #options: DifferencesOptions;
  readonly #closing = new AbortController();
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: DifferencesOptions) {
    this.#options = options;
  }

  /**
   * @param admit called when it is its turn; throws where there is no room
   * @throws RouseFailure `no_capacity`, `state_damaged`, `unavailable` when it takes too long, `host_unavailable`, and
   *   what a machine fails to start with; nothing is left of it
   */
  async between(states: DiffStates, admit: () => Promise<void>): Promise<DiffFound> {
    const over = Promise.withResolvers<void>();
    const before = this.#last;
    this.#last = before.then(() => over.promise);
    if (!(await isDone(before, TURN_MS))) {
      over.resolve();
      throw new RouseFailure("no_capacity", "The host compares other states.", { retryAfterMs: 5000 });
    }
    const limit = AbortSignal.timeout(LIMIT_MS);
    const signal = AbortSignal.any([this.#closing.signal, limit]);
    const began = performance.now();
    const log = (outcome: string) =>
      this.#options.log({ action: "diff", ms: Math.round(performance.now() - began), outcome });
    const work = admit()
      .then(() => this.#compare(states, signal))
      .finally(over.resolve);
    try {
      // A step that can't be cut short ends behind the answer, and so does the cleaning up.
      const found = await Promise.race([work, aborted(signal)]);
      log("ok");
      return found;
    } catch (fault) {
      const failure = this.#failureOf(fault, limit);
      log(failure.message);
      throw failure;
    }
  }

  /** Ends what is under way. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#last;
  }

  #failureOf(fault: unknown, limit: AbortSignal): RouseFailure {
    if (limit.aborted)
      return new RouseFailure("unavailable", `Comparing the points takes longer than ${LIMIT_MS / 1000} s.`);
    if (this.#closing.signal.aborted)
      return new RouseFailure("host_unavailable", "The host agent ends.", { retryAfterMs: 5000 });
    if (fault instanceof RouseFailure) return fault.code === "volume_failed" ? unreadable(fault.message) : fault;
    return new RouseFailure("internal_error", `The points were not compared: ${textOf(fault)}`, { cause: fault });
  }

  async #compare({ shape, from, to, path }: DiffStates, signal: AbortSignal): Promise<DiffFound> {
    const { driver, files } = this.#options;
    const id = newSandboxId("diff");
    const scratch = files.scratchDir(id);
    signal.throwIfAborted();
    // Whatever is asked of the machine then ends.
    const halt = () => void driver.halt(id).catch(() => undefined);
    signal.addEventListener("abort", halt);
    try {
      await mkdir(scratch, { recursive: true, mode: 0o700 });
      const disks = { from: join(scratch, "from.qcow2"), to: join(scratch, "to.qcow2") };
      await all([
        this.#restore(from, disks.from, signal),
        this.#restore(to, disks.to, signal),
        this.#start(id, shape, signal),
      ]);
      signal.throwIfAborted();
      await all([driver.mountDisk(id, 1, disks.from, MOUNTS.from), driver.mountDisk(id, 2, disks.to, MOUNTS.to)]);
      signal.throwIfAborted();
      return await this.#read(id, path ?? "", signal);
    } finally {
      signal.removeEventListener("abort", halt);
      // The machine first: it has the disks open.
      await driver.destroy(id);
      await rm(scratch, { recursive: true, force: true });
    }
  }

  async #restore(saved: SavedState, path: string, signal: AbortSignal): Promise<void> {
    const { files, bases, blobs } = this.#options;
    const store = blobs(saved.ticket);
    const fetch = (blob: string, stop: AbortSignal) => store.get(saved.vault, blob, stop);
    try {
      const manifest = await openManifest(await fetch(saved.manifest, signal), saved);
      const golden = await bases.obtain(StateFacts.parse(manifest.facts).golden);
      await files.restoreDisk(manifest, golden, path, fetch, signal);
    } catch (fault) {
      throw asFailure(fault);
    }
  }

  async #start(id: string, shape: DiffStates["shape"], signal: AbortSignal): Promise<void> {
    const { driver } = this.#options;
    await driver.create(id, shape);
    signal.throwIfAborted();
    await (
      await driver.wake(id, { hostname: "diff", origin: "new" })
    ).ready;
  }

  async #read(id: string, folder: string, signal: AbortSignal): Promise<DiffFound> {
    const agent = await this.#options.driver.endpoint(id, AGENT_PORT);
    // By root: both trees have folders that are nobody else's.
    const command = { argv: ["sudo", "-n", "bash", "-s", "--", folder], stdin: SCRIPT, timeoutMs: LIMIT_MS };
    const { exitCode, stderr } = await agentExec(agent, command, signal);
    if (exitCode !== 0) throw unreadable(stderr.trim().slice(-300));
    return entriesOf(await agentFile(agent, RESULT, RESULT_BYTES, READ_LIMIT_MS, signal), folder);
  }
}

/** Wait for all, also when one fails: what is under way must not come after the cleaning up. */
async function all(steps: readonly Promise<unknown>[]): Promise<void> {
  for (const step of await Promise.allSettled(steps)) if (step.status === "rejected") throw step.reason;
}

async function isDone(work: Promise<unknown>, limitMs: number): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(() => late.resolve(false), limitMs);
  return Promise.race([work.then(() => true), late.promise]).finally(() => clearTimeout(timer));
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function unreadable(why: string): RouseFailure {
  return new RouseFailure("state_damaged", `The files of a point can't be listed: ${why}`);
}

function textOf(fault: unknown): string {
  return fault instanceof Error ? fault.message : String(fault);
}
