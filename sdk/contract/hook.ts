/** The webhook inbox of a sandbox: URLs that take webhooks while it sleeps, and what became of each event. */
import { z } from "zod";
import { AGENT_PORT } from "./guest-limits.ts";
import { HookEventId, HookId, SandboxId } from "./names.ts";

export const hookLimits = {
  /** Hooks of one sandbox. */
  perSandbox: 20,
  /** Largest body of an event unless the hook says otherwise, and at most, bytes. */
  maxBytesDefault: 1_048_576,
  maxBytesMax: 26_214_400,
  /** Time that the program has for one try, seconds. */
  timeoutSecondsDefault: 60,
  timeoutSecondsMax: 300,
  /** How long a secret that was replaced still counts, seconds. */
  overlapSecondsDefault: 86_400,
  overlapSecondsMax: 604_800,
  /** Events, and bytes of them, that may wait in one sandbox's inbox; then senders are told `inbox_full`. */
  waitingMax: 10_000,
  waitingBytesMax: 1_073_741_824,
  filtersMax: 50,
  /** How long an answer of the program is waited for in `sync` mode, milliseconds. */
  syncMs: 25_000,
  /** Longest answer of a program that is passed on or kept, bytes. */
  answerBytesMax: 1_048_576,
  /** Longest body of a request with `Prefer: respond-async`, bytes. */
  requestBytesMax: 1_048_576,
  listMax: 100,
} as const;

/** Who sends. `standard` is Standard Webhooks; `bearer` a shared secret in `Authorization`; `none` trusts the URL alone. */
export const hookProviders = [
  "standard",
  "github",
  "stripe",
  "slack",
  "telegram",
  "discord",
  "bearer",
  "none",
] as const;
export const HookProvider = z.enum(hookProviders);
export type HookProvider = z.infer<typeof HookProvider>;

/** Providers whose secret the receiver chooses: one is made unless it is given. The others' comes from the provider. */
export const ownSecretProviders: readonly HookProvider[] = ["standard", "github", "telegram", "bearer"];

/** `async`: acknowledged once it is stored. `sync`: the sender gets the program's answer, if that comes soon enough. */
export const HookMode = z.enum(["async", "sync"]);
export type HookMode = z.infer<typeof HookMode>;

/**
 * `waiting`: to be delivered, or being delivered. `dead`: given up; it can be replayed. `ignored`: no filter lets it
 * pass; its body is not kept.
 */
export const hookEventStates = ["waiting", "delivered", "dead", "ignored"] as const;
export const HookEventState = z.enum(hookEventStates);
export type HookEventState = z.infer<typeof HookEventState>;

const Time = z.iso.datetime();
const Name = z.string().min(1).max(128);
const Port = z
  .int()
  .min(1)
  .max(65_535)
  .refine((port) => port !== AGENT_PORT, "not the port of the guest agent");
const Path = z
  .string()
  .max(1024)
  .refine((path) => isPlainPath(path), "a path that begins with / and is written as URLs write it, without ..");

/** What a URL makes nothing else of. */
function isPlainPath(path: string): boolean {
  if (!path.startsWith("/") || path.startsWith("//")) return false;
  const url = new URL(path, "http://sandbox");
  return url.pathname + url.search === path;
}
const Secret = z.string().min(1).max(1024);
const Filters = z
  .array(
    z
      .string()
      .min(1)
      .max(128)
      .regex(/^[!-~]+$/, "printable ASCII without spaces"),
  )
  .max(hookLimits.filtersMax);

const settings = {
  /** Port of the program in the sandbox; its default port, 8080, unless given. */
  port: Port.optional(),
  /** Path there; `/` unless given. A query of the sender is added. */
  path: Path.optional(),
  /** `async` unless given. */
  mode: HookMode.optional(),
  /** Event types that are delivered, such as `pull_request`, which takes in `pull_request.opened`; all unless given. */
  filters: Filters.optional(),
  /** Largest body, bytes; 1 MiB unless given, at most 25 MiB. */
  maxBytes: z.int().min(1).max(hookLimits.maxBytesMax).optional(),
  /** Time that the program has for one try, seconds; 60 unless given, 1 to 300. */
  timeoutSeconds: z.int().min(1).max(hookLimits.timeoutSecondsMax).optional(),
  /** Whether it takes events; true unless given. */
  enabled: z.boolean().optional(),
};

