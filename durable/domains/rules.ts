/** Who has a host name, by what its TXT records say. Pure. */
import { domainLimits, type DomainReason } from "../../sdk/contract/domain.ts";
import { backoffMs } from "../backoff.ts";
import type { ClaimRecord, Claimant } from "./record.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** A claim that is not proven is looked for so soon, and then twice as late each time, an hour at most. */
const FIRST_LOOK_MS = 30_000;
/** A verified one is looked after so often; one whose record is gone, or that the resolver says nothing of, each hour. */
const VERIFIED_LOOK_MS = DAY_MS;
const DOUBTFUL_LOOK_MS = HOUR_MS;
const PENDING_MS = domainLimits.pendingDays * DAY_MS;
const MISSING_MS = domainLimits.missingDays * DAY_MS;

/** Tokens that the TXT records have; null: the resolver gave no answer. */
export type Seen = readonly string[] | null;

export function newClaim(hostname: string, claimant: Claimant, token: string, now: number): ClaimRecord {
  return {
    ...{ ...claimant, hostname, token, pointing: null, createdAt: now, checkedAt: null, verifiedAt: null },
    ...open("pending", null, now),
  };
}

/** It is looked for, for a while. */
function open(
  state: "pending" | "unverified",
  reason: DomainReason | null,
  now: number,
): Pick<ClaimRecord, "state" | "reason" | "nextAt" | "attempts" | "missingSince" | "endsAt"> {
  return { state, reason, attempts: 0, nextAt: now + FIRST_LOOK_MS, missingSince: null, endsAt: now + PENDING_MS };
}

/** Somebody asks for it again. */
export function reopened(claim: ClaimRecord, now: number): ClaimRecord {
  return claim.state === "expired" ? { ...claim, ...open("pending", claim.reason, now) } : claim;
}

/**
 * The claims after a look at the TXT records. One has the name at most: whoever has it keeps it while its record is there.
 * @param claims those that it is about: the holder, those whose tokens were seen, and those that are to be looked at
 * @param asked the claim that somebody has looked for just now; among several that are proven it comes first
 */
export function judged(
  claims: readonly ClaimRecord[],
  seen: Seen,
  asked: string | null,
  now: number,
): readonly ClaimRecord[] {
  if (seen === null) return claims.map((claim) => (isLookedAt(claim, asked, now) ? unknown(claim, now) : claim));
  const isProven = ({ token }: ClaimRecord) => seen.includes(token);
  const holder = claims.find(({ state }) => state === "verified");
  const winner = holder && isProven(holder) ? holder : firstOf(claims.filter(isProven), asked);
  return claims.map((claim) => {
    if (claim === winner) return held(claim, now);
    if (claim === holder) return winner ? { ...claim, ...open("unverified", "taken_over", now) } : missed(claim, now);
    if (!isLookedAt(claim, asked, now)) return claim;
    return waiting(claim, isProven(claim) ? "held" : seen.length > 0 ? "txt_other" : "txt_missing", now);
  });
}

/** The one that is asked for, or the oldest; one that was given up comes back only when it is asked for. */
function firstOf(proven: readonly ClaimRecord[], asked: string | null): ClaimRecord | undefined {
  const first = proven.find(({ id }) => id === asked);
  return first ?? proven.filter(({ state }) => state !== "expired").toSorted((a, b) => a.createdAt - b.createdAt)[0];
}

function isLookedAt({ id, nextAt }: ClaimRecord, asked: string | null, now: number): boolean {
  return id === asked || (nextAt !== null && nextAt <= now);
}

function held(claim: ClaimRecord, now: number): ClaimRecord {
  return {
    ...{ ...claim, state: "verified", reason: null, checkedAt: now, nextAt: now + VERIFIED_LOOK_MS, attempts: 0 },
    ...{ verifiedAt: claim.state === "verified" ? claim.verifiedAt : now, missingSince: null, endsAt: null },
  };
}

/** Of the holder: its record is not there. */
function missed(claim: ClaimRecord, now: number): ClaimRecord {
  const missingSince = claim.missingSince ?? now;
  if (now - missingSince >= MISSING_MS) return { ...claim, ...open("unverified", "txt_missing", now), checkedAt: now };
  return { ...claim, reason: "txt_missing", checkedAt: now, missingSince, nextAt: now + DOUBTFUL_LOOK_MS };
}

/** Nothing is known: what was stays. */
function unknown(claim: ClaimRecord, now: number): ClaimRecord {
  if (claim.state !== "verified") return waiting(claim, "dns_failed", now);
  return { ...claim, reason: "dns_failed", nextAt: now + DOUBTFUL_LOOK_MS };
}

function waiting(claim: ClaimRecord, reason: DomainReason, now: number): ClaimRecord {
  const looked = { ...claim, reason, checkedAt: reason === "dns_failed" ? claim.checkedAt : now };
  if (claim.endsAt !== null && claim.endsAt <= now)
    return { ...looked, state: "expired", nextAt: null, endsAt: null, attempts: 0 };
  // Somebody who looks in between does not put off the next look.
  if (claim.nextAt === null || claim.nextAt > now) return looked;
  const attempts = claim.attempts + 1;
  const nextAt = Math.min(now + backoffMs(FIRST_LOOK_MS, attempts), claim.endsAt ?? Infinity);
  return { ...looked, attempts, nextAt };
}

/**
 * Whether a name leads where it is to lead; null: that can't be told.
 * @param of the name; null: the resolver gave no answer
 * @param to host names to lead to, and all their addresses
 */
export function pointsHere(
  of: { readonly cnames: readonly string[]; readonly addresses: readonly string[] } | null,
  to: { readonly names: readonly string[]; readonly addresses: readonly string[] },
): boolean | null {
  if (of === null) return null;
  if (to.names.some((name) => of.cnames.includes(name.toLowerCase()))) return true;
  if (of.cnames.length === 0 && of.addresses.length === 0) return false;
  if (to.addresses.length === 0) return null;
  return of.addresses.some((address) => to.addresses.includes(address));
}
