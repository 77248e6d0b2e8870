/**
 * Takes the states of sleepers off this host, one machine after another and behind everything else: sealed, told to
 * the edge, uploaded, committed. Each step can be repeated, so a host agent that dies in the middle goes on where it
 * stopped. A machine that wakes ends its sealing at once; an upload of what is sealed goes on.
 */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { hash } from "node:crypto";
import type { ArchivePermit, SavedState } from "../../sdk/contract/archive.ts";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import { upload, type Blobs } from "../archive/blobs.ts";
import { DamagedState } from "../archive/damage.ts";
import type { ArchiveEdge } from "../archive/edge.ts";
import { openManifest, type Manifest } from "../archive/manifest.ts";
import type { Sealer } from "../archive/sealer.ts";
import type { Shape } from "../../sdk/contract/host.ts";
import type { CaptureRow, JournalRow } from "../store/journal.ts";
import type { Bases } from "./qemu/bases.ts";
import { StateFacts, type SealedNote, type SleepFiles } from "./qemu/sleep-files.ts";
import type { SavedStates } from "./saved-states.ts";

export interface ArchiverOptions {
  readonly files: SleepFiles;
  readonly bases: Bases;
  readonly edge: ArchiveEdge;
  /** The store, with the right to reach one vault. */
  readonly blobs: (ticket: string) => Blobs;
  readonly sealer: Sealer;
  /** How long a machine has slept before its state is taken, seconds. */
  readonly archiveSeconds: number;
  /** A state is stored: what it owns is known. */
  readonly onStored: (id: string) => void;
  /** The edge knows nothing of it. */
  readonly onUnwanted: (id: string) => void;
  readonly log: (entry: object) => void;
}

const RETRY_MS = [1000, 5000, 15_000, 60_000, 300_000] as const;
/** Machines whose states are on their way at once; sealing is one at a time anyhow. */
const AT_ONCE = 2;

const final: ReadonlySet<string> = new Set(["not_found", "sandbox_gone", "forbidden", "unauthorized"]);

type JobFacts = Pick<Job, "id" | "account" | "shape" | "generation" | "diskOnly">;

function newJob(facts: JobFacts): Job {
  return { ...facts, sealing: new AbortController(), attempts: 0, timer: undefined };
}

interface Job {
  /** Of a machine, or of a copy of one. */
  readonly id: string;
  readonly account: string;
  readonly shape: Shape;
  readonly diskOnly: boolean;
  readonly generation: number;
  readonly sealing: AbortController;
  attempts: number;
  timer: NodeJS.Timeout | undefined;
}

export class Archiver implements SavedStates {
  readonly #options: ArchiverOptions;
  readonly #jobs = new Map<string, Job>();
  readonly #queue: Job[] = [];
  #busy = 0;
  readonly #closing = new AbortController();
  readonly #tails = new Map<string, Promise<void>>();

  constructor(options: ArchiverOptions) {
    this.#options = options;
  }

  /** A machine's row, whenever it is committed. */
  observe(row: JournalRow): void {
    const atRest = (row.state === "paused" || row.state === "stopped") && row.savedGeneration !== null;
    const job = this.#jobs.get(row.id);
    if (!atRest) return job?.sealing.abort();
    if (job?.generation === row.savedGeneration && !job.sealing.signal.aborted) return;
    if (job) this.#end(job);
    const { id, account, shape, state } = row;
    const next = { id, account, shape, generation: row.savedGeneration ?? 0, diskOnly: state === "stopped" };
    this.#later(newJob(next), this.#options.archiveSeconds * 1000);
  }

