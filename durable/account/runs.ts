/** What runs in an account, or is about to: the rows that quotas and holds are counted from. */
import { labelOfId } from "../../sdk/contract/names.ts";
import type { Used } from "./quota.ts";

export interface Run {
  readonly label: string;
  readonly id: string;
  readonly generation: number;
  readonly vcpu: number;
  readonly memoryMiB: number;
  /** Microdollars set aside for it. */
  readonly held: number;
  readonly keyId: string | null;
}

type Row = Run & Record<string, SqlStorageValue>;

export class Runs {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  all(): Run[] {
    return this.#sql
      .exec<Row>(
        "SELECT label, id, generation, vcpu, memory_mib AS memoryMiB, held, key_id AS keyId FROM runs ORDER BY label",
      )
      .toArray();
  }

  /** The runs of these sandboxes. */
  of(sandboxIds: ReadonlySet<string>): Run[] {
    const labels = [...sandboxIds].map(labelOfId);
    return this.#sql
      .exec<Row>(
        `SELECT label, id, generation, vcpu, memory_mib AS memoryMiB, held, key_id AS keyId
         FROM runs WHERE label IN (SELECT value FROM json_each(?))`,
        JSON.stringify(labels),
      )
      .toArray()
      .filter(({ id }) => sandboxIds.has(id));
  }

  save({ label, id, generation, vcpu, memoryMiB, held, keyId }: Run): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO runs (label, id, generation, vcpu, memory_mib, held, key_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[label, id, generation, vcpu, memoryMiB, held, keyId],
    );
  }

  /** The sandbox is at rest in that generation. A run that is asked for later has a higher one. */
  release(label: string, generation: number): void {
    this.#sql.exec("DELETE FROM runs WHERE label = ? AND generation <= ?", label, generation);
  }

  /** Count what is used, but for what is under a label. What exists is counted only where that matters: it may be much. */
  used(except: string | null, day: string, countKept: boolean): Used {
    const { running, vcpus, memoryMiB } = this.#sql
      .exec<{ running: number; vcpus: number; memoryMiB: number }>(
        `SELECT COUNT(*) AS running, COALESCE(SUM(vcpu), 0) AS vcpus, COALESCE(SUM(memory_mib), 0) AS memoryMiB
         FROM runs WHERE label IS NOT ?`,
        except,
      )
      .one();
    // One that is only being made is not in the index yet.
    const { kept } = countKept
      ? this.#sql
          .exec<{ kept: number }>(
            `SELECT COUNT(*) AS kept FROM (
               SELECT label FROM sandboxes WHERE body IS NOT NULL UNION SELECT label FROM runs
             ) WHERE label IS NOT ?`,
            except,
          )
          .one()
      : { kept: 0 };
    const { createdToday } = this.#sql
      .exec<{ createdToday: number }>("SELECT COUNT(*) AS createdToday FROM creations WHERE day = ?", day)
      .one();
    return { running, vcpus, memoryMiB, kept, createdToday };
  }

  /** Sandboxes made with a key that exist, or are being made, but for one. */
  madeWith(keyId: string, except: string): number {
    return this.#sql
      .exec<{ made: number }>(
        `SELECT COUNT(*) AS made FROM (
           SELECT label FROM sandboxes WHERE body IS NOT NULL AND key_id = ? UNION SELECT label FROM runs WHERE key_id = ?
         ) WHERE label IS NOT ?`,
        ...[keyId, keyId, except],
      )
      .one().made;
  }

  wasCreated(id: string): boolean {
    return this.#sql.exec("SELECT 1 FROM creations WHERE id = ?", id).toArray().length > 0;
  }

  /** Note a creation of the day; those of earlier days are of no use any more. */
  created(id: string, day: string): void {
    this.#sql.exec("INSERT OR IGNORE INTO creations (id, day) VALUES (?, ?)", id, day);
    this.#sql.exec("DELETE FROM creations WHERE day < ?", day);
  }

  /** Hosts that have machines of the account. */
  hostIds(): string[] {
    return this.#sql
      .exec<{ id: string }>(
        "SELECT DISTINCT host_id AS id FROM sandboxes WHERE body IS NOT NULL AND host_id IS NOT NULL",
      )
      .toArray()
      .map(({ id }) => id);
  }
}
