/** The typed way to the board of hosts. */
import { proxyDurable } from "itty-durable/proxy-durable.js";
import { z } from "zod";
import { Heartbeat, type Host } from "../../sdk/contract/host.ts";
import { HOST_SILENT_MS } from "./placement.ts";

const Entries = z.array(z.object({ seenAt: z.number(), json: z.string(), draining: z.boolean().optional() }));
const Found = z.object({ found: z.boolean() });

interface BoardStub {
  beat(hostId: string, json: string): Promise<unknown>;
  drain(hostId: string, draining: boolean): Promise<unknown>;
  remove(hostId: string): Promise<unknown>;
  list(): Promise<unknown>;
}

export async function reportHost(board: DurableObjectNamespace, beat: Heartbeat): Promise<void> {
  await stub(board).beat(beat.hostId, ascii(JSON.stringify(beat)));
}

/** All hosts that reported lately, by id. */
export async function listHosts(board: DurableObjectNamespace, now: number): Promise<Host[]> {
  const entries = Entries.parse(await stub(board).list());
  return entries.map(({ seenAt, json, draining }) => ({
    draining: draining === true,
    ...Heartbeat.parse(JSON.parse(json)),
    lastSeenAt: new Date(seenAt).toISOString(),
    live: now - seenAt <= HOST_SILENT_MS,
  }));
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