  /** Store a copy of a machine: `onStored` follows, or `onUnwanted`. */
  copied({ id, account, shape, generation, diskOnly }: CaptureRow): void {
    if (!this.#jobs.has(id)) this.#later(newJob({ id, account, shape, generation, diskOnly }), 0);
  }

  forget(id: string): void {
    const job = this.#jobs.get(id);
    if (job) this.#end(job);
    this.#options.files.forget(id);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    for (const job of this.#jobs.values()) this.#end(job);
    await this.#options.sealer.close();
    await Promise.all(this.#tails.values());
  }

  async holds(id: string, saved: SavedState): Promise<boolean> {
    const note = await this.#options.files.note(id);
    return note?.shed === true && note.manifest === saved.manifest;
  }

  async adopt(id: string, saved: SavedState, shape: Shape, diskOnly: boolean): Promise<void> {
    const { files, bases } = this.#options;
    const manifest = await this.#open(id, saved);
    const golden = await bases.obtain(StateFacts.parse(manifest.facts).golden);
    await files.adopt(id, { manifest: saved.manifest, golden, shape, diskOnly });
  }

  async bringBack(id: string, saved: SavedState | undefined, diskOnly: boolean): Promise<void> {
    const { files } = this.#options;
    const note = await files.note(id);
    if (!note?.shed) return;
    if (saved?.manifest !== note.manifest)
      throw new RouseFailure("wake_failed", "The machine sleeps with another state than the edge knows of.");
    try {
      await files.fill(id, await this.#open(id, saved), (blob) => this.#blob(id, blob, saved), diskOnly);
    } catch (fault) {
      throw asFailure(fault);
    }
  }

  async shed(id: string, generation: number, depth: "compact" | "cold"): Promise<boolean> {
    const { files, edge } = this.#options;
    const note = await files.note(id);
    if (note?.generation !== generation || note.step === "sealed") return false;
    if (depth === "cold") {
      const job = this.#jobs.get(id);
      if (note.step !== "stored") return false;
      await files.giveUp(id);
      if (job) await edge.cold(job.account, id, generation).catch(() => undefined);
      return true;
    }
    if ((await files.missing(id)).length > 0) return false;
    await files.shed(id);
    return true;
  }

  #later(job: Job, ms: number): void {
    this.#jobs.set(job.id, job);
    job.timer = setTimeout(() => {
      this.#queue.push(job);
      this.#next();
    }, ms);
    job.timer.unref();
  }

  #end(job: Job): void {
    clearTimeout(job.timer);
    job.sealing.abort();
    if (this.#jobs.get(job.id) === job) this.#jobs.delete(job.id);
  }

  #next(): void {
    while (this.#busy < AT_ONCE && !this.#closing.signal.aborted) {
      const job = this.#queue.shift();
      if (!job) return;
      if (this.#jobs.get(job.id) !== job) continue;
      this.#busy++;
      // What is under way for an earlier state of the machine ends first.
      const before = this.#tails.get(job.id) ?? Promise.resolve();
      const tail = before.then(() => this.#run(job));
      this.#tails.set(job.id, tail);
      void tail.then(() => {
        if (this.#tails.get(job.id) === tail) this.#tails.delete(job.id);
        this.#busy--;
        this.#next();
      });
    }
  }

  async #run(job: Job): Promise<void> {
    const { id } = job;
    const began = performance.now();
    const entry = (outcome: string) => ({
      action: "archive",
      id,
      generation: job.generation,
      ms: Math.round(performance.now() - began),
      outcome,
    });
    try {
      const isStored = await this.#archive(job);
      this.#options.log(entry(isStored ? "stored" : "has moved on"));
      if (isStored) this.#options.onStored(id);
    } catch (fault) {
      this.#options.log(entry(fault instanceof Error ? fault.message : String(fault)));
      // The sandbox is gone. A conflict may be only that the edge has not heard yet that it sleeps.
      const gone = fault instanceof RouseFailure && final.has(fault.code);
      if (gone) this.#options.onUnwanted(id);
      if (this.#jobs.get(id) !== job || gone || job.sealing.signal.aborted || this.#closing.signal.aborted) return;
      this.#later(job, RETRY_MS[Math.min(job.attempts++, RETRY_MS.length - 1)] ?? 300_000);
    }
  }

  /** false: there is nothing to store any more. */
  async #archive(job: Job): Promise<boolean> {
    const { files, edge, bases, blobs } = this.#options;
    const { id, account, generation } = job;
    const known = await files.note(id);
    if (known?.generation === generation && known.step === "stored") return true;
    const permit = await edge.begin(account, id, generation);
    const note = known?.generation === generation ? known : await this.#seal(job, permit);
    if (!note) return false;
    const facts = { generation, manifest: note.manifest };
    const told = { ...facts, blobs: note.blobs, logicalBytes: note.logicalBytes, diskOnly: note.diskOnly };
    await edge.step(account, id, { step: "upload", ...told, compatibility: files.compatibility });
    await files.change(id, { step: "noted" });
    // A state that is the difference to a golden one is worth nothing without that.
    const golden = await files.goldenOf(id);
    const { signal } = this.#closing;
    await bases.publish(golden, signal);
    await upload(files.sealedDir(id), note.blobs, blobs(permit.ticket), permit.vault, { signal });
    const { ownedBytes } = await edge.step(account, id, { step: "commit", ...facts });
    await files.change(id, { step: "stored", ownedBytes });
    // Blobs of earlier states that were stored from another host: a wake from what is sealed needs all of them.
    for (const blob of await files.missing(id)) await files.bring(id, blob, await this.#blob(id, blob, permit));
    return true;
  }

  async #seal(job: Job, permit: ArchivePermit): Promise<SealedNote | null> {
    const { files, sealer } = this.#options;
    const { id, shape, diskOnly, generation, sealing } = job;
    const plan = await files.plan(id, shape, diskOnly);
    if (!plan) return null;
    const previous = permit.previous && {
      ...permit.previous,
      bytes: await this.#blob(id, permit.previous.manifest, permit),
    };
    const outDir = `${files.sealedDir(id)}.new`;
    await rm(outDir, { recursive: true, force: true });
    const { parts, facts } = plan;
    await sealer.seal({ parts, previous, key: permit.key, facts, outDir }, sealing.signal);
    // Woken in its last moment: what was read may be of two instants.
    sealing.signal.throwIfAborted();
    return files.keep(id, generation, outDir, diskOnly);
  }

  async #open(id: string, saved: SavedState): Promise<Manifest> {
    try {
      return await openManifest(await this.#blob(id, saved.manifest, saved), saved);
    } catch (fault) {
      throw asFailure(fault);
    }
  }

  /** From the sealed folder, where it is there and whole; else from the store. */
  async #blob(id: string, blob: string, { vault, ticket }: { vault: string; ticket: string }): Promise<Buffer> {
    const here = await readFile(join(this.#options.files.sealedDir(id), blob)).catch(() => null);
    if (here && hash("sha256", here, "hex") === blob) return here;
    return this.#options.blobs(ticket).get(vault, blob);
  }
}

function asFailure(fault: unknown): unknown {
  if (!(fault instanceof DamagedState)) return fault;
  const details = { blob: fault.blob, fault: fault.fault };
  return new RouseFailure("state_damaged", `The saved state can't be read: ${fault.message}`, {
    cause: fault,
    details,
  });
}
