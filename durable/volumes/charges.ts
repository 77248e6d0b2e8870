/**
 * What volumes cost: GiB and time, added up by volume and month, and told to the account until it has booked it. A
 * month's row only grows, so that a report may be lost, repeated or late.
 */
import type { VolumeReport } from "../account/api.ts";
import { accountObject } from "../account/api.ts";
import { byMonth, monthOf } from "../account/ledger.ts";
import type { VolumeRecord } from "./record.ts";
import type { VolumeStore } from "./store.ts";

/** Reports of one call. */
const BATCH = 200;
/** What was not taken is told again after this, milliseconds. */
const RETRY_MS = 60_000;

type Row = Record<"id" | "month" | "amount" | "body", string> & { sequence: number };

export class Charges {
  readonly #store: VolumeStore;

  constructor(store: VolumeStore) {
    this.#store = store;
  }

  /** Count a volume up to now, at the size that it has had. The record that is answered is to be saved with it. */
  settle(volume: VolumeRecord, now: number): VolumeRecord {
    const { id, name, labels, createdAt, sizeMiB, chargedTo } = volume;
    const body = JSON.stringify({ name, labels, createdAt });
    for (const { month, ms } of byMonth(chargedTo, now)) {
      const [row] = this.#store.sql
        .exec<{ amount: string; sequence: number }>(
          "SELECT amount, sequence FROM charges WHERE volume_id = ? AND month = ?",
          ...[id, month],
        )
        .toArray();
      const amount = BigInt(row?.amount ?? "0") + BigInt(sizeMiB) * BigInt(ms);
      this.#store.sql.exec(
        `INSERT INTO charges (volume_id, month, amount, sequence, taken, due_at, body) VALUES (?, ?, ?, 1, 0, ?, ?)
         ON CONFLICT (volume_id, month) DO UPDATE
         SET amount = excluded.amount, sequence = sequence + 1, due_at = excluded.due_at, body = excluded.body`,
        ...[id, month, String(amount), now, body],
      );
    }
    return { ...volume, chargedTo: Math.max(chargedTo, now) };
  }

  /** Count all volumes up to now: what falls due together is told together. */
  settleAll(now: number): void {
    for (const volume of this.#store.volumes())
      if (volume.state === "ready") this.#store.saveVolume(this.settle(volume, now));
  }

  /** Tell the account what it has not booked. A failure is thrown; the alarm tells it again. */
  async report(now: number): Promise<void> {
    const rows = this.#store.sql
      .exec<Row>(
        `SELECT volume_id AS id, month, amount, sequence, body FROM charges
         WHERE due_at IS NOT NULL ORDER BY month, volume_id LIMIT ?`,
        BATCH,
      )
      .toArray();
    if (rows.length === 0) return;
    for (const { id, month } of rows)
      this.#store.sql.exec(
        "UPDATE charges SET due_at = ? WHERE volume_id = ? AND month = ?",
        ...[now + RETRY_MS, id, month],
      );
    const { account, env } = this.#store;
    await accountObject(env.ACCOUNT, account).recordVolumes(rows.map(toReport));
    for (const { id, month, sequence } of rows)
      this.#store.sql.exec(
        `UPDATE charges SET taken = ?, due_at = CASE WHEN sequence > ? THEN due_at END
         WHERE volume_id = ? AND month = ? AND taken < ?`,
        ...[sequence, sequence, id, month, sequence],
      );
    this.#forget(now);
    if (rows.length === BATCH) await this.report(now);
  }

  /** Rows of months that are over, and get no more. Until then a volume under the id of a deleted one goes on in its row. */
  #forget(now: number): void {
    const old = this.#store.sql
      .exec<{ id: string; month: string }>(
        "SELECT volume_id AS id, month FROM charges WHERE month < ? AND taken = sequence",
        monthOf(now),
      )
      .toArray();
    for (const { id, month } of old) {
      const volume = this.#store.volume(id);
      if (volume && monthOf(volume.chargedTo) <= month) continue;
      this.#store.sql.exec("DELETE FROM charges WHERE volume_id = ? AND month = ?", id, month);
    }
  }

  isDue(now: number): boolean {
    return this.#store.sql.exec("SELECT 1 FROM charges WHERE due_at <= ? LIMIT 1", now).toArray().length > 0;
  }
}

function toReport({ id, month, amount, sequence, body }: Row): VolumeReport {
  const { name, labels, createdAt } = JSON.parse(body) as Pick<VolumeRecord, "name" | "labels" | "createdAt">;
  return { volumeId: id, name, labels, createdAt, month, sequence, amount };
}
