/** The tables of an account's object, by what they hold; here the index of its sandboxes. No rules. */
import type { ListQuery, Sandbox } from "../../sdk/contract/sandbox.ts";
import { suffixOf } from "../../sdk/contract/uuid.ts";
import { hasSchema, migrate } from "../migrations.ts";
import type { Summary } from "./api.ts";
import { Books } from "./books.ts";
import { Keyring } from "./keyring.ts";
import { Profiles } from "./profile.ts";
import { Purse } from "./purse.ts";
import { Runs } from "./runs.ts";
import { migrations } from "./schema.ts";
import { Sessions } from "./sessions.ts";
import { Tokens } from "./tokens.ts";

/** How long a deleted sandbox's sequence number is kept, milliseconds: longer than a late summary can be under way. */
const TOMBSTONE_MS = 86_400_000;

/** Where a page begins: after this sandbox. */
export interface Position {
  readonly createdAt: string;
  readonly label: string;
}

export class AccountStore {
  readonly #sql: SqlStorage;
  readonly keyring: Keyring;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly profiles: Profiles;
  readonly runs: Runs;
  readonly purse: Purse;
  readonly books: Books;

  private constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
    migrate(storage, migrations);
    this.keyring = new Keyring(this.#sql);
    this.sessions = new Sessions(this.#sql);
    this.tokens = new Tokens(this.#sql);
    this.profiles = new Profiles(this.#sql);
    this.runs = new Runs(this.#sql);
    this.purse = new Purse(this.#sql);
    this.books = new Books(storage);
  }

  static existing(storage: DurableObjectStorage): AccountStore | null {
    return hasSchema(storage.sql) ? new AccountStore(storage) : null;
  }

  static create(storage: DurableObjectStorage): AccountStore {
    return new AccountStore(storage);
  }

  sequenceOf(label: string): number {
    const [row] = this.#sql
      .exec<{ sequence: number }>("SELECT sequence FROM sandboxes WHERE label = ?", label)
      .toArray();
    return row?.sequence ?? 0;
  }

  saveSummary({ label, sequence, sandbox, hostId, createdBy }: Summary, now: number): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO sandboxes
         (label, sequence, changed_at, change, created_at, state, name, body, host_id, key_id, suffix)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, (SELECT suffix FROM sandboxes WHERE label = ?)))`,
      label,
      sequence,
      now,
      this.lastChange() + 1,
      sandbox?.createdAt ?? null,
      sandbox?.state ?? null,
      // Of one that is gone, the name that it had: keys limited to a prefix learn that it is gone.
      sandbox ? sandbox.name : this.#nameOf(label),
      sandbox && JSON.stringify(sandbox),
      hostId,
      createdBy,
      sandbox && suffixOf(sandbox.id),
      label,
    );
    this.#sql.exec("DELETE FROM sandboxes WHERE body IS NULL AND changed_at < ?", now - TOMBSTONE_MS);
  }

  /** Up to `limit` sandboxes after a position, oldest first. */
  list(query: ListQuery, namePrefix: string | null, after: Position | null, limit: number): Sandbox[] {
    const where = ["body IS NOT NULL"];
    const values: (string | number)[] = [];
    if (query.state) {
      where.push("state IN (SELECT value FROM json_each(?))");
      values.push(JSON.stringify(query.state));
    }
    if (query.name !== undefined) {
      where.push("name = ?");
      values.push(query.name);
    }
    if (namePrefix !== null) {
      where.push("substr(name, 1, ?) = ?");
      values.push([...namePrefix].length, namePrefix);
    }
    // One bound list however many labels are asked for: all of them must be among the sandbox's.
    if (query.label) {
      where.push(
        `NOT EXISTS (SELECT 1 FROM json_each(?) AS want WHERE NOT EXISTS (
           SELECT 1 FROM json_each(body, '$.labels') AS has WHERE has.key || ':' || has.value = want.value))`,
      );
      values.push(JSON.stringify(query.label));
    }
    if (after) {
      where.push("(created_at, label) > (?, ?)");
      values.push(after.createdAt, after.label);
    }
    return this.#sql
      .exec<{ body: string }>(
        `SELECT body FROM sandboxes WHERE ${where.join(" AND ")} ORDER BY created_at, label LIMIT ?`,
        ...values,
        limit,
      )
      .toArray()
      .map((row) => JSON.parse(row.body) as Sandbox);
  }

  /** The number of the newest change of any sandbox; 0 before the first. */
  lastChange(): number {
    return this.#sql.exec<{ last: number | null }>("SELECT MAX(change) AS last FROM sandboxes").one().last ?? 0;
  }

  /** Labels whose sandbox changed after a change, the oldest change first, each as it is now; null: it is gone. */
  changesAfter(
    change: number,
    namePrefix: string | null,
    limit: number,
  ): { change: number; label: string; sandbox: Sandbox | null }[] {
    const prefix = namePrefix ?? "";
    return this.#sql
      .exec<{ change: number; label: string; body: string | null }>(
        `SELECT change, label, body FROM sandboxes
         WHERE change > ? AND (? = '' OR substr(name, 1, ?) = ?) ORDER BY change LIMIT ?`,
        ...[change, prefix, [...prefix].length, prefix, limit],
      )
      .toArray()
      .map(({ body, ...row }) => ({ ...row, sandbox: body === null ? null : (JSON.parse(body) as Sandbox) }));
  }

  #nameOf(label: string): string | null {
    const [row] = this.#sql
      .exec<{ name: string | null }>("SELECT name FROM sandboxes WHERE label = ?", label)
      .toArray();
    return row?.name ?? null;
  }

  /** One sandbox of the index. */
  get(label: string): Sandbox | null {
    const [row] = this.#sql
      .exec<{ body: string | null }>("SELECT body FROM sandboxes WHERE label = ?", label)
      .toArray();
    return row?.body ? (JSON.parse(row.body) as Sandbox) : null;
  }

  /** The id that ends so, also of one that was deleted not long ago. */
  idWith(suffix: string): string | null {
    const [row] = this.#sql.exec<{ label: string }>("SELECT label FROM sandboxes WHERE suffix = ?", suffix).toArray();
    return row ? `${row.label}~${suffix}` : null;
  }

  /** All sandboxes that are there. */
  *sandboxes(): Generator<Sandbox> {
    for (const { body } of this.#sql.exec<{ body: string }>("SELECT body FROM sandboxes WHERE body IS NOT NULL"))
      yield JSON.parse(body) as Sandbox;
  }

  /** Since when a sandbox's existence is counted on the plan `flat`. */
  present(): { sandboxId: string; since: number }[] {
    return this.#sql
      .exec<{ sandboxId: string; since: number }>("SELECT sandbox_id AS sandboxId, since FROM present")
      .toArray();
  }

  presentSince(sandboxId: string): number | null {
    const [row] = this.#sql
      .exec<{ since: number }>("SELECT since FROM present WHERE sandbox_id = ?", sandboxId)
      .toArray();
    return row?.since ?? null;
  }

  /** null: it is not counted any more. */
  setPresent(sandboxId: string, since: number | null): void {
    if (since === null) this.#sql.exec("DELETE FROM present WHERE sandbox_id = ?", sandboxId);
    else this.#sql.exec("INSERT OR REPLACE INTO present (sandbox_id, since) VALUES (?, ?)", sandboxId, since);
  }
}
