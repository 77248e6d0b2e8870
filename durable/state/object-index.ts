/** Which objects there are, and which blobs they are of. What is being stored is noted before a byte is. */
import {
  objectLimits,
  type BeginObjectUpload,
  type ObjectList,
  type ObjectListQuery,
  type ObjectPart,
  type ObjectUpload,
  type StoredObject,
} from "../../sdk/contract/object.ts";
import { newId } from "../../sdk/contract/names.ts";
import { toBase64Url } from "../../sdk/contract/ticket.ts";
import { sha256Hex } from "../hash.ts";
import { refuse, type Result } from "../result.ts";
import { iso } from "../time.ts";
import { BERTH_MS, type Asker, type Berth, type Condition, type Part } from "./api.ts";
import { refused, withPrefix, type StateStore } from "./store.ts";

interface Row extends Record<string, SqlStorageValue> {
  key: string;
  etag: string;
  sha256: string | null;
  bytes: number;
  contentType: string;
  by: string;
  updatedAt: number;
  parts: string;
}
interface UploadRow extends Record<string, SqlStorageValue> {
  id: string;
  kind: string;
  key: string;
  contentType: string;
  blob: string | null;
  bytes: number;
  createdAt: number;
  expiresAt: number;
}
interface PartRow extends Record<string, SqlStorageValue> {
  upload: string;
  part: number;
  blob: string;
  bytes: number;
  sha256: string | null;
  stored: number;
}

const OBJECTS = `SELECT key, etag, sha256, bytes, content_type AS contentType, written_by AS "by",
  updated_at AS updatedAt, parts FROM objects`;
const UPLOADS = `SELECT id, kind, key, content_type AS contentType, blob, bytes, created_at AS createdAt,
  expires_at AS expiresAt FROM uploads`;
const PARTS = "SELECT upload, part, blob, bytes, sha256, stored FROM parts";
const PAGE = 100;
/** Blobs that nobody has any more stay so long for those who read them, milliseconds. */
const READ_MS = 900_000;
/** What one alarm ends; the next follows at once. */
const SWEEP_MAX = 200;

const noObject = refuse("object_not_found", "There is no such object.");
const noUpload = refuse("upload_not_found", "There is no such upload; it may have taken too long.");

export class ObjectIndex {
  readonly #store: StateStore;
  readonly #sql: SqlStorage;
  /** Of all blobs. */
  readonly #place: string;

  constructor(store: StateStore, place: string) {
    this.#store = store;
    this.#sql = store.sql;
    this.#place = place;
  }

