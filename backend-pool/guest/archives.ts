/** Folders as tar archives: packed and unpacked by the system's tar, with the rights of the guest's user. */
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, readdir } from "node:fs/promises";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createGunzip, createGzip } from "node:zlib";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { Fields } from "./fields.ts";
import type { Files } from "./files.ts";
import { readJson, sendJson, toFailure, type Call } from "./http.ts";
import { Replays } from "./replays.ts";

/** Archives that come in parts, at once; beyond, the oldest is given up. */
const ARRIVALS = 16;
/** Of what tar says, so much is told, characters. */
const MESSAGE_MAX = 500;

interface Unpacked {
  readonly path: string;
  /** Bytes of the archive. */
  readonly size: number;
}

interface Arrival {
  readonly id: string;
  readonly unpacking: Unpacking;
  received: number;
  /** Of the part that is being taken: one at a time. */
  taking: Promise<void>;
  done: Promise<Unpacked> | null;
}

export class Archives {
  readonly #files: Files;
  readonly #arrivals = new Map<string, Arrival>();
  readonly #replays = new Replays<Promise<Arrival>>(ARRIVALS);

  constructor(files: Files) {
    this.#files = files;
  }

  /** What a folder holds, with names below it. One that fails ends as no archive does. */
  async pack(call: Call): Promise<void> {
    const path = this.#files.resolve(call.query.get("path"));
    const fields = new Fields(call.query);
    asUser(fields);
    const gzip = fields.oneOf("gzip", ["true", "false"]) !== "false";
    fields.check();
    const excluded = call.query.getAll("exclude").map((pattern) => `--exclude=${pattern}`);
    // Names and not ".", so that no entry is the folder itself.
    const names = await readdir(path, { encoding: "buffer" }).catch((fault: unknown) => {
      throw toFailure(fault, path);
    });
    // Readers that know of neither pax headers nor hard links are to get all of it.
    const fixed = ["--format=gnu", "--hard-dereference", "--null", "--verbatim-files-from", "--files-from=-"];
    const tar = spawn("tar", ["-C", path, "-cf", "-", ...excluded, ...fixed], { stdio: ["pipe", "pipe", "pipe"] });
    const ended = endOf(tar);
    tar.stdin.on("error", () => undefined);
    for (const name of names) {
      tar.stdin.write(name);
      tar.stdin.write("\0");
    }
    tar.stdin.end();
    call.gone.addEventListener("abort", () => tar.kill("SIGKILL"));
    call.res.writeHead(200, { "content-type": gzip ? "application/gzip" : "application/x-tar" });
    const { res } = call;
    const packed = gzip
      ? pipeline(tar.stdout, createGzip({ level: constants.Z_BEST_SPEED }), res, { end: false })
      : pipeline(tar.stdout, res, { end: false });
    const [, { code }] = await Promise.all([packed, ended]).catch(() => [null, { code: null }] as const);
    // 1: a file changed while it was read. What is there is an archive.
    if (code === 0 || code === 1) res.end();
    else res.destroy();
  }

  /** An archive of one request. */
  async unpack(call: Call): Promise<void> {
    const fields = new Fields(call.query);
    asUser(fields);
    fields.check();
    const unpacking = await Unpacking.begin(this.#files.resolve(call.query.get("path")));
    try {
      for await (const chunk of call.req as AsyncIterable<Buffer>) await unpacking.take(chunk);
      if (!call.req.complete) throw new RouseFailure("invalid_request", "The body ended early.");
      sendJson(call, await unpacking.end());
    } catch (fault) {
      unpacking.kill();
      throw fault;
    }
  }

  /** One that comes in parts, which are unpacked as they come. */
  async begin(call: Call): Promise<void> {
    const body = await readJson(call);
    const fields = new Fields(body);
    const path = this.#files.resolve(fields.text("path"));
    fields.flag("gzip");
    asUser(fields);
    fields.check();
    const once = this.#replays.once(call, body, () => this.#begin(path));
    const { id } = await once.value.catch((fault: unknown) => {
      once.forget();
      throw fault;
    });
    sendJson(call, { uploadId: id, chunkBytes: guestLimits.chunkBytes, ...(once.replayed ? { replayed: true } : {}) });
  }

  /** The next part. What of it is here already is not taken twice. */
  async part(call: Call, id: string): Promise<void> {
    const arrival = this.#get(id);
    const fields = new Fields(call.query);
    const offset = fields.integer("offset", 0, Number.MAX_SAFE_INTEGER) ?? 0;
    fields.check();
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of call.req as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > guestLimits.chunkBytes)
        throw new RouseFailure("payload_too_large", `A part has at most ${guestLimits.chunkBytes} bytes.`);
      chunks.push(chunk);
    }
    if (!call.req.complete) throw new RouseFailure("invalid_request", "The body ended early.");
    const before = arrival.taking;
    const taken = before.then(async () => {
      if (offset > arrival.received)
        throw new RouseFailure("upload_incomplete", `${arrival.received} bytes are here, and this part begins later.`);
      const fresh = Buffer.concat(chunks).subarray(arrival.received - offset);
      if (arrival.done !== null || fresh.length === 0) return;
      arrival.received += fresh.length;
      await arrival.unpacking.take(fresh);
    });
    arrival.taking = taken.catch(() => undefined);
    await taken;
    sendJson(call, { received: arrival.received });
  }

  /** Answers once all is unpacked. */
  async commit(call: Call, id: string): Promise<void> {
    const arrival = this.#get(id);
    arrival.done ??= arrival.taking.then(() => arrival.unpacking.end());
    sendJson(call, await arrival.done);
  }

  /** What is unpacked stays. */
  abort(call: Call, id: string): void {
    const arrival = this.#arrivals.get(id);
    const aborted = arrival !== undefined && arrival.done === null;
    if (aborted) this.#drop(arrival);
    sendJson(call, { aborted });
  }

  async #begin(path: string): Promise<Arrival> {
    const unpacking = await Unpacking.begin(path);
    const id = randomBytes(9).toString("base64url");
    const arrival: Arrival = { id, unpacking, received: 0, taking: Promise.resolve(), done: null };
    this.#arrivals.set(id, arrival);
    const all = [...this.#arrivals.values()];
    const oldest = all.length > ARRIVALS ? (all.find(({ done }) => done !== null) ?? all[0]) : undefined;
    if (oldest) this.#drop(oldest);
    return arrival;
  }

  #get(id: string): Arrival {
    const arrival = this.#arrivals.get(id);
    if (!arrival) throw new RouseFailure("upload_not_found", `There is no upload ${id}.`);
    return arrival;
  }

  #drop({ id, unpacking }: Arrival): void {
    this.#arrivals.delete(id);
    unpacking.kill();
  }
}

