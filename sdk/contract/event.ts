/** Events out: what happened to sandboxes, snapshots and the account, where they are sent to, and what became of each. */
import { z } from "zod";
import { Text } from "./account.ts";
import { Labels } from "./labels.ts";
import { Generation } from "./names.ts";
import { SandboxState, StopReason } from "./sandbox.ts";
import { Cause } from "./timeline.ts";

export const eventLimits = {
  /** Endpoints of one account. */
  endpoints: 20,
  /** Events of one sandbox that can be read. */
  keptEvents: 1000,
  keptDays: 30,
  /** Time that a receiver has for one try, seconds. */
  timeoutSeconds: 15,
  /** Of a receiver's answer, so much is kept, bytes. */
  answerBytesMax: 1024,
  /** How long a secret that was replaced still signs, seconds. */
  overlapSecondsDefault: 86_400,
  overlapSecondsMax: 604_800,
  urlMax: 2048,
  listMax: 100,
  eventsListMax: 200,
  waitSecondsMax: 60,
} as const;

const Time = z.iso.datetime();
/** The sandbox after it. */
const after = { state: SandboxState, generation: Generation };

/** What the `data` of each type has. */
export const eventData = {
  /** It is made; its machine is about to start. */
  "sandbox.created": z.object({
    ...after,
    image: z.string(),
    vcpu: z.int(),
    memoryMiB: z.int(),
    diskMiB: z.int(),
    /** What it began as; null for an image. */
    snapshotId: z.string().nullable(),
    /** The sandbox that it is a copy of. */
    forkOf: z.string().nullable(),
  }),
  /** Its first run is up. */
  "sandbox.started": z.object({ ...after, startMs: z.int().nullable() }),
  /** It runs again, with its RAM. */
  "sandbox.woken": z.object({
    ...after,
    /** null: not asked for from outside, or not known any more. */
    cause: Cause.nullable(),
    /** From the first who asked to the running machine, milliseconds. */
    wakeMs: z.int().nullable(),
  }),
  /** It runs again from its disk: what was in RAM is gone. */
  "sandbox.booted": z.object({
    ...after,
    cause: Cause.nullable(),
    bootMs: z.int().nullable(),
    /** Why its RAM is gone: the `stopReason` of before, or `restart` for one that was running or paused. */
    reason: z.union([StopReason, z.literal("restart")]),
  }),
  "sandbox.paused": z.object({
    ...after,
    reason: StopReason,
    /** How safe its state is now; `sandbox.durable` says when it is off its host as well. */
    durability: z.enum(["cached", "local", "durable", "cold"]).nullable(),
  }),
  /** The state of that run is stored off its host: it survives the loss of the host. */
  "sandbox.durable": z.object({ ...after, point: z.string(), storedBytes: z.int() }),
  /** Its machine ended; its disk is kept. */
  "sandbox.stopped": z.object({ ...after, reason: StopReason }),
  /** Its host is gone with what ran there; `state` is what it is now. What is durable wakes elsewhere. */
  "sandbox.lost": z.object({ ...after, durable: z.boolean() }),
  /** A start, wake or pause failed. */
  "sandbox.failed": z.object({
    ...after,
    action: z.enum(["start", "wake", "pause"]),
    /** An error code, such as `no_capacity`. */
    code: z.string(),
    message: z.string(),
  }),
  "sandbox.deleted": z.object({
    ...after,
    /** `paused_expired`: it slept for longer than its retention; null: somebody asked for it. */
    reason: StopReason.nullable(),
    /** Until when it can be taken back; null: it is gone for good. */
    undeleteUntil: Time.nullable(),
  }),
  /** A deletion was taken back. */
  "sandbox.undeleted": z.object(after),
  /** Its network rules kept something in. Once a minute at most for each rule and target, ten of them in a minute. */
  "sandbox.egress_refused": z.object({
    ...after,
    /** Such as `internet-off`, `deny:*.example.com`, `private-address`. */
    rule: z.string(),
    /** Host name or address, with its port. */
    target: z.string(),
    /** Since the last such event of the run. */
    count: z.int(),
    lastAt: Time,
  }),
  /** A command that runs after a boot or wake failed. */
  "sandbox.boot_failed": z.object({
    ...after,
    hook: z.enum(["onBoot", "onWake"]),
    /** null: a signal ended it, or it is not known. */
    exitCode: z.int().nullable(),
    timedOut: z.boolean(),
  }),
  /** A service ended with a failure, or was not ready in its time. Once for each service in a run. */
  "sandbox.service_failed": z.object({
    ...after,
    service: z.string(),
    reason: z.enum(["ended", "not_ready"]),
    exitCode: z.int().nullable(),
    restarts: z.int(),
  }),
  /** A copy was made of it. */
  "fork.created": z.object({ ...after, forkId: z.string(), forkName: z.string().nullable() }),
  /** A webhook for it was given up. It can be replayed. */
  "hook.dead_letter": z.object({
    ...after,
    hookId: z.string().nullable(),
    hookEventId: z.string(),
    hookEventType: z.string().nullable(),
    attempts: z.int(),
    reason: z.string().nullable(),
  }),
  /** A session token was made for it. */
  "session.created": z.object({
    ...after,
    sessionId: z.string(),
    /** The key that made it. */
    keyId: z.string(),
    scopes: z.array(z.string()),
    origins: z.array(z.string()),
    servers: z.boolean(),
    expiresAt: Time,
  }),
  /** A session token was revoked by that key, by itself and not with the key that made it. */
  "session.revoked": z.object({ ...after, sessionId: z.string(), keyId: z.string() }),
  /** A snapshot is stored and can be used. */
  "snapshot.created": z.object({
    snapshotId: z.string(),
    name: z.string().nullable(),
    labels: z.record(z.string(), z.string()),
    mode: z.enum(["memory", "disk"]),
    storedBytes: z.int(),
  }),
  "snapshot.failed": z.object({ snapshotId: z.string(), name: z.string().nullable(), message: z.string() }),
  "snapshot.deleted": z.object({ snapshotId: z.string(), name: z.string().nullable() }),
  /** Credit lasts for less than three days like this one. Once a day at most. */
  "account.credit_low": z.object({ availableMicros: z.int(), endsAt: Time.nullable() }),
  /** There is none left: nothing wakes, and what sleeps is deleted then. */
  "account.credit_gone": z.object({ availableMicros: z.int(), deletesAt: Time.nullable() }),
  /** Somebody tests an endpoint. It goes to that one alone, whatever its filters. */
  "endpoint.test": z.object({ endpointId: z.string() }),
} as const;

