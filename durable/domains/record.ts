/** Claims on a host name as they are stored, and as the API shows them. Pure but for random numbers. */
import type { DnsRecord, Domain, DomainPointing, DomainReason, DomainState } from "../../sdk/contract/domain.ts";
import { CHALLENGE_LABEL } from "../../sdk/contract/hostname.ts";
import { randomText } from "../../sdk/contract/random.ts";
import { namedHost } from "../named-url.ts";
import { iso, isoOrNull } from "../time.ts";

const TOKEN_PREFIX = "rouse-verify=";
/** One case only: panels of DNS providers change it. */
const TOKEN_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";
const TOKEN_LENGTH = 40;

/** A sandbox that is to answer at a host name. */
export interface Claimant {
  /** Of the claim. */
  readonly id: string;
  readonly account: string;
  readonly label: string;
  readonly sandboxId: string;
  readonly port: number;
}

export interface ClaimRecord extends Claimant {
  readonly hostname: string;
  /** What nobody else's TXT record has. */
  readonly token: string;
  readonly state: DomainState;
  readonly reason: DomainReason | null;
  readonly pointing: DomainPointing | null;
  /** Unix milliseconds, as all below. */
  readonly createdAt: number;
  readonly checkedAt: number | null;
  /** null: it is not looked for any more. */
  readonly nextAt: number | null;
  /** Looks in the background since it was claimed, or lost. */
  readonly attempts: number;
  readonly verifiedAt: number | null;
  readonly missingSince: number | null;
  readonly endsAt: number | null;
}

export function newToken(): string {
  return randomText(TOKEN_LETTERS, TOKEN_LENGTH);
}

export function challengeName(hostname: string): string {
  return `${CHALLENGE_LABEL}.${hostname}`;
}

/** The tokens among what the TXT records of a name say; some panels store the quotes too. */
export function tokensIn(texts: readonly string[]): string[] {
  return texts.flatMap((text) => {
    const plain = text
      .trim()
      .replace(/^"(.*)"$/, "$1")
      .toLowerCase();
    return plain.startsWith(TOKEN_PREFIX) ? [plain.slice(TOKEN_PREFIX.length).trim()] : [];
  });
}

/** What of an installation's settings domains need. */
export interface Place {
  readonly scheme: string;
  /** Named hosts are below it; with its port. */
  readonly domain: string;
  /** Host names or addresses to point to, with commas between; undefined: the sandbox's named host. */
  readonly target: string | undefined;
}

/** Where a domain's name is to point. */
export function pointersOf({ hostname: name, ...of }: ClaimRecord, place: Place): DnsRecord[] {
  const set = (place.target ?? "").split(",").flatMap((one) => (one.trim() === "" ? [] : [one.trim()]));
  const targets = set.length > 0 ? set : [namedHost(place, of, of.port).replace(/:\d+$/, "")];
  return targets.map((value) => ({ type: typeOf(value), name, value }));
}

function typeOf(target: string): "A" | "AAAA" | "CNAME" {
  if (target.includes(":")) return "AAAA";
  return /^\d+(?:\.\d+){3}$/.test(target) ? "A" : "CNAME";
}

export function toDomain(record: ClaimRecord, place: Place): Domain {
  const { id, sandboxId, hostname, port, token, state, reason, pointing } = record;
  const proof = { type: "TXT", name: challengeName(hostname), value: `${TOKEN_PREFIX}${token}` } as const;
  const ownPort = /:\d+$/.exec(place.domain)?.[0] ?? "";
  return {
    ...{ id, kind: "domain", sandboxId, domain: hostname, port, state, reason },
    records: [proof, ...pointersOf(record, place)],
    url: `${place.scheme}://${hostname}${ownPort}/`,
    dns: pointing,
    checkedAt: isoOrNull(record.checkedAt),
    nextCheckAt: isoOrNull(record.nextAt),
    verifiedAt: isoOrNull(record.verifiedAt),
    missingSince: isoOrNull(record.missingSince),
    expiresAt: isoOrNull(record.endsAt),
    createdAt: iso(record.createdAt),
  };
}
