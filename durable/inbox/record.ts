/** Hooks and events as they are stored, and as the API shows them. Pure. */
import { defaults } from "../../sdk/contract/sandbox.ts";
import {
  hookLimits,
  type CreateHook,
  type Hook,
  type HookEvent,
  type HookEventState,
  type HookMode,
  type HookProvider,
  type HookStep,
  type UpdateHook,
} from "../../sdk/contract/hook.ts";
import type { EventNote } from "../sandbox/api.ts";
import type { Previous } from "../replaced-secret.ts";
import { iso, isoOrNull } from "../time.ts";

export const DAY_MS = 86_400_000;
/** How long what has ended is known, by its state, milliseconds. Repeated deliveries are known for at least a week. */
const KEPT_MS = { delivered: 7 * DAY_MS, ignored: 7 * DAY_MS, dead: 30 * DAY_MS } as const;
/** What waits at a hook that is off is given up after this, milliseconds. */
export const DISABLED_MS = 30 * DAY_MS;
/** A provider's id means the same event for so long, milliseconds: longer than any of them repeats one. */
export const SEEN_MS = 7 * DAY_MS;
/** Steps of an event that are remembered: the first, and the newest. */
const STEPS_MAX = 100;

/** Stands in the place of a hook for requests with `Prefer: respond-async`. */
export const REQUESTS = "requests";

export interface HookRecord {
  readonly id: string;
  readonly name: string;
  readonly provider: HookProvider;
  readonly port: number;
  readonly path: string;
  readonly mode: HookMode;
  readonly filters: readonly string[];
  readonly maxBytes: number;
  readonly timeoutSeconds: number;
  readonly enabled: boolean;
  readonly disabledReason: "gone" | null;
  /** Since when it is off; null while it is on. */
  readonly disabledAt: number | null;
  /** What senders sign with, sealed; null for `none`. */
  readonly secret: string | null;
  readonly previousSecret: Previous | null;
  /** What we sign with, sealed. */
  readonly deliverySecret: string;
  readonly previousDeliverySecret: Previous | null;
  readonly createdAt: number;
  readonly lastEventAt: number | null;
}

/** A request that came by a named URL. */
export interface RequestTarget {
  readonly method: string;
  readonly port: number;
  /** With its query. */
  readonly path: string;
}

export interface EventRecord {
  readonly id: string;
  /** Or `REQUESTS`. */
  readonly hookId: string;
  readonly createdAt: number;
  readonly state: HookEventState;
  readonly type: string | null;
  readonly providerId: string | null;
  readonly bytes: number;
  readonly headers: readonly (readonly [string, string])[];
  /** Of the sender's URL: with its `?`, or empty. */
  readonly query: string;
  readonly request: RequestTarget | null;
  /** Discord's kind of interaction, for the answer to one that comes again. */
  readonly interaction: number | null;
  /** Where in the blob store its body is; null: in a row. */
  readonly blob: string | null;
  readonly attempts: number;
  /** Tries in a row that did not count: the sandbox had just woken. */
  readonly settling: number;
  readonly late: boolean;
  /** When it waits: since when, and for when the next try is. */
  readonly waitsSince: number;
  readonly nextAt: number | null;
  /** A try is under way, or broke off. */
  readonly begunAt: number | null;
  readonly endedAt: number | null;
  readonly steps: readonly Step[];
}

export interface Step extends Omit<HookStep, "at" | "nextAt"> {
  readonly at: number;
  readonly nextAt?: number;
}

export function newHook(
  id: string,
  input: CreateHook,
  sealed: Pick<HookRecord, "secret" | "deliverySecret">,
  now: number,
): HookRecord {
  return {
    ...{ id, name: input.name, provider: input.provider, port: input.port ?? defaults.port },
    path: input.path ?? "/",
    mode: input.mode ?? "async",
    filters: input.filters ?? [],
    maxBytes: input.maxBytes ?? hookLimits.maxBytesDefault,
    timeoutSeconds: input.timeoutSeconds ?? hookLimits.timeoutSecondsDefault,
    enabled: input.enabled ?? true,
    disabledReason: null,
    disabledAt: input.enabled === false ? now : null,
    ...sealed,
    ...{ previousSecret: null, previousDeliverySecret: null, createdAt: now, lastEventAt: null },
  };
}

