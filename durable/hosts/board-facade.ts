/** The typed way to the board of hosts. */
import { proxyDurable } from "itty-durable/proxy-durable.js";
import { z } from "zod";
import { Heartbeat, type Host } from "../../sdk/contract/host.ts";
import { HOST_LEASE_SECONDS, hostLeaseTimes } from "../../sdk/contract/host-lease.ts";
import { HOST_SILENT_MS } from "./placement.ts";

const Listed = z.object({
  now: z.number(),
  since: z.number(),
  hosts: z.array(z.object({ seenAt: z.number(), json: z.string(), draining: z.boolean().optional() })),
});
const Beaten = z.object({ draining: z.boolean() });
const Found = z.object({ found: z.boolean() });

interface BoardStub {
  beat(hostId: string, json: string): Promise<unknown>;
  drain(hostId: string, draining: boolean): Promise<unknown>;
  remove(hostId: string): Promise<unknown>;
  list(only: string | null): Promise<unknown>;
}

/** Whether the host drains. */
export async function reportHost(board: DurableObjectNamespace, beat: Heartbeat): Promise<boolean> {
  return Beaten.parse(await stub(board).beat(beat.hostId, ascii(JSON.stringify(beat)))).draining;
}

/** The hosts as the board knows them. */
export interface Board {
  /** Those that reported lately, by id. */
  readonly hosts: readonly Host[];
  /** Whether nothing of a host can run any more: it has been silent for longer than its lease. */
  isLost(hostId: string): boolean;
}

/** @param only what it says of one host: a board of many is long */
export async function readBoard(
  env: Pick<Env, "HOSTS" | "ROUSE_HOST_LEASE_SECONDS">,
  only: string | null = null,
): Promise<Board> {
  const { now, since, hosts } = Listed.parse(await stub(env.HOSTS).list(only));
  const { lostAfterMs } = hostLeaseTimes(hostLeaseSeconds(env));
  const rows = hosts.map(({ seenAt, json, draining }) => ({
    draining: draining === true,
    ...Heartbeat.parse(JSON.parse(json)),
    lastSeenAt: new Date(seenAt).toISOString(),
    live: now - seenAt <= Math.min(HOST_SILENT_MS, lostAfterMs),
    lost: now - seenAt > lostAfterMs,
  }));
  return {
    hosts: rows,
    isLost: (hostId) => rows.find((host) => host.hostId === hostId)?.lost ?? (since !== 0 && now - since > lostAfterMs),
  };
}

/** How long a heartbeat lets its host run machines. */
export function hostLeaseSeconds(env: Pick<Env, "ROUSE_HOST_LEASE_SECONDS">): number {
  return Number(env.ROUSE_HOST_LEASE_SECONDS ?? HOST_LEASE_SECONDS);
}

/** Let a host take new machines or not. false: there is no such host. */
export async function drainHost(board: DurableObjectNamespace, hostId: string, draining: boolean): Promise<boolean> {
  return Found.parse(await stub(board).drain(hostId, draining)).found;
}

/** false: there is no such host. */
export async function removeHost(board: DurableObjectNamespace, hostId: string): Promise<boolean> {
  return Found.parse(await stub(board).remove(hostId)).found;
}

/** Not to be returned from an async function: the proxy takes `then` for a method. */
function stub(board: DurableObjectNamespace): BoardStub {
  const proxies = proxyDurable(board, { name: "HOSTS", parse: true }) as { get(name: string): BoardStub };
  return proxies.get("board");
}

/** Arguments travel in a header. */
function ascii(json: string): string {
  return json.replace(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
