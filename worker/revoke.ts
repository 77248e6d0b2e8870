/** Tells of keys that are over, so that remembered verdicts and open connections end with them. */
import type { Reach } from "../durable/account/api.ts";
import { readBoard } from "../durable/hosts/board-facade.ts";
import { REVOKED_MAX } from "../sdk/contract/host.ts";
import { HostClient } from "../durable/sandbox/host-client.ts";
import { socketsObject } from "../durable/sockets/api.ts";

/** The ids are those of keys, or of sessions; sessions end with their key. Resolves when whoever holds connections has ended them, or did not answer in time. */
export async function endConnections(
  env: Env,
  account: string,
  reach: Reach,
  keyIds: readonly string[],
): Promise<void> {
  if (keyIds.length === 0) return;
  const { hostIds, labels, sessionIds } = reach;
  const ids = [...keyIds, ...sessionIds];
  const sockets = labels.map((label) => socketsObject(env.SOCKETS, account, label).revoke(ids));
  await Promise.all([tellHosts(env, hostIds, ids), ...sockets]);
}

async function tellHosts(env: Env, hostIds: readonly string[], keyIds: readonly string[]): Promise<void> {
  if (hostIds.length === 0) return;
  const { hosts } = await readBoard(env);
  const client = new HostClient(env.ROUSE_HOST_SECRET);
  const concerned = hosts.filter(({ hostId, live }) => live && hostIds.includes(hostId));
  await Promise.all(
    concerned.map(async ({ hostId, url }) => {
      for (let at = 0; at < keyIds.length; at += REVOKED_MAX)
        await client.revoke({ id: hostId, url }, keyIds.slice(at, at + REVOKED_MAX));
    }),
  );
}
