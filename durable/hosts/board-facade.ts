/** The typed way to the board of hosts. */
import { proxyDurable } from "itty-durable/proxy-durable.js";
import { z } from "zod";
import { Heartbeat, type Host } from "../../sdk/contract/host.ts";
import { HOST_SILENT_MS } from "./placement.ts";

const Entries = z.array(z.object({ seenAt: z.number(), json: z.string() }));

interface BoardStub {
  beat(hostId: string, json: string): Promise<unknown>;
  list(): Promise<unknown>;
}

export async function reportHost(board: DurableObjectNamespace, beat: Heartbeat): Promise<void> {
  await stub(board).beat(beat.hostId, ascii(JSON.stringify(beat)));
}

/** All hosts that reported lately, by id. */
export async function listHosts(board: DurableObjectNamespace, now: number): Promise<Host[]> {
  const entries = Entries.parse(await stub(board).list());
  return entries.map(({ seenAt, json }) => ({
    ...Heartbeat.parse(JSON.parse(json)),
    lastSeenAt: new Date(seenAt).toISOString(),
    live: now - seenAt <= HOST_SILENT_MS,
  }));
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