/** A tar that unpacks what it is given. Whether that is compressed its first bytes say. */
class Unpacking {
  readonly #path: string;
  readonly #tar: Tar<null>;
  readonly #ended: Promise<End>;
  #into: Writable | null = null;
  #head: Buffer = Buffer.alloc(0);
  #size = 0;
  #fault: unknown = null;

  private constructor(path: string) {
    this.#path = path;
    // Links and names that lead out of the folder are tar's to refuse; the rights are the user's in any case. A link to
    // a folder, such as one to a volume, is no reason to put a new folder in its place.
    const how = ["--no-same-owner", "--keep-directory-symlink"];
    this.#tar = spawn("tar", ["-C", path, "-xpf", "-", ...how], { stdio: ["pipe", "ignore", "pipe"] });
    this.#ended = endOf(this.#tar);
    this.#tar.stdin.on("error", () => undefined);
  }

  static async begin(path: string): Promise<Unpacking> {
    await mkdir(path, { recursive: true }).catch((fault: unknown) => {
      throw toFailure(fault, path);
    });
    return new Unpacking(path);
  }

  async take(bytes: Buffer): Promise<void> {
    this.#size += bytes.length;
    if (this.#into === null) {
      this.#head = Buffer.concat([this.#head, bytes]);
      if (this.#head.length < 2) return;
      const isZipped = this.#head[0] === 0x1f && this.#head[1] === 0x8b;
      this.#into = isZipped ? this.#unzip() : this.#tar.stdin;
      return this.#write(this.#into, this.#head);
    }
    return this.#write(this.#into, bytes);
  }

  /** @throws RouseFailure `invalid_archive`, `disk_full` */
  async end(): Promise<Unpacked> {
    const into = this.#into ?? this.#tar.stdin;
    if (this.#into === null) into.write(this.#head);
    into.end();
    const { code, said } = await this.#ended;
    if (code === 0 && this.#fault === null) {
      await onDisk(this.#path);
      return { path: this.#path, size: this.#size };
    }
    if (/No space left/.test(said)) throw new RouseFailure("disk_full", `The disk is full: ${said}`);
    throw new RouseFailure("invalid_archive", `That could not be unpacked: ${said || String(this.#fault)}`);
  }

  kill(): void {
    this.#tar.kill("SIGKILL");
    this.#into?.destroy();
  }

  #unzip(): Writable {
    const gunzip = createGunzip();
    pipeline(gunzip, this.#tar.stdin).catch((fault: NodeJS.ErrnoException) => {
      // tar reads no further than the end of the archive; what does not unzip is another matter.
      if (fault.code?.startsWith("Z_")) this.#fault ??= fault;
      this.#tar.stdin.destroy();
    });
    return gunzip;
  }

  /** Waits while tar does not keep up. What it does not take any more its end will say. */
  async #write(into: Writable, bytes: Buffer): Promise<void> {
    const written = new Promise<void>((resolve) => {
      into.write(bytes, () => resolve());
    });
    await Promise.race([written, this.#ended]);
  }
}

/** What was written to the file system of a path is on its disk. */
async function onDisk(path: string): Promise<void> {
  const sync = spawn("sync", ["-f", path], { stdio: "ignore" });
  await new Promise<void>((resolve) => {
    sync.once("error", () => resolve());
    sync.once("close", () => resolve());
  });
}

type Tar<Out extends Readable | null> = ChildProcessByStdio<Writable, Out, Readable>;

interface End {
  readonly code: number | null;
  /** Its last words. */
  readonly said: string;
}

async function endOf(tar: Tar<Readable | null>): Promise<End> {
  let said = "";
  tar.stderr.on("data", (chunk: Buffer) => {
    said = `${said}${chunk.toString()}`.slice(-MESSAGE_MAX);
  });
  return new Promise((resolve) => {
    tar.once("error", (fault) => resolve({ code: null, said: fault.message }));
    tar.once("close", (code) => resolve({ code, said: said.trim() }));
  });
}

/** Nothing here has other rights than the guest's user. @throws RouseFailure `unavailable` */
function asUser(fields: Fields): void {
  if (fields.oneOf("user", ["sandbox", "root"]) === "root")
    throw new RouseFailure("unavailable", "Files are the guest user's here: user=root is not offered.");
}
