/** Network rules: as they are set and shown, and when a sandbox's host goes by them. */
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { InsideTicket } from "../../sdk/contract/egress.ts";
import type { RouseEvent } from "../../sdk/contract/event.ts";
import { Network } from "../../sdk/contract/network-settings.ts";
import type { Forks, Snapshot } from "../../sdk/contract/snapshot.ts";
import type { SandboxList } from "../../sdk/contract/sandbox.ts";
import { signingKey, verify } from "../../sdk/contract/ticket.ts";
import { clientOf, openAccount } from "./accounts.ts";
import { ask, call, created, fake, faultOf, freshName, heartbeat } from "./client.ts";
import { TestOutside } from "./outsides.ts";
import { roots } from "./secrets.ts";
import { COMPATIBILITY, store } from "./stored.ts";
import { shift } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat({ compatibility: COMPATIBILITY });
});
afterEach(() => {
  vi.useRealTimers();
});

const closed = { internet: false, allow: ["api.example.com"], deny: ["*.bad.example.com"] };

describe("network rules", () => {
  it("let out everything public unless said, and are in force from the first run on", async () => {
    const box = await TestOutside.make();
    const seen = await box.network();
    expect(Network.parse(seen)).toMatchObject({
      ...{ sandboxId: box.id, internet: true, allow: [], deny: [], connect: [], version: 1 },
      ...{ enforced: true, enforcedVersion: 1, updatedAt: null, bytesOut: 0, bytesIn: 0, refusals: [] },
    });
    const { action, egress } = await box.last();
    expect(action).toBe("create");
    expect(egress).toMatchObject({ version: 1, network: { internet: true }, brokered: [] });
    const key = await signingKey(roots.signing, "inside");
    expect(await verify(key, InsideTicket, egress?.inside ?? "", Date.now())).toMatchObject({
      ...{ a: "default", s: box.id, n: box.name, g: 1 },
    });
  });

  it("are taken with the sandbox, shown with it, and told with every run", async () => {
    const box = await TestOutside.make({ network: { ...closed, allow: ["API.example.com.", "api.example.com"] } });
    expect((await ask("GET", `/v1/sandboxes/${box.id}`)).body.network).toEqual(closed);
    await box.act("pause");
    await box.evict();
    await box.act("wake");
    await box.act("stop");
    await box.act("restart");
    const told = await box.told();
    expect(told.map(({ action }) => action)).toEqual(["create", "wake", "boot"]);
    expect(told.map(({ egress }) => egress?.network)).toEqual([closed, closed, closed]);
    const { body } = await ask<SandboxList>("GET", `/v1/sandboxes?name=${box.name}`);
    expect(body.data.map(({ id, network }) => [id, network])).toEqual([[box.id, undefined]]);
    const tickets = told.map(({ egress }) => egress?.inside);
    // Each run has a ticket of its own.
    expect(new Set(tickets).size).toBe(3);
  });

  it("change at once while it runs; a list that is not given stays, an empty one is none", async () => {
    const box = await TestOutside.make();
    expect(await box.set(closed)).toMatchObject({ ...closed, version: 2, enforced: true, enforcedVersion: 2 });
    expect(await box.last()).toMatchObject({ action: "configure", egress: { version: 2, network: closed } });
    expect(await box.set({ internet: true })).toMatchObject({ ...closed, internet: true, version: 3 });
    // The same again is no other version.
    expect(await box.set({ internet: true })).toMatchObject({ version: 3, enforced: true });
    await box.evict();
    expect(await box.set({ internet: true, allow: [] })).toMatchObject({ allow: [], deny: closed.deny, version: 4 });
    expect(await box.network()).toMatchObject({ version: 4, updatedAt: expect.any(String) as string });
    expect((await box.last()).egress).toMatchObject({ version: 4, network: { internet: true, deny: closed.deny } });
  });

  it("are not in force before its host says so, which is asked until it does", async () => {
    const box = await TestOutside.make();
    await fake.plan({ label: box.name, action: "configure", drop: "before" });
    expect(await box.set({ internet: false })).toMatchObject({ version: 2, enforced: false, enforcedVersion: 1 });
    await box.evict();
    expect(await box.network()).toMatchObject({ version: 2, enforced: false });
    await box.pass(5000);
    expect(await box.network()).toMatchObject({ version: 2, enforced: true, enforcedVersion: 2 });
    expect((await box.last()).egress?.network).toEqual({ internet: false });
  });

  it("that change while it sleeps go with the next wake, before anything runs", async () => {
    const box = await TestOutside.make();
    await box.act("pause");
    expect(await box.set({ internet: false })).toMatchObject({ version: 2, enforced: false, enforcedVersion: 1 });
    await box.evict();
    expect(await box.act("wake")).toBe(200);
    const told = await box.told();
    expect(told.map(({ action, egress }) => [action, egress?.version])).toEqual([
      ["create", 1],
      ["wake", 2],
    ]);
    expect(await box.network()).toMatchObject({ enforced: true, enforcedVersion: 2 });
  });

  it("that change while it wakes are told to its host right after", async () => {
    const box = await TestOutside.make();
    await box.act("pause");
    await fake.plan({ label: box.name, action: "wake", hold: true });
    const wake = box.act("wake");
    await vi.waitFor(async () => expect((await fake.state(box.name)).log.at(-1)).toMatch(/^wake/));
    expect(await box.set({ internet: false })).toMatchObject({ version: 2, enforced: false });
    await fake.release(box.name);
    await wake;
    const { egress, action } = await box.until((told) => told.egress?.version === 2);
    expect([action, egress?.network]).toEqual(["configure", { internet: false }]);
    await vi.waitFor(async () => expect(await box.network()).toMatchObject({ enforced: true, enforcedVersion: 2 }));
  });

  it("set twice at once are both taken, and its host has the newest", async () => {
    const box = await TestOutside.make();
    const both = await Promise.all([
      box.set({ internet: false }),
      box.set({ internet: true, deny: ["a.example.com"] }),
    ]);
    expect(both.map(({ error }) => error)).toEqual([undefined, undefined]);
    const seen = await box.network();
    expect(seen).toMatchObject({ deny: ["a.example.com"], version: 3, enforced: true });
    const newest = (await box.told())
      .map(({ egress }) => egress)
      .toSorted((a, b) => (b?.version ?? 0) - (a?.version ?? 0));
    expect(newest[0]).toMatchObject({ version: 3, network: { internet: seen.internet } });
  });

  it("are kept by forks and by what begins as a snapshot, unless that says otherwise", async () => {
    const box = await TestOutside.make({ network: closed });
    const { body: forks } = await ask<Forks>("POST", `/v1/sandboxes/${box.id}:fork`, { name: freshName() });
    const [fork] = forks.sandboxes;
    expect(fork?.network).toEqual(closed);
    expect((await fake.outside(fork?.label ?? "")).at(-1)?.egress?.network).toEqual(closed);
    await box.act("pause");
    await store(box.id, 1);
    const { body: snapshot } = await ask<Snapshot>("POST", `/v1/sandboxes/${box.id}:snapshot`, {});
    const again = await created({ snapshot: snapshot.id });
    expect(again.network).toEqual(closed);
    expect((await fake.outside(again.label)).at(-1)?.egress?.network).toEqual(closed);
    expect((await created({ snapshot: snapshot.id, network: {} })).network).toEqual({ internet: true });
  });

  it("that are no good are refused with all that is wrong", async () => {
    const box = await TestOutside.make();
    const response = await call("PUT", `/v1/sandboxes/${box.id}/network`, {
      ...{ internet: "no", allow: ["http://x/", "ok.example.com"], deny: ["1.2.3.4/40"], connect: ["other"] },
    });
    expect(response.status).toBe(400);
    const { code, details } = await faultOf(response);
    expect(code).toBe("invalid_request");
    expect(details?.issues?.map(({ path }) => path).toSorted()).toEqual(["allow.0", "connect", "deny.0", "internet"]);
    expect((await call("PUT", `/v1/sandboxes/${box.id}/network`, { allow: [] })).status).toBe(400);
    expect((await call("GET", `/v1/sandboxes/${freshName()}/network`)).status).toBe(404);
    expect(await box.network()).toMatchObject({ version: 1 });
  });

  it("are answered once under an Idempotency-Key", async () => {
    const box = await TestOutside.make();
    const key = { "idempotency-key": crypto.randomUUID() };
    const path = `/v1/sandboxes/${box.id}/network`;
    await call("PUT", path, { internet: false }, key);
    const again = await call("PUT", path, { internet: false }, key);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect((await faultOf(await call("PUT", path, { internet: true }, key))).code).toBe("idempotency_key_reused");
    expect(await box.network()).toMatchObject({ internet: false, version: 2 });
  });

  it("are read and set by keys that may, of sandboxes that those see", async () => {
    const account = await openAccount();
    const { body: box } = await account.as("POST", "/v1/sandboxes", { name: "agent-1" });
    const keyed = async (input: object) =>
      clientOf((await account.as<{ key: string }>("POST", "/v1/keys", { name: "k", ...input })).body.key);
    const reader = await keyed({ access: "read" });
    const other = await keyed({ access: "full", namePrefix: "other-" });
    const own = await keyed({ access: "sandboxes", namePrefix: "agent-" });
    const path = `/v1/sandboxes/${box.id}/network`;
    expect((await reader.as("GET", path)).status).toBe(200);
    expect((await reader.as("PUT", path, { internet: false })).status).toBe(403);
    expect((await other.as("GET", path)).status).toBe(404);
    expect((await own.as("PUT", path, { internet: false })).status).toBe(200);
  });
});

