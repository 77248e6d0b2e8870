/** Requests to named URLs that are answered later. */
import { env } from "cloudflare:workers";
import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Receipt } from "../../sdk/contract/hook.ts";
import { ask, created, edge, eventually, fake, faultOf, freshName, heartbeat, paused, secrets } from "./client.ts";
import { TestInbox } from "./inboxes.ts";
import { DAY, shift } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const KEY = { authorization: `Bearer ${secrets.apiKey}`, prefer: "wait=1, respond-async" };

const post = (name: string, path = "/in", init: RequestInit = {}) =>
  edge(`http://3000-${name}.rouse.test${path}`, { method: "POST", body: "ask", headers: KEY, ...init });

const settled = (location: string) =>
  eventually(
    async () => (await ask<Receipt>("GET", location)).body,
    ({ state }) => state !== "waiting",
  );

it("are stored while the sandbox sleeps, and their receipt has the answer for a day", async () => {
  const { name, id } = await paused();
  await fake.plan({ label: name, action: "wake", hold: true });
  await fake.turns(name, { status: 404, headers: { "x-of-it": "1", "set-cookie": "a=b" }, body: "no such" });
  const response = await post(name, "/in/a?b=c");
  const { id: event } = await response.json<{ id: string }>();
  const location = response.headers.get("location") ?? "";
  expect([response.status, location]).toEqual([202, `/v1/sandboxes/${encodeURIComponent(id)}/receipts/${event}`]);
  expect(response.headers.get("preference-applied")).toBe("respond-async");
  expect((await ask<Receipt>("GET", location)).body).toMatchObject({ state: "waiting", response: null });
  await fake.release(name);
  const receipt = Receipt.parse(await settled(location));
  // Whatever the program answers is the answer.
  expect(receipt).toMatchObject({
    ...{ id: event, sandboxId: id, state: "delivered", attempts: 1 },
    response: { status: 404, body: { encoding: "text", data: "no such" } },
  });
  expect(receipt.response?.headers).toContainEqual(["x-of-it", "1"]);
  expect(receipt.response?.headers.map(([header]) => header)).not.toContain("set-cookie");
  const [taken] = await fake.taken(name);
  expect(taken).toMatchObject({ target: "port/3000", path: "/in/a?b=c", method: "POST" });
  expect(Buffer.from(taken?.base64 ?? "", "base64").toString()).toBe("ask");
  expect(taken?.headers["webhook-id"]).toBe(event);
  expect(taken?.headers).not.toHaveProperty("authorization");
  const again = await ask("POST", `/v1/sandboxes/${name}/hook-events/${event}:replay`, {});
  expect([again.status, again.body.error.code]).toEqual([409, "conflict"]);
  await evictDurableObject(env.INBOX.getByName(`default/${name}`));
  expect((await ask<Receipt>("GET", location)).body).toEqual(receipt);
  shift(1.1 * DAY);
  expect((await ask<Receipt>("GET", location)).body).toMatchObject({ state: "delivered", response: null });
});

it("of any method, and tried again while the program is not reached", async () => {
  const { name } = await created();
  await fake.turns(name, { hangUp: true });
  const response = await edge(`http://${name}.rouse.test/in`, { method: "GET", headers: KEY });
  const location = response.headers.get("location") ?? "";
  const tried = () => ask<Receipt>("GET", location);
  const { body } = await eventually(tried, (one) => one.body.attempts === 1);
  expect(body.timeline.at(-1)).toMatchObject({ what: "attempt", reason: "upstream_closed" });
  shift(7000);
  const inbox = Object.assign(Object.create(TestInbox.prototype) as TestInbox, { name });
  await inbox.alarm();
  expect(await settled(location)).toMatchObject({ state: "delivered", response: { status: 200 } });
  expect((await fake.taken(name)).map(({ method }) => method)).toEqual(["GET", "GET"]);
});

it("are not taken from who has no key, of a sandbox that is not there, or when they are too long", async () => {
  const { name } = await created();
  expect((await post(name, "/in", { headers: { prefer: "respond-async" } })).status).toBe(401);
  expect((await post(freshName())).status).toBe(404);
  const long = await post(name, "/in", { body: "x".repeat(1_048_577) });
  expect([long.status, (await faultOf(long)).code]).toEqual([413, "payload_too_large"]);
  expect((await post(name, "/in", { body: "x".repeat(1_048_576) })).status).toBe(202);
  expect((await ask("GET", `/v1/sandboxes/${name}/receipts/evt-${"0".repeat(20)}`)).status).toBe(404);
  // Without it, or to a public port without a key, it is a request like any other.
  expect((await post(name, "/in", { headers: { authorization: KEY.authorization } })).status).toBe(200);
});
