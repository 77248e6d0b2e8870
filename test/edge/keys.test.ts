/** API keys: what each may do, what it is limited to, and that a revoked one ends at once. */
import { env } from "cloudflare:workers";
import { evictDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { NewKey, type Key, type Member } from "../../sdk/contract/account.ts";
import type { Preview, Sandbox } from "../../sdk/contract/sandbox.ts";
import { clientOf, openAccount } from "./accounts.ts";
import { ask, call, created, edge, fake, faultOf, freshName, heartbeat, paused } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

async function makeKey(input: Record<string, unknown>, maker = ask): Promise<NewKey> {
  const { status, body } = await maker("POST", "/v1/keys", input);
  if (status !== 200) throw new Error(`key: ${status} ${JSON.stringify(body)}`);
  return NewKey.parse(body);
}

describe("a key", () => {
  it("is shown once, kept as a hash, and found again after an eviction", async () => {
    const headers = { "idempotency-key": `key-${freshName()}` };
    const first = NewKey.parse((await ask("POST", "/v1/keys", { name: "ci" }, headers)).body);
    expect(first.key).toMatch(/^rouse_default_[a-z0-9]{12}_[A-Za-z0-9]{32}$/);
    await evictDurableObject(env.ACCOUNT.getByName("default"));
    expect((await ask("POST", "/v1/keys", { name: "ci" }, headers)).body).toEqual(first);
    const listed = (await ask<{ data: Key[] }>("GET", "/v1/keys")).body.data.find(({ id }) => id === first.id);
    expect(listed).toMatchObject({ name: "ci", access: "full", revokedAt: null });
    expect(JSON.stringify(listed)).not.toContain(first.key);
    expect((await clientOf(first.key).as("GET", "/v1/me")).body).toMatchObject({ credentialId: first.id });
  });

  it("does what its access says, and no more", async () => {
    const sandbox = await paused();
    const read = clientOf((await makeKey({ access: "read" })).key);
    expect((await read.as("GET", `/v1/sandboxes/${sandbox.id}`)).status).toBe(200);
    expect((await read.as("GET", "/v1/usage")).status).toBe(200);
    for (const [method, path, body] of [
      ["POST", `/v1/sandboxes/${sandbox.id}:wake`, {}],
      ["POST", `/v1/sandboxes/${sandbox.id}:exec`, { command: "true" }],
      ["GET", `/v1/sandboxes/${sandbox.id}/files/list?path=/`, undefined],
      ["POST", "/v1/sandboxes", { name: freshName() }],
      ["POST", "/v1/keys", {}],
    ] as const) {
      const { status, body: answer } = await read.as(method, path, body);
      expect([status, answer.error.code]).toEqual([403, "permission_denied"]);
    }
    const url = `http://${sandbox.label}.rouse.test/`;
    const key = (await makeKey({ access: "read" })).key;
    expect((await faultOf(await edge(url, { headers: { "x-rouse-key": key } }))).code).toBe("permission_denied");
    const preview = await ask<Preview>("POST", `/v1/sandboxes/${sandbox.id}/previews`, { port: 3000 });
    expect(preview.body.token).not.toBeNull();
    expect((await read.as<Preview>("GET", `/v1/sandboxes/${sandbox.id}/previews/3000`)).body.token).toBeNull();
    expect((await ask("GET", `/v1/sandboxes/${sandbox.id}`)).body.state).toBe("paused");

    const user = clientOf((await makeKey({ access: "sandboxes" })).key);
    expect((await user.as("POST", `/v1/sandboxes/${sandbox.id}:wake`, {})).status).toBe(200);
    expect((await user.as("GET", "/v1/usage")).body.error.code).toBe("permission_denied");
    expect((await user.as("POST", "/v1/keys", {})).body.error.code).toBe("permission_denied");
    const billing = clientOf((await makeKey({ access: "billing" })).key);
    expect((await billing.as("GET", "/v1/usage")).status).toBe(200);
    expect((await billing.as("GET", "/v1/sandboxes")).body.error.code).toBe("permission_denied");
  });

  it("of a name prefix sees and makes only those", async () => {
    const other = await created();
    const unnamed = (await ask("POST", "/v1/sandboxes", {})).body;
    const prefix = `${freshName()}-`;
    const key = await makeKey({ namePrefix: prefix });
    const { as } = clientOf(key.key);
    const mine = await as("POST", "/v1/sandboxes", { name: `${prefix}a` });
    expect(mine.status).toBe(200);
    const odd = await as("POST", "/v1/sandboxes", { name: `${prefix}An Odd Name` });
    expect(odd.status).toBe(200);
    for (const name of [freshName(), prefix.slice(0, -1), undefined])
      expect((await as("POST", "/v1/sandboxes", name === undefined ? {} : { name })).body.error.code).toBe(
        "permission_denied",
      );
    for (const reference of [other.id, other.name, unnamed.id, freshName()]) {
      const one = `/v1/sandboxes/${reference}`;
      expect((await as("GET", one)).body.error.code).toBe("not_found");
      expect((await as("POST", `${one}:exec`, { command: "true" })).body.error.code).toBe("not_found");
      expect((await as("POST", `${one}:pause`, {})).body.error.code).toBe("not_found");
      expect((await as("GET", `${one}/previews`)).body.error.code).toBe("not_found");
    }
    for (const reference of [mine.body.id, odd.body.id, `${prefix}a`])
      expect((await as("POST", `/v1/sandboxes/${reference}:exec`, { command: "true" })).status).toBe(200);
    const listed = (await as<{ data: Sandbox[] }>("GET", "/v1/sandboxes")).body.data.map(({ id }) => id);
    expect(listed.toSorted()).toEqual([mine.body.id, odd.body.id].toSorted());
    const visit = (label: string) => edge(`http://${label}.rouse.test/`, { headers: { "x-rouse-key": key.key } });
    expect((await visit(mine.body.label)).status).toBe(200);
    expect((await visit(other.label)).status).toBe(404);
    expect((await as("GET", "/v1/usage")).body.error.code).toBe("permission_denied");
  });

  it("of so many sandboxes makes no more at once, exactly", async () => {
    const { as } = clientOf((await makeKey({ maxSandboxes: 2 })).key);
    const answers = await Promise.all([1, 2, 3, 4].map(() => as("POST", "/v1/sandboxes", { name: freshName() })));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2);
    expect(answers.find(({ status }) => status !== 200)?.body.error).toMatchObject({
      code: "quota_exceeded",
      details: { limits: { maxSandboxes: { max: 2 } } },
    });
    const [made] = answers.filter(({ status }) => status === 200);
    await as("DELETE", `/v1/sandboxes/${made?.body.id}`);
    expect((await as("POST", "/v1/sandboxes", { name: freshName() })).status).toBe(200);
  });

  it("ends when its time is up, also where it was believed", async () => {
    const sandbox = await created();
    const { key } = await makeKey({ ttlSeconds: 60 });
    const visit = () => edge(`http://${sandbox.label}.rouse.test/`, { headers: { "x-rouse-key": key } });
    expect((await visit()).status).toBe(200);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 61_000);
    try {
      expect((await visit()).status).toBe(401);
      expect((await clientOf(key).as("GET", "/v1/me")).status).toBe(401);
    } finally {
      vi.useRealTimers();
    }
    for (const wrong of [
      { expiresAt: "2020-01-01T00:00:00Z" },
      { expiresAt: "tomorrow" },
      { ttlSeconds: 0 },
      { ttlSeconds: 60, expiresAt: "2030-01-01T00:00:00Z" },
      { maxSandboxes: 0 },
      { dailyLimitMicros: -1 },
      { access: "root" },
      { namePrefix: "" },
      { memberId: "mb-nobody" },
    ])
      expect((await call("POST", "/v1/keys", wrong)).status).toBeGreaterThanOrEqual(400);
  });

  it("makes no key that may do more than itself", async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const limited = clientOf((await makeKey({ maxSandboxes: 5, dailyLimitMicros: 1000, expiresAt })).key);
    for (const [input, more] of [
      [{}, ["maxSandboxes", "dailyLimitMicros", "expiresAt"]],
      [{ maxSandboxes: 6, dailyLimitMicros: 1000, expiresAt }, ["maxSandboxes"]],
    ] as const)
      expect((await limited.as("POST", "/v1/keys", input)).body.error).toMatchObject({
        code: "permission_denied",
        details: { more },
      });
    const less = { access: "read", maxSandboxes: 5, dailyLimitMicros: 999, ttlSeconds: 600 };
    expect((await limited.as("POST", "/v1/keys", less)).status).toBe(200);
  });
});

