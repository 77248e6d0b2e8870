/**
 * What is kept apart from machines costs: volumes by their size, backups and snapshots by the bytes that they alone
 * store. It is added up by thing and month, and told to the account until that has booked it. A month's row only grows,
 * so that a report may be lost, repeated or late.
 */
import type { AccountApi, KeptMeter, KeptReport } from "./account/api.ts";
import { byMonth, monthOf } from "./account/ledger.ts";
import { earliest } from "./time.ts";
import type { VaultApi } from "./vault/api.ts";

/** What is kept is counted so often, milliseconds. */
const COUNT_MS = 3_600_000;
/** What is due so soon is counted with what is due now: what an account keeps falls due together, milliseconds. */
const TOGETHER_MS = 600_000;
/** Things that one alarm counts; the next follows at once. */
const COUNT_MAX = 200;
/** Reports of one call. */
const BATCH = 200;
/** What was not taken is told again after this, milliseconds. */
const RETRY_MS = 60_000;

/**
 * Tables in the object that keeps the things; a part of released migrations, so it never changes.
 * kept: what is charged, at what it has (MiB or bytes); vault: where its bytes are, when those are what counts.
 * charges: what a thing came to in a month; taken: the sequence that the account has booked.
 */
export const chargesTables = `
  CREATE TABLE kept (
    id TEXT PRIMARY KEY,
    meter TEXT NOT NULL,
    has INTEGER NOT NULL,
    vault TEXT,
    counted_to INTEGER NOT NULL,
    body TEXT NOT NULL
  ) STRICT;
  CREATE INDEX kept_by_time ON kept (counted_to);
  CREATE TABLE charges (
    id TEXT NOT NULL,
    month TEXT NOT NULL,
    meter TEXT NOT NULL,
    amount TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    due_at INTEGER,
    body TEXT NOT NULL,
    PRIMARY KEY (id, month)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX charges_due ON charges (due_at) WHERE due_at IS NOT NULL;
`;

export interface Kept {
  readonly id: string;
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>>;
  /** Unix milliseconds. */
  readonly createdAt: number;
  readonly meter: KeptMeter;
  /** MiB, or bytes. */
  readonly has: number;
  /** Where its bytes are, when those are what counts. */
  readonly vault: string | null;
}

interface KeptRow extends Record<string, SqlStorageValue> {
  id: string;
  meter: string;
  has: number;
  vault: string | null;
  countedTo: number;
  body: string;
}
type ChargeRow = Record<"id" | "month" | "meter" | "amount" | "body", string> & { sequence: number };

export interface ChargesOptions {
  readonly sql: SqlStorage;
  account(): AccountApi;
  vault(vault: string): VaultApi;
  /** What a thing alone stores is another number of bytes now. It is to be kept with that. */
  onOwned(id: string, bytes: number): void;
}

export class Charges {
  readonly #options: ChargesOptions;
  readonly #sql: SqlStorage;

  constructor(options: ChargesOptions) {
    this.#options = options;
    this.#sql = options.sql;
  }

