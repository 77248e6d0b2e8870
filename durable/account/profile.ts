/** An account's settings, its answers to repeated changes, and, in the operator's, what there is in the installation. */
import { DEFAULT_ACCOUNT, type AccountPlan, type Quotas, type UpdateAccount } from "../../sdk/contract/account.ts";
import { FIRST_EPOCH } from "../../sdk/contract/host-secrets.ts";
import { NO_QUOTAS } from "./quota.ts";

export interface Profile {
  readonly displayName: string;
  readonly plan: AccountPlan;
  readonly suspended: boolean;
  readonly quotas: Quotas;
  readonly flatMicrosPerMonth: number | null;
  readonly dailyLimitMicros: number | null;
  /** Unix milliseconds. */
  readonly createdAt: number;
  /** Since when there is no credit left, Unix milliseconds; null while there is. */
  readonly unpaidSince: number | null;
}

/** How long answers to changes with an Idempotency-Key are remembered, milliseconds. */
const ANSWERS_KEPT_MS = 86_400_000;

export class Profiles {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** null where the account was never opened; the operator's account is always there. */
  get(account: string): Profile | null {
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM profile WHERE one = 1").toArray();
    if (row) return JSON.parse(row.body) as Profile;
    return account === DEFAULT_ACCOUNT ? newProfile(account, 0) : null;
  }

  save(profile: Profile): void {
    this.#sql.exec("INSERT OR REPLACE INTO profile (one, body) VALUES (1, ?)", JSON.stringify(profile));
  }

  /** What was answered under an Idempotency-Key; `"other"` when that was for another request. */
  answer(key: string, fingerprint: string): string | null | "other" {
    const [row] = this.#sql
      .exec<{ fingerprint: string; answer: string }>("SELECT fingerprint, answer FROM answers WHERE key = ?", key)
      .toArray();
    if (!row) return null;
    return row.fingerprint === fingerprint ? row.answer : "other";
  }

  saveAnswer(key: string, fingerprint: string, answer: string, now: number): void {
    this.#sql.exec("DELETE FROM answers WHERE at < ?", now - ANSWERS_KEPT_MS);
    this.#sql.exec(
      "INSERT OR REPLACE INTO answers (key, fingerprint, answer, at) VALUES (?, ?, ?, ?)",
      ...[key, fingerprint, answer, now],
    );
  }

  registerAccount(name: string, now: number): void {
    this.#sql.exec("INSERT OR IGNORE INTO accounts (name, created_at) VALUES (?, ?)", name, now);
  }

  accounts(): { name: string; createdAt: string }[] {
    return this.#sql
      .exec<{ name: string; at: number }>("SELECT name, created_at AS at FROM accounts ORDER BY created_at, name")
      .toArray()
      .map(({ name, at }) => ({ name, createdAt: new Date(at).toISOString() }));
  }

  hostEpoch(hostId: string): number {
    const [row] = this.#sql
      .exec<{ epoch: number }>("SELECT epoch FROM host_epochs WHERE host_id = ?", hostId)
      .toArray();
    return row?.epoch ?? FIRST_EPOCH;
  }

  /** The first key of a host has the first epoch; each one made anew the next. */
  nextHostEpoch(hostId: string): number {
    return this.#sql
      .exec<{ epoch: number }>(
        `INSERT INTO host_epochs (host_id, epoch) VALUES (?, ?)
         ON CONFLICT (host_id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch`,
        hostId,
        FIRST_EPOCH,
      )
      .one().epoch;
  }
}

export function newProfile(account: string, now: number): Profile {
  return {
    displayName: account,
    plan: account === DEFAULT_ACCOUNT ? "unmetered" : "metered",
    suspended: false,
    quotas: NO_QUOTAS,
    flatMicrosPerMonth: null,
    dailyLimitMicros: null,
    createdAt: now,
    unpaidSince: null,
  };
}

/** A profile with what an update changes. */
export function updated(profile: Profile, input: UpdateAccount): Profile {
  return {
    ...profile,
    displayName: input.displayName ?? profile.displayName,
    plan: input.plan ?? profile.plan,
    suspended: input.suspended ?? profile.suspended,
    quotas: { ...profile.quotas, ...given(input.quotas) },
    flatMicrosPerMonth: input.flatMicrosPerMonth ?? profile.flatMicrosPerMonth,
    dailyLimitMicros: input.dailyLimitMicros === undefined ? profile.dailyLimitMicros : input.dailyLimitMicros,
  };
}

/** Only what an input names. */
function given(quotas: UpdateAccount["quotas"]): Partial<Quotas> {
  return Object.fromEntries(Object.entries(quotas ?? {}).filter(([, quota]) => quota !== undefined));
}
