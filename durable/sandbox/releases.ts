/** Saved states that the sandbox needs no more: their vault is told until it has taken note. */
import { backoffMs } from "../backoff.ts";
import { vaultObject } from "../vault/api.ts";

interface Release {
  readonly vault: string;
  readonly owner: string;
  /** Empty: all of the owner's. */
  readonly manifest: string;
  readonly attempts: number;
}

const FIRST_TRY_MS = 1000;

export class Releases {
  readonly #sql: SqlStorage;
  readonly #vaults: DurableObjectNamespace<never>;

  constructor(storage: DurableObjectStorage, vaults: DurableObjectNamespace<never>) {
    this.#sql = storage.sql;
    this.#vaults = vaults;
  }

  /** @param manifest null: everything that the owner has */
  add(vault: string, owner: string, manifest: string | null, now: number): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO releases (vault, owner, manifest, attempts, due_at) VALUES (?, ?, ?, 0, ?)",
      ...[vault, owner, manifest ?? "", now],
    );
  }

  /** The owner needs it again. */
  drop(vault: string, owner: string, manifest: string): void {
    this.#sql.exec(
      "DELETE FROM releases WHERE vault = ? AND owner = ? AND manifest IN (?, '')",
      ...[vault, owner, manifest],
    );
  }

  dueAt(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT MIN(due_at) AS at FROM releases").one().at;
  }

  /** Try what is due. */
  async run(account: string, now: number): Promise<void> {
    const due = this.#sql
      .exec<{ vault: string; owner: string; manifest: string; attempts: number }>(
        "SELECT vault, owner, manifest, attempts FROM releases WHERE due_at <= ?",
        now,
      )
      .toArray();
    for (const release of due) await this.#try(account, release, now);
  }

  async #try(account: string, { vault, owner, manifest, attempts }: Release, now: number): Promise<void> {
    const at = [vault, owner, manifest];
    try {
      await vaultObject(this.#vaults, account, vault).release(owner, manifest === "" ? null : [manifest]);
      this.#sql.exec("DELETE FROM releases WHERE vault = ? AND owner = ? AND manifest = ?", ...at);
    } catch {
      const dueAt = now + backoffMs(FIRST_TRY_MS, attempts);
      this.#sql.exec(
        "UPDATE releases SET attempts = attempts + 1, due_at = ? WHERE vault = ? AND owner = ? AND manifest = ?",
        ...[dueAt, ...at],
      );
    }
  }
}
