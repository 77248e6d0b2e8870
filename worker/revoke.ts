/** Tells hosts of keys that are over, so that remembered verdicts and open connections end with them. */
import { readBoard } from "../durable/hosts/board-facade.ts";
import { HostClient } from "../durable/sandbox/host-client.ts";

/** Resolves when every host that is live has ended them, or did not answer in time. */
export async function tellHosts(env: Env, hostIds: readonly string[], keyIds: readonly string[]): Promise<void> {
  if (hostIds.length === 0 || keyIds.length === 0) return;
  const { hosts } = await readBoard(env);
  const client = new HostClient(env.ROUSE_HOST_SECRET);
  const concerned = hosts.filter(({ hostId, live }) => live && hostIds.includes(hostId));
  await Promise.all(concerned.map(({ hostId, url }) => client.revoke({ id: hostId, url }, keyIds)));
}
