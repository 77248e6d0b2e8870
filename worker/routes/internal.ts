/** What hosts tell the edge. */
import { Hono } from "hono";
import type { z } from "zod";
import { accountObject } from "../../durable/account/api.ts";
import { hostLeaseSeconds, reportHost } from "../../durable/hosts/board-facade.ts";
import { snapshotsObject } from "../../durable/snapshots/api.ts";
import { sandboxObject, type SandboxApi } from "../../durable/sandbox/api.ts";
import { secretsObject } from "../../durable/secrets/api.ts";
import { volumesObject } from "../../durable/volumes/api.ts";
import { AccountName } from "../../sdk/contract/account.ts";
import { ArchiveStep } from "../../sdk/contract/archive.ts";
import { EgressReport, type EgressAnswer, type EgressReportTaken } from "../../sdk/contract/egress.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { Heartbeat, MachineEvent, type EventTaken, type HeartbeatTaken } from "../../sdk/contract/host.ts";
import { AttachmentId, BackupId, Generation, labelOfId, SnapshotId } from "../../sdk/contract/names.ts";
import { UsageReports } from "../../sdk/contract/usage.ts";
import { readJson } from "../api/input.ts";
import type { RequestNote } from "../log.ts";
import { authenticateHost } from "../middleware/auth.ts";
import { blobs } from "./blobs.ts";
import { okOrThrow } from "./context.ts";
import { insideRoute } from "./inside.ts";

export const internal = new Hono<{ Bindings: Env & { readonly note: RequestNote }; Variables: { hostId: string } }>();

internal.use(async (c, next) => {
  c.set("hostId", await authenticateHost(c.env, c.req.raw));
  await next();
});

internal.post("/hosts/:hostId/heartbeat", async (c) => {
  const { value: beat } = await readJson(Heartbeat, c.req.raw);
  if (beat.hostId !== c.req.param("hostId") || beat.hostId !== c.get("hostId"))
    throw new RouseFailure("forbidden", "A host reports for itself: path, body and key must name the same one.");
  const draining = await reportHost(c.env.HOSTS, beat);
  return c.json({ ok: true, leaseSeconds: hostLeaseSeconds(c.env), now: Date.now(), draining } satisfies z.infer<
    typeof HeartbeatTaken
  >);
});

internal.post("/accounts/:account/machines/:id/events", async (c) => {
  const { id, object } = sandboxOf(c.env, c.req.param());
  const { value: event } = await readJson(MachineEvent, c.req.raw);
  const { fate } = okOrThrow(await object.machineEvent(id, event, c.get("hostId")));
  return c.json({ ok: true, fate } satisfies z.infer<typeof EventTaken>);
});

internal.get("/accounts/:account/machines/:id/egress", async (c) => {
  const { id, object } = sandboxOf(c.env, c.req.param());
  const generation = parseOrFail(Generation, Number(c.req.query("generation")), "generation");
  const egress = await object.egressFor(id, generation, c.get("hostId"));
  return c.json({ egress } satisfies z.infer<typeof EgressAnswer>);
});

internal.post("/accounts/:account/machines/:id/egress-report", async (c) => {
  const { id, object } = sandboxOf(c.env, c.req.param());
  const { value } = await readJson(EgressReport, c.req.raw);
  const { uses } = okOrThrow(await object.egressReport(id, value, c.get("hostId")));
  if (uses.length > 0) await secretsObject(c.env.SECRETS, c.req.param("account")).used(id, uses);
  return c.json({ ok: true } satisfies z.infer<typeof EgressReportTaken>);
});

internal.post("/accounts/:account/machines/:id/archive", async (c) => {
  const { id, object } = sandboxOf(c.env, c.req.param());
  const { value: step } = await readJson(ArchiveStep, c.req.raw);
  const { answer } = okOrThrow(await object.archiveStep(id, step, c.get("hostId")));
  return c.json(answer);
});

internal.post("/accounts/:account/snapshots/:id/archive", async (c) => {
  const account = parseOrFail(AccountName, c.req.param("account"), "account");
  const id = parseOrFail(SnapshotId, c.req.param("id"), "snapshot id");
  const { value: step } = await readJson(ArchiveStep, c.req.raw);
  return c.json(
    okOrThrow(await snapshotsObject(c.env.SNAPSHOTS, account).archiveStep(id, step, c.get("hostId"))).answer,
  );
});

internal.post("/accounts/:account/volumes/:id/archive", async (c) => {
  const account = parseOrFail(AccountName, c.req.param("account"), "account");
  const id = parseOrFail(AttachmentId.or(BackupId), c.req.param("id"), "attachment or backup id");
  const { value: step } = await readJson(ArchiveStep, c.req.raw);
  return c.json(okOrThrow(await volumesObject(c.env.VOLUMES, account).archiveStep(id, step, c.get("hostId"))).answer);
});

internal.post("/usage", async (c) => {
  const { value } = await readJson(UsageReports, c.req.raw);
  const refused = await Promise.all(
    Object.entries(Object.groupBy(value.reports, ({ account }) => account)).map(([account, reports = []]) =>
      accountObject(c.env.ACCOUNT, account).recordUsage(reports, c.get("hostId")),
    ),
  );
  return c.json({ ok: true, refused: refused.reduce((sum, count) => sum + count, 0) });
});

internal.all("/inside", (c) => insideRoute(c.env, c.req.raw, c.env.note));
internal.all("/inside/*", (c) => insideRoute(c.env, c.req.raw, c.env.note));

internal.route("/", blobs);

/** The sandbox that a path names. @throws RouseFailure `not_found` */
function sandboxOf(env: Env, params: { account: string; id: string }): { id: string; object: SandboxApi } {
  const account = parseOrFail(AccountName, params.account, "account");
  const { id } = params;
  const label = labelOfId(id);
  if (label === null) throw new RouseFailure("not_found", "There is no such sandbox.");
  return { id, object: sandboxObject(env.SANDBOX, account, label) };
}
