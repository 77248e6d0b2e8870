/** The mirror of one sandbox's checkpoints: there while its machine sleeps, and when its disk is lost. */
import { DurableObject } from "cloudflare:workers";
import {
  CheckpointHeader,
  checkpointLimits,
  type CheckpointInfo,
  type DeletedCheckpoint,
} from "../../sdk/contract/checkpoint.ts";
import { hex } from "../hash.ts";
import { Tables } from "../migrations.ts";
import { refuse, type Result } from "../result.ts";
import type { CheckpointsApi, LastCheckpoint } from "./api.ts";
import { place, type Version } from "./rules.ts";
import { migrations } from "./schema.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type Row = Version & { readonly header: string };

/** A row has room for 2 MB. */
const PART_BYTES = 1_048_576;

export class CheckpointsObject extends DurableObject<Env> implements CheckpointsApi {
  readonly #sql: SqlStorage;
  readonly #tables: Tables;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#tables = new Tables(ctx.storage, migrations);
  }

  async put(
    sandboxId: string,
    header: CheckpointHeader,
    whole: Bytes,
    generation: number | null,
  ): Promise<Result<object>> {
    const { name, version } = header;
    const hash = await hashOf(whole);
    await this.#open(sandboxId);
    return this.ctx.storage.transactionSync(() => {
      const newest = this.#sql.exec<{ generation: number }>("SELECT generation FROM whose").one().generation;
      if (generation !== null && generation < newest)
        return refuse("stale_generation", "A newer run of the machine saves here.");
      this.#sql.exec("UPDATE whose SET generation = max(generation, ?)", generation ?? 0);
      const given = { version, savedAt: Date.parse(header.savedAt), hash };
      const { stores, drops } = place(this.#rows(name), given);
      const full = stores ? this.#full(name, drops, whole.length) : null;
      if (full) return full;
      for (const old of drops) this.#drop(name, old);
      if (!stores) return { ok: true };
      this.#sql.exec(
        "INSERT INTO versions (name, version, saved_at, hash, bytes, header) VALUES (?, ?, ?, ?, ?, ?)",
        ...[name, version, given.savedAt, hash, whole.length, JSON.stringify(header)],
      );
      for (let part = 0; part * PART_BYTES < whole.length; part++) {
        const data = whole.slice(part * PART_BYTES, (part + 1) * PART_BYTES);
        this.#sql.exec("INSERT INTO parts VALUES (?, ?, ?, ?)", name, version, part, data.buffer);
      }
      return { ok: true };
    });
  }

  async get(sandboxId: string, name: string, version: number | null): Promise<Result<{ whole: Bytes }>> {
    const rows = this.#isOf(sandboxId) ? this.#rows(name) : [];
    const found = version === null ? rows[0] : rows.find((row) => row.version === version);
    if (!found) return notFound(name, version);
    const parts = this.#sql
      .exec<{ data: ArrayBuffer }>(
        "SELECT data FROM parts WHERE name = ? AND version = ? ORDER BY part",
        name,
        found.version,
      )
      .toArray();
    const whole = new Uint8Array(parts.reduce((sum, { data }) => sum + data.byteLength, 0));
    let at = 0;
    for (const { data } of parts) {
      whole.set(new Uint8Array(data), at);
      at += data.byteLength;
    }
    return { ok: true, whole };
  }

  async list(sandboxId: string): Promise<CheckpointInfo[]> {
    if (!this.#isOf(sandboxId)) return [];
    const names = this.#sql.exec<{ name: string }>("SELECT DISTINCT name FROM versions ORDER BY name").toArray();
    return names.map(({ name }) => ({
      ...{ kind: "checkpoint", sandboxId, name },
      versions: this.#rows(name).map(({ header }) => {
        const { format: _, name: __, ...version } = headerOf(header);
        return version;
      }),
    }));
  }

  async last(sandboxId: string): Promise<LastCheckpoint | null> {
    if (!this.#isOf(sandboxId)) return null;
    // By name the newest version, and of those the one that was saved last.
    const [row] = this.#sql
      .exec<{ header: string }>(
        `SELECT header FROM versions AS one
          WHERE version = (SELECT max(version) FROM versions WHERE name = one.name) ORDER BY saved_at DESC, name LIMIT 1`,
      )
      .toArray();
    if (!row) return null;
    const { name, version, step, savedAt } = headerOf(row.header);
    return { name, version, step, savedAt };
  }

  async remove(sandboxId: string, name: string): Promise<Result<{ checkpoint: DeletedCheckpoint }>> {
    const rows = this.#isOf(sandboxId) ? this.#rows(name) : [];
    if (rows.length === 0) return notFound(name, null);
    this.ctx.storage.transactionSync(() => {
      for (const { version } of rows) this.#drop(name, version);
    });
    return { ok: true, checkpoint: { name, sandboxId, deleted: true } };
  }

  async purge(sandboxId: string): Promise<void> {
    if (this.#isOf(sandboxId)) await this.#tables.drop();
  }

  get #whose(): string | null {
    if (!this.#tables.exist) return null;
    return this.#sql.exec<{ id: string }>("SELECT sandbox_id AS id FROM whose").one().id;
  }

  #isOf(sandboxId: string): boolean {
    return this.#whose === sandboxId;
  }

  /** For that sandbox. What there is of an earlier one of the name goes. */
  async #open(sandboxId: string): Promise<void> {
    const whose = this.#whose;
    if (whose !== null && whose !== sandboxId) await this.#tables.drop();
    if (this.#tables.make()) this.#sql.exec("INSERT INTO whose VALUES (1, ?, 0)", sandboxId);
  }

  /** The newest first. */
  #rows(name: string): Row[] {
    return this.#sql
      .exec<{ version: number; savedAt: number; hash: string; header: string }>(
        "SELECT version, saved_at AS savedAt, hash, header FROM versions WHERE name = ? ORDER BY version DESC",
        name,
      )
      .toArray();
  }

  #drop(name: string, version: number): void {
    this.#sql.exec("DELETE FROM versions WHERE name = ? AND version = ?", name, version);
    this.#sql.exec("DELETE FROM parts WHERE name = ? AND version = ?", name, version);
  }

  /** @param drops versions of that name that go meanwhile */
  #full(name: string, drops: readonly number[], more: number): ReturnType<typeof refuse> | null {
    const { perSandbox, totalBytes } = checkpointLimits;
    const held = this.#sql
      .exec<{ name: string; version: number; bytes: number }>("SELECT name, version, bytes FROM versions")
      .toArray();
    const names = new Set([name, ...held.map((one) => one.name)]).size;
    const bytes = held
      .filter((one) => one.name !== name || !drops.includes(one.version))
      .reduce((sum, one) => sum + one.bytes, 0);
    if (names > perSandbox)
      return refuse("storage_full", `The mirror has ${perSandbox} checkpoints of the sandbox.`, { max: perSandbox });
    if (bytes + more <= totalBytes) return null;
    const details = { heldBytes: bytes, maxBytes: totalBytes };
    return refuse("storage_full", `The mirror has ${bytes} bytes of the sandbox's checkpoints.`, details);
  }
}

function headerOf(text: string): CheckpointHeader {
  return CheckpointHeader.parse(JSON.parse(text));
}

function notFound(name: string, version: number | null): ReturnType<typeof refuse> {
  return refuse("checkpoint_not_found", `There is no ${version === null ? "" : `version ${version} of `}${name}.`);
}

async function hashOf(bytes: Bytes): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}
