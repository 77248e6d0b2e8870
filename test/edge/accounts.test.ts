/** Accounts: opened by the operator, apart from each other, and within their quotas to the one. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { Account, NewAccount } from "../../sdk/contract/account.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import { clientOf, openAccount } from "./accounts.ts";
import { ask, call, created, edge, eventually, fake, faultOf, freshName, heartbeat, API } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

let counter = 0;

describe("an account", () => {
  it("is opened once by the operator, and not by others", async () => {
    const name = `once${counter++}`;
    const headers = { "idempotency-key": `open-${name}` };
    const first = NewAccount.parse((await ask("POST", "/v1/accounts", { name }, headers)).body);
    expect(first).toMatchObject({ name, plan: "metered", availableMicros: 0, used: { running: 0, kept: 0 } });
    await evictDurableObject(env.ACCOUNT.getByName(name));
    // A lost answer is had again, with the same key; another account of that name is not made.
    expect((await ask("POST", "/v1/accounts", { name }, headers)).body).toEqual(first);
    expect((await ask("POST", "/v1/accounts", { name })).body.error.code).toBe("name_taken");
    expect((await ask("POST", "/v1/accounts", { name, plan: "flat" }, headers)).body.error.code).toBe(
      "idempotency_key_reused",
    );
    const { as } = clientOf(first.key);
    expect((await as("GET", "/v1/me")).body).toMatchObject({ orgId: name, access: "full" });
    for (const [method, path, body] of [
      ["POST", "/v1/accounts", { name: "mine" }],
      ["GET", "/v1/accounts", undefined],
      ["POST", `/v1/accounts/${name}:credit`, { micros: 1_000_000 }],
      ["GET", "/v1/hosts", undefined],
      ["POST", "/v1/accounts/default:key", {}],
      ["POST", "/v1/hosts", { hostId: "mine" }],
      ["POST", "/v1/hosts/fake-1:drain", {}],
    ] as const)
      expect((await as(method, path, body)).body.error.code).toBe("forbidden");
    // Who has lost all keys gets another from the operator.
    const spare = await ask<{ key: string }>("POST", `/v1/accounts/${name}:key`, { access: "read" });
    expect((await clientOf(spare.body.key).as("GET", "/v1/me")).body).toMatchObject({ orgId: name, access: "read" });
    expect((await ask<{ data: { name: string }[] }>("GET", "/v1/accounts")).body.data.map((one) => one.name)).toContain(
      name,
    );
    expect(Account.parse((await ask("GET", `/v1/accounts/${name}`)).body).name).toBe(name);
  });

  it("says all that is wrong with a wish, and changes nothing", async () => {
    const answer = await ask("POST", "/v1/accounts", {
      name: "Bad Name",
      plan: "gold",
      quotas: { running: -1 },
      creditMicros: 1e20,
      dailyLimitMicros: -5,
      extra: 1,
    });
    expect(answer.status).toBe(400);
    const paths = answer.body.error.details?.issues?.map(({ path }) => path).toSorted();
    expect(paths).toEqual(
      expect.arrayContaining(["name", "plan", "quotas.running", "creditMicros", "dailyLimitMicros"]),
    );
    for (const path of ["/v1/accounts/nobody", "/v1/accounts/No%20One"])
      expect((await call("GET", path)).status).toBe(404);
    expect((await ask("POST", "/v1/accounts/nobody:credit", { micros: 5 })).status).toBe(404);
    for (const micros of [0, -1, 1.5, "5", 1e15])
      expect((await ask("POST", "/v1/accounts/default:credit", { micros })).status).toBe(400);
  });

  it("does not see another's sandboxes, by API or by URL, and never wakes them", async () => {
    const mine = await created();
    await ask("POST", `/v1/sandboxes/${mine.id}:pause`, {});
    const { as, key, name } = await openAccount();
    for (const reference of [mine.id, mine.name]) {
      expect((await as("GET", `/v1/sandboxes/${reference}`)).body.error.code).toBe("not_found");
      expect((await as("POST", `/v1/sandboxes/${reference}:wake`, {})).body.error.code).toBe("not_found");
      expect((await as("POST", `/v1/sandboxes/${reference}:exec`, { command: "id" })).body.error.code).toBe(
        "not_found",
      );
      expect((await as("DELETE", `/v1/sandboxes/${reference}`)).body.error.code).toBe("not_found");
    }
    const visit = (host: string) => edge(`http://${host}.rouse.test/`, { headers: { "x-rouse-key": key } });
    const stranger = await visit(mine.label);
    const absent = await visit(freshName());
    expect([stranger.status, absent.status]).toEqual([404, 404]);
    expect((await faultOf(stranger)).message).toBe((await faultOf(absent)).message);
    expect((await ask("GET", `/v1/sandboxes/${mine.id}`)).body.state).toBe("paused");
    // The same name is free in the other account, and its URL says whose it is.
    const theirs = await as("POST", "/v1/sandboxes", { name: mine.name });
    expect(theirs.body.url).toBe(`http://${mine.name}--${name}.rouse.test/`);
    expect((await as<{ data: Sandbox[] }>("GET", "/v1/sandboxes")).body.data.map(({ id }) => id)).toEqual([
      theirs.body.id,
    ]);
  });
});

describe("quotas", () => {
  it("hold to the one, however many ask at once, and a sleeper gives its room back", async () => {
    const { as } = await openAccount({ quotas: { running: 2, vcpus: 8 } });
    const names = Array.from({ length: 6 }, () => freshName());
    const answers = await Promise.all(names.map((name) => as("POST", "/v1/sandboxes", { name })));
    const made = answers.filter(({ status }) => status === 200).map(({ body }) => body);
    expect(made).toHaveLength(2);
    const refused = answers.find(({ status }) => status !== 200);
    expect(refused?.body.error).toMatchObject({
      code: "quota_exceeded",
      details: { limits: { running: { max: 2, wouldBe: 3 } } },
    });
    expect((await as<Account>("GET", "/v1/account")).body.used).toMatchObject({ running: 2, vcpus: 4, kept: 2 });
    const [first] = made;
    await as("POST", `/v1/sandboxes/${first?.id}:pause`, {});
    const third = await as("POST", "/v1/sandboxes", { name: freshName() });
    expect(third.status).toBe(200);
    // Full again: the sleeper is not woken, and is as it was.
    const woken = await as("POST", `/v1/sandboxes/${first?.id}:wake`, {});
    expect(woken.body.error.code).toBe("quota_exceeded");
    const asleep = (await as("GET", `/v1/sandboxes/${first?.id}`)).body;
    expect(asleep).toMatchObject({ state: "paused", stopReason: "requested" });
    expect((await fake.state(first?.name ?? "")).log.filter((line) => line.startsWith("wake"))).toEqual([]);
    await as("DELETE", `/v1/sandboxes/${third.body.id}`);
    expect((await as("POST", `/v1/sandboxes/${first?.id}:wake`, {})).body.state).toBe("running");
  });

  it("of what is kept and made in a day count creations only, and name all that is over", async () => {
    const { as } = await openAccount({ quotas: { kept: 1, createdPerDay: 2 } });
    const one = await as("POST", "/v1/sandboxes", { name: freshName() });
    expect(one.status).toBe(200);
    expect((await as("POST", "/v1/sandboxes", { name: freshName() })).body.error.details).toMatchObject({
      limits: { kept: { max: 1, wouldBe: 2 } },
    });
    // A wake is no creation.
    await as("POST", `/v1/sandboxes/${one.body.id}:pause`, {});
    expect((await as("POST", `/v1/sandboxes/${one.body.id}:wake`, {})).status).toBe(200);
    await as("DELETE", `/v1/sandboxes/${one.body.id}`);
    expect((await as("POST", "/v1/sandboxes", { name: freshName() })).status).toBe(200);
    const third = await as("POST", "/v1/sandboxes", { name: freshName() });
    expect(third.body.error.details).toMatchObject({ limits: { kept: {}, createdPerDay: { max: 2, wouldBe: 3 } } });
  });

  it("that come later hold for what runs already, and survive an eviction", async () => {
    const { as, name } = await openAccount();
    await Promise.all([1, 2].map(() => as("POST", "/v1/sandboxes", { name: freshName() })));
    const updated = await ask<Account>("POST", `/v1/accounts/${name}:update`, { quotas: { running: 2 } });
    expect(updated.body).toMatchObject({ quotas: { running: 2, kept: null }, used: { running: 2 } });
    await evictDurableObject(env.ACCOUNT.getByName(name));
    expect((await as("POST", "/v1/sandboxes", { name: freshName() })).body.error.code).toBe("quota_exceeded");
  });
});

it("that is suspended sleeps, and wakes nothing until it is let go", async () => {
  const { as, name } = await openAccount();
  const sandbox = (await as("POST", "/v1/sandboxes", { name: freshName() })).body;
  await ask("POST", `/v1/accounts/${name}:update`, { suspended: true });
  await eventually(
    async () => (await as("GET", `/v1/sandboxes/${sandbox.id}`)).body,
    ({ state, stopReason }) => state === "paused" && stopReason === "operator_stopped",
  );
  await runDurableObjectAlarm(env.ACCOUNT.getByName(name));
  await runDurableObjectAlarm(env.ACCOUNT.getByName(name));
  expect((await as("POST", `/v1/sandboxes/${sandbox.id}:exec`, { command: "true" })).body.error.code).toBe(
    "account_blocked",
  );
  await ask("POST", `/v1/accounts/${name}:update`, { suspended: false });
  expect((await as("POST", `/v1/sandboxes/${sandbox.id}:wake`, {})).body.state).toBe("running");
});

it("keeps what the operator may see apart from what the account says of itself", async () => {
  const { name, as } = await openAccount({ displayName: "A lab", quotas: { running: 3 } });
  const own = Account.parse((await as("GET", "/v1/account")).body);
  expect(own).toMatchObject({ name, displayName: "A lab", quotas: { running: 3 } });
  expect(Account.parse((await ask("GET", `/v1/accounts/${name}`)).body)).toEqual(own);
  expect((await edge(`${API}/v1/account`)).status).toBe(401);
});
