/** The account and the hosts behind it. */
import { accountObject } from "../../durable/account/api.ts";
import { listHosts } from "../../durable/hosts/board-facade.ts";
import type { Me } from "../../sdk/contract/account.ts";
import { UsageQuery } from "../../sdk/contract/usage.ts";
import { readQuery } from "../api/input.ts";
import type { z } from "zod";
import type { Context } from "./context.ts";

const API_VERSION = "0.2.0";

export async function accountRoute({ env, operation, caller, url }: Context): Promise<Response> {
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
    default: {
      const { month } = readQuery(UsageQuery, url.searchParams);
      return Response.json(await accountObject(env.ACCOUNT, caller.account).usage(month));
    }
  }
}
