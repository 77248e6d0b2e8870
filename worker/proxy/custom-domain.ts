/** From a host name that is no named host of ours to the sandbox that has it, as this isolate last heard. */
import { domainObject, type DomainTarget } from "../../durable/domains/api.ts";
import { isAtOrBelow, isHostname, type HostnamePolicy } from "../../sdk/contract/hostname.ts";
import { BoundedMap } from "../bounded-map.ts";
import type { Target } from "./target.ts";

/** What was heard is believed for so long, milliseconds; that nobody has a name, for less. */
const FACTS_MS = 10_000;
const NOBODY_MS = 5000;
/** Where nothing can be heard, what was heard last counts for so long, milliseconds. */
const STALE_MS = 300_000;

interface Entry {
  readonly target: DomainTarget | null;
  readonly at: number;
}

const entries = new BoundedMap<Entry>(4096);
const asked = new Map<string, Promise<Entry>>();

/** What of a host name this installation keeps for itself. @param host that the API was called by */
export function hostnamePolicy(env: Env, host: string | null): HostnamePolicy {
  const listed = (env.ROUSE_API_HOSTS ?? "").split(",").map((name) => name.trim().toLowerCase());
  return {
    base: baseOf(env),
    own: [...listed.filter((name) => name !== ""), ...(host === null ? [] : [host])],
    local: env.ROUSE_DOMAIN_NAMES === "any",
  };
}

/**
 * The sandbox that has a host name. Neither names that can't be domains nor those of the API are asked for, and none
 * more than once every few seconds: whoever tries names wakes nothing.
 */
export async function customDomain(env: Env, host: string, now: number): Promise<Target | null> {
  // A named host, most often: on the way to a warm machine every step counts.
  if (isAtOrBelow(host, baseOf(env))) return null;
  const hostname = host.replace(/\.$/, "");
  if (!isHostname(hostname) || hostnamePolicy(env, null).own.includes(hostname)) return null;
  const { target } = await entryOf(env, hostname, now);
  if (!target) return null;
  const { account, label, sandboxId: id, port } = target;
  return { account, label, id, port, prefix: "" };
}

/** Something of it changed here. */
export function forgetDomain(hostname: string): void {
  entries.delete(hostname);
}

async function entryOf(env: Env, hostname: string, now: number): Promise<Entry> {
  const known = entries.get(hostname);
  if (known && Math.abs(now - known.at) < (known.target ? FACTS_MS : NOBODY_MS)) return known;
  try {
    return await (asked.get(hostname) ?? ask(env, hostname, now));
  } catch (fault) {
    if (known && now - known.at < STALE_MS) return known;
    throw fault;
  }
}

async function ask(env: Env, hostname: string, now: number): Promise<Entry> {
  const asking = domainObject(env.DOMAINS, hostname)
    .target()
    .then((target) => ({ target, at: now }));
  asked.set(hostname, asking);
  try {
    const entry = await asking;
    if (asked.get(hostname) === asking) entries.set(hostname, entry);
    return entry;
  } finally {
    if (asked.get(hostname) === asking) asked.delete(hostname);
  }
}

function baseOf({ ROUSE_DOMAIN: domain }: Env): string {
  const at = domain.lastIndexOf(":");
  return (at === -1 ? domain : domain.slice(0, at)).toLowerCase();
}
