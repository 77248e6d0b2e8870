/**
 * Checkpoints on the disk of the machine that the program runs in: what a job needs to go on, saved so that no crash
 * leaves half of it. The format is in docs/checkpoints.md, and the Python SDK has the same. Node only.
 */
import {
  checkpointLimits,
  CheckpointName,
  decodeCheckpoint,
  encodeCheckpoint,
  CHECKPOINT_TYPE,
  type CheckpointHeader,
} from "../contract/checkpoint.ts";
import { bytesOf, utf8 } from "./bytes.ts";
import { invalidArgument, RouseError } from "./errors.ts";
import { environmentVariable, nodeModule } from "./node.ts";

/** Whether the mirror must have a version before `save` is done. */
export type CheckpointMirror = "best-effort" | "required" | "off";

export interface CheckpointOptions {
  /** Parent of its folder; `ROUSE_CHECKPOINT_DIR`, or else `/workspace/.checkpoints`, unless given. */
  directory?: string | undefined;
  /** Versions that stay, the newest; 5 unless given, 1 to 1000. */
  keep?: number | undefined;
  /**
   * Each version is also sent out of the machine. `best-effort`, unless given: no save fails for it, or waits longer than
   * 2 s. `required`: a save whose version did not arrive throws. `off`: nothing is sent.
   */
  mirror?: CheckpointMirror | undefined;
}

export interface SaveOptions {
  /** How far the job is, for those who look from outside. */
  step?: number | undefined;
  /** More of that, as JSON; with the rest of the header at most 64 KiB. */
  meta?: Record<string, unknown> | undefined;
}

/** A version that was saved. */
export interface SavedCheckpoint extends Omit<CheckpointHeader, "format"> {
  /** Whether the mirror has it; null: it was not asked. */
  mirrored: boolean | null;
}

/** A version that was loaded. */
export interface LoadedCheckpoint<T = unknown> extends Omit<CheckpointHeader, "format"> {
  /** What was saved: bytes as a `Uint8Array`. */
  value: T;
  source: "disk" | "mirror";
  /** Newer versions that did not verify. */
  skipped: { version: number; fault: string }[];
}

/** A version in a list; without `saved` where it does not verify. */
export interface ListedCheckpoint {
  version: number;
  saved: Omit<CheckpointHeader, "format"> | null;
  fault: string | null;
}

type Bytes = Uint8Array<ArrayBuffer>;

const FILE = /^v(\d{10})\.checkpoint$/;
const TEMPORARY = ".saving-";
const DEFAULT_DIR = "/workspace/.checkpoints";
const DEFAULT_MIRROR = "http://rouse.internal/checkpoints";
/** What a save that was killed left behind is removed when it is so old, milliseconds. */
const LEFTOVER_MS = 600_000;
/** After a mirror that did not answer, saves leave it alone for so long, milliseconds. */
const REST_MS = 30_000;

/**
 * A checkpoint by its name, for a program in a sandbox. Several processes may save at once: each save has a version of
 * its own. What does not verify is never loaded.
 *
 * @example
 * const progress = new Checkpoint("report");
 * const state = await progress.load({ step: 0 });
 * for (let step = state.step; step < 10; step += 1) {
 *   await work(step);
 *   await progress.save({ step: step + 1 }, { step: step + 1 });
 * }
 */
export class Checkpoint {
  readonly name: string;
  readonly folder: string;
  readonly #keep: number;
  readonly #mirror: Mirror;

  /** @throws InvalidRequestError `invalid_argument` */
  constructor(name: string, options: CheckpointOptions = {}) {
    const { keep = checkpointLimits.kept, mirror = "best-effort" } = options;
    const faults = [
      ...(CheckpointName.safeParse(name).error?.issues.map(({ message }) => `name: ${message}`) ?? []),
      ...(Number.isInteger(keep) && keep >= 1 && keep <= checkpointLimits.keptMax ? [] : ["keep: 1 to 1000"]),
      ...(["best-effort", "required", "off"].includes(mirror) ? [] : ["mirror: best-effort, required or off"]),
    ];
    if (faults.length > 0) throw invalidArgument(faults.join("; "));
    const parent = options.directory ?? environmentVariable("ROUSE_CHECKPOINT_DIR") ?? DEFAULT_DIR;
    this.name = name;
    this.folder = `${parent.replace(/\/+$/, "")}/${name}`;
    this.#keep = keep;
    this.#mirror = new Mirror(name, mirror);
  }