it("a sandbox of a version before has open rules, and its host is told them with the next run", async () => {
  const box = await TestOutside.make();
  await box.act("pause");
  await runInDurableObject(box.stub, (_object: object, { storage: { sql } }) => {
    const fields = ["network", "networkSetAt", "secrets", "ownSecrets", "egressVersion", "egressEnforced"];
    for (const field of fields) sql.exec("UPDATE record SET body = json_remove(body, ?)", `$.${field}`);
    for (const table of ["egress_runs", "egress_refusals"]) sql.exec(`DROP TABLE ${table}`);
    sql.exec("DELETE FROM _sql_schema_migrations WHERE id = '0009-egress'");
  });
  await box.evict();
  expect(await box.network()).toMatchObject({ internet: true, version: 1, enforced: false, bytesOut: 0, refusals: [] });
  await box.act("wake");
  expect((await box.last()).egress).toMatchObject({ version: 1, network: { internet: true }, brokered: [] });
  expect(await box.network()).toMatchObject({ enforced: true });
  expect((await ask("GET", `/v1/sandboxes/${box.id}`)).body).toMatchObject({
    network: { internet: true },
    secrets: [],
  });
});

describe("a host", () => {
  it("that has lost what it was told has it again: of its own sandboxes, in the run that they are in", async () => {
    const box = await TestOutside.make({ network: closed });
    expect(await box.lost(1)).toEqual((await box.last()).egress);
    expect([await box.lost(2), await box.lost(1, "spare-1")]).toEqual([null, null]);
    await box.act("pause");
    expect(await box.lost(1)).toBeNull();
    await box.act("wake");
    expect(await box.lost(1)).toBeNull();
    expect(await box.lost(2)).toMatchObject({ network: closed });
  });

  it("tells totals of each run: told twice they count once", async () => {
    const box = await TestOutside.make();
    for (const bytesOut of [100, 300, 300, 200]) expect((await box.report({ bytesOut, bytesIn: 7 })).status).toBe(200);
    expect(await box.network()).toMatchObject({ bytesOut: 300, bytesIn: 7 });
    await box.act("pause");
    await box.act("wake");
    await box.evict();
    await box.report({ generation: 2, bytesOut: 50, bytesIn: 1 });
    // The end of the run before may be heard of late.
    await box.report({ generation: 1, bytesOut: 310, bytesIn: 8 });
    expect(await box.network()).toMatchObject({ bytesOut: 360, bytesIn: 9 });
    // Not a host of it, and not a run of it.
    await box.report({ generation: 2, bytesOut: 9000 }, "spare-1");
    await box.report({ generation: 3, bytesOut: 9000 });
    expect(await box.network()).toMatchObject({ bytesOut: 360 });
  });

  it("counts many runs as one sum", async () => {
    const box = await TestOutside.make();
    for (let run = 1; run <= 11; run++) {
      if (run > 1) {
        await box.act("pause");
        await box.act("wake");
      }
      await box.report({ generation: run, bytesOut: 10, bytesIn: 1 });
    }
    await box.evict();
    expect(await box.network()).toMatchObject({ bytesOut: 110, bytesIn: 11 });
    await box.report({ generation: 1, bytesOut: 10, bytesIn: 1 });
    expect(await box.network()).toMatchObject({ bytesOut: 110, bytesIn: 11 });
  });

  it("tells what was refused: an event for each rule and target, once a minute", async () => {
    const box = await TestOutside.make();
    const refused = async () => {
      const { body } = await ask<{ data: RouseEvent[] }>("GET", `/v1/sandboxes/${box.id}/events`);
      return body.data.flatMap((event) => (event.type === "sandbox.egress_refused" ? [event.data] : []));
    };
    const of = (target: string, count: number) => ({ rule: "internet-off", target, count, lastAt: Date.now() });
    await box.report({ refusals: [of("a.example.com:443", 3), of("b.example.com:443", 1)] });
    await box.report({ refusals: [of("a.example.com:443", 3), of("b.example.com:443", 1)] });
    await box.report({ refusals: [of("a.example.com:443", 5)] });
    expect((await refused()).map(({ target, count }) => [target, count])).toEqual([
      ["a.example.com:443", 3],
      ["b.example.com:443", 1],
    ]);
    expect(await box.network()).toMatchObject({ refusals: [{ target: "a.example.com:443", count: 5 }, { count: 1 }] });
    shift(61_000);
    await box.report({ refusals: [of("a.example.com:443", 6)] });
    expect((await refused()).at(-1)).toMatchObject({ rule: "internet-off", target: "a.example.com:443", count: 3 });
    await box.act("pause");
    await box.act("wake");
    shift(61_000);
    await box.report({ generation: 2, refusals: [of("a.example.com:443", 2)] });
    expect((await refused()).at(-1)).toMatchObject({ count: 2, generation: 2 });
  });

  it("that tells of many targets makes few events", async () => {
    const box = await TestOutside.make();
    for (let n = 0; n < 3; n++) {
      const refusals = Array.from({ length: 100 }, (_, i) => {
        return { rule: "internet-off", target: `${n}-${i}.example.com:443`, count: 1, lastAt: Date.now() };
      });
      expect((await box.report({ refusals })).status).toBe(200);
    }
    const { body } = await ask<{ data: RouseEvent[] }>("GET", `/v1/sandboxes/${box.id}/events`);
    expect(body.data.filter(({ type }) => type === "sandbox.egress_refused")).toHaveLength(10);
    expect((await box.network()).refusals).toHaveLength(20);
  });
});
