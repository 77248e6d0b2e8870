/** The account that the key belongs to: who, what it used, what is about to happen. */
import { accountObject } from "../../durable/account/api.ts";
import { outboxObject } from "../../durable/outbox/api.ts";
import { API_VERSION, type Me, type MemberRole } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { UsageQuery, usageCsv } from "../../sdk/contract/usage.ts";
import { readQuery } from "../api/input.ts";
import type { Caller } from "../middleware/auth.ts";
import type { z } from "zod";
import type { Context } from "./context.ts";

export async function accountRoute({ env, operation, caller, url }: Context): Promise<Response> {
  const object = accountObject(env.ACCOUNT, caller.account);
  switch (operation.path) {
    case "/v1/me":
      return Response.json(meOf(caller));
    case "/v1/account": {
      const account = await object.account();
      if (!account) throw new RouseFailure("not_found", "There is no such account.");
      return Response.json(account);
    }
    case "/v1/notices": {
      const outbox = outboxObject(env.OUTBOX, caller.account);
      const [notices, ofEndpoints] = await Promise.all([object.notices(), outbox.notices()]);
      return Response.json({ data: [...ofEndpoints, ...notices] });
    }
    default: {
      const query = readQuery(UsageQuery, url.searchParams);
      const usage = await object.usage(query);
      if (query.format !== "csv") return Response.json(usage);
      return new Response(usageCsv(usage.lines), { headers: { "content-type": "text/csv; charset=utf-8" } });
    }
  }
}

const roles: Readonly<Record<Caller["access"], MemberRole>> = {
  full: "owner",
  sandboxes: "developer",
  read: "developer",
  billing: "billing",
};

function meOf({ account, keyId, access, namePrefix }: Caller): z.infer<typeof Me> {
  return {
    orgId: account,
    principalId: account,
    credentialId: keyId,
    apiVersion: API_VERSION,
    orgName: account,
    role: roles[access],
    access,
    namePrefix,
  };
}
