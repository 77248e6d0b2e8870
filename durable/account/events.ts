/** Who listens for events of the account, and its own: credit that ends. */
import type { Account } from "../../sdk/contract/account.ts";
import type { Draft } from "../events/draft.ts";
import { EventLog } from "../events/log.ts";
import { outboxObject } from "../outbox/api.ts";
import { dayOf } from "./ledger.ts";
import { moneyNotices } from "./notices.ts";

export class AccountEvents {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly #log: EventLog;

  constructor(ctx: DurableObjectState, env: Env) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.#log = new EventLog(this.#sql, (events) => outboxObject(env.OUTBOX, ctx.id.name ?? "").take(events));
  }

  /** Unix milliseconds; null: nobody does. */
  listensSince(): number | null {
    const [row] = this.#sql.exec<{ since: number | null }>("SELECT since FROM listeners").toArray();
    return row?.since ?? null;
  }

  setListening(on: boolean, now: number): void {
    const since = on ? (this.listensSince() ?? now) : null;
    this.#sql.exec("INSERT OR REPLACE INTO listeners VALUES (1, ?)", since);
    this.#log.listen(since);
  }

  /** What the account's money has come to; each thing is an event when it begins, once a day at most. */
  note(account: Account, now: number): void {
    const drafts = moneyDrafts(account, now);
    const told = new Set(
      this.#sql
        .exec<{ kind: string }>("SELECT kind FROM told_notices")
        .toArray()
        .map(({ kind }) => kind),
    );
    const fresh = drafts.filter(({ type }) => !told.has(type));
    for (const kind of told)
      if (!drafts.some(({ type }) => type === kind)) this.#sql.exec("DELETE FROM told_notices WHERE kind = ?", kind);
    for (const { type } of fresh) this.#sql.exec("INSERT INTO told_notices VALUES (?)", type);
    this.#log.append({ subject: account.name, sandbox: null }, fresh, now);
    if (this.#log.dueAt() !== null) this.#ctx.waitUntil(this.#log.handOn());
  }

  dueAt(): number | null {
    return this.#log.dueAt();
  }
}

function moneyDrafts(account: Account, now: number): Draft[] {
  const availableMicros = account.availableMicros ?? 0;
  return moneyNotices(account, now).map(({ kind, at }) => {
    const key = `${kind} ${dayOf(now)}`;
    return kind === "credit_gone"
      ? { type: "account.credit_gone", data: { availableMicros, deletesAt: at }, key }
      : { type: "account.credit_low", data: { availableMicros, endsAt: at }, key };
  });
}