  /**
   * A thing is charged, from a time on when it is new, at what it has from now on. May be repeated.
   * @param from Unix milliseconds
   */
  keep({ id, name, labels, createdAt, meter, has, vault }: Kept, from: number, now: number): void {
    const before = this.#kept(id);
    const body = JSON.stringify({ name, labels, createdAt });
    if (before?.has === has && before.body === body) return;
    const countedTo = before ? this.#count(before, now) : from;
    this.#sql.exec(
      "INSERT OR REPLACE INTO kept (id, meter, has, vault, counted_to, body) VALUES (?, ?, ?, ?, ?, ?)",
      ...[id, meter, has, vault, countedTo, body],
    );
  }

  /** A thing is charged up to now, and no more. */
  drop(id: string, now: number): void {
    const before = this.#kept(id);
    if (!before) return;
    this.#count(before, now);
    this.#sql.exec("DELETE FROM kept WHERE id = ?", id);
  }

  /** When there is something to do; null: never. */
  nextAt(): number | null {
    const { counted, due } = this.#sql
      .exec<{ counted: number | null; due: number | null }>(
        "SELECT (SELECT MIN(counted_to) FROM kept) AS counted, (SELECT MIN(due_at) FROM charges) AS due",
      )
      .one();
    return earliest(counted === null ? null : counted + COUNT_MS, due);
  }

  /** Count what is due, and tell the account. A failure is thrown; the next alarm goes on. */
  async alarm(now: number): Promise<void> {
    const due = (ahead: number, max: number) =>
      this.#rows("WHERE counted_to <= ? ORDER BY counted_to LIMIT ?", now - COUNT_MS + ahead, max);
    if (due(0, 1).length > 0) {
      const rows = due(TOGETHER_MS, COUNT_MAX);
      const owned = await this.#owned(rows);
      for (const { id } of rows) {
        const row = this.#kept(id);
        if (!row) continue; // deleted, and counted, meanwhile
        this.#sql.exec("UPDATE kept SET counted_to = ? WHERE id = ?", this.#count(row, now), id);
        const bytes = owned.get(id);
        if (bytes !== undefined && bytes !== row.has) this.#options.onOwned(id, bytes);
      }
    }
    await this.#report(now);
  }

  /** Tell the account what it has not booked, and was not told in the last minute. */
  async #report(now: number): Promise<void> {
    const rows = this.#sql
      .exec<ChargeRow>(
        `SELECT id, month, meter, amount, sequence, body FROM charges
         WHERE due_at <= ? ORDER BY month, id LIMIT ?`,
        ...[now, BATCH],
      )
      .toArray();
    if (rows.length === 0) return;
    for (const { id, month } of rows)
      this.#sql.exec("UPDATE charges SET due_at = ? WHERE id = ? AND month = ?", now + RETRY_MS, id, month);
    await this.#options.account().recordKept(rows.map(toReport));
    for (const { id, month, sequence } of rows)
      this.#sql.exec(
        `UPDATE charges SET taken = ?, due_at = CASE WHEN sequence > ? THEN due_at END
         WHERE id = ? AND month = ? AND taken < ?`,
        ...[sequence, sequence, id, month, sequence],
      );
    // Months that are over, and get no more. Until then what comes under the id of a deleted thing goes on in its row.
    this.#sql.exec(
      `DELETE FROM charges WHERE month < ? AND taken = sequence
         AND NOT EXISTS (SELECT 1 FROM kept WHERE kept.id = charges.id AND kept.counted_to < ?)`,
      ...[monthOf(now), startOfMonth(now)],
    );
    if (rows.length === BATCH) await this.#report(now);
  }

  /** Add what it came to since it was counted last. Answers up to when it is counted now. */
  #count({ id, meter, has, countedTo, body }: KeptRow, now: number): number {
    for (const { month, ms } of has === 0 ? [] : byMonth(countedTo, now)) {
      const [row] = this.#sql
        .exec<{ amount: string }>("SELECT amount FROM charges WHERE id = ? AND month = ?", id, month)
        .toArray();
      const amount = BigInt(row?.amount ?? "0") + BigInt(has) * BigInt(ms);
      this.#sql.exec(
        `INSERT INTO charges (id, month, meter, amount, sequence, taken, due_at, body) VALUES (?, ?, ?, ?, 1, 0, ?, ?)
         ON CONFLICT (id, month) DO UPDATE
         SET amount = excluded.amount, sequence = sequence + 1, due_at = excluded.due_at, body = excluded.body`,
        ...[id, month, meter, String(amount), now, body],
      );
    }
    return Math.max(countedTo, now);
  }

  /** What things alone store now; those whose vault does not answer are left out. */
  async #owned(rows: readonly KeptRow[]): Promise<Map<string, number>> {
    const owners = Map.groupBy(
      rows.filter(({ vault }) => vault !== null),
      ({ vault }) => vault ?? "",
    );
    const owned = new Map<string, number>();
    await Promise.all(
      [...owners].map(async ([vault, things]) => {
        const answer = await this.#options
          .vault(vault)
          .ownedOf(things.map(({ id }) => id))
          .catch(() => null);
        if (answer?.ok) for (const [id, { ownedBytes }] of Object.entries(answer.owned)) owned.set(id, ownedBytes);
      }),
    );
    return owned;
  }

  #kept(id: string): KeptRow | undefined {
    return this.#rows("WHERE id = ?", id)[0];
  }

  #rows(where: string, ...bindings: SqlStorageValue[]): KeptRow[] {
    return this.#sql
      .exec<KeptRow>(`SELECT id, meter, has, vault, counted_to AS countedTo, body FROM kept ${where}`, ...bindings)
      .toArray();
  }
}

function toReport({ id, month, meter, amount, sequence, body }: ChargeRow): KeptReport {
  const thing = JSON.parse(body) as Pick<Kept, "name" | "labels" | "createdAt">;
  return { id, ...thing, month, sequence, meter: meter as KeptMeter, amount };
}

function startOfMonth(at: number): number {
  const time = new Date(at);
  return Date.UTC(time.getUTCFullYear(), time.getUTCMonth(), 1);
}
