/** Accounts, their members and keys, and what they may use. */
import { z } from "zod";
import { randomText } from "./random.ts";

/** The account that URLs without an account suffix mean. It is the operator's: its full keys look after the others. */
export const DEFAULT_ACCOUNT = "default";

export const AccountName = z.string().regex(/^[a-z][a-z0-9]{0,13}$/, "1-14 of a-z 0-9, first a letter");

/** `rouse_<account>_<key id>_<secret>`: the account is in the key, so checking one asks just that account's object. */
const KEY = /^rouse_([a-z][a-z0-9]{0,13})_([a-z0-9]{12})_([A-Za-z0-9]{32})$/;

export function parseApiKey(key: string): { account: string; keyId: string } | null {
  const match = KEY.exec(key);
  return match?.[1] && match[2] ? { account: match[1], keyId: match[2] } : null;
}

export function newApiKey(account: string): string {
  return `rouse_${account}_${randomText(LOWER, 12)}_${randomText(LETTERS, 32)}`;
}

/**
 * `rouses_<account>_<secret>`: what a browser that is signed in has in its cookie. It is no key: it counts only there,
 * and only with what shows that a page of the dashboard asks.
 */
const SESSION = /^rouses_([a-z][a-z0-9]{0,13})_[A-Za-z0-9]{43}$/;

export function sessionAccount(token: string): string | null {
  return SESSION.exec(token)?.[1] ?? null;
}

export function newSessionToken(account: string): string {
  return `rouses_${account}_${randomText(LETTERS, 43)}`;
}

/** A name for an account that nobody chose one for. */
export function newAccountName(): string {
  return `t${randomText(LOWER, 10)}`;
}

const LOWER = "abcdefghijklmnopqrstuvwxyz0123456789";
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Money as whole microdollars. */
export const Micros = z.int().min(0).max(1_000_000_000_000_000);
const Time = z.iso.datetime();
/** A text that people read: no control characters. */
export const Text = z
  .string()
  .min(1)
  .max(128)
  // oxlint-disable-next-line no-control-regex -- control characters are just what this refuses
  .refine((text) => !/[\u0000-\u001f\u007f]/.test(text), "no control characters");

export const memberRoles = ["owner", "admin", "developer", "billing"] as const;
/** Of the API. Before 1.0 the second number grows when clients have to change. */
export const API_VERSION = "0.2.0";

/** `owner` and `admin` look after keys and members, `developer` uses sandboxes, `billing` reads usage. */
export const MemberRole = z.enum(memberRoles);
export type MemberRole = z.infer<typeof MemberRole>;

export const keyAccesses = ["full", "read", "sandboxes", "billing"] as const;
/**
 * `full`: everything in the account. `sandboxes`: use sandboxes, but neither keys nor members nor money. `read`: read
 * all, change nothing, reach no machine. `billing`: read usage and invoices.
 */
export const KeyAccess = z.enum(keyAccesses);
export type KeyAccess = z.infer<typeof KeyAccess>;

/** What a key is limited to; an absent limit does not hold. */
export const KeyLimits = z.strictObject({
  access: KeyAccess.optional(),
  /** It sees and makes only sandboxes whose name begins so. */
  namePrefix: z.string().min(1).max(64).optional(),
  /** Sandboxes made with it that may exist at once. */
  maxSandboxes: z.int().min(1).max(1_000_000).optional(),
  /** When it ends. */
  expiresAt: Time.optional(),
  /** What sandboxes made with it may cost in a day (UTC), microdollars. */
  dailyLimitMicros: Micros.optional(),
});

/** `POST /v1/keys`. A key makes only keys that may do no more than itself. */
export const CreateKey = KeyLimits.extend({
  name: Text.optional(),
  /** Seconds until it ends, instead of `expiresAt`. */
  ttlSeconds: z
    .int()
    .min(60)
    .max(10 * 365 * 86_400)
    .optional(),
  /** The member who holds it. */
  memberId: z.string().max(64).optional(),
})
  .refine((body) => body.expiresAt === undefined || body.ttlSeconds === undefined, {
    message: "expiresAt or ttlSeconds, not both",
    path: ["expiresAt"],
  })
  .meta({ id: "CreateKey" });
export type CreateKey = z.infer<typeof CreateKey>;

/** A key without its secret. */
export const Key = z
  .object({
    id: z.string(),
    name: z.string(),
    access: KeyAccess,
    namePrefix: z.string().nullable(),
    maxSandboxes: z.int().nullable(),
    dailyLimitMicros: z.int().nullable(),
    /** Cost of the day under way (UTC) of the sandboxes made with it. */
    spentTodayMicros: z.int(),
    memberId: z.string().nullable(),
    createdAt: Time,
    expiresAt: Time.nullable(),
    revokedAt: Time.nullable(),
  })
  .meta({ id: "Key" });
export type Key = z.infer<typeof Key>;

/** Answer to a creation: the only time that the key itself is shown. */
export const NewKey = Key.extend({ key: z.string() }).meta({ id: "NewKey" });
export type NewKey = z.infer<typeof NewKey>;

/** `POST /v1/members`. */
export const CreateMember = z
  .strictObject({ name: Text, role: MemberRole, email: z.email().max(254).optional() })
  .meta({ id: "CreateMember" });
export type CreateMember = z.infer<typeof CreateMember>;