describe("a revoked key", () => {
  it("ends at once, in the API, on remembered routes, and where connections are open", async () => {
    const sandbox = await created();
    const { key, id } = await makeKey({});
    const { as } = clientOf(key);
    const visit = () => edge(`http://${sandbox.label}.rouse.test/counter`, { headers: { "x-rouse-key": key } });
    expect((await visit()).status).toBe(200);
    const { requests } = await fake.state(sandbox.name);
    const revoked = await ask<Key>("DELETE", `/v1/keys/${id}`);
    expect(revoked.body.revokedAt).not.toBeNull();
    expect((await visit()).status).toBe(401);
    expect((await as("POST", `/v1/sandboxes/${sandbox.id}:exec`, { command: "true" })).status).toBe(401);
    expect((await as("GET", "/v1/me")).status).toBe(401);
    expect((await fake.state(sandbox.name)).requests).toBe(requests);
    // The host was told, for edges elsewhere that still believe in the key.
    expect((await fake.revoked()).includes(id)).toBe(true);
    expect((await ask<Key>("DELETE", `/v1/keys/${id}`)).body.revokedAt).toBe(revoked.body.revokedAt);
    expect((await faultOf(await call("DELETE", "/v1/keys/nosuchkey"))).code).toBe("not_found");
  });

  it("goes with the member who held it", async () => {
    const { as } = await openAccount();
    const member = (await as<Member>("POST", "/v1/members", { name: "Ada", role: "developer" })).body;
    expect((await as<{ data: Member[] }>("GET", "/v1/members")).body.data).toEqual([member]);
    expect((await as("POST", "/v1/keys", { memberId: member.id, access: "full" })).body.error.code).toBe(
      "permission_denied",
    );
    const key = NewKey.parse((await as("POST", "/v1/keys", { memberId: member.id })).body);
    expect(key.access).toBe("sandboxes");
    expect((await clientOf(key.key).as("GET", "/v1/sandboxes")).status).toBe(200);
    expect((await as("DELETE", `/v1/members/${member.id}`)).status).toBe(200);
    expect((await clientOf(key.key).as("GET", "/v1/sandboxes")).status).toBe(401);
    // Again, after a lost answer, it is no fault.
    expect((await as<Member>("DELETE", `/v1/members/${member.id}`)).body).toEqual(member);
    expect((await as<{ data: Member[] }>("GET", "/v1/members")).body.data).toEqual([]);
    expect((await as("DELETE", "/v1/members/mb-nobody")).body.error.code).toBe("not_found");
  });
});