  object(asker: Asker, key: string): Result<{ object: StoredObject; parts: readonly Part[] }> {
    return this.#store.read<{ object: StoredObject; parts: readonly Part[] }>(asker, noObject, () => {
      const row = this.#row(key);
      return row ? { ok: true, object: shown(row), parts: partsOf(row) } : noObject;
    });
  }

  list(asker: Asker, query: ObjectListQuery): Result<{ page: ObjectList }> {
    const { prefix = "", delimiter, limit = PAGE, cursor } = query;
    const empty: Result<{ page: ObjectList }> = { ok: true, page: { data: [], prefixes: [], nextCursor: null } };
    return this.#store.read(asker, empty, () => {
      const data: StoredObject[] = [];
      const prefixes: string[] = [];
      const begin = placeIn(prefix, cursor);
      if (!begin) return refuse("invalid_request", "The cursor is not one of ours.");
      let { from, isAfter } = begin;
      let nextCursor: string | null = null;
      // A prefix that is shown stands for all its keys: the next is looked for behind them.
      for (;;) {
        const rows = this.#sql.exec<Row>(
          `${OBJECTS} WHERE ${isAfter ? "key > ?" : "key >= ?"} ORDER BY key LIMIT ?`,
          ...[from, limit + 1],
        );
        let group: string | null = null;
        for (const row of withPrefix(rows, prefix)) {
          if (data.length + prefixes.length === limit) return { ok: true, page: { data, prefixes, nextCursor } };
          const slash = delimiter === undefined ? -1 : row.key.indexOf(delimiter, prefix.length);
          if (slash !== -1) {
            group = row.key.slice(0, slash + 1);
            break;
          }
          data.push(shown(row));
          nextCursor = `k${row.key}`;
        }
        if (group === null) return { ok: true, page: { data, prefixes, nextCursor: null } };
        prefixes.push(group);
        nextCursor = `p${group}`;
        from = behind(group);
        isAfter = false;
      }
    });
  }

  berth(asker: Asker, key: string, bytes: number, contentType: string, condition: Condition): Result<{ berth: Berth }> {
    const upload = randomText();
    const blob = this.#newBlob();
    return this.#store.write(asker, () => {
      const now = Date.now();
      this.#check(key, condition);
      this.#makeRoom(key, bytes);
      this.#sql.exec(
        `INSERT INTO uploads (id, kind, key, content_type, blob, bytes, created_at, expires_at)
         VALUES (?, 'put', ?, ?, ?, ?, ?, ?)`,
        ...[upload, key, contentType, blob, bytes, now, now + BERTH_MS],
      );
      this.#store.count({ reservedBytes: bytes });
      return { ok: true, berth: { upload, blob } };
    });
  }

  land(asker: Asker, upload: string, sha256: string, condition: Condition): Result<{ object: StoredObject }> {
    return this.#store.write<{ object: StoredObject }>(asker, () => {
      const row = this.#uploadRow(upload, "put");
      if (!row || row.blob === null) return noUpload;
      this.#check(row.key, condition);
      this.#sql.exec("DELETE FROM uploads WHERE id = ?", upload);
      this.#store.count({ reservedBytes: -row.bytes });
      const { key, bytes, contentType, blob } = row;
      return {
        ok: true,
        object: this.#set({ key, bytes, contentType, sha256, etag: sha256 }, [[blob, bytes]], asker.by),
      };
    });
  }

  /** Whatever it was to be, that blob is not wanted. */
  sink(blob: string): void {
    if (!this.#store.exists) return;
    this.#store.transaction(() => {
      for (const { id } of this.#sql.exec<UploadRow>(`${UPLOADS} WHERE blob = ?`, blob).toArray()) this.#end(id);
      for (const one of this.#sql.exec<PartRow>(`${PARTS} WHERE blob = ? AND stored = 0`, blob).toArray())
        this.#dropPart(one, 0);
      this.#store.arm();
    });
  }

  delete(asker: Asker, key: string, condition: Condition): Result<{ deleted: boolean }> {
    return this.#store.write(asker, () => {
      this.#check(key, condition);
      return { ok: true, deleted: this.#remove(key, Date.now()) };
    });
  }

  async begin(asker: Asker, input: BeginObjectUpload): Promise<Result<{ upload: ObjectUpload }>> {
    const id = await newId("upl", "upload", "", null);
    return this.#store.write(asker, () => {
      const now = Date.now();
      const { uploadsMax: max, uploadSeconds } = objectLimits;
      const { count } = this.#sql
        .exec<{ count: number }>("SELECT COUNT(*) AS count FROM uploads WHERE kind = 'parts'")
        .one();
      if (count >= max) refused("quota_exceeded", `${count} uploads are under way.`, { max });
      const { key, contentType = "application/octet-stream" } = input;
      this.#sql.exec(
        `INSERT INTO uploads (id, kind, key, content_type, blob, bytes, created_at, expires_at)
         VALUES (?, 'parts', ?, ?, NULL, 0, ?, ?)`,
        ...[id, key, contentType, now, now + uploadSeconds * 1000],
      );
      return this.#shownUpload(id);
    });
  }

  upload(asker: Asker, id: string): Result<{ upload: ObjectUpload }> {
    return this.#store.read<{ upload: ObjectUpload }>(asker, noUpload, () => this.#shownUpload(id));
  }

  berthPart(asker: Asker, id: string, part: number, bytes: number): Result<{ berth: Berth }> {
    const blob = this.#newBlob();
    return this.#store.write<{ berth: Berth }>(asker, () => {
      const upload = this.#uploadRow(id, "parts");
      if (!upload) return noUpload;
      this.#makeRoom(upload.key, bytes);
      this.#sql.exec(
        "INSERT INTO parts (upload, part, blob, bytes, sha256, stored, expires_at) VALUES (?, ?, ?, ?, NULL, 0, ?)",
        ...[id, part, blob, bytes, Date.now() + BERTH_MS],
      );
      this.#store.count({ reservedBytes: bytes });
      return { ok: true, berth: { upload: id, blob } };
    });
  }

  landPart(asker: Asker, blob: string, sha256: string): Result<{ upload: ObjectUpload }> {
    return this.#store.write<{ upload: ObjectUpload }>(asker, () => {
      const [part] = this.#sql.exec<PartRow>(`${PARTS} WHERE blob = ? AND stored = 0`, blob).toArray();
      if (!part) return noUpload;
      const before = this.#parts(part.upload).filter((one) => one.part === part.part && one.stored === 1);
      for (const one of before) this.#dropPart(one, 0);
      this.#sql.exec("UPDATE parts SET stored = 1, sha256 = ?, expires_at = NULL WHERE blob = ?", sha256, blob);
      return this.#shownUpload(part.upload);
    });
  }

  async complete(
    asker: Asker,
    id: string,
    count: number,
    condition: Condition,
  ): Promise<Result<{ object: StoredObject }>> {
    const seen = this.#store.read<{ parts: PartRow[] }>(asker, noUpload, () => ({ ok: true, parts: this.#stored(id) }));
    if (!seen.ok) return seen;
    const digests = seen.parts.map(({ sha256 }) => sha256).join("");
    const etag = `${await sha256Hex(digests)}-${count}`;
    return this.#store.write<{ object: StoredObject }>(asker, () => {
      const upload = this.#uploadRow(id, "parts");
      if (!upload) return noUpload;
      const parts = this.#stored(id);
      if (parts.map(({ sha256 }) => sha256).join("") !== digests) refused("conflict", "The parts changed meanwhile.");
      const numbers = new Set(parts.map(({ part }) => part));
      const missing = Array.from({ length: count }, (_, at) => at + 1).filter((part) => !numbers.has(part));
      const tooMany = [...numbers].filter((part) => part > count);
      if (missing.length + tooMany.length > 0)
        refused("upload_incomplete", "The parts that are there are not those.", { missing, tooMany });
      const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
      if (bytes > objectLimits.bytesMax)
        refused("payload_too_large", `An object has at most ${objectLimits.bytesMax} bytes.`, {
          maxBytes: objectLimits.bytesMax,
        });
      this.#check(upload.key, condition);
      this.#sql.exec("DELETE FROM parts WHERE upload = ? AND stored = 1", id);
      this.#store.count({ reservedBytes: -bytes });
      this.#end(id);
      const { key, contentType } = upload;
      const blobs = parts.map((part): Part => [part.blob, part.bytes]);
      return { ok: true, object: this.#set({ key, bytes, contentType, sha256: null, etag }, blobs, asker.by) };
    });
  }

  abort(asker: Asker, id: string): Result<object> {
    return this.#store.write<object>(asker, () => {
      if (!this.#uploadRow(id, "parts")) return noUpload;
      this.#end(id);
      return { ok: true };
    });
  }

  /** What took too long. */
  sweep(now: number): void {
    for (const { id } of this.#sql
      .exec<UploadRow>(`${UPLOADS} WHERE expires_at <= ? LIMIT ?`, now, SWEEP_MAX)
      .toArray())
      this.#end(id);
    for (const part of this.#sql.exec<PartRow>(`${PARTS} WHERE expires_at <= ? LIMIT ?`, now, SWEEP_MAX).toArray())
      this.#dropPart(part, 0);
  }

  /** Nothing is wanted any more: some of what there is, until there is nothing. */
  dropSome(now: number): boolean {
    const keys = this.#sql.exec<{ key: string }>("SELECT key FROM objects LIMIT ?", SWEEP_MAX).toArray();
    for (const { key } of keys) this.#remove(key, now, 0);
    const uploads = this.#sql.exec<UploadRow>(`${UPLOADS} LIMIT ?`, SWEEP_MAX).toArray();
    for (const { id } of uploads) this.#end(id);
    return keys.length + uploads.length > 0;
  }

  dropsDue(now: number, most: number): string[] {
    return this.#sql
      .exec<{ blob: string }>("SELECT blob FROM drops WHERE due_at <= ? LIMIT ?", now, most)
      .toArray()
      .map(({ blob }) => blob);
  }

  /** @param dueAt when it is tried again; null: they are deleted */
  dropped(blobs: readonly string[], dueAt: number | null): void {
    for (const blob of blobs)
      if (dueAt === null) this.#sql.exec("DELETE FROM drops WHERE blob = ?", blob);
      else this.#sql.exec("UPDATE drops SET due_at = ? WHERE blob = ?", dueAt, blob);
  }

  hasDrops(): boolean {
    return this.#sql.exec("SELECT 1 FROM drops LIMIT 1").toArray().length > 0;
  }

  #set(
    { key, bytes, contentType, sha256, etag }: Pick<Row, "key" | "bytes" | "contentType" | "sha256" | "etag">,
    parts: readonly Part[],
    by: string,
  ): StoredObject {
    const now = Date.now();
    this.#remove(key, now);
    this.#sql.exec(
      `INSERT INTO objects (key, etag, sha256, bytes, content_type, written_by, updated_at, parts)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[key, etag, sha256, bytes, contentType, by, now, JSON.stringify(parts)],
    );
    this.#store.count({ objects: 1, objectBytes: bytes });
    const row = this.#row(key);
    if (!row) throw new Error("the object is not there");
    return shown(row);
  }

  #remove(key: string, now: number, keptMs = READ_MS): boolean {
    const row = this.#row(key);
    if (!row) return false;
    this.#sql.exec("DELETE FROM objects WHERE key = ?", key);
    this.#store.count({ objects: -1, objectBytes: -row.bytes });
    for (const [blob] of partsOf(row)) this.#drop(blob, now + keptMs);
    return true;
  }

  /** An upload is over, and what was stored for it goes. */
  #end(id: string): void {
    const now = Date.now();
    const [upload] = this.#sql.exec<UploadRow>(`${UPLOADS} WHERE id = ?`, id).toArray();
    if (!upload) return;
    for (const part of this.#parts(id)) this.#dropPart(part, 0);
    this.#sql.exec("DELETE FROM uploads WHERE id = ?", id);
    this.#store.count({ reservedBytes: -upload.bytes });
    if (upload.blob !== null) this.#drop(upload.blob, now);
  }

  #dropPart({ blob, bytes }: PartRow, keptMs: number): void {
    this.#sql.exec("DELETE FROM parts WHERE blob = ?", blob);
    this.#store.count({ reservedBytes: -bytes });
    this.#drop(blob, Date.now() + keptMs);
  }

  #drop(blob: string, dueAt: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO drops (blob, due_at) VALUES (?, ?)", blob, dueAt);
  }

  #makeRoom(key: string, bytes: number): void {
    const { objects, objectBytes, reservedBytes } = this.#store.totals();
    const { totalBytesMax: maxBytes, countMax: maxCount } = objectLimits;
    // What is there until another takes its place counts on: for a while there are both.
    const isNew = this.#row(key) === null;
    if (objectBytes + reservedBytes + bytes <= maxBytes && (!isNew || objects + 1 <= maxCount)) return;
    const details = { heldBytes: objectBytes, reservedBytes, maxBytes, neededBytes: bytes, objects, maxCount };
    refused("storage_full", `The objects hold ${objectBytes + reservedBytes} bytes in ${objects}.`, details);
  }

  #check(key: string, { match, absent }: Condition): void {
    if (match === null && !absent) return;
    const etag = this.#row(key)?.etag ?? null;
    if (absent && etag !== null) refused("version_mismatch", "The object is there already.", { key, etag });
    if (match === null || (match === "*" ? etag !== null : match === etag)) return;
    refused("version_mismatch", etag === null ? "The object is not there." : "The object has another etag.", {
      key,
      etag,
    });
  }

  #shownUpload(id: string): Result<{ upload: ObjectUpload }> {
    const row = this.#uploadRow(id, "parts");
    if (!row) return noUpload;
    const parts = this.#stored(id).map(({ part, bytes, sha256 }): ObjectPart => ({
      part,
      bytes,
      sha256: sha256 ?? "",
    }));
    const { key, contentType } = row;
    return {
      ok: true,
      upload: { id, key, contentType, createdAt: iso(row.createdAt), expiresAt: iso(row.expiresAt), parts },
    };
  }

  #newBlob(): string {
    return `homes/${this.#place}/${randomText()}`;
  }

  #row(key: string): Row | null {
    return this.#sql.exec<Row>(`${OBJECTS} WHERE key = ?`, key).toArray()[0] ?? null;
  }

  #uploadRow(id: string, kind: "put" | "parts"): UploadRow | null {
    const rows = this.#sql.exec<UploadRow>(
      `${UPLOADS} WHERE id = ? AND kind = ? AND expires_at > ?`,
      ...[id, kind, Date.now()],
    );
    return rows.toArray()[0] ?? null;
  }

  #parts(upload: string): PartRow[] {
    return this.#sql.exec<PartRow>(`${PARTS} WHERE upload = ? ORDER BY part`, upload).toArray();
  }

  #stored(upload: string): PartRow[] {
    return this.#parts(upload).filter(({ stored }) => stored === 1);
  }
}

/** Where a page begins; null for a cursor that is not one of that list. */
function placeIn(prefix: string, cursor: string | undefined): { from: string; isAfter: boolean } | null {
  if (cursor === undefined) return { from: prefix, isAfter: false };
  const last = cursor.slice(1);
  if (!last.startsWith(prefix) || (cursor[0] === "p" && !last.endsWith("/"))) return null;
  if (cursor[0] === "k") return { from: last, isAfter: true };
  return cursor[0] === "p" ? { from: behind(last), isAfter: false } : null;
}

/** What comes after all that begins with it. Its last character is a slash, and the next one is a 0. */
function behind(group: string): string {
  return `${group.slice(0, -1)}0`;
}

function partsOf({ parts }: Row): readonly Part[] {
  return JSON.parse(parts) as readonly Part[];
}

function shown({ key, bytes, etag, sha256, contentType, updatedAt, by }: Row): StoredObject {
  return { key, bytes, etag, sha256, contentType, updatedAt: iso(updatedAt), by };
}

function randomText(): string {
  return toBase64Url(crypto.getRandomValues(new Uint8Array(18)));
}
