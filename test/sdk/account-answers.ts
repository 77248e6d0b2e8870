/** Accounts, keys and usage as the API shows them. */
import type { Account, Key, Member } from "../../sdk/contract/account.ts";
import type { Usage } from "../../sdk/contract/usage.ts";

const createdAt = "2031-01-02T03:00:00.000Z";

export function accountAnswer(changes: Partial<Account> = {}): Account {
  return {
    name: "acme",
    displayName: "acme",
    plan: "metered",
    suspended: false,
    quotas: { running: 4, vcpus: null, memoryMiB: null, kept: null, createdPerDay: null },
    used: { running: 1, vcpus: 2, memoryMiB: 2048, kept: 3, createdToday: 1 },
    flatMicrosPerMonth: null,
    dailyLimitMicros: null,
    spentTodayMicros: 10_833,
    creditedMicros: 50_000_000,
    spentMicros: 1_500_000,
    heldMicros: 10_833,
    availableMicros: 48_489_167,
    unpaidSince: null,
    unpaidDeletesAt: null,
    createdAt,
    ...changes,
  };
}

export function keyAnswer(changes: Partial<Key> = {}): Key {
  return {
    id: "abcdefghijkl",
    name: "ci",
    access: "sandboxes",
    namePrefix: null,
    maxSandboxes: null,
    dailyLimitMicros: null,
    spentTodayMicros: 0,
    memberId: null,
    createdAt,
    expiresAt: null,
    revokedAt: null,
    ...changes,
  };
}

/** Form of a key that no installation knows. */
export const NEW_KEY = `rouse_acme_abcdefghijkl_${"B".repeat(32)}`;

export const MEMBER: Member = { id: "mb-1", name: "Ada", email: null, role: "developer", createdAt };

export function usageAnswer(changes: Partial<Usage> = {}): Usage {
  return {
    month: "2026-11",
    lines: [],
    totalMicros: 0,
    orgId: "acme",
    unit: "microdollars",
    credited: "0",
    spent: "0",
    held: "0",
    expired: "0",
    available: "0",
    takenBack: "0",
    trial: null,
    resources: [],
    ...changes,
  };
}
