/** Volumes that the sandbox has let go of: their keeper is told until it has taken note. */
import { backoffMs } from "../backoff.ts";
import { volumesObject } from "../volumes/api.ts";

const FIRST_TRY_MS = 1000;

export interface Detach {
  readonly attachment: string;
  readonly sandboxId: string;
  /** The newest run that may have written. */
  readonly generation: number;
  /** No host has anything of it that is not stored. */
  readonly settled: boolean;
}

interface DetachRow extends Omit<Detach, "settled"> {
  readonly settled: number;
  readonly attempts: number;
}

export class Detaches {
  readonly #sql: SqlStorage;
  readonly #volumes: DurableObjectNamespace<never>;

  constructor(storage: DurableObjectStorage, volumes: DurableObjectNamespace<never>) {
    this.#sql = storage.sql;
    this.#volumes = volumes;
  }

  add({ attachment, sandboxId, generation, settled }: Detach, now: number): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO detaches (attachment, sandbox_id, generation, settled, attempts, due_at) VALUES (?, ?, ?, ?, 0, ?)",
      ...[attachment, sandboxId, generation, settled ? 1 : 0, now],
    );
  }

  dueAt(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT MIN(due_at) AS at FROM detaches").one().at;
  }

  /** Try what is due. */
  async run(account: string, now: number): Promise<void> {
    const due = this.#sql
      .exec<DetachRow & Record<string, string | number>>(
        "SELECT attachment, sandbox_id AS sandboxId, generation, settled, attempts FROM detaches WHERE due_at <= ?",
        now,
      )
      .toArray();
    for (const { attachment, sandboxId, generation, settled, attempts } of due) {
      try {
        const ask = { sandboxId, attachments: [attachment], generation, settled: settled === 1 };
        await volumesObject(this.#volumes, account).detach(ask);
        this.#sql.exec("DELETE FROM detaches WHERE attachment = ?", attachment);
      } catch {
        const dueAt = now + backoffMs(FIRST_TRY_MS, attempts);
        this.#sql.exec(
          "UPDATE detaches SET attempts = attempts + 1, due_at = ? WHERE attachment = ?",
          ...[dueAt, attachment],
        );
      }
    }
  }
}