/** Why a secret can't be one of that provider, or null. */
export function secretFault(provider: HookProvider, secret: string): string | null {
  switch (provider) {
    case "standard":
      return /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/.test(secret) || /^whpk_[A-Za-z0-9+/]{43}=$/.test(secret)
        ? null
        : "whsec_ with 24 to 64 bytes in base64, or whpk_ with a public key";
    case "telegram":
      return /^[A-Za-z0-9_-]{1,256}$/.test(secret) ? null : "1 to 256 of A-Z a-z 0-9 _ -";
    case "discord":
      return /^[0-9a-fA-F]{64}$/.test(secret) ? null : "the application's public key, 64 hexadecimal digits";
    case "bearer":
      return /^[!-~]{16,}$/.test(secret) ? null : "at least 16 characters, without spaces";
    case "none":
      return "none: it has no secret";
    case "github":
    case "stripe":
    case "slack":
      return /^[!-~]{8,}$/.test(secret) ? null : "at least 8 characters, without spaces";
  }
}

/** `POST /v1/sandboxes/{id}/hooks`. */
export const CreateHook = z
  .strictObject({
    /** No other hook of the sandbox has it. */
    name: Name,
    provider: HookProvider,
    /** What its events are signed with. Needed for `stripe`, `slack` and `discord` (the public key); never shown again. */
    secret: Secret.optional(),
    ...settings,
  })
  .superRefine(({ provider, secret }, context) => {
    if (secret === undefined) {
      if (provider === "none" || ownSecretProviders.includes(provider)) return;
      context.addIssue({ code: "custom", path: ["secret"], message: `${provider} gives it to you` });
      return;
    }
    const fault = secretFault(provider, secret);
    if (fault !== null) context.addIssue({ code: "custom", path: ["secret"], message: fault });
  })
  .meta({ id: "CreateHook" });
export type CreateHook = z.infer<typeof CreateHook>;

export const UpdateHook = z.strictObject({ name: Name.optional(), ...settings }).meta({ id: "UpdateHook" });
export type UpdateHook = z.infer<typeof UpdateHook>;

/**
 * `:rotate`. `secret` (what senders sign with) and `deliverySecret` (what we sign with): the one before counts for
 * `overlapSeconds` more, a day unless given. `url`: the one before ends at once.
 */
export const RotateHook = z
  .strictObject({
    what: z.enum(["secret", "deliverySecret", "url"]).optional(),
    /** The new secret of senders, where they choose it. */
    secret: Secret.optional(),
    overlapSeconds: z.int().min(0).max(hookLimits.overlapSecondsMax).optional(),
  })
  .refine(({ what = "secret", secret }) => what === "secret" || secret === undefined, {
    message: "only with what: secret",
    path: ["secret"],
  })
  .meta({ id: "RotateHook" });
export type RotateHook = z.infer<typeof RotateHook>;

const hook = {
  id: HookId,
  kind: z.literal("hook"),
  sandboxId: SandboxId,
  name: z.string(),
  provider: HookProvider,
  port: z.int(),
  path: z.string(),
  mode: HookMode,
  filters: z.array(z.string()),
  maxBytes: z.int(),
  timeoutSeconds: z.int(),
  enabled: z.boolean(),
  /** `gone`: the program answered 410. null while it is enabled, or where somebody turned it off. */
  disabledReason: z.enum(["gone"]).nullable(),
  /** Whether events have to be signed; and until when the secret before still counts. */
  hasSecret: z.boolean(),
  previousSecretUntil: Time.nullable(),
  /** Events that wait, and that were given up. */
  waiting: z.int(),
  dead: z.int(),
  lastEventAt: Time.nullable(),
  createdAt: Time,
  replayed: z.boolean().optional(),
};

export const Hook = z.object(hook).meta({ id: "Hook" });
export type Hook = z.infer<typeof Hook>;

/** A hook with what is shown once: in the answer that made it. */
export const NewHook = z
  .object({
    ...hook,
    /** Where the provider sends to. It is a secret itself. null where it was not made anew. */
    url: z.string().nullable(),
    /** The secret that was made for the provider; null where none was. */
    secret: z.string().nullable(),
    /** What deliveries to the program are signed with (Standard Webhooks). null where it was not made anew. */
    deliverySecret: z.string().nullable(),
  })
  .meta({ id: "NewHook" });
