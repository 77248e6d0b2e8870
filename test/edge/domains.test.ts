/** Domains as they are claimed, proven, lost and given up, and who may do so. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { claimsObject } from "../../durable/claims/api.ts";
import { domainObject } from "../../durable/domains/api.ts";
import { Domain, type DomainList } from "../../sdk/contract/domain.ts";
import type { Forks } from "../../sdk/contract/snapshot.ts";
import { ask, call, created, faultOf, heartbeat, paused } from "./client.ts";
import { freshHostname, resolver, TestDomain, type Answer } from "./domain-names.ts";
import { DAY, during, HOUR, instead, once, shift } from "./volumes.ts";
import { later } from "./vaults.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const claimsOf = (id: string) => `/v1/sandboxes/${id}/domains`;

describe("a domain", () => {
  it("is pending with the records to set, and verified once its TXT record is there", async () => {
    const test = await TestDomain.make({}, { port: 3000 });
    const { hostname, name } = test;
    expect(Domain.parse(test.domain)).toMatchObject({
      ...{
        kind: "domain",
        sandboxId: test.id,
        domain: hostname,
        port: 3000,
        state: "pending",
        reason: null,
        dns: null,
      },
      ...{ url: `http://${hostname}/`, checkedAt: null, verifiedAt: null },
      records: [
        {
          type: "TXT",
          name: `_rouse-challenge.${hostname}`,
          value: expect.stringMatching(/^rouse-verify=[a-z0-9]{40}$/) as string,
        },
        { type: "CNAME", name: hostname, value: `3000-${name}.rouse.test` },
      ],
    });
    expect(await test.verify()).toMatchObject({ state: "pending", reason: "txt_missing", dns: { pointsHere: false } });
    await resolver.texts(hostname, "v=spf1 -all", "rouse-verify=another");
    expect(await test.verify()).toMatchObject({ state: "pending", reason: "txt_other" });
    const [first, ...rest] = test.proof.match(/.{1,20}/g) ?? [];
    await resolver.say(`_rouse-challenge.${hostname}`, [
      ...[{ type: "TXT", value: "other" } as const, { type: "TXT", value: [first ?? "", ...rest] } as const],
    ]);
    await resolver.say(hostname, [{ type: "CNAME", value: `3000-${name}.rouse.test` }]);
    const verified = await test.verify();
    expect(verified).toMatchObject({ state: "verified", reason: null, expiresAt: null, dns: { pointsHere: true } });
    await Promise.all([test.evict(), evictDurableObject(test.claims)]);
    expect(await test.read()).toEqual(verified);
    expect((await ask<DomainList>("GET", claimsOf(name))).body.data).toEqual([verified]);
    expect((await ask("GET", `${claimsOf(name)}/${hostname.toUpperCase()}.`)).body).toEqual(verified);
  });

  it("is found by the alias of its TXT record too, and in the background", async () => {
    const test = await TestDomain.make();
    const elsewhere = freshHostname();
    await resolver.say(`_rouse-challenge.${test.hostname}`, [{ type: "CNAME", value: elsewhere }]);
    await test.pass(31_000);
    expect(await test.read()).toMatchObject({ state: "pending", reason: "txt_missing" });
    expect(await resolver.asked(test.hostname)).toBe(1);
    await resolver.say(elsewhere, [{ type: "TXT", value: test.proof }]);
    await test.evict();
    await test.pass(61_000);
    expect(await test.read()).toMatchObject({ state: "verified" });
  });

  it("is not looked for any more after 7 days, until somebody asks", async () => {
    const test = await TestDomain.make();
    for (let look = 0; look < 8; look++) await test.pass(DAY);
    expect(await test.read()).toMatchObject({ state: "expired", nextCheckAt: null, expiresAt: null });
    const alarm = await runInDurableObject(test.stub, (_object: object, { storage }) => storage.getAlarm());
    expect(alarm).toBe(null);
    await test.verify();
    expect(await test.read()).toMatchObject({ state: "pending", reason: "txt_missing" });
    expect(await test.proven()).toBeDefined();
  });

  it("verified twice at once is verified once; a resolver that fails changes nothing", async () => {
    const test = await TestDomain.make();
    for (const how of [{ status: 500 }, { code: 2 }, { status: 302 }]) {
      await resolver.fail(test.hostname, how);
      expect(await test.verify()).toMatchObject({ state: "pending", reason: "dns_failed", checkedAt: null });
    }
    await resolver.texts(test.hostname, test.proof);
    const [a, b] = await Promise.all([test.verify(), test.verify()]);
    expect([a.state, b.state]).toEqual(["verified", "verified"]);
    expect(a.verifiedAt).toBe(b.verifiedAt);
    await resolver.fail(test.hostname, { code: 2 });
    expect(await test.verify()).toMatchObject({ state: "verified", reason: "dns_failed", missingSince: null });
    await test.pass(30 * DAY);
    expect(await test.read()).toMatchObject({ state: "verified" });
  });

  it("whose TXT record is gone for 3 days is lost, and comes back with it", async () => {
    const test = await (await TestDomain.make()).proven();
    await resolver.texts(test.hostname);
    await test.pass(DAY);
    expect(await test.read()).toMatchObject({ state: "verified", reason: "txt_missing" });
    await test.pass(2 * DAY);
    expect((await test.read()).state).toBe("verified");
    await test.pass(DAY + HOUR);
    expect(await test.read()).toMatchObject({ state: "unverified", reason: "txt_missing", missingSince: null });
    await test.until(404);
    await test.proven();
    await test.until(200);
  });

  it.each([
    [{}, ["domain"]],
    [{ domain: "bot.rouse.test", port: 10_800, x: 1 }, ["", "domain", "domain", "port"]],
    [{ domain: "API.test" }, ["domain", "domain"]],
    [{ domain: "https://a.example.com/" }, ["domain", "domain"]],
    [{ domain: "-a_.local", port: 70_000 }, ["domain", "domain", "domain", "port"]],
  ])("%j is refused: all that is wrong is named", async (input, paths) => {
    const { id } = await created();
    const { code, details } = await faultOf(await call("POST", claimsOf(id), input));
    expect([code, details?.issues?.map(({ path }) => path).toSorted()]).toEqual(["invalid_request", paths]);
  });

  it("made again is the same; with another port it is a conflict; under a used key another is refused", async () => {
    const { id } = await created();
    const domain = freshHostname();
    const make = (input: object, idempotencyKey?: string) =>
      ask<Answer>("POST", claimsOf(id), input, idempotencyKey ? { "idempotency-key": idempotencyKey } : {});
    const [a, b] = await Promise.all([make({ domain }, "k"), make({ domain }, "k")]);
    expect(a.body.records).toEqual(b.body.records);
    expect([a.body.replayed, b.body.replayed].filter(Boolean)).toHaveLength(1);
    expect((await make({ domain: domain.toUpperCase(), port: 8080 })).body).toMatchObject({ id: a.body.id });
    expect((await make({ domain, port: 3000 })).body.error.code).toBe("conflict");
    expect((await make({ domain: freshHostname() }, "k")).body.error.code).toBe("idempotency_key_reused");
    expect((await ask<DomainList>("GET", claimsOf(id))).body.data).toHaveLength(1);
  });

  it("there are 20 of a sandbox at most", async () => {
    const { id } = await created();
    const object = claimsObject(env.CLAIMS, "default");
    await Promise.all(Array.from({ length: 20 }, () => object.create(id, { domain: freshHostname() }, once)));
    expect(await faultOf(await call("POST", claimsOf(id), { domain: freshHostname() }))).toMatchObject({
      ...{ code: "quota_exceeded", details: { max: 20 } },
    });
    const { data } = (await ask<DomainList>("GET", claimsOf(id))).body;
    await ask("DELETE", `${claimsOf(id)}/${data[0]?.domain ?? ""}`);
    expect((await call("POST", claimsOf(id), { domain: freshHostname() })).status).toBe(200);
  });

  it("is seen by keys that read, changed by those that use, and by nobody of another part of the account", async () => {
    const test = await TestDomain.make();
    const { body: reader } = await ask<{ key: string }>("POST", "/v1/keys", { name: "reader", access: "read" });
    const { body: other } = await ask<{ key: string }>("POST", "/v1/keys", {
      ...{ name: "other", access: "sandboxes", namePrefix: "other-" },
    });
    const by = (apiKey: string, method: string, rest: string, body?: unknown) =>
      ask<Answer>(method, `${claimsOf(test.id)}${rest}`, body, { authorization: `Bearer ${apiKey}` });
    expect((await by(reader.key, "GET", "")).status).toBe(200);
    for (const verb of ["verify", "delete", "update"])
      expect((await by(reader.key, "POST", `/${test.hostname}:${verb}`, {})).body.error.code).toBe("permission_denied");
    expect((await by(other.key, "GET", "")).body.error.code).toBe("not_found");
    const rival = await TestDomain.rival(freshHostname());
    expect((await by(rival.apiKey, "GET", `/${test.hostname}`)).body.error.code).toBe("not_found");
    expect((await ask("GET", `${claimsOf(test.id)}/${rival.hostname}`)).body).toMatchObject({
      error: { code: "domain_not_found" },
    });
  });
});

describe("one host name of two accounts", () => {
  it("is whose TXT record is there, also when both look at once", async () => {
    const one = await TestDomain.make();
    const two = await TestDomain.rival(one.hostname);
    expect(two.proof).not.toBe(one.proof);
    await resolver.texts(one.hostname, two.proof);
    const [a, b] = await Promise.all([one.verify(), two.verify()]);
    expect([a.state, a.reason, b.state]).toEqual(["pending", "txt_other", "verified"]);
    expect(await two.until(200)).toBe(200);
  });

  it("with both records there is whose look was first, and stays so", async () => {
    const one = await TestDomain.make();
    const two = await TestDomain.rival(one.hostname);
    await resolver.texts(one.hostname, one.proof, two.proof);
    const states = (await Promise.all([one.verify(), two.verify()])).map(({ state }) => state);
    expect(states.toSorted()).toEqual(["pending", "verified"]);
    const [holder, other] = states[0] === "verified" ? [one, two] : [two, one];
    await holder.pass(DAY);
    expect(await other.verify()).toMatchObject({ state: "pending", reason: "held" });
    expect(await holder.read()).toMatchObject({ state: "verified" });
  });

  it("is taken over only by who is proven while the other is not", async () => {
    const one = await (await TestDomain.make()).proven();
    const two = await TestDomain.rival(one.hostname);
    expect((await two.verify()).state).toBe("pending");
    await resolver.texts(one.hostname);
    expect(await two.verify()).toMatchObject({ state: "pending", reason: "txt_missing" });
    expect((await one.read()).state).toBe("verified");
    await resolver.texts(one.hostname, two.proof);
    // It was gone for a moment, and is looked at again when it counts.
    await resolver.texts(one.hostname, one.proof, two.proof);
    expect(await two.verify()).toMatchObject({ state: "pending", reason: "held" });
    await resolver.fail(one.hostname, { code: 2 });
    expect((await two.verify()).state).toBe("pending");
    await resolver.texts(one.hostname, two.proof);
    expect((await two.verify()).state).toBe("verified");
    expect(await one.read()).toMatchObject({ state: "unverified", reason: "taken_over" });
    await one.evict();
    shift(11_000);
    // The key of the one that had it opens nothing there.
    expect((await one.visit()).status).toBe(404);
    expect((await two.visit()).status).toBe(200);
  });

  it("given up by one is the other's at the next look", async () => {
    const one = await (await TestDomain.make()).proven();
    const two = await TestDomain.rival(one.hostname);
    await resolver.texts(one.hostname, one.proof, two.proof);
    expect((await one.ask("DELETE")).body).toMatchObject({ domain: one.hostname, deleted: true });
    await two.pass(31_000);
    expect((await two.read()).state).toBe("verified");
  });
});

describe("what breaks off", () => {
  it("between a claim's being stored and made is made later, once", async () => {
    const { id, name } = await created();
    const hostname = freshHostname();
    const stub = env.DOMAINS.getByName(hostname) as DurableObjectStub;
    await instead(stub, { claim: () => Promise.reject(new Error("not now")) });
    expect((await call("POST", claimsOf(id), { domain: hostname })).status).toBe(500);
    const claims = env.CLAIMS.getByName("default") as DurableObjectStub;
    await evictDurableObject(claims);
    await evictDurableObject(stub);
    expect((await ask<DomainList>("GET", claimsOf(name))).body.data).toEqual([]);
    await later(11_000, async () => {
      await runDurableObjectAlarm(claims);
      await runDurableObjectAlarm(claims);
    });
    const { data } = (await ask<DomainList>("GET", claimsOf(name))).body;
    expect(data).toMatchObject([{ domain: hostname, state: "pending" }]);
    expect((await ask<Answer>("POST", claimsOf(name), { domain: hostname })).body.records).toEqual(data[0]?.records);
  });

  it("between a release's being stored and made is released later", async () => {
    const test = await (await TestDomain.make()).proven();
    await instead(test.stub, { release: () => Promise.reject(new Error("not now")) });
    expect((await test.ask("DELETE")).status).toBe(500);
    expect((await test.ask("GET")).body.error.code).toBe("domain_not_found");
    await evictDurableObject(test.claims);
    await test.evict();
    await later(11_000, async () => {
      await runDurableObjectAlarm(test.claims);
      await runDurableObjectAlarm(test.claims);
    });
    expect(await test.isEmpty()).toBe(true);
    // Claimed again, it is another claim with another token.
    const again = await ask<Answer>("POST", claimsOf(test.id), { domain: test.hostname });
    expect(again.body.records).not.toEqual(test.domain.records);
  });

  it("a sandbox that is deleted while its domain is claimed leaves none", async () => {
    const { id } = await created();
    const hostname = freshHostname();
    const stub = env.DOMAINS.getByName(hostname) as DurableObjectStub;
    await during(stub, "claim", () => ask("DELETE", `/v1/sandboxes/${id}`));
    const answer = await faultOf(await call("POST", claimsOf(id), { domain: hostname }));
    expect(answer.code).toBe("domain_not_found");
    const left = await runInDurableObject(stub, (_object: object, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'claims'").toArray(),
    );
    expect(left).toEqual([]);
  });
});

describe("a sandbox with a domain", () => {
  it("that is deleted keeps it while that can be taken back, and gives it up for good after", async () => {
    const test = await (await TestDomain.make({}, { asleep: true })).proven();
    const sandbox = env.SANDBOX.getByName(`default/${test.name}`) as DurableObjectStub;
    await ask("DELETE", `/v1/sandboxes/${test.id}?graceSeconds=60`);
    await runDurableObjectAlarm(sandbox);
    expect((await test.visit()).status).toBe(410);
    await ask("POST", `/v1/sandboxes/${test.id}:undelete`, {});
    expect((await test.read()).state).toBe("verified");
    expect((await test.visit()).status).toBe(200);
    // Who keeps the domains does not answer when it is told first.
    await instead(test.claims, { purge: () => Promise.reject(new Error("not now")) });
    await ask("DELETE", `/v1/sandboxes/${test.id}`);
    await runDurableObjectAlarm(sandbox);
    await evictDurableObject(test.claims);
    await later(2000, async () => {
      await runDurableObjectAlarm(sandbox);
      await runDurableObjectAlarm(sandbox);
    });
    expect(await test.isEmpty()).toBe(true);
    await test.until(404);
  });

  it("of a name that another has later does not give it that one's requests", async () => {
    const test = await (await TestDomain.make()).proven();
    const sandbox = env.SANDBOX.getByName(`default/${test.name}`) as DurableObjectStub;
    await instead(test.claims, { purge: () => Promise.reject(new Error("not now")) });
    await ask("DELETE", `/v1/sandboxes/${test.id}`);
    await runDurableObjectAlarm(sandbox);
    const { body } = await ask("POST", "/v1/sandboxes", { name: test.name, access: "public" });
    expect(body.id).not.toBe(test.id);
    const authorization = `Bearer ${test.apiKey}`;
    const cases: [Record<string, string>, number][] = [
      [{}, 401],
      [{ upgrade: "websocket" }, 401],
      [{ authorization }, 410],
      [{ authorization, upgrade: "websocket" }, 410],
      [{ authorization, prefer: "respond-async" }, 410],
    ];
    for (const [headers, status] of cases) expect((await test.visit("/", { headers })).status).toBe(status);
    await evictDurableObject(test.claims);
  });

  it("has copies that have none", async () => {
    const test = await (await TestDomain.make()).proven();
    const { body } = await ask<Forks>("POST", `/v1/sandboxes/${test.id}:fork`, {});
    const [fork] = body.sandboxes;
    expect((await ask<DomainList>("GET", claimsOf(fork?.id ?? ""))).body.data).toEqual([]);
    expect((await ask<DomainList>("GET", claimsOf(test.id))).body.data).toHaveLength(1);
  });

  it("that never had one leaves no trace when it is deleted", async () => {
    const rival = await TestDomain.rival(freshHostname());
    const stub = env.CLAIMS.getByName(`none-${rival.account}`) as DurableObjectStub;
    await claimsObject(env.CLAIMS, `none-${rival.account}`).purge((await paused()).id);
    expect(await domainObject(env.DOMAINS, freshHostname()).target()).toBe(null);
    const tables = await runInDurableObject(stub, (_object: object, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'claims'").toArray(),
    );
    expect(tables).toEqual([]);
  });
});
