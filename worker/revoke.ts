/** Tells of keys that are over, so that remembered verdicts and open connections end with them. */
import type { Reach } from "../durable/account/api.ts";
import { readBoard } from "../durable/hosts/board-facade.ts";
import { HostClient } from "../durable/sandbox/host-client.ts";
import { socketsObject } from "../durable/sockets/api.ts";

/** Resolves when whoever holds connections has ended them, or did not answer in time. */
export async function endConnections(
  env: Env,
  account: string,
  reach: Reach,
  keyIds: readonly string[],
): Promise<void> {
  if (keyIds.length === 0) return;
  const { hostIds, labels } = reach;
  const sockets = labels.map((label) => socketsObject(env.SOCKETS, account, label).revoke(keyIds));
  await Promise.all([tellHosts(env, hostIds, keyIds), ...sockets]);
}

async function tellHosts(env: Env, hostIds: readonly string[], keyIds: readonly string[]): Promise<void> {
  if (hostIds.length === 0) return;
  const { hosts } = await readBoard(env);
  const client = new HostClient(env.ROUSE_HOST_SECRET);
  const concerned = hosts.filter(({ hostId, live }) => live && hostIds.includes(hostId));
  await Promise.all(concerned.map(({ hostId, url }) => client.revoke({ id: hostId, url }, keyIds)));
}