  /**
   * Save a new version: bytes as they are, all else as JSON. Once this is done, no crash takes it back.
   * @throws InvalidRequestError `invalid_argument` for what is no JSON
   * @throws RouseError `unavailable` with `mirror: "required"`: it is on the disk, not in the mirror
   */
  async save(value: unknown, { step, meta = {} }: SaveOptions = {}): Promise<SavedCheckpoint> {
    if (step !== undefined && (!Number.isSafeInteger(step) || step < 0))
      throw invalidArgument("step: a whole number that is not negative");
    const { type, body } = await bodyOf(value);
    const { fs } = await node();
    await this.#makeFolder(fs);
    for (let version = await this.#next(fs); ; version = Math.max(await this.#next(fs), version + 1)) {
      if (version > checkpointLimits.versionMax) throw invalidArgument("There are no more versions.");
      const savedAt = new Date().toISOString();
      const whole = await encodeCheckpoint({ name: this.name, version, savedAt, type, step: step ?? null, meta }, body);
      if (!whole) throw invalidArgument(`meta: the header may have ${checkpointLimits.headerBytes} bytes`);
      // Another process may have that version by now.
      if (!(await this.#put(fs, version, whole))) continue;
      await this.#prune(fs, version);
      const mirrored = await this.#mirror.put(whole, body.length);
      const read = await decodeCheckpoint(whole);
      if (!read.ok) throw invalidArgument(read.fault);
      const { format: _, ...header } = read.header;
      return { ...header, mirrored };
    }
  }

  /** What was saved last, or `otherwise` where there is nothing. Damage is skipped, with a warning. */
  async load<T = unknown>(otherwise: T, options: { version?: number | undefined } = {}): Promise<T> {
    const found = await this.read<T>(options.version);
    for (const { version, fault } of found?.skipped ?? []) this.#warn(version, fault);
    return found ? found.value : otherwise;
  }

  /**
   * The newest version that verifies, with all that is known of it; null where there is none. The mirror is asked where
   * the disk has nothing, or damage before what verifies, and what is newer in it is put on the disk.
   * @throws NotFoundError `checkpoint_not_found` when that version is not there, or damaged
   */
  async read<T = unknown>(version?: number): Promise<LoadedCheckpoint<T> | null> {
    const { fs } = await node();
    const skipped: { version: number; fault: string }[] = [];
    let found: LoadedCheckpoint<T> | null = null;
    for (const one of version === undefined ? await this.#versions(fs) : [version]) {
      const read = await this.#read(fs, one);
      if (read === null) continue;
      if (!read.ok) skipped.push({ version: one, fault: read.fault });
      else {
        found = loaded<T>(read.header, read.body, "disk", skipped);
        break;
      }
    }
    if (found && skipped.length === 0) return found;
    const whole = await this.#mirror.get(version);
    if (whole) {
      const read = await this.#verified(whole, version);
      if (!read.ok) skipped.push({ version: version ?? 0, fault: `in the mirror: ${read.fault}` });
      else if (!found || read.header.version > found.version) {
        await this.#bringBack(fs, read.header.version, whole);
        return loaded<T>(read.header, read.body, "mirror", skipped);
      }
    }
    if (found) return found;
    if (version !== undefined) {
      const message = skipped[0] ? `is damaged: ${skipped[0].fault}` : "is not there";
      throw new RouseError({ code: "checkpoint_not_found", message: `Version ${version} of ${this.name} ${message}.` });
    }
    for (const one of skipped) this.#warn(one.version, one.fault);
    return null;
  }

  /** The versions on the disk, the newest first; those that do not verify, too. */
  async list(): Promise<ListedCheckpoint[]> {
    const { fs } = await node();
    const listed: ListedCheckpoint[] = [];
    for (const version of await this.#versions(fs)) {
      const read = await this.#read(fs, version);
      if (read === null) continue;
      if (!read.ok) listed.push({ version, saved: null, fault: read.fault });
      else {
        const { format: _, ...saved } = read.header;
        listed.push({ version, saved, fault: null });
      }
    }
    return listed;
  }

  #warn(version: number, fault: string): void {
    console.warn(`checkpoint ${this.name}: version ${version} was skipped: ${fault}`);
  }

  #path(version: number): string {
    return `${this.folder}/v${String(version).padStart(10, "0")}.checkpoint`;
  }