export function updatedHook(record: HookRecord, input: UpdateHook, now: number): HookRecord {
  const { name, port, path, mode, filters, maxBytes, timeoutSeconds, enabled } = input;
  return {
    ...record,
    name: name ?? record.name,
    port: port ?? record.port,
    path: path ?? record.path,
    mode: mode ?? record.mode,
    filters: filters ?? record.filters,
    maxBytes: maxBytes ?? record.maxBytes,
    timeoutSeconds: timeoutSeconds ?? record.timeoutSeconds,
    enabled: enabled ?? record.enabled,
    disabledReason: enabled === undefined ? record.disabledReason : null,
    disabledAt: enabled === undefined ? record.disabledAt : enabled ? null : (record.disabledAt ?? now),
  };
}

export function toHook(
  record: HookRecord,
  sandboxId: string,
  counts: { readonly waiting: number; readonly dead: number },
  now: number,
): Hook {
  const { previousSecret } = record;
  return {
    ...{ id: record.id, kind: "hook", sandboxId, name: record.name, provider: record.provider, port: record.port },
    ...{ path: record.path, mode: record.mode, filters: [...record.filters], maxBytes: record.maxBytes },
    ...{ timeoutSeconds: record.timeoutSeconds, enabled: record.enabled, disabledReason: record.disabledReason },
    hasSecret: record.secret !== null,
    previousSecretUntil: isoOrNull(previousSecret && previousSecret.until > now ? previousSecret.until : null),
    ...counts,
    lastEventAt: isoOrNull(record.lastEventAt),
    createdAt: iso(record.createdAt),
  };
}

type Arrived = Pick<
  EventRecord,
  "id" | "hookId" | "type" | "providerId" | "bytes" | "headers" | "query" | "request" | "interaction" | "blob"
>;

/** @param ignored no filter lets it pass */
export function newEvent(arrived: Arrived, ignored: boolean, now: number): EventRecord {
  const what = ignored ? ("ignored" as const) : ("received" as const);
  return {
    ...arrived,
    createdAt: now,
    state: ignored ? "ignored" : "waiting",
    ...{ attempts: 0, settling: 0, late: false, waitsSince: now, begunAt: null },
    nextAt: ignored ? null : now,
    endedAt: ignored ? now : null,
    steps: [{ at: now, what }],
  };
}

export function withStep(event: EventRecord, step: Step): EventRecord {
  const { steps } = event;
  const kept = steps.length < STEPS_MAX ? steps : [...steps.slice(0, 1), ...steps.slice(2 - STEPS_MAX)];
  return { ...event, steps: [...kept, step] };
}

/** It is over. */
export function ended(event: EventRecord, state: "delivered" | "dead", now: number, reason?: string): EventRecord {
  const step = { at: now, what: state, ...(reason === undefined ? {} : { reason }) };
  return { ...withStep(event, step), state, nextAt: null, begunAt: null, endedAt: now };
}

/** It waits again, as if it had just come. */
export function again(event: EventRecord, now: number): EventRecord {
  return {
    ...withStep(event, { at: now, what: "replayed" }),
    state: "waiting",
    ...{ attempts: 0, settling: 0, late: false, waitsSince: now, nextAt: now, begunAt: null, endedAt: null },
  };
}

/** When it is forgotten, Unix milliseconds; null while it waits. */
export function expiryOf({ state, endedAt }: EventRecord): number | null {
  return state === "waiting" || endedAt === null ? null : endedAt + KEPT_MS[state];
}

export function toEvent(event: EventRecord, sandboxId: string): HookEvent {
  return {
    ...{ id: event.id, kind: "hook-event", sandboxId, hookId: event.hookId === REQUESTS ? null : event.hookId },
    ...{ state: event.state, type: event.type, providerId: event.providerId, bytes: event.bytes },
    contentType: event.headers.find(([name]) => name === "content-type")?.[1] ?? null,
    attempts: event.attempts,
    nextAttemptAt: isoOrNull(event.nextAt),
    receivedAt: iso(event.createdAt),
    endedAt: isoOrNull(event.endedAt),
    expiresAt: isoOrNull(expiryOf(event)),
    timeline: stepsOf(event),
  };
}

/** What the sandbox is told of an event that was given up. */
export function deadLetterOf({ id, hookId, type, attempts, steps, endedAt }: EventRecord): EventNote {
  return {
    type: "hook.dead_letter",
    key: `dead ${id} ${endedAt ?? 0}`,
    data: {
      ...{ hookId: hookId === REQUESTS ? null : hookId, hookEventId: id, hookEventType: type, attempts },
      reason: steps.at(-1)?.reason ?? null,
    },
  };
}

export function stepsOf({ steps }: EventRecord): HookStep[] {
  return steps.map(({ at, nextAt, ...rest }) => ({
    ...rest,
    at: iso(at),
    ...(nextAt === undefined ? {} : { nextAt: iso(nextAt) }),
  }));
}
