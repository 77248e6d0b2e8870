/** What a key may do, and which keys it may make. Pure. */
import { iso, isoOrNull } from "../time.ts";
import { keyAccesses, parseApiKey, type Key, type KeyAccess } from "../../sdk/contract/account.ts";

/** A key as it is kept: its hash stands for it. Times in Unix milliseconds. */
export interface StoredKey {
  readonly id: string;
  readonly hash: string;
  readonly name: string;
  readonly access: KeyAccess;
  readonly namePrefix: string | null;
  readonly maxSandboxes: number | null;
  readonly dailyLimitMicros: number | null;
  readonly memberId: string | null;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

/** A full key without limits, and without a name yet. */
export function plainKey(key: string, hash: string, now: number): StoredKey {
  return {
    id: parseApiKey(key)?.keyId ?? "",
    hash,
    name: "",
    access: "full",
    namePrefix: null,
    maxSandboxes: null,
    dailyLimitMicros: null,
    memberId: null,
    createdAt: now,
    expiresAt: null,
    revokedAt: null,
  };
}

/** What a key opens: what the edge needs to know of it. */
export type Rights = Pick<StoredKey, "access" | "namePrefix" | "expiresAt">;

export function isLive(key: Pick<StoredKey, "expiresAt" | "revokedAt">, now: number): boolean {
  return key.revokedAt === null && (key.expiresAt === null || key.expiresAt > now);
}

/** Kinds of things that a request may want to do. */
export type Deed = "read" | "read_money" | "use_sandboxes" | "administer";

const deeds: Readonly<Record<KeyAccess, readonly Deed[]>> = {
  full: ["read", "read_money", "use_sandboxes", "administer"],
  sandboxes: ["read", "use_sandboxes"],
  read: ["read", "read_money"],
  billing: ["read_money"],
};

export function may(access: KeyAccess, deed: Deed): boolean {
  return deeds[access].includes(deed);
}

/** The access that a deed needs at least, for error texts. */
export function accessFor(deed: Deed): KeyAccess[] {
  return keyAccesses.filter((access) => may(access, deed));
}

/** Whether an access opens nothing that the other does not. */
export function isWithin(access: KeyAccess, other: KeyAccess): boolean {
  return deeds[access].every((deed) => may(other, deed));
}

/** What makes a new key more than the one that makes it; empty when nothing does. */
export function excess(maker: StoredKey, made: Omit<StoredKey, "id" | "hash">): string[] {
  const more: string[] = [];
  const ofMaker: readonly Deed[] = deeds[maker.access];
  if (deeds[made.access].some((deed) => !ofMaker.includes(deed))) more.push("access");
  if (maker.namePrefix !== null && !made.namePrefix?.startsWith(maker.namePrefix)) more.push("namePrefix");
  for (const limit of ["maxSandboxes", "dailyLimitMicros"] as const)
    if (maker[limit] !== null && (made[limit] === null || made[limit] > maker[limit])) more.push(limit);
  if (maker.expiresAt !== null && (made.expiresAt === null || made.expiresAt > maker.expiresAt)) more.push("expiresAt");
  return more;
}

export function toKey(key: StoredKey, spentTodayMicros: number): Key {
  const { id, name, access, namePrefix, maxSandboxes, dailyLimitMicros, memberId } = key;
  return {
    ...{ id, name, access, namePrefix, maxSandboxes, dailyLimitMicros, spentTodayMicros, memberId },
    createdAt: iso(key.createdAt),
    expiresAt: isoOrNull(key.expiresAt),
    revokedAt: isoOrNull(key.revokedAt),
  };
}