  /** The newest first. */
  async #versions(fs: Fs): Promise<number[]> {
    const names = await fs.readdir(this.folder).catch(unless("ENOENT", []));
    const versions = names.flatMap((name) => FILE.exec(name)?.[1] ?? []).map(Number);
    return versions.toSorted((a, b) => b - a);
  }

  async #next(fs: Fs): Promise<number> {
    const [newest] = await this.#versions(fs);
    // A disk that lost everything goes on where the mirror is, so that a version never comes twice.
    return (newest ?? (await this.#mirror.newest())) + 1;
  }

  async #read(fs: Fs, version: number): Promise<Awaited<ReturnType<typeof decodeCheckpoint>> | null> {
    try {
      return await this.#verified(new Uint8Array(await fs.readFile(this.#path(version))), version);
    } catch (fault) {
      return isCode(fault, "ENOENT") ? null : { ok: false, fault: String(fault) };
    }
  }

  async #verified(whole: Bytes, version: number | undefined): ReturnType<typeof decodeCheckpoint> {
    const read = await decodeCheckpoint(whole);
    if (!read.ok) return read;
    const { header } = read;
    if (header.name === this.name && (version === undefined || header.version === version)) return read;
    return { ok: false, fault: `it is version ${header.version} of ${header.name}` };
  }

  async #makeFolder(fs: Fs): Promise<void> {
    const first = await fs.mkdir(this.folder, { recursive: true });
    if (first === undefined) return;
    const { length } = await fs.realpath(first);
    let made = await fs.realpath(this.folder);
    for (; made.length >= length; made = parentOf(made)) await syncFolder(fs, parentOf(made));
  }

  /** False: another process has that version. */
  async #put(fs: Fs, version: number, whole: Bytes): Promise<boolean> {
    const temporary = `${this.folder}/${TEMPORARY}${crypto.randomUUID()}`;
    try {
      const file = await fs.open(temporary, "wx", 0o644);
      try {
        await file.writeFile(whole);
        await file.sync();
      } finally {
        await file.close();
      }
      try {
        // Unlike a rename, a link never takes the place of a version that is there.
        await fs.link(temporary, this.#path(version));
      } catch (fault) {
        // Where the source is gone, it slept for long in the middle of this, and another process took it for left behind.
        if (isCode(fault, "EEXIST") || isCode(fault, "ENOENT")) return false;
        throw fault;
      }
      await syncFolder(fs, this.folder);
      return true;
    } finally {
      await fs.rm(temporary, { force: true });
    }
  }

  async #bringBack(fs: Fs, version: number, whole: Bytes): Promise<void> {
    try {
      await this.#makeFolder(fs);
      if (await this.#put(fs, version, whole)) return;
      // A damaged file has the place; it is what a crash or a disk's fault left.
      await fs.rename(this.#path(version), `${this.folder}/damaged-v${version}`);
      await this.#put(fs, version, whole);
    } catch {
      // It is in the mirror still.
    }
  }

  async #prune(fs: Fs, version: number): Promise<void> {
    const older = (await this.#versions(fs)).filter((one) => one <= version).slice(this.#keep);
    for (const one of older) await fs.rm(this.#path(one), { force: true });
    for (const name of await fs.readdir(this.folder)) {
      if (!name.startsWith(TEMPORARY)) continue;
      const path = `${this.folder}/${name}`;
      const about = await fs.stat(path).catch(unless("ENOENT", null));
      if (about && Date.now() - about.mtimeMs > LEFTOVER_MS) await fs.rm(path, { force: true });
    }
  }
}

/** Where the newest versions are outside of this machine. */
class Mirror {
  readonly #url: string;
  readonly #mode: CheckpointMirror;
  #restsUntil = 0;

  constructor(name: string, mode: CheckpointMirror) {
    const base = environmentVariable("ROUSE_CHECKPOINT_MIRROR") ?? DEFAULT_MIRROR;
    this.#mode = base === "off" ? "off" : mode;
    this.#url = `${base.replace(/\/+$/, "")}/${encodeURIComponent(name)}`;
  }

  async put(whole: Bytes, bodyBytes: number): Promise<boolean | null> {
    if (this.#mode === "off") return null;
    if (bodyBytes > checkpointLimits.mirroredBytes)
      return this.#failed(`the body has more than ${checkpointLimits.mirroredBytes} bytes`);
    const answer = await this.#exchange("PUT", "", whole);
    if (answer !== null && answer.status < 300) return true;
    return this.#failed(answer === null ? "it did not answer" : `it answered ${answer.status}`);
  }

  async get(version: number | undefined): Promise<Bytes | null> {
    const answer = await this.#exchange("GET", version === undefined ? "" : `?version=${version}`, null);
    return answer?.status === 200 ? answer.bytes : null;
  }

  async newest(): Promise<number> {
    const whole = await this.get(undefined);
    const read = whole && (await decodeCheckpoint(whole));
    return read?.ok === true ? read.header.version : 0;
  }

  #failed(why: string): false {
    if (this.#mode !== "required") return false;
    throw new RouseError({ code: "unavailable", message: `Saved on the disk, but not in the mirror: ${why}.` });
  }

  async #exchange(method: string, query: string, body: Bytes | null): Promise<{ status: number; bytes: Bytes } | null> {
    if (this.#mode === "off" || (this.#mode === "best-effort" && Date.now() < this.#restsUntil)) return null;
    try {
      const response = await fetch(this.#url + query, {
        method,
        ...(body === null ? {} : { body, headers: { "content-type": CHECKPOINT_TYPE } }),
        signal: AbortSignal.timeout(checkpointLimits.mirrorMs),
      });
      return { status: response.status, bytes: new Uint8Array(await response.arrayBuffer()) };
    } catch {
      this.#restsUntil = Date.now() + REST_MS;
      return null;
    }
  }
}

type Fs = typeof import("node:fs/promises");

/** @throws RouseError `invalid_argument` where there is no file system */
async function node(): Promise<{ fs: Fs }> {
  const fs = await nodeModule("node:fs/promises");
  if (!fs) throw invalidArgument("Checkpoints are files; this runtime has none. Use sandbox.checkpoints from outside.");
  return { fs };
}

async function bodyOf(value: unknown): Promise<{ type: "json" | "bytes"; body: Bytes }> {
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) return { type: "bytes", body: await bytesOf(value) };
  const text = jsonText(value);
  if (text === undefined) throw invalidArgument("That is no JSON: it is undefined, a function or a symbol.");
  return { type: "json", body: utf8(text) };
}

function jsonText(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (fault) {
    throw invalidArgument(`That is no JSON: ${fault instanceof Error ? fault.message : "it can't be written"}`);
  }
}

function loaded<T>(
  whole: CheckpointHeader,
  body: Bytes,
  source: "disk" | "mirror",
  skipped: LoadedCheckpoint["skipped"],
): LoadedCheckpoint<T> {
  const { format: _, ...header } = whole;
  const value = (header.type === "json" ? JSON.parse(new TextDecoder().decode(body)) : body) as T;
  return { ...header, value, source, skipped };
}

async function syncFolder(fs: Fs, path: string): Promise<void> {
  const folder = await fs.open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function parentOf(path: string): string {
  const parent = path.slice(0, path.lastIndexOf("/"));
  return parent === "" ? "/" : parent;
}

function isCode(fault: unknown, code: string): boolean {
  return fault instanceof Error && (fault as NodeJS.ErrnoException).code === code;
}

function unless<T>(code: string, value: T): (fault: unknown) => T {
  return (fault) => {
    if (isCode(fault, code)) return value;
    throw fault;
  };
}
