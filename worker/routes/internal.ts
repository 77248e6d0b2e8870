/** What hosts tell the edge. */
import { Hono } from "hono";
import { accountObject } from "../../durable/account/api.ts";
import { reportHost } from "../../durable/hosts/board-facade.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { AccountName } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { Heartbeat, MachineEvent } from "../../sdk/contract/host.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import { UsageReports } from "../../sdk/contract/usage.ts";
import { readJson } from "../api/input.ts";
import { authenticateHost } from "../middleware/auth.ts";
import { okOrThrow } from "./context.ts";

export const internal = new Hono<{ Bindings: Env }>();

internal.use(async (c, next) => {
  await authenticateHost(c.env, c.req.raw);
  await next();
});

internal.post("/hosts/:hostId/heartbeat", async (c) => {
  const { value: beat } = await readJson(Heartbeat, c.req.raw);
  if (beat.hostId !== c.req.param("hostId"))
    throw new RouseFailure("invalid_request", "Path and body name different hosts.");
  await reportHost(c.env.HOSTS, beat);
  return c.json({ ok: true });
});

internal.post("/accounts/:account/machines/:id/events", async (c) => {
  const account = parseOrFail(AccountName, c.req.param("account"), "account");
  const id = c.req.param("id");
  const label = labelOfId(id);
  if (label === null) throw new RouseFailure("not_found", "There is no such sandbox.");
  const { value: event } = await readJson(MachineEvent, c.req.raw);
  okOrThrow(await sandboxObject(c.env.SANDBOX, account, label).machineEvent(id, event));
  return c.json({ ok: true });
});

internal.post("/usage", async (c) => {
  const { value } = await readJson(UsageReports, c.req.raw);
  const refused = await Promise.all(
    Object.entries(Object.groupBy(value.reports, ({ account }) => account)).map(([account, reports = []]) =>
      accountObject(c.env.ACCOUNT, account).recordUsage(reports),
    ),
  );
  return c.json({ ok: true, refused: refused.reduce((sum, count) => sum + count, 0) });
});