export type EventType = keyof typeof eventData;
export type EventData<T extends EventType> = z.infer<(typeof eventData)[T]>;
export const eventTypes = Object.keys(eventData) as [EventType, ...EventType[]];
export const EventType = z.enum(eventTypes);

/** Names an event for good: every delivery of it has it as `webhook-id`. */
export const EventId = z.string().regex(/^ev-[0-9a-z]{20}$/, "an event id such as ev-...");
export const EndpointId = z.string().regex(/^ep-[0-9a-z]{20}$/, "an endpoint id such as ep-...");
export const DeliveryId = z.string().regex(/^dlv-[0-9a-z]{20}$/, "a delivery id such as dlv-...");

const envelope = {
  id: EventId,
  /** What it is of: a sandbox's, snapshot's or endpoint's id, or the account's name. */
  subject: z.string(),
  /** Counts the events of the subject from 1, without gaps. */
  sequence: z.int().min(1),
  /** When it happened. */
  timestamp: Time,
  /** The sandbox that it is about, as it was then; null for what is about none. */
  sandbox: z
    .object({ id: z.string(), name: z.string().nullable(), labels: z.record(z.string(), z.string()) })
    .nullable(),
};

/** What happened. Types that are new to a reader come as they are. */
export const RouseEvent = z
  .object({ ...envelope, type: z.string(), data: z.record(z.string(), z.unknown()) })
  .meta({ id: "Event" });
