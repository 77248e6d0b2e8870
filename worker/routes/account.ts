/** The account and the hosts behind it. */
import { accountObject } from "../../durable/account/api.ts";
import { drainHost, listHosts, removeHost } from "../../durable/hosts/board-facade.ts";
import { DEFAULT_ACCOUNT, type Me } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { DrainHost, type Host } from "../../sdk/contract/host.ts";
import { UsageQuery } from "../../sdk/contract/usage.ts";
import { readJson, readQuery } from "../api/input.ts";
import type { Caller } from "../middleware/auth.ts";
import type { z } from "zod";
import type { Context } from "./context.ts";

const API_VERSION = "0.2.0";

export async function accountRoute({ env, operation, caller, url, request, params }: Context): Promise<Response> {
  const [hostId = ""] = params;
  switch (operation.path) {
    case "/v1/me": {
      const me: z.infer<typeof Me> = {
        orgId: caller.account,
        principalId: caller.account,
        credentialId: caller.keyId,
        apiVersion: API_VERSION,
        orgName: caller.account,
        role: "owner",
      };
      return Response.json(me);
    }
    case "/v1/hosts":
      return Response.json({ data: await listHosts(env.HOSTS, Date.now()) });
    case "/v1/hosts/{host}:drain": {
      mustOperate(caller);
      const { value } = await readJson(DrainHost, request);
      if (!(await drainHost(env.HOSTS, hostId, value.draining ?? true))) throw noSuchHost(hostId);
      return Response.json(await hostOf(env, hostId));
    }
    case "/v1/hosts/{host}": {
      mustOperate(caller);
      if ((await hostOf(env, hostId)).live) {
        throw new RouseFailure("conflict", `Host ${hostId} still reports; stop its host agent first.`);
      }
      await removeHost(env.HOSTS, hostId);
      return Response.json({ hostId, removed: true });
    }
    default: {
      const { month } = readQuery(UsageQuery, url.searchParams);
      return Response.json(await accountObject(env.ACCOUNT, caller.account).usage(month));
    }
  }
}

/** Hosts belong to whoever runs the installation: the default account. */
function mustOperate(caller: Caller): void {
  if (caller.account !== DEFAULT_ACCOUNT)
    throw new RouseFailure("forbidden", "Only the account of the installation's operator may do that.");
}

async function hostOf(env: Env, hostId: string): Promise<Host> {
  const host = (await listHosts(env.HOSTS, Date.now())).find((one) => one.hostId === hostId);
  if (!host) throw noSuchHost(hostId);
  return host;
}

function noSuchHost(hostId: string): RouseFailure {
  return new RouseFailure("not_found", `There is no host ${JSON.stringify(hostId)}.`);
}