export const Member = z
  .object({ id: z.string(), name: z.string(), email: z.string().nullable(), role: MemberRole, createdAt: Time })
  .meta({ id: "Member" });
export type Member = z.infer<typeof Member>;

/** The most access that a key of a member with the role may have. */
export function accessOfRole(role: MemberRole): KeyAccess {
  return role === "owner" || role === "admin" ? "full" : role === "developer" ? "sandboxes" : "billing";
}

export const plans = ["unmetered", "metered", "flat", "trial"] as const;
/**
 * `unmetered`: usage is shown and costs nothing. `metered`: prepaid, by what is used. `flat`: prepaid, a price per
 * sandbox and month. `trial`: metered against the credit of the trial, and what sleeps costs nothing.
 */
export const AccountPlan = z.enum(plans);
export type AccountPlan = z.infer<typeof AccountPlan>;

const Quota = z.int().min(0).max(10_000_000).nullable();
/** null: no limit. */
export const Quotas = z.strictObject({
  /** Sandboxes that run, or are about to. */
  running: Quota,
  vcpus: Quota,
  memoryMiB: z.int().min(0).max(1_000_000_000).nullable(),
  /** Sandboxes that exist. */
  kept: Quota,
  /** Creations in a day (UTC). */
  createdPerDay: Quota,
});
export type Quotas = z.infer<typeof Quotas>;

const AccountSettings = {
  displayName: Text.optional(),
  plan: AccountPlan.optional(),
  /** Quotas to change; the others stay. */
  quotas: Quotas.partial().optional(),
  /** Price of a sandbox for 30 days on the plan `flat`, microdollars. */
  flatMicrosPerMonth: Micros.optional(),
  /** What the account may cost in a day (UTC); null for no limit. */
  dailyLimitMicros: Micros.nullable().optional(),
  /** Everything is put to sleep, and nothing wakes. */
  suspended: z.boolean().optional(),
};

/** `POST /v1/accounts`: operator only. */
export const CreateAccount = z
  .strictObject({ name: AccountName, ...AccountSettings, creditMicros: Micros.optional() })
  .meta({ id: "CreateAccount" });
export type CreateAccount = z.infer<typeof CreateAccount>;

/** `POST /v1/accounts/{account}:update`: operator only. */
export const UpdateAccount = z.strictObject(AccountSettings).meta({ id: "UpdateAccount" });
export type UpdateAccount = z.infer<typeof UpdateAccount>;

/** `POST /v1/accounts/{account}:credit`: operator only. Books prepaid credit, once per Idempotency-Key. */
export const AddCredit = z
  .strictObject({ micros: z.int().min(1).max(1_000_000_000_000), note: Text.optional() })
  .meta({ id: "AddCredit" });
export type AddCredit = z.infer<typeof AddCredit>;

/** What an account has and uses. Money in microdollars. */
export const Account = z
  .object({
    name: z.string(),
    displayName: z.string(),
    plan: AccountPlan,
    suspended: z.boolean(),
    quotas: Quotas,
    /** What counts towards the quotas now. */
    used: z.object({
      running: z.int(),
      vcpus: z.int(),
      memoryMiB: z.int(),
      kept: z.int(),
      createdToday: z.int(),
    }),
    flatMicrosPerMonth: z.int().nullable(),
    dailyLimitMicros: z.int().nullable(),
    spentTodayMicros: z.int(),
    /** All credit so far. */
    creditedMicros: z.int(),
    spentMicros: z.int(),
    /** Set aside for what runs. */
    heldMicros: z.int(),
    /** Credit that is neither spent nor held; null on a plan without credit. */
    availableMicros: z.int().nullable(),
    /** Since when there is no credit left, and when what sleeps is deleted for it. */
    unpaidSince: Time.nullable(),
    unpaidDeletesAt: Time.nullable(),
    createdAt: Time,
  })
  .meta({ id: "Account" });
export type Account = z.infer<typeof Account>;

/** Answer to a creation, with the account's first key. */
export const NewAccount = Account.extend({ key: z.string() }).meta({ id: "NewAccount" });
export type NewAccount = z.infer<typeof NewAccount>;

export const AccountList = z.object({ data: z.array(z.object({ name: z.string(), createdAt: Time })) });

/** Something that its owner should know before it happens. */
export const Notice = z
  .object({
    kind: z.enum(["retention_ends", "credit_low", "credit_gone", "key_expires", "endpoint_disabled"]),
    message: z.string(),
    /** When it happens; null when it has. */
    at: Time.nullable(),
    sandboxId: z.string().nullable(),
    name: z.string().nullable(),
  })
  .meta({ id: "Notice" });
export type Notice = z.infer<typeof Notice>;

/** `GET /v1/me`. */
export const Me = z
  .object({
    orgId: z.string(),
    principalId: z.string(),
    credentialId: z.string().nullable(),
    apiVersion: z.string(),
    orgName: z.string(),
    role: MemberRole,
    access: KeyAccess.optional(),
    namePrefix: z.string().nullable().optional(),
  })
  .meta({ id: "Me" });

/** `POST /oauth/device_authorization` (RFC 8628). Form or JSON. */
export const DeviceAuthorization = z.object({
  client_id: z.string().min(1).max(128).optional(),
  /** What the person is shown: which program on which machine asks. */
  client_name: Text.optional(),
  /** `trial`: a trial account will do, where the installation offers them. */
  scope: z.string().max(256).optional(),
});
