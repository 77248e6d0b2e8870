/** Where sandboxes run, as this isolate last heard: a warm request asks no object. */
import type { RouteFacts, RouteGrant } from "../../durable/sandbox/api.ts";
import { BoundedMap } from "../bounded-map.ts";

/** A grant that ends sooner is renewed first, milliseconds. */
const RENEW_MS = 30_000;
/** Facts about who may come in without a key are believed for so long, milliseconds. */
const FACTS_MS = 10_000;

interface Entry {
  readonly facts: RouteFacts;
  readonly factsAt: number;
  readonly grant: RouteGrant | null;
}

const entries = new BoundedMap<Entry>(4096);

export function cachedGrant(
  key: string,
  id: string | null,
  now: number,
): { facts: RouteFacts; grant: RouteGrant } | null {
  const entry = entries.get(key);
  if (!entry?.grant || (id !== null && entry.facts.id !== id)) return null;
  // Its rules may have changed.
  if (rulesOf(entry.facts) > 0 && now - entry.factsAt >= FACTS_MS) return null;
  return entry.grant.ticketExpiresAt - now > RENEW_MS ? { facts: entry.facts, grant: entry.grant } : null;
}

/** What the edge does by itself that the sandbox's owner sets. */
function rulesOf({ rules, sockets, localhostPorts }: RouteFacts): number {
  return rules.length + sockets.length + localhostPorts.length;
}

export function cachedFacts(key: string, now: number): RouteFacts | null {
  const entry = entries.get(key);
  return entry && now - entry.factsAt < FACTS_MS ? entry.facts : null;
}

export function rememberRoute(key: string, route: { facts: RouteFacts; grant: RouteGrant | null }, now: number): void {
  entries.set(key, { facts: route.facts, grant: route.grant, factsAt: now });
}

export function forgetRoute(key: string): void {
  entries.delete(key);
}