export type NewHook = z.infer<typeof NewHook>;

export const HookList = z.object({ data: z.array(Hook) }).meta({ id: "HookList" });
export type HookList = z.infer<typeof HookList>;

export const DeletedHook = z
  .object({ id: HookId, sandboxId: SandboxId, deleted: z.literal(true), replayed: z.boolean().optional() })
  .meta({ id: "DeletedHook" });
export type DeletedHook = z.infer<typeof DeletedHook>;

/** A step in the life of an event. */
export const HookStep = z.object({
  at: Time,
  what: z.enum(["received", "attempt", "delivered", "dead", "ignored", "replayed"]),
  /** Of an attempt: what the program answered; null when it was not reached, or did not answer. */
  status: z.int().nullable().optional(),
  /** Of an attempt: how long it took with the wake, milliseconds. */
  ms: z.int().optional(),
  /** Of an attempt: it woke the sandbox. */
  woken: z.boolean().optional(),
  /** Why an attempt failed, or why it was given up: a code such as `sandbox_stopped`, `port_not_listening`, `timeout`. */
  reason: z.string().optional(),
  /** Of an attempt that failed: when the next one is due. */
  nextAt: Time.optional(),
});
export type HookStep = z.infer<typeof HookStep>;

export const HookEvent = z
  .object({
    id: HookEventId,
    kind: z.literal("hook-event"),
    sandboxId: SandboxId,
    /** null: a request that asked for `respond-async`. */
    hookId: HookId.nullable(),
    state: HookEventState,
    /** As the provider says it. */
    type: z.string().nullable(),
    /** The provider's own id, by which repeated deliveries are known for 7 days. */
    providerId: z.string().nullable(),
    bytes: z.int(),
    contentType: z.string().nullable(),
    /** Tries so far that count. */
    attempts: z.int(),
    nextAttemptAt: Time.nullable(),
    receivedAt: Time,
    endedAt: Time.nullable(),
    /** When it is forgotten: 7 days after it ended, 30 when it is dead. */
    expiresAt: Time.nullable(),
    timeline: z.array(HookStep),
    /** With `?body=1`: `text`, or `base64` for what is not UTF-8. */
    body: z
      .object({ encoding: z.enum(["text", "base64"]), data: z.string() })
      .nullable()
      .optional(),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "HookEvent" });
export type HookEvent = z.infer<typeof HookEvent>;

export const HookEventList = z
  .object({ data: z.array(HookEvent), nextCursor: z.string().nullable() })
  .meta({ id: "HookEventList" });
export type HookEventList = z.infer<typeof HookEventList>;

/** Query of `GET .../hook-events`. */
export const HookEventListQuery = z.strictObject({
  hookId: HookId.optional(),
  state: HookEventState.optional(),
  limit: z.coerce.number().int().min(1).max(hookLimits.listMax).optional(),
  cursor: z.string().optional(),
});
export type HookEventListQuery = z.infer<typeof HookEventListQuery>;

/** Query of `GET .../hook-events/{event}`. */
export const HookEventQuery = z.strictObject({ body: z.enum(["0", "1"]).optional() });

/** Answer of `:replay-dead`: how many events wait again. */
export const Replayed = z.object({ replayed: z.int() }).meta({ id: "Replayed" });
export type Replayed = z.infer<typeof Replayed>;

/** What became of a request with `Prefer: respond-async`. The answer is kept for a day. */
export const Receipt = z
  .object({
    id: HookEventId,
    kind: z.literal("receipt"),
    sandboxId: SandboxId,
    state: HookEventState,
    attempts: z.int(),
    receivedAt: Time,
    endedAt: Time.nullable(),
    timeline: z.array(HookStep),
    /** What the program answered; null before, when it is kept no more, or when it was too long. */
    response: z
      .object({
        status: z.int(),
        headers: z.array(z.tuple([z.string(), z.string()])),
        body: z.object({ encoding: z.enum(["text", "base64"]), data: z.string() }),
      })
      .nullable(),
  })
  .meta({ id: "Receipt" });
export type Receipt = z.infer<typeof Receipt>;