type Envelope = Omit<z.infer<typeof RouseEvent>, "type" | "data">;
/** An event, told apart by its `type`. */
export type RouseEvent = { [T in EventType]: Envelope & { readonly type: T; readonly data: EventData<T> } }[EventType];

export const EventList = z
  .object({
    /** The oldest first. */
    data: z.array(RouseEvent),
    /** Pass it as `after` for what comes next: the last of these, or `after` when there are none. */
    nextAfter: z.int(),
    hasMore: z.boolean(),
  })
  .meta({ id: "EventList" });

/** Query of `GET /v1/sandboxes/{id}/events`. */
export const EventListQuery = z.strictObject({
  /** Events with a greater sequence number; 0 unless given. */
  after: z.coerce.number().int().min(0).optional(),
  limit: z.coerce.number().int().min(1).max(eventLimits.eventsListMax).optional(),
  /** How long to wait for the next event where there is none yet. */
  waitSeconds: z.coerce.number().int().min(0).max(eventLimits.waitSecondsMax).optional(),
});
export type EventListQuery = z.infer<typeof EventListQuery>;

const groups: ReadonlySet<string> = new Set(eventTypes.map((type) => type.replace(/\..*/, ".*")));

/** Whether a pattern (`*`, `sandbox.*`, a type) takes in a type. */
export function matchesType(pattern: string, type: string): boolean {
  if (pattern === "*" || pattern === type) return true;
  return pattern.endsWith(".*") && type.startsWith(pattern.slice(0, -1));
}

const Pattern = z
  .string()
  .refine(
    (pattern) => pattern === "*" || groups.has(pattern) || EventType.safeParse(pattern).success,
    `*, one of ${[...groups].join(" ")}, or a type such as sandbox.woken`,
  );

/** Which sandboxes it is about; each condition that is given must hold. */
const SandboxFilter = z.strictObject({
  /** Names, or beginnings of names such as `agent-*`; any of them. */
  names: z.array(z.string().min(1).max(129)).min(1).max(100).optional(),
  /** Labels, all of them. */
  labels: Labels.optional(),
});

const settings = {
  /** Types, `sandbox.*`, or `*`, which is what holds unless given. */
  events: z.array(Pattern).min(1).max(50).optional(),
  /** Only events of these sandboxes; null or absent for all events. */
  sandboxes: SandboxFilter.nullable().optional(),
  description: Text.nullable().optional(),
  /** Whether it is sent to; true unless given. */
  enabled: z.boolean().optional(),
};
/** `https://`, port 443 or 8443, a host with a public address. The answer to one that is not says why. */
const Url = z.string().min(1).max(eventLimits.urlMax);

/** `POST /v1/event-endpoints`. */
export const CreateEventEndpoint = z.strictObject({ url: Url, ...settings }).meta({ id: "CreateEventEndpoint" });
export type CreateEventEndpoint = z.infer<typeof CreateEventEndpoint>;

export const UpdateEventEndpoint = z
  .strictObject({ url: Url.optional(), ...settings })
  .meta({ id: "UpdateEventEndpoint" });
export type UpdateEventEndpoint = z.infer<typeof UpdateEventEndpoint>;

/** `:rotate`. Both secrets sign for `overlapSeconds`, a day unless given. */
export const RotateEventEndpoint = z
  .strictObject({ overlapSeconds: z.int().min(0).max(eventLimits.overlapSecondsMax).optional() })
  .meta({ id: "RotateEventEndpoint" });
export type RotateEventEndpoint = z.infer<typeof RotateEventEndpoint>;

const endpoint = {
  id: EndpointId,
  kind: z.literal("event-endpoint"),
  url: z.string(),
  events: z.array(z.string()),
  sandboxes: z
    .object({ names: z.array(z.string()).optional(), labels: z.record(z.string(), z.string()).optional() })
    .nullable(),
  description: z.string().nullable(),
  enabled: z.boolean(),
  /** `gone`: it answered 410. `failing`: it took nothing for 5 days. null while it is enabled, or somebody turned it off. */
  disabledReason: z.enum(["gone", "failing"]).nullable(),
  disabledAt: Time.nullable(),
  /** Since when nothing has been taken, though it was tried; null while it works. */
  failingSince: Time.nullable(),
  lastSuccessAt: Time.nullable(),
  /** Until when the secret before still signs. */
  previousSecretUntil: Time.nullable(),
  /** Deliveries that wait, and that were given up. */
  waiting: z.int(),
  dead: z.int(),
  createdAt: Time,
  replayed: z.boolean().optional(),
};
export const EventEndpoint = z.object(endpoint).meta({ id: "EventEndpoint" });
export type EventEndpoint = z.infer<typeof EventEndpoint>;

