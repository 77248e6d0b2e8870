/** What keeps a sandbox awake, who had it wake, and when it slept. */
import { env } from "cloudflare:workers";
import { evictDurableObject } from "cloudflare:test";
import { beforeEach, expect, it } from "vitest";
import { Why } from "../../sdk/contract/timeline.ts";
import { ask, call, created, edge, fake, freshName, heartbeat, paused, secrets } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

const why = async (id: string) => Why.parse((await ask("GET", `/v1/sandboxes/${encodeURIComponent(id)}:why`)).body);
const visit = (name: string, path: string, headers: Record<string, string> = {}) =>
  edge(`http://${name}.rouse.test${path}`, { headers: { authorization: `Bearer ${secrets.apiKey}`, ...headers } });
const brief = ({ timeline }: Why) => timeline.map(({ event, generation, reason }) => [event, generation, reason]);

it("says what keeps it awake", async () => {
  const { id, name } = await created({ idlePauseSeconds: 60 });
  const fresh = await why(name);
  expect(fresh).toMatchObject({ state: "running", generation: 1, hostAnswered: true, runsToday: 1, chargedMicros: 0 });
  const [recent] = fresh.awake;
  if (recent?.because !== "recent_use") throw new Error(`awake because of ${recent?.because}`);
  expect(Date.parse(recent.pausesAt) - Date.parse(recent.lastActiveAt)).toBe(60_000);
  await ask("POST", `/v1/sandboxes/${id}:hold`, { name: "deploy", seconds: 30 });
  await ask("POST", `/v1/sandboxes/${id}:update`, { idlePauseSeconds: 0 });
  expect((await why(id)).awake.map(({ because }) => because)).toEqual(["hold", "no_idle_pause"]);
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  expect(await why(id)).toMatchObject({ state: "paused", awake: [], hostAnswered: false });
});

it("says who had it wake, over evictions, and never a query", async () => {
  const { id, name } = await paused();
  const visited = await visit(name, "/a/page?token=secret", { "x-request-id": "visit-1" });
  expect(visited.status).toBe(200);
  await evictDurableObject(env.SANDBOX.getByName(`default/${name}`));
  const first = await why(id);
  expect(first.lastRun).toMatchObject({
    ...{ event: "woke", generation: 2, reason: null },
    cause: { kind: "request", request: "GET /a/page", port: 8080, requestId: "visit-1" },
  });
  expect(first.lastRun?.tookMs).toBeGreaterThanOrEqual(0);
  expect(first.lastRun?.cause?.keyId).not.toBeNull();
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  await Promise.all([ask("POST", `/v1/sandboxes/${id}:wake`, {}), visit(name, "/b")]);
  await ask("POST", `/v1/sandboxes/${id}:stop`, {});
  await ask("POST", `/v1/sandboxes/${id}:restart`, {});
  const all = await why(id);
  expect(brief(all)).toEqual([
    ["booted", 4, "requested"],
    ["stopped", 3, "requested"],
    ["woke", 3, null],
    ["paused", 2, "requested"],
    ["woke", 2, null],
    ["paused", 1, "requested"],
    ["created", 1, null],
  ]);
  expect(all.timeline[0]?.cause).toMatchObject({ kind: "api", request: `POST /v1/sandboxes/${id}:restart` });
  expect(all.timeline.at(-1)?.cause).toMatchObject({ kind: "api", request: "POST /v1/sandboxes", port: null });
  expect(all.runsToday).toBe(4);
});

it("a wake that fails is shown with its code, and one that nobody may have asked for leaves no trace", async () => {
  const { id, name } = await paused();
  const strange = await call("GET", `/v1/sandboxes/${name}:why`, undefined, { authorization: "Bearer rouse_x" });
  expect(strange.status).toBe(401);
  expect((await visit(name, "/", { authorization: "" })).status).toBe(401);
  expect((await why(id)).timeline).toHaveLength(2);
  await fake.plan({ label: name, action: "wake", fail: { code: "wake_failed", message: "no luck" } });
  await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  expect(brief(await why(id))[0]).toEqual(["failed", 2, "wake_failed"]);
  expect((await ask("GET", `/v1/sandboxes/${freshName()}:why`)).body.error.code).toBe("not_found");
  expect((await ask("GET", `/v1/sandboxes/${id}:why?x=1`)).body.error.code).toBe("invalid_request");
});

it("what is made under a name again begins a timeline of its own", async () => {
  const { id, name } = await created();
  await ask("DELETE", `/v1/sandboxes/${id}`);
  await ask("POST", "/v1/sandboxes", { name });
  expect(brief(await why(name))).toEqual([["created", 1, null]]);
});
