/** Endpoints and deliveries as they are stored, and as the API shows them. Pure. */
import {
  matchesType,
  type CreateEventEndpoint,
  type DeliveryState,
  type DeliveryTry,
  type EventDelivery,
  type EventEndpoint,
  type RouseEvent,
  type UpdateEventEndpoint,
} from "../../sdk/contract/event.ts";
import type { Notice } from "../../sdk/contract/account.ts";
import type { Previous } from "../replaced-secret.ts";
import { iso, isoOrNull } from "../time.ts";

const DAY_MS = 86_400_000;
/** How long what has ended is known, milliseconds. */
const KEPT_MS = { delivered: 7 * DAY_MS, dead: 30 * DAY_MS } as const;
/** Tries of a delivery that are remembered, the newest. */
const TRIES_MAX = 24;

export interface EndpointRecord {
  readonly id: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly sandboxes: EventEndpoint["sandboxes"];
  readonly description: string | null;
  readonly enabled: boolean;
  readonly disabledReason: EventEndpoint["disabledReason"];
  readonly disabledAt: number | null;
  /** Since when nothing was taken, and tries since. */
  readonly failingSince: number | null;
  readonly failures: number;
  readonly lastSuccessAt: number | null;
  /** What we sign with, sealed. */
  readonly secret: string;
  readonly previousSecret: Previous | null;
  readonly createdAt: number;
}

export interface DeliveryRecord {
  readonly id: string;
  readonly endpointId: string;
  readonly eventId: string;
  readonly type: string;
  readonly subject: string;
  readonly sequence: number;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly createdAt: number;
  /** When its first try began; null before. */
  readonly triedAt: number | null;
  readonly nextAt: number | null;
  /** A try is under way, or broke off. */
  readonly begunAt: number | null;
  readonly endedAt: number | null;
  readonly reason: string | null;
  readonly tries: readonly Try[];
  readonly lastAnswer: string | null;
}

export interface Try extends Omit<DeliveryTry, "at"> {
  readonly at: number;
}

export function newEndpoint(id: string, input: CreateEventEndpoint, secret: string, now: number): EndpointRecord {
  return {
    ...{ id, url: input.url, events: input.events ?? ["*"], sandboxes: input.sandboxes ?? null },
    ...{ description: input.description ?? null, enabled: input.enabled ?? true, disabledReason: null },
    disabledAt: input.enabled === false ? now : null,
    ...{ failingSince: null, failures: 0, lastSuccessAt: null, secret, previousSecret: null, createdAt: now },
  };
}

export function updatedEndpoint(record: EndpointRecord, input: UpdateEventEndpoint, now: number): EndpointRecord {
  const { url, events, sandboxes, description, enabled } = input;
  const changed = {
    ...record,
    url: url ?? record.url,
    events: events ?? record.events,
    sandboxes: sandboxes === undefined ? record.sandboxes : sandboxes,
    description: description === undefined ? record.description : description,
  };
  if (enabled === undefined || enabled === record.enabled) return changed;
  // Whatever was wrong before, it begins anew.
  return enabled
    ? { ...changed, enabled, disabledReason: null, disabledAt: null, failingSince: null, failures: 0 }
    : { ...changed, enabled, disabledReason: null, disabledAt: now };
}

export function isWanted({ enabled, events, sandboxes }: EndpointRecord, { type, sandbox }: RouseEvent): boolean {
  if (!enabled || !events.some((pattern) => matchesType(pattern, type))) return false;
  if (sandboxes === null) return true;
  if (sandbox === null) return false;
  const { names, labels = {} } = sandboxes;
  const { name } = sandbox;
  if (names && (name === null || !names.some((pattern) => isNamed(name, pattern)))) return false;
  return Object.entries(labels).every(([key, value]) => sandbox.labels[key] === value);
}

function isNamed(name: string, pattern: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

export function toEndpoint(
  record: EndpointRecord,
  counts: { readonly waiting: number; readonly dead: number },
  now: number,
): EventEndpoint {
  const { id, url, events, sandboxes, description, enabled, disabledReason, previousSecret } = record;
  return {
    ...{ id, kind: "event-endpoint", url, events: [...events], sandboxes, description, enabled, disabledReason },
    disabledAt: isoOrNull(record.disabledAt),
    failingSince: isoOrNull(record.failingSince),
    lastSuccessAt: isoOrNull(record.lastSuccessAt),
    previousSecretUntil: isoOrNull(previousSecret && previousSecret.until > now ? previousSecret.until : null),
    ...counts,
    createdAt: iso(record.createdAt),
  };
}

/** What people are told of an endpoint that was turned off for them. */
export function noticeOf({ id, url, disabledReason, disabledAt }: EndpointRecord): Notice | null {
  if (disabledReason === null) return null;
  const why = disabledReason === "gone" ? "It answered 410" : "It has taken nothing for 5 days";
  const host = URL.canParse(url) ? new URL(url).host : "";
  const message = `${why}, so the event endpoint ${id} (${host}) is off. Mend it, then :update it with enabled: true.`;
  return { kind: "endpoint_disabled", message, at: isoOrNull(disabledAt), sandboxId: null, name: null };
}

/** @param reason why it is not even tried; null: it waits */
export function newDelivery(
  id: string,
  endpointId: string,
  event: RouseEvent,
  reason: string | null,
  now: number,
): DeliveryRecord {
  const { id: eventId, type, subject, sequence } = event;
  return {
    ...{ id, endpointId, eventId, type, subject, sequence, state: reason === null ? "waiting" : "dead" },
    ...{ attempts: 0, createdAt: now, triedAt: null, nextAt: reason === null ? now : null, begunAt: null },
    ...{ endedAt: reason === null ? null : now, reason, tries: [], lastAnswer: null },
  };
}

export function withTry(record: DeliveryRecord, one: Try): DeliveryRecord {
  return { ...record, attempts: record.attempts + 1, tries: [...record.tries, one].slice(-TRIES_MAX) };
}

export function ended(record: DeliveryRecord, state: "delivered" | "dead", reason: string | null, now: number) {
  return { ...record, state, reason, nextAt: null, begunAt: null, endedAt: now };
}

/** It waits again, as if it had just come. One that is being tried has what it needs. */
export function again(record: DeliveryRecord, now: number): DeliveryRecord {
  return { ...record, state: "waiting", attempts: 0, triedAt: null, nextAt: now, endedAt: null, reason: null };
}

/** When it is forgotten, Unix milliseconds; null while it waits. */
export function expiryOf({ state, endedAt }: DeliveryRecord): number | null {
  return state === "waiting" || endedAt === null ? null : endedAt + KEPT_MS[state];
}

export function toDelivery(record: DeliveryRecord): EventDelivery {
  const { id, endpointId, eventId, type, subject, sequence, state, attempts, reason, lastAnswer } = record;
  return {
    ...{ id, kind: "event-delivery", endpointId, eventId, type, subject, sequence, state, attempts, reason },
    nextAttemptAt: isoOrNull(record.nextAt),
    createdAt: iso(record.createdAt),
    endedAt: isoOrNull(record.endedAt),
    expiresAt: isoOrNull(expiryOf(record)),
    tries: record.tries.map(({ at, ...rest }) => ({ at: iso(at), ...rest })),
    lastAnswer,
  };
}
