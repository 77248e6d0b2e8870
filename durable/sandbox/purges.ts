/**
 * Remains on hosts that were given up: a machine of a deleted sandbox, or of a creation that another host took over.
 * Whenever the host is back it is told to remove them.
 */
import { backoffMs } from "../backoff.ts";
import type { Board } from "../hosts/board-facade.ts";
import type { HostAddress, HostClient } from "./host-client.ts";

interface Remains {
  readonly id: string;
  readonly hostId: string;
  readonly url: string;
  readonly since: number;
  readonly attempts: number;
  /** The newest that was begun there. */
  readonly generation: number;
}

const FIRST_TRY_MS = 5000;
/** A host that was away for longer comes back as another. */
const KEPT_MS = 90 * 86_400_000;

export class Purges {
  readonly #sql: SqlStorage;
  readonly #client: HostClient;

  constructor(storage: DurableObjectStorage, client: HostClient) {
    this.#sql = storage.sql;
    this.#client = client;
  }

  add(id: string, generation: number, host: HostAddress, now: number): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO purges (id, generation, host_id, url, since, attempts, due_at) VALUES (?, ?, ?, ?, ?, 0, ?)",
      ...[id, generation, host.id, host.url, now, now + FIRST_TRY_MS],
    );
  }

  /** The host of that machine is back: no need to wait. Whether there is anything of it to remove. */
  hasten(id: string, now: number): boolean {
    return this.#sql.exec("UPDATE purges SET due_at = ? WHERE id = ? RETURNING id", now, id).toArray().length > 0;
  }

  /** The machine lives on that host after all. */
  drop(id: string, hostId: string): void {
    this.#sql.exec("DELETE FROM purges WHERE id = ? AND host_id = ?", id, hostId);
  }

  dueAt(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT MIN(due_at) AS at FROM purges").one().at;
  }

  /** Try what is due. */
  async run(board: Board, now: number): Promise<void> {
    const due = this.#sql
      .exec<{ id: string; generation: number; hostId: string; url: string; since: number; attempts: number }>(
        "SELECT id, generation, host_id AS hostId, url, since, attempts FROM purges WHERE due_at <= ?",
        now,
      )
      .toArray();
    await Promise.all(due.map((remains) => this.#try(remains, board, now)));
  }

  async #try({ id, generation, hostId, url, since, attempts }: Remains, board: Board, now: number): Promise<void> {
    // It may be back under another address.
    const host = { id: hostId, url: board.hosts.find((one) => one.hostId === hostId)?.url ?? url };
    const answer = await this.#client.destroy(host, id, generation, new AbortController().signal);
    if (answer.ok || answer.failure.code === "not_found" || now - since > KEPT_MS) return this.drop(id, hostId);
    const dueAt = now + backoffMs(FIRST_TRY_MS, attempts);
    this.#sql.exec(
      "UPDATE purges SET attempts = attempts + 1, due_at = ? WHERE id = ? AND host_id = ?",
      ...[dueAt, id, hostId],
    );
  }
}
