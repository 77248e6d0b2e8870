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
import { isSnapshotId } from "../../sdk/contract/names.ts";
import { upload, type Blobs } from "../archive/blobs.ts";
import { DamagedState } from "../archive/damage.ts";
import type { ArchiveEdge } from "../archive/edge.ts";
import { openManifest, type Manifest } from "../archive/manifest.ts";
import type { Sealer } from "../archive/sealer.ts";
import type { Facts } from "../archive/manifest.ts";
import type { SealPart } from "../archive/seal.ts";
import type { Machine, Shape } from "../../sdk/contract/host.ts";
import type { CaptureRow, JournalRow, VolumeRow } from "../store/journal.ts";
import type { Bases } from "./qemu/bases.ts";
import { StateFacts, type SealedNote, type SleepFiles } from "./qemu/sleep-files.ts";
import type { VolumeFiles } from "./qemu/volume-files.ts";
import type { AdoptedMachine, SavedStates } from "./saved-states.ts";

export interface ArchiverOptions {
  readonly files: SleepFiles;
  readonly volumes: VolumeFiles;
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

type JobFacts = Pick<Job, "id" | "account" | "generation" | "what">;

function newJob(facts: JobFacts): Job {
  return { ...facts, sealing: new AbortController(), attempts: 0, timer: undefined };
}

interface Job {
  readonly id: string;
  readonly account: string;
  readonly generation: number;
  /** A machine, or a copy of one; or the disk of a volume alone. */
  readonly what: { readonly shape: Shape; readonly diskOnly: boolean } | { readonly clean: boolean };
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
    const what = { shape, diskOnly: state === "stopped" };
    this.#later(
      newJob({ id, account, generation: row.savedGeneration ?? 0, what }),
      this.#options.archiveSeconds * 1000,
    );
  }

  /** Store a copy of a machine: `onStored` follows, or `onUnwanted`. */
  copied({ id, account, shape, generation, diskOnly }: CaptureRow): void {
    if (!this.#jobs.has(id)) this.#later(newJob({ id, account, generation, what: { shape, diskOnly } }), 0);
  }

  storeVolume({ id, account, generation, clean }: VolumeRow): void {
    if (!this.#jobs.has(id)) this.#later(newJob({ id, account, generation, what: { clean } }), 0);
  }

  /** How many of these machines have something that is nowhere else. */
  async unstored(machines: readonly Machine[]): Promise<number> {
    const isStored = async ({ id, savedGeneration = null }: Machine) => {
      const note = savedGeneration === null ? null : await this.#options.files.note(id);
      return note?.step === "stored" && (note.generation === savedGeneration || note.shed);
    };
    return (await Promise.all(machines.map(isStored))).filter((stored) => !stored).length;
  }

  async isStored(volume: string, generation: number): Promise<boolean> {
    const note = await this.#options.files.note(volume);
    return note?.step === "stored" && note.generation >= generation;
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

  async adopt(id: string, saved: SavedState, { shape, diskOnly, volumes }: AdoptedMachine): Promise<void> {
    const { files, bases } = this.#options;
    const manifest = await this.#open(id, saved);
    const facts = StateFacts.parse(manifest.facts);
    const golden = await bases.obtain(facts.golden);
    await files.adopt(id, { manifest: saved.manifest, golden, shape, diskOnly });
    const known = diskOnly ? [] : (facts.volumes ?? []);
    const lacking = known.filter(({ slot }) => !volumes.some((volume) => volume.slot === slot));
    if (lacking.length > 0)
      throw new RouseFailure("wake_failed", "The saved RAM knows volumes that the sandbox has no more.", {
        details: { paths: lacking.map(({ path }) => path) },
      });
    await this.#options.volumes.note(
      id,
      volumes.map(({ attachment, slot, path, mode, sizeMiB }) => {
        const plugged = known.some((one) => one.slot === slot);
        return { id: attachment, slot, path, mode, sizeMiB, plugged, clean: false };
      }),
    );
  }

  async bringVolume(volume: string, saved: SavedState): Promise<void> {
    const { volumes } = this.#options;
    if (await volumes.isHere(volume)) return;
    try {
      const manifest = await this.#open(volume, saved);
      await volumes.restore(volume, manifest, (blob) => this.#blob(volume, blob, saved));
    } catch (fault) {
      throw asFailure(fault);
    }
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
    const { files, volumes, edge } = this.#options;
    const note = await files.note(id);
    if (note?.generation !== generation || note.step === "sealed") return false;
    if (depth === "cold") {
      const job = this.#jobs.get(id);
      if (note.step !== "stored") return false;
      await files.giveUp(id);
      for (const volume of await volumes.of(id)) {
        await volumes.drop(volume.id);
        files.forget(volume.id);
      }
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
    const { id, account, generation, what, sealing } = job;
    if ("clean" in what) return (await this.#storeDisk(account, id, generation, what.clean, sealing.signal)) !== null;
    const known = await files.note(id);
    if (known?.generation === generation && known.step === "stored") return true;
    const permit = await edge.begin(account, id, generation);
    const note = known?.generation === generation ? known : await this.#seal(job, what, permit);
    if (!note) return false;
    // A state whose volumes are not stored could be woken nowhere.
    const volumes = await this.#storeVolumes(job);
    if (!volumes) return false;
    const facts = { generation, manifest: note.manifest };
    const told = { ...facts, blobs: note.blobs, logicalBytes: note.logicalBytes, diskOnly: note.diskOnly };
    const { compatibility } = files;
    // The copies that go with a snapshot are found by the snapshot.
    const also = volumes.length === 0 || isSnapshotId(id) ? {} : { volumes };
    await edge.step(account, id, { step: "upload", ...told, compatibility, ...also });
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

  async #seal(job: Job, { shape, diskOnly }: { shape: Shape; diskOnly: boolean }, permit: ArchivePermit) {
    const { files, volumes } = this.#options;
    const { id, generation, sealing } = job;
    const plan = await files.plan(id, shape, diskOnly);
    if (!plan) return null;
    const plugged = (await volumes.of(id)).filter((volume) => volume.plugged);
    const facts = { ...plan.facts, volumes: plugged.map(({ slot, path, mode }) => ({ slot, path, mode })) };
    return this.#sealParts({ id, generation, parts: plan.parts, facts, diskOnly }, permit, sealing.signal);
  }

  /** The volumes of a machine as they are while it rests, each stored; null: it has moved on. */
  async #storeVolumes({ id, account, generation, sealing }: Job) {
    const stored: { attachment: string; manifest: string }[] = [];
    for (const volume of await this.#options.volumes.of(id)) {
      if (volume.mode === "snapshot" || !(await this.#options.volumes.isHere(volume.id))) continue;
      const manifest = await this.#storeDisk(account, volume.id, generation, volume.clean, sealing.signal);
      if (manifest === null) return null;
      stored.push({ attachment: volume.id, manifest });
    }
    return stored;
  }

  /** Store the disk of a volume, as it was after that run. Answers its manifest; null: it is not here. */
  async #storeDisk(
    account: string,
    id: string,
    generation: number,
    clean: boolean,
    signal: AbortSignal,
  ): Promise<string | null> {
    const { files, volumes, edge, blobs } = this.#options;
    if (!(await volumes.isHere(id))) return null;
    const known = await files.note(id);
    if (known?.generation === generation && known.step === "stored") return known.manifest;
    const permit = await edge.begin(account, id, generation);
    const writtenMs = await volumes.writtenMs(id);
    const sealed = { id, generation, parts: [volumes.sealPart(id)], facts: {}, diskOnly: true };
    let note = known;
    // What nobody wrote to since it was stored is what is stored.
    if (known?.step === "stored" && known.writtenMs === writtenMs && permit.previous?.manifest === known.manifest)
      note = { ...known, generation, blobs: known.blobs.map((blob) => ({ ...blob, isNew: false })) };
    else if (known?.generation !== generation) note = await this.#sealParts(sealed, permit, signal);
    if (!note) return null;
    await files.change(id, { ...note, writtenMs, step: "sealed" });
    const facts = { generation, manifest: note.manifest };
    const told = { ...facts, blobs: note.blobs, logicalBytes: note.logicalBytes, diskOnly: true, clean };
    await edge.step(account, id, { step: "upload", ...told, compatibility: files.compatibility });
    await files.change(id, { step: "noted" });
    const closing = this.#closing.signal;
    await upload(files.sealedDir(id), note.blobs, blobs(permit.ticket), permit.vault, { signal: closing });
    await edge.step(account, id, { step: "commit", ...facts });
    await files.change(id, { step: "stored" });
    // The disk itself is here whole.
    await rm(files.sealedDir(id), { recursive: true, force: true });
    return note.manifest;
  }

  async #sealParts(
    sealed: { id: string; generation: number; parts: readonly SealPart[]; facts: Facts; diskOnly: boolean },
    permit: ArchivePermit,
    signal: AbortSignal,
  ): Promise<SealedNote> {
    const { files, sealer } = this.#options;
    const { id, generation, parts, facts, diskOnly } = sealed;
    const previous = permit.previous && {
      ...permit.previous,
      bytes: await this.#blob(id, permit.previous.manifest, permit),
    };
    const outDir = `${files.sealedDir(id)}.new`;
    await rm(outDir, { recursive: true, force: true });
    await sealer.seal({ parts, previous, key: permit.key, facts, outDir }, signal);
    // Woken in its last moment: what was read may be of two instants.
    signal.throwIfAborted();
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

/** What is wrong with a saved state, as the API says it. */
export function asFailure(fault: unknown): unknown {
  if (!(fault instanceof DamagedState)) return fault;
  const details = { blob: fault.blob, fault: fault.fault };
  return new RouseFailure("state_damaged", `The saved state can't be read: ${fault.message}`, {
    cause: fault,
    details,
  });
}
