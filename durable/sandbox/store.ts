/** The tables of a sandbox's object as typed functions. No rules. */
import type { Access, DeletedSandbox } from "../../sdk/contract/sandbox.ts";
import { hasSchema, migrate } from "../migrations.ts";
import { openNetwork } from "../../sdk/contract/network.ts";
import { newLease } from "./lease.ts";
import type { Life } from "./life.ts";
import type { SandboxRecord } from "./record.ts";
import { migrations } from "./schema.ts";

export interface PreviewRow {
  readonly port: number;
  readonly id: string;
  readonly visibility: Access;
  readonly version: number;
  readonly createdAt: number;
}

/** What was answered to a request with an Idempotency-Key; `answer` is null while it is under way. */
export interface AnswerRow {
  readonly fingerprint: string;
  readonly sandboxId: string;
  readonly answer: string | null;
  readonly createdAt: number;
}

/** Ids of deleted sandboxes that still answer `sandbox_gone`. */
const PAST_KEPT = 8;

export class SandboxStore {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;

  private constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    migrate(storage, migrations);
  }

  /** null where nothing was ever created. */
  static existing(storage: DurableObjectStorage): SandboxStore | null {
    return hasSchema(storage.sql) ? new SandboxStore(storage) : null;
  }

  static create(storage: DurableObjectStorage): SandboxStore {
    return new SandboxStore(storage);
  }

  /** All or nothing. */
  transaction<T>(work: () => T): T {
    return this.#storage.transactionSync(work);
  }

  record(): SandboxRecord | null {
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM record WHERE one = 1").toArray();
    return row ? current(JSON.parse(row.body) as SandboxRecord) : null;
  }

  saveRecord(record: SandboxRecord): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO record (one, id, state, generation, body) VALUES (1, ?, ?, ?, ?)",
      record.id,
      record.life.state,
      record.life.generation,
      JSON.stringify(record),
    );
  }

  past(id: string): DeletedSandbox | null {
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM past WHERE id = ?", id).toArray();
    return row ? (JSON.parse(row.body) as DeletedSandbox) : null;
  }

  savePast(deleted: DeletedSandbox): void {
    this.#sql.exec("INSERT OR IGNORE INTO past (id, body) VALUES (?, ?)", deleted.id, JSON.stringify(deleted));
    this.#sql.exec(
      "DELETE FROM past WHERE ordinal NOT IN (SELECT ordinal FROM past ORDER BY ordinal DESC LIMIT ?)",
      PAST_KEPT,
    );
  }

  previews(): PreviewRow[] {
    return this.#sql
      .exec<{ port: number; id: string; visibility: Access; version: number; createdAt: number }>(
        "SELECT port, id, visibility, version, created_at AS createdAt FROM previews ORDER BY port",
      )
      .toArray();
  }

  savePreview(row: PreviewRow): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO previews (port, id, visibility, version, created_at) VALUES (?, ?, ?, ?, ?)",
      row.port,
      row.id,
      row.visibility,
      row.version,
      row.createdAt,
    );
  }

  removePreview(port: number): void {
    this.#sql.exec("DELETE FROM previews WHERE port = ?", port);
  }

  /** What people without a key were given, and what hosts told of its runs. */
  removeTraces(): void {
    for (const table of ["previews", "links", "link_uses", "egress_runs", "egress_refusals", "boot_report"])
      this.#sql.exec(`DELETE FROM ${table}`);
  }

  answer(key: string): AnswerRow | null {
    const [row] = this.#sql
      .exec<{ fingerprint: string; sandboxId: string; answer: string | null; createdAt: number }>(
        "SELECT fingerprint, sandbox_id AS sandboxId, answer, created_at AS createdAt FROM answers WHERE key = ?",
        key,
      )
      .toArray();
    return row ?? null;
  }

  saveAnswer(key: string, row: AnswerRow): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO answers (key, fingerprint, sandbox_id, answer, created_at) VALUES (?, ?, ?, ?, ?)",
      key,
      row.fingerprint,
      row.sandboxId,
      row.answer,
      row.createdAt,
    );
  }

  removeAnswer(key: string): void {
    this.#sql.exec("DELETE FROM answers WHERE key = ?", key);
  }

  /** Forget answers given up to a time; answers when the next one was given, or null. */
  forgetAnswers(upTo: number): number | null {
    this.#sql.exec("DELETE FROM answers WHERE created_at <= ?", upTo);
    return this.#sql.exec<{ at: number | null }>("SELECT MIN(created_at) AS at FROM answers").one().at;
  }

  outbox(): { sequence: number; acknowledged: number } {
    return this.#sql
      .exec<{ sequence: number; acknowledged: number }>("SELECT sequence, acknowledged FROM outbox WHERE one = 1")
      .one();
  }

  /** There is something new to tell the account. */
  nextSequence(): void {
    this.#sql.exec("UPDATE outbox SET sequence = sequence + 1 WHERE one = 1");
  }

  acknowledge(sequence: number): void {
    this.#sql.exec("UPDATE outbox SET acknowledged = MAX(acknowledged, ?) WHERE one = 1", sequence);
  }
}

/** A record of an earlier version, with what has come to records since. */
function current(record: SandboxRecord): SandboxRecord {
  const life = {
    lease: newLease(0, "stop"),
    undeleteTo: null,
    savedGeneration: null,
    timer: null,
  } satisfies Partial<Life>;
  const later = {
    ...{ holds: {}, governed: false, createdBy: null, maxTotalCostMicros: null },
    ...{ origin: null, archive: null, keepPauses: 0, fromStore: false, capture: null, volumes: [] },
    ...{ wakeRules: [], maxWakesPerHour: null, sockets: [], localhostPorts: [], holdsSockets: false },
    ...{ network: openNetwork, networkSetAt: null, secrets: [], ownSecrets: false },
    ...{ egressVersion: 1, egressEnforced: null, boot: null, mcp: null },
  };
  return { ...later, ...record, life: { ...life, ...record.life } };
}
