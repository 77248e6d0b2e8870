/**
 * The list of a saved state: its parts, and where each changed chunk of them lies. No I/O.
 *
 * A stored manifest is `nonce (12) | AES-256-GCM of (u32 plain length | zstd of plain) | tag (16)`; plain is
 * `u32 header length | header, JSON, padded to 4 | columns`, and each column starts at a multiple of 4. Integers are
 * little-endian. Nothing in it is trusted before its lengths and numbers are checked against each other.
 */
import { constants, zstdCompress, zstdDecompress } from "node:zlib";
import { createCipheriv, createDecipheriv, hash, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { z } from "zod";
import { BLOB_BYTES_MAX, BLOBS_MAX } from "../../sdk/contract/archive.ts";
import { DamagedState, Unsealable } from "./damage.ts";

/** Chunks of RAM, bytes: a page. */
export const RAM_UNIT = 4096;
/** Chunks of everything else, bytes: a qcow2 cluster. */
export const FILE_UNIT = 65_536;
export type Unit = typeof RAM_UNIT | typeof FILE_UNIT;

/** Plaintext of a frame at most, bytes. */
export const FRAME_BYTES = 262_144;
/** What a frame grows by when it is encrypted: the tag. */
export const TAG_BYTES = 16;
/** Kept of a chunk's SHA-256, bytes. */
export const HASH_BYTES = 16;

/** Bounds what opening a manifest may take. Room for two million chunks. */
const PLAIN_BYTES_MAX = 50_331_648;
const HEADER_BYTES_MAX = 262_144;
const NONCE_BYTES = 12;
const AAD = Buffer.from("rouse manifest 1");
/** With chunks of 4 KiB a number of 32 bits reaches so far. */
const PART_BYTES_MAX = 2 ** 44;

/** What the caller wants to know again about the state. JSON. */
export type Facts = Readonly<Record<string, unknown>>;

const Header = z.strictObject({
  version: z.literal(1),
  facts: z.record(z.string(), z.unknown()),
  parts: z
    .array(
      z.strictObject({
        name: z.string().min(1).max(200),
        size: z.int().min(0).max(PART_BYTES_MAX),
        unit: z.literal([RAM_UNIT, FILE_UNIT]),
        base: z.string().max(200).nullable(),
        chunks: z.int().min(0),
        zeros: z.int().min(0),
      }),
    )
    .max(256),
  packs: z.int().min(0).max(BLOBS_MAX),
  frames: z.int().min(0),
});

/** Where a chunk lies: number of the frame among all, and of the chunk in the frame. */
export interface Place {
  readonly frame: number;
  readonly slot: number;
}

/** Where the chunks of a part lie; row by row, ascending `index`. */
export interface Chunks {
  /** Chunk number in the part. */
  readonly index: Uint32Array;
  /** Frame number in the manifest. */
  readonly frame: Uint32Array;
  /** Chunk number in the frame. */
  readonly slot: Uint8Array;
  /** `HASH_BYTES` of each chunk's SHA-256. */
  readonly hash: Buffer;
}

/** Runs of chunks that are zero now and were not in the base; ascending. */
export interface Zeros {
  readonly start: Uint32Array;
  readonly count: Uint32Array;
}

export interface Part {
  readonly name: string;
  /** Of the file, bytes. */
  readonly size: number;
  readonly unit: Unit;
  /** What the part is the difference to; null: to nothing but zeros. */
  readonly base: string | null;
  readonly chunks: Chunks;
  readonly zeros: Zeros;
}

export interface Pack {
  readonly id: string;
  readonly key: Buffer;
  /** Of the blob. */
  readonly bytes: number;
  /** Numbers of its frames in the manifest, `end` not included. */
  readonly begin: number;
  readonly end: number;
}

/** All frames, pack by pack. */
export interface Frames {
  /** In the blob, tag included. */
  readonly bytes: Uint32Array;
  /** How many chunks. */
  readonly chunks: Uint8Array;
  /** Bytes of a chunk, as a power of two. */
  readonly unitBits: Uint8Array;
  /** Whether it is compressed: 0 or 1. */
  readonly packed: Uint8Array;
}

export interface Manifest {
  readonly facts: Facts;
  readonly parts: readonly Part[];
  readonly packs: readonly Pack[];
  readonly frames: Frames;
}

/** A state of nothing. */
export const NO_STATE: Manifest = {
  facts: {},
  parts: [],
  packs: [],
  frames: {
    bytes: new Uint32Array(),
    chunks: new Uint8Array(),
    unitBits: new Uint8Array(),
    packed: new Uint8Array(),
  },
};

/** Names a stored manifest and opens it; a `SavedState` is one. */
export interface ManifestSource {
  /** Its blob id. */
  readonly manifest: string;
  /** `ManifestKey`. */
  readonly key: string;
}

/** @throws Unsealable when it does not fit into a blob */
export async function writeManifest(manifest: Manifest, key: string): Promise<Buffer> {
  const { facts, parts, packs, frames } = manifest;
  const header = Buffer.from(
    JSON.stringify({
      version: 1,
      facts,
      parts: parts.map(({ name, size, unit, base, chunks, zeros }) => ({
        name,
        size,
        unit,
        base,
        chunks: chunks.index.length,
        zeros: zeros.start.length,
      })),
      packs: packs.length,
      frames: frames.bytes.length,
    } satisfies z.input<typeof Header>),
  );
  const length = Buffer.alloc(4);
  length.writeUInt32LE(header.length);
  const columns: Uint8Array[] = [
    length,
    header,
    Buffer.from(packs.map(({ id }) => id).join(""), "hex"),
    Buffer.concat(packs.map((pack) => pack.key)),
    bytesOf(Uint32Array.from(packs, ({ begin, end }) => end - begin)),
    bytesOf(frames.bytes),
    frames.chunks,
    frames.unitBits,
    frames.packed,
    ...parts.flatMap(({ chunks, zeros }) => [
      bytesOf(chunks.index),
      bytesOf(chunks.frame),
      chunks.slot,
      chunks.hash,
      bytesOf(zeros.start),
      bytesOf(zeros.count),
    ]),
  ];
  const plain = Buffer.concat(columns.flatMap((column) => [column, Buffer.alloc(padding(column.length))]));
  if (header.length > HEADER_BYTES_MAX || packs.length > BLOBS_MAX || plain.length > PLAIN_BYTES_MAX) {
    throw new Unsealable("The state has more changed chunks, packs or facts than a manifest holds.");
  }
  length.writeUInt32LE(plain.length);
  const packed = await promisify(zstdCompress)(plain, {
    pledgedSrcSize: plain.length,
    params: { [constants.ZSTD_c_compressionLevel]: 3 },
  });
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", Buffer.from(key, "base64url"), nonce).setAAD(AAD);
  const sealed = Buffer.concat([
    nonce,
    cipher.update(length),
    cipher.update(packed),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
  if (sealed.length > BLOB_BYTES_MAX) throw new Unsealable("The state has more changed chunks than a manifest holds.");
  return sealed;
}

/**
 * Read a stored manifest.
 * @throws DamagedState when the bytes are not that manifest, the key does not open it, or its form is not of this version
 */
export async function openManifest(bytes: Uint8Array, source: ManifestSource): Promise<Manifest> {
  const blob = source.manifest;
  if (bytes.length > BLOB_BYTES_MAX || hash("sha256", bytes, "hex") !== blob) {
    throw new DamagedState(blob, "damaged", "the bytes are others");
  }
  try {
    return parse(await decipher(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), source.key));
  } catch (fault) {
    throw new DamagedState(blob, "damaged", "it is not a manifest under this key", fault);
  }
}

async function decipher(sealed: Buffer, key: string): Promise<Buffer> {
  if (sealed.length < NONCE_BYTES + TAG_BYTES + 4) throw new RangeError("too short");
  const decipher = createDecipheriv("aes-256-gcm", Buffer.from(key, "base64url"), sealed.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(AAD).setAuthTag(sealed.subarray(-TAG_BYTES));
  const opened = Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
  const length = opened.readUInt32LE();
  if (length > PLAIN_BYTES_MAX) throw new RangeError("too long");
  // One output buffer of just that size, so that what it claims to be is the most that it may take.
  const plain = await promisify(zstdDecompress)(opened.subarray(4), {
    chunkSize: Math.max(length, constants.Z_MIN_CHUNK),
    maxOutputLength: Math.max(length, 1),
  });
  if (plain.length !== length) throw new RangeError("another length");
  return plain.byteOffset % 4 === 0 ? plain : Buffer.from(new Uint8Array(plain).buffer);
}

function parse(plain: Buffer): Manifest {
  const columns = new Columns(plain);
  const headerBytes = columns.numbers(1)[0] ?? 0;
  if (headerBytes > HEADER_BYTES_MAX) throw new RangeError("header too long");
  const header = Header.parse(JSON.parse(columns.bytes(headerBytes).toString()));
  const ids = columns.bytes(header.packs * 32);
  const keys = columns.bytes(header.packs * 32);
  const counts = columns.numbers(header.packs);
  const frames: Frames = {
    bytes: columns.numbers(header.frames),
    chunks: columns.bytes(header.frames),
    unitBits: columns.bytes(header.frames),
    packed: columns.bytes(header.frames),
  };
  const parts = header.parts.map(({ name, size, unit, base, chunks, zeros }): Part => ({
    name,
    size,
    unit,
    base,
    chunks: {
      index: columns.numbers(chunks),
      frame: columns.numbers(chunks),
      slot: columns.bytes(chunks),
      hash: columns.bytes(chunks * HASH_BYTES),
    },
    zeros: { start: columns.numbers(zeros), count: columns.numbers(zeros) },
  }));
  columns.end();
  checkFrames(frames);
  const packs = packsOf(ids, keys, counts, frames);
  if (new Set(parts.map(({ name }) => name)).size < parts.length) throw new RangeError("a part twice");
  for (const part of parts) checkPart(part, frames);
  return { facts: header.facts, parts, packs, frames };
}

function checkFrames({ bytes, chunks, unitBits, packed }: Frames): void {
  for (let frame = 0; frame < bytes.length; frame++) {
    const unit = 2 ** (unitBits[frame] ?? 0);
    const plain = (chunks[frame] ?? 0) * unit;
    const stored = (bytes[frame] ?? 0) - TAG_BYTES;
    if (unit !== RAM_UNIT && unit !== FILE_UNIT) throw new RangeError("a frame of another unit");
    if (plain < 1 || plain > FRAME_BYTES) throw new RangeError("a frame of another length");
    if (packed[frame] === 1 ? stored < 1 || stored >= plain : packed[frame] !== 0 || stored !== plain) {
      throw new RangeError("a frame of another form");
    }
  }
}

function packsOf(ids: Buffer, keys: Buffer, counts: Uint32Array, frames: Frames): Pack[] {
  const packs: Pack[] = [];
  let begin = 0;
  for (const [at, count] of counts.entries()) {
    const end = begin + count;
    if (count < 1 || end > frames.bytes.length) throw new RangeError("a pack of other frames");
    let bytes = 0;
    for (let frame = begin; frame < end; frame++) bytes += frames.bytes[frame] ?? 0;
    if (bytes > BLOB_BYTES_MAX) throw new RangeError("a pack too large");
    const place = [at * 32, at * 32 + 32] as const;
    packs.push({ id: ids.toString("hex", ...place), key: keys.subarray(...place), bytes, begin, end });
    begin = end;
  }
  if (begin !== frames.bytes.length) throw new RangeError("a frame without a pack");
  if (new Set(packs.map(({ id }) => id)).size < packs.length) throw new RangeError("a pack twice");
  return packs;
}

/** Chunks and zero runs lie within the part, in order, and apart; each chunk is one that its frame has. */
function checkPart({ size, unit, base, chunks, zeros }: Part, frames: Frames): void {
  const end = Math.ceil(size / unit);
  const bits = Math.log2(unit);
  if (base === null && zeros.start.length > 0) throw new RangeError("zeros of nothing");
  let run = 0;
  let free = 0;
  const skipRuns = (before: number) => {
    for (; run < zeros.start.length && (zeros.start[run] ?? 0) < before; run++) {
      const start = zeros.start[run] ?? 0;
      const count = zeros.count[run] ?? 0;
      if (start < free || count < 1) throw new RangeError("zeros out of order");
      free = start + count;
    }
  };
  for (let row = 0; row < chunks.index.length; row++) {
    const index = chunks.index[row] ?? 0;
    const frame = chunks.frame[row] ?? 0;
    skipRuns(index + 1);
    if (index < free) throw new RangeError("chunks out of order");
    free = index + 1;
    if (frame >= frames.bytes.length || frames.unitBits[frame] !== bits) throw new RangeError("a chunk of no frame");
    if ((chunks.slot[row] ?? 0) >= (frames.chunks[frame] ?? 0)) throw new RangeError("a chunk outside its frame");
  }
  skipRuns(Infinity);
  if (free > end) throw new RangeError("beyond the end of the part");
}

/** Takes columns off a buffer, as views into it. */
class Columns {
  readonly #plain: Buffer;
  #at = 0;

  constructor(plain: Buffer) {
    this.#plain = plain;
  }

  bytes(length: number): Buffer {
    const begin = this.#at;
    const end = begin + length;
    if (end > this.#plain.length) throw new RangeError("a column beyond the end");
    this.#at = end + padding(length);
    return this.#plain.subarray(begin, end);
  }

  numbers(count: number): Uint32Array {
    const { buffer, byteOffset } = this.bytes(count * 4);
    return new Uint32Array(buffer, byteOffset, count);
  }

  end(): void {
    if (this.#at !== this.#plain.length) throw new RangeError("more than it says");
  }
}

const padding = (length: number): number => -length & 3;

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