/** An endpoint with its secret, `whsec_...`, which only this answer shows. null in a repeated answer that is too late. */
export const NewEventEndpoint = z
  .object({ ...endpoint, secret: z.string().nullable() })
  .meta({ id: "NewEventEndpoint" });
export type NewEventEndpoint = z.infer<typeof NewEventEndpoint>;

export const EventEndpointList = z.object({ data: z.array(EventEndpoint) }).meta({ id: "EventEndpointList" });

export const DeletedEventEndpoint = z
  .object({ id: EndpointId, deleted: z.literal(true), replayed: z.boolean().optional() })
  .meta({ id: "DeletedEventEndpoint" });
export type DeletedEventEndpoint = z.infer<typeof DeletedEventEndpoint>;

export const deliveryStates = ["waiting", "delivered", "dead"] as const;
export const DeliveryState = z.enum(deliveryStates);
export type DeliveryState = z.infer<typeof DeliveryState>;

/** One try. */
export const DeliveryTry = z.object({
  at: Time,
  /** Milliseconds. */
  ms: z.int(),
  /** What was answered; null: nothing. */
  status: z.int().nullable(),
  /** Why it failed: `answered 500`, `timeout`, `unreachable`, `url_not_allowed`, `broke_off`; null when it did not. */
  reason: z.string().nullable(),
});
export type DeliveryTry = z.infer<typeof DeliveryTry>;

export const EventDelivery = z
  .object({
    id: DeliveryId,
    kind: z.literal("event-delivery"),
    endpointId: EndpointId,
    eventId: EventId,
    type: z.string(),
    subject: z.string(),
    sequence: z.int(),
    state: DeliveryState,
    /** Tries since it began, or was begun again. */
    attempts: z.int(),
    nextAttemptAt: Time.nullable(),
    createdAt: Time,
    endedAt: Time.nullable(),
    /** When it is forgotten: 7 days after it was delivered, 30 after it was given up. */
    expiresAt: Time.nullable(),
    /** Why it was given up: the last try's reason, or `endpoint_disabled`, `backlog_full`. */
    reason: z.string().nullable(),
    /** The oldest first, 24 at most. */
    tries: z.array(DeliveryTry),
    /** The beginning of the last answer's body, 1 KiB at most; null where there was none. */
    lastAnswer: z.string().nullable(),
    /** Read by its id: the event. */
    event: RouseEvent.optional(),
  })
  .meta({ id: "EventDelivery" });
export type EventDelivery = z.infer<typeof EventDelivery>;

export const EventDeliveryList = z
  .object({ data: z.array(EventDelivery), nextCursor: z.string().nullable() })
  .meta({ id: "EventDeliveryList" });
export type EventDeliveryList = z.infer<typeof EventDeliveryList>;

/** Query of `GET .../deliveries`. The newest first. */
export const EventDeliveryListQuery = z.strictObject({
  state: DeliveryState.optional(),
  limit: z.coerce.number().int().min(1).max(eventLimits.listMax).optional(),
  cursor: z.string().optional(),
});
export type EventDeliveryListQuery = z.infer<typeof EventDeliveryListQuery>;

/** `POST /v1/event-endpoints/{endpoint}:redeliver`: all that were given up since then. */
export const RedeliverDead = z.strictObject({ since: Time.optional() }).meta({ id: "RedeliverDead" });
export type RedeliverDead = z.infer<typeof RedeliverDead>;

export const Redelivered = z.object({ redelivered: z.int() }).meta({ id: "Redelivered" });
