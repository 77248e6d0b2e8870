/** Domains of a sandbox: host names of its owner's at which it answers, once it is proven whose they are. */
import { z } from "zod";
import { AGENT_PORT } from "./guest-limits.ts";
import { NO_POLICY, parseHostname, type HostnamePolicy } from "./hostname.ts";
import { newId, SandboxId } from "./names.ts";

export * from "./hostname.ts";

export const domainLimits = {
  /** Domains of one sandbox, and of all sandboxes of an account. */
  perSandbox: 20,
  perAccount: 200,
  /** How long a domain is looked for in the background, days. */
  pendingDays: 7,
  /** How long the TXT record of a verified domain may be gone, days. */
  missingDays: 3,
} as const;

/** Names one claim on a host name, for one sandbox. */
export const DomainId = z.string().regex(/^dom-[0-9a-z]{20}$/, "a domain id such as dom-...");
export function domainId(): Promise<string> {
  return newId("dom", "domain", "", null);
}

const Time = z.iso.datetime();
const Port = z
  .int()
  .min(1)
  .max(65_535)
  .refine((port) => port !== AGENT_PORT, "not the port of the guest agent");

const domainName = (policy: HostnamePolicy) =>
  z.string().transform((text, context) => {
    const parsed = parseHostname(text, policy);
    if (parsed.ok) return parsed.hostname;
    for (const message of parsed.faults) context.addIssue({ code: "custom", message });
    return z.NEVER;
  });

/** `POST /v1/sandboxes/{id}/domains`, at an installation that keeps some names for itself. */
export const createDomain = (policy: HostnamePolicy) =>
  z.strictObject({
    /** A host name, such as `shop.example.com`. Letters beyond ASCII are turned into their IDNA form. */
    domain: domainName(policy),
    /** Of the program; 8080 unless given. */
    port: Port.optional(),
  });
export const CreateDomain = createDomain(NO_POLICY).meta({ id: "CreateDomain" });
export type CreateDomain = z.infer<typeof CreateDomain>;

/** A host name in a path or a query, in any writing. */
export const DomainName = domainName(NO_POLICY);

export const UpdateDomain = z
  .strictObject({
    /** Of the program. */
    port: Port,
  })
  .meta({ id: "UpdateDomain" });
export type UpdateDomain = z.infer<typeof UpdateDomain>;

/**
 * `pending`: its TXT record is waited for. `verified`: requests for it reach the sandbox. `unverified`: it was verified,
 * and its TXT record is gone, or another sandbox has proven it. `expired`: it is not looked for any more, until `:verify`.
 */
export const domainStates = ["pending", "verified", "unverified", "expired"] as const;
export const DomainState = z.enum(domainStates);
export type DomainState = z.infer<typeof DomainState>;

/**
 * What the last look at the TXT record came to. `txt_missing`: there is none. `txt_other`: there are some, for other
 * sandboxes. `held`: it is there, but another sandbox has the domain, and its TXT record is there as well.
 * `taken_over`: another sandbox has it now. `dns_failed`: the resolver gave no answer, so nothing is known.
 */
export const domainReasons = ["txt_missing", "txt_other", "held", "taken_over", "dns_failed"] as const;
export const DomainReason = z.enum(domainReasons);
export type DomainReason = z.infer<typeof DomainReason>;

export const DnsRecord = z
  .object({ type: z.enum(["TXT", "CNAME", "A", "AAAA"]), name: z.string(), value: z.string() })
  .meta({ id: "DnsRecord" });
export type DnsRecord = z.infer<typeof DnsRecord>;

/** Where the name itself leads, as a help: it is no condition. */
export const DomainPointing = z
  .object({
    cnames: z.array(z.string()),
    addresses: z.array(z.string()),
    /** Whether that is here; null where it can't be told, as behind another proxy without a public address. */
    pointsHere: z.boolean().nullable(),
    checkedAt: Time,
  })
  .meta({ id: "DomainPointing" });
export type DomainPointing = z.infer<typeof DomainPointing>;

export const Domain = z
  .object({
    id: DomainId,
    kind: z.literal("domain"),
    sandboxId: SandboxId,
    /** As it is stored: lower-case, IDNA. */
    domain: z.string(),
    port: z.int(),
    state: DomainState,
    reason: DomainReason.nullable(),
    /** To set at whoever serves the domain's DNS: the proof (TXT), and where the name is to point. */
    records: z.array(DnsRecord),
    url: z.string(),
    /** As last seen by `:verify`; null before the first. */
    dns: DomainPointing.nullable(),
    /** The last look at the TXT record, and the next that is made in the background. */
    checkedAt: Time.nullable(),
    nextCheckAt: Time.nullable(),
    verifiedAt: Time.nullable(),
    /** Of a verified one: since when its TXT record is gone. After 3 days it is `unverified`. */
    missingSince: Time.nullable(),
    /** When a `pending` or `unverified` one is given up. */
    expiresAt: Time.nullable(),
    createdAt: Time,
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Domain" });
export type Domain = z.infer<typeof Domain>;

export const DomainList = z.object({ data: z.array(Domain) }).meta({ id: "DomainList" });
export type DomainList = z.infer<typeof DomainList>;

export const DeletedDomain = z
  .object({
    sandboxId: SandboxId,
    domain: z.string(),
    deleted: z.literal(true),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "DeletedDomain" });
export type DeletedDomain = z.infer<typeof DeletedDomain>;
