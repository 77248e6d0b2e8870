/** What the people of an account should know before it happens. Pure: worked out from what is there. */
import type { Account, Notice } from "../../sdk/contract/account.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import { UNPAID_KEPT_MS } from "./funds.ts";
import type { StoredKey } from "./key.ts";

const DAY_MS = 86_400_000;
/** A deletion is announced so long before, or at half of a shorter retention. */
const RETENTION_AHEAD_MS = 7 * DAY_MS;
const KEY_AHEAD_MS = 7 * DAY_MS;
/** Credit that lasts for less than so many days like this one is low. */
const LOW_DAYS = 3;

export function noticesOf(
  account: Account,
  sandboxes: Iterable<Sandbox>,
  keys: readonly StoredKey[],
  now: number,
): Notice[] {
  const notices: Notice[] = [...moneyNotices(account, now)];
  for (const { id, name, pausedExpiresAt, retentionDays } of sandboxes) {
    if (pausedExpiresAt === null) continue;
    const ahead = Math.min(RETENTION_AHEAD_MS, (retentionDays * DAY_MS) / 2);
    if (Date.parse(pausedExpiresAt) - now > ahead) continue;
    const message = `${name ?? id} sleeps unused and is deleted then; any use, or :retention, keeps it.`;
    notices.push({ kind: "retention_ends", message, at: pausedExpiresAt, sandboxId: id, name });
  }
  for (const { name, expiresAt, revokedAt } of keys) {
    if (expiresAt === null || revokedAt !== null || expiresAt <= now || expiresAt - now > KEY_AHEAD_MS) continue;
    const at = new Date(expiresAt).toISOString();
    notices.push({ kind: "key_expires", message: `The key "${name}" ends.`, at, sandboxId: null, name: null });
  }
  return notices.toSorted((a, b) => (a.at ?? "").localeCompare(b.at ?? ""));
}

/** Those of the account's money. */
export function moneyNotices(account: Account, now: number): Notice[] {
  const { availableMicros, spentTodayMicros, unpaidSince } = account;
  const about = { sandboxId: null, name: null };
  if (unpaidSince !== null) {
    const at = new Date(Date.parse(unpaidSince) + UNPAID_KEPT_MS).toISOString();
    const message =
      "There is no credit left: nothing wakes, and what sleeps is deleted then, snapshots too, unless credit is added.";
    return [{ kind: "credit_gone", message, at, ...about }];
  }
  if (availableMicros === null || spentTodayMicros === 0 || availableMicros > spentTodayMicros * LOW_DAYS) return [];
  const at = new Date(now + (availableMicros / spentTodayMicros) * DAY_MS).toISOString();
  return [{ kind: "credit_low", message: "At today's pace the credit is used up then.", at, ...about }];
}
