/** Secrets: what is taken and shown, where values go, and how changes reach running and sleeping sandboxes. */
import { env } from "cloudflare:workers";
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Secret, type DeletedSecret, type SecretList, type StoredSecret } from "../../sdk/contract/secret.ts";
import type { Forks } from "../../sdk/contract/snapshot.ts";
import { clientOf, openAccount } from "./accounts.ts";
import { ask, call, edge, fake, faultOf, freshName, heartbeat, type Fault } from "./client.ts";
import { freshSecret, settled, TestOutside, TestSecrets, type Answer } from "./outsides.ts";
import { during, instead } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const all = new TestSecrets();
const broker = { value: "sk-ant-first", provider: "anthropic" };

async function put(name: string, input: Record<string, unknown>, headers = {}): Promise<Answer<StoredSecret>> {
  return (await ask<Answer<StoredSecret>>("PUT", `/v1/secrets/${name}`, input, headers)).body;
}

const remove = async (name: string) => (await ask<Answer<DeletedSecret>>("DELETE", `/v1/secrets/${name}`)).body;

describe("a secret", () => {
  it("is shown with all but its value, and stays over an eviction", async () => {
    const name = freshSecret();
    const stored = await put(name, { ...broker, rules: [{ methods: ["post"], paths: ["/v1/*"] }] });
    const { enforced, ...shown } = stored;
    expect(Secret.parse(shown)).toEqual({
      ...{ name, kind: "secret", sandboxId: null, mode: "broker", hosts: ["api.anthropic.com"], header: "x-api-key" },
      ...{ format: "{value}", rules: [{ methods: ["POST"], paths: ["/v1/*"] }], envName: "ANTHROPIC_API_KEY" },
      ...{ placeholder: null, version: 1, valueBytes: 12, lastUsedAt: null },
      createdAt: expect.any(String) as string,
      updatedAt: expect.any(String) as string,
    });
    expect(enforced).toBe(true);
    await all.evict();
    expect((await ask("GET", `/v1/secrets/${name}`)).body).toEqual(shown);
    const { body } = await ask<SecretList>("GET", "/v1/secrets");
    expect(body.data.find((one) => one.name === name)).toEqual(shown);
    expect(JSON.stringify([stored, body])).not.toContain("sk-ant-first");
  });

  it("has another version with each new value, and its defaults with each put", async () => {
    const name = freshSecret();
    await put(name, {
      value: "one",
      hosts: ["A.example.com", "*.b.example.com"],
      header: "X-Key",
      format: "k={value}",
    });
    const same = await put(name, { value: "one", hosts: ["a.example.com"] });
    expect(same).toMatchObject({
      version: 1,
      hosts: ["a.example.com"],
      header: "authorization",
      format: "Bearer {value}",
    });
    const placed = await put(name, { value: "two", mode: "placeholder", hosts: ["a.example.com"] });
    expect(placed).toMatchObject({
      version: 2,
      placeholder: expect.stringMatching(/^rsec_[0-9A-Za-z]{32}$/) as string,
    });
    expect(placed).toMatchObject({ header: null, format: null, envName: name.replaceAll("-", "_").toUpperCase() });
    const again = await put(name, { value: "three", mode: "placeholder", hosts: ["a.example.com"] });
    expect([again.version, again.placeholder]).toEqual([3, placed.placeholder]);
    expect(await put(name, { value: "ümlaut\n", mode: "env" })).toMatchObject({
      version: 4,
      hosts: [],
      placeholder: null,
    });
  });

  it("that is no good is refused with all that is wrong, and nothing of its value", async () => {
    const value = "canary-\u00fc-value";
    const response = await call("PUT", `/v1/secrets/${freshSecret()}`, {
      ...{ value, header: "host", format: "no place", rules: [{}], hosts: ["https://x.example.com", "10.0.0.1"] },
    });
    expect(response.status).toBe(400);
    const text = await response.clone().text();
    const { code, details } = await faultOf(response);
    expect(code).toBe("invalid_request");
    expect(details?.issues?.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["format", "header", "hosts.0", "hosts.1", "rules.0"]),
    );
    expect(text).not.toContain("canary");
    const faultsOf = async (input: Record<string, unknown>, name = freshSecret()) =>
      (await put(name, input)).error.details?.issues?.map(({ path }) => path);
    expect(await faultsOf({ value, hosts: ["a.example.com"] })).toEqual(["value"]);
    expect(await faultsOf({ value: "x" })).toEqual(["hosts"]);
    expect(await faultsOf({ value: "x", mode: "placeholder", hosts: ["a.b"], header: "x-a" })).toEqual(["header"]);
    expect(await faultsOf({ value: "x\0y", mode: "env", hosts: ["a.b"] })).toEqual(["value", "hosts"]);
    expect(await faultsOf({ value: "x".repeat(8193), hosts: ["a.b"] })).toEqual(["value"]);
    expect(await faultsOf({ value: "\u00fc".repeat(16_385), mode: "env" })).toEqual(["value"]);
    // A key of another provider.
    expect(await faultsOf({ value: "sk-ant-key", provider: "openai" })).toEqual(["value"]);
    expect(await faultsOf({ value: "x", provider: "nobody" })).toEqual(["provider"]);
    expect((await put("1x", { value: "x", mode: "env" })).error.code).toBe("invalid_request");
    expect((await put("a%2F..", { value: "x", mode: "env" })).error.code).toBe("invalid_request");
  });

  it("is not found where there is none", async () => {
    const name = freshSecret();
    expect((await ask<{ error: Fault }>("GET", `/v1/secrets/${name}`)).body.error.code).toBe("secret_not_found");
    expect((await remove(name)).error.code).toBe("secret_not_found");
    const asked = await ask<{ error: Fault }>("POST", "/v1/sandboxes", { name: freshName(), secrets: [name, "other"] });
    expect([asked.status, asked.body.error.details]).toEqual([404, { names: [name, "other"] }]);
    const box = await TestOutside.make();
    expect(await box.update({ secrets: [name] })).toBe(404);
  });

  it("is stored once under an Idempotency-Key, which tells nothing of its value", async () => {
    const name = freshSecret();
    const key = { "idempotency-key": crypto.randomUUID() };
    await put(name, { value: "one", mode: "env" }, key);
    await all.evict();
    expect(await put(name, { value: "one", mode: "env" }, key)).toMatchObject({ version: 1, replayed: true });
    expect((await put(name, { value: "two", mode: "env" }, key)).error.code).toBe("idempotency_key_reused");
  });

  it("put twice at once is one of both, whole", async () => {
    const name = freshSecret();
    const values = ["first-of-two", "second-of-two"];
    await Promise.all(values.map((value) => put(name, { value, hosts: [`${value}.example.com`] })));
    const box = await TestOutside.make({ secrets: [name] });
    const [had] = (await box.last()).egress?.brokered ?? [];
    expect([had?.hosts, had?.version]).toEqual([[`${had?.value}.example.com`], 2]);
  });

  it("of an account is changed by keys that administer, and given by those that use the whole account", async () => {
    const account = await openAccount();
    const keyed = async (input: object) =>
      clientOf((await account.as<{ key: string }>("POST", "/v1/keys", { name: "k", ...input })).body.key);
    const [reader, user, limited] = await Promise.all([
      keyed({ access: "read" }),
      keyed({ access: "sandboxes" }),
      keyed({ access: "full", namePrefix: "agent-" }),
    ]);
    const input = { value: "x", mode: "env" };
    expect((await reader.as("PUT", "/v1/secrets/a", input)).status).toBe(403);
    expect((await user.as("PUT", "/v1/secrets/a", input)).status).toBe(403);
    expect((await limited.as("PUT", "/v1/secrets/a", input)).status).toBe(403);
    expect((await account.as("PUT", "/v1/secrets/a", input)).status).toBe(200);
    expect((await reader.as("GET", "/v1/secrets")).status).toBe(200);
    expect((await limited.as("GET", "/v1/secrets")).status).toBe(403);
    // With mode env, whoever gives it to a sandbox reads it there.
    expect((await limited.as("POST", "/v1/sandboxes", { name: "agent-1", secrets: ["a"] })).status).toBe(403);
    const { body: box } = await limited.as("POST", "/v1/sandboxes", { name: "agent-1" });
    expect((await limited.as("POST", `/v1/sandboxes/${box.id}:update`, { secrets: ["a"] })).status).toBe(403);
    expect((await user.as("POST", `/v1/sandboxes/${box.id}:update`, { secrets: ["a"] })).status).toBe(200);
    expect((await limited.as("PUT", `/v1/sandboxes/${box.id}/secrets/own`, input)).status).toBe(200);
    expect((await reader.as("PUT", `/v1/sandboxes/${box.id}/secrets/own`, input)).status).toBe(403);
  });
});

describe("a sandbox", () => {
  it("has the account's secrets that it names, and its own by themselves, which win", async () => {
    const [shared, both] = [freshSecret(), freshSecret()];
    await put(shared, broker);
    await put(both, { value: "of-account", mode: "env", envName: "BOTH" });
    const box = await TestOutside.make({ secrets: [shared, both], env: { BOTH: "of-sandbox-env", PLAIN: "1" } });
    expect((await box.last()).env).toEqual({ BOTH: "of-account", PLAIN: "1", ANTHROPIC_API_KEY: "rouse-brokered" });
    expect((await box.last()).egress?.brokered).toEqual([
      {
        ...{ name: shared, version: 1, mode: "broker", hosts: ["api.anthropic.com"], header: "x-api-key" },
        ...{ format: "{value}", value: "sk-ant-first" },
      },
    ]);
    const own = await box.putSecret(both, {
      value: "of-sandbox",
      mode: "placeholder",
      hosts: ["a.example.com"],
      envName: "BOTH",
    });
    expect(own).toMatchObject({ sandboxId: box.id, enforced: true });
    const { env: variables, egress, action } = await box.last();
    expect([action, variables["BOTH"]]).toEqual(["configure", own.placeholder]);
    expect(egress?.brokered.map(({ name, value, placeholder }) => [name, value, placeholder])).toEqual([
      [both, "of-sandbox", own.placeholder],
      [shared, "sk-ant-first", undefined],
    ]);
    const { body } = await ask("GET", `/v1/sandboxes/${box.id}`);
    expect([body.envNames, body.secrets]).toEqual([
      ["BOTH", "PLAIN"],
      [shared, both],
    ]);
    const listed = await ask<SecretList>("GET", `/v1/sandboxes/${box.id}/secrets`);
    expect(listed.body.data.map(({ name }) => name)).toEqual([both]);
    // Of another sandbox nothing is seen.
    const other = await TestOutside.make();
    expect((await other.last()).egress?.brokered).toEqual([]);
    expect((await call("GET", `/v1/sandboxes/${other.id}/secrets/${both}`)).status).toBe(404);
  });

  it("that runs has a new value, and loses a deleted one, at once", async () => {
    const name = freshSecret();
    await put(name, broker);
    const box = await TestOutside.make({ secrets: [name] });
    const { version } = await box.network();
    expect(await put(name, { ...broker, value: "sk-ant-second" })).toMatchObject({ version: 2, enforced: true });
    expect((await box.last()).egress?.brokered).toMatchObject([{ version: 2, value: "sk-ant-second" }]);
    expect(await box.network()).toMatchObject({ version: version + 1, enforced: true });
    expect(await remove(name)).toEqual({ name, sandboxId: null, deleted: true, enforced: true });
    expect((await box.last()).egress?.brokered).toEqual([]);
    // The name is still its own: a secret that is made again is had at once.
    await put(name, { value: "third", mode: "env", envName: "AGAIN" });
    expect((await box.last()).env).toMatchObject({ AGAIN: "third" });
  });

  it("that sleeps is not woken, and has what is true at its wake", async () => {
    const [name, gone] = [freshSecret(), freshSecret()];
    await put(name, broker);
    await put(gone, { value: "x", mode: "env", envName: "GONE" });
    const box = await TestOutside.make({ secrets: [name, gone] });
    await box.act("pause");
    expect(await put(name, { ...broker, value: "sk-ant-second" })).toMatchObject({ enforced: true });
    await remove(gone);
    await settled(box, all);
    expect((await fake.state(box.name)).log).not.toContain("wake 2");
    expect(await box.network()).toMatchObject({ enforced: false });
    await box.act("wake");
    const { action, env: variables, egress } = await box.last();
    expect([action, variables]).toEqual(["wake", { ANTHROPIC_API_KEY: "rouse-brokered" }]);
    expect(egress?.brokered).toMatchObject([{ version: 2, value: "sk-ant-second" }]);
    expect(await box.network()).toMatchObject({ enforced: true });
  });

  it("is given and loses account secrets by an update", async () => {
    const name = freshSecret();
    await put(name, { value: "x", mode: "env", envName: "HAS" });
    const box = await TestOutside.make();
    await box.update({ secrets: [name] });
    expect((await box.last()).env).toEqual({ HAS: "x" });
    await box.update({ secrets: [] });
    expect((await box.last()).env).toEqual({});
    await put(name, { value: "y", mode: "env", envName: "HAS" });
    expect((await box.last()).env).toEqual({});
  });

  it("hears of a change that was stored just before the keeper of secrets died", async () => {
    const name = freshSecret();
    await put(name, broker);
    const box = await TestOutside.make({ secrets: [name] });
    // Nobody hears of it at first.
    await instead(box.stub, { secretsChanged: () => Promise.reject(new Error("not now")) });
    expect(await put(name, { ...broker, value: "sk-ant-second" })).toMatchObject({ version: 2, enforced: false });
    await all.crash();
    await box.evict();
    expect((await box.last()).egress?.brokered).toMatchObject([{ version: 1 }]);
    await all.pass(60_000);
    expect((await box.until(({ egress }) => egress?.brokered[0]?.version === 2)).egress?.brokered).toMatchObject([
      { value: "sk-ant-second" },
    ]);
    const told = (await box.told()).length;
    await settled(all, box);
    expect((await box.told()).length).toBe(told);
  });

  it("hears of a change that comes while it is told of one", async () => {
    const name = freshSecret();
    await put(name, { ...broker });
    const box = await TestOutside.make({ secrets: [name] });
    const again: Promise<unknown>[] = [];
    await during(box.stub, "secretsChanged", async () => {
      again.push(put(name, { ...broker, value: "sk-ant-third" }));
      await vi.waitFor(async () => expect((await ask<Secret>("GET", `/v1/secrets/${name}`)).body.version).toBe(3));
    });
    await put(name, { ...broker, value: "sk-ant-second" });
    await Promise.all(again);
    expect((await box.last()).egress?.brokered).toMatchObject([{ version: 3, value: "sk-ant-third" }]);
  });

  it("has its host told again where that did not answer", async () => {
    const name = freshSecret();
    await put(name, broker);
    const box = await TestOutside.make({ secrets: [name] });
    await fake.plan({ label: box.name, action: "configure", drop: "before" });
    expect(await put(name, { ...broker, value: "sk-ant-second" })).toMatchObject({ enforced: false });
    await box.evict();
    await box.pass(5000);
    expect((await box.last()).egress?.brokered).toMatchObject([{ version: 2 }]);
    expect(await box.network()).toMatchObject({ enforced: true });
  });

  it("does not run without its secrets: where they can't be asked, it is tried again", async () => {
    const name = freshSecret();
    await put(name, broker);
    const box = await TestOutside.make({ secrets: [name] });
    await box.act("pause");
    await instead(all.stub, { give: () => Promise.reject(new Error("not now")) });
    const failed = await ask<{ error: Fault }>("POST", `/v1/sandboxes/${box.id}:wake`, {});
    expect([failed.status, failed.body.error.code]).toEqual([503, "host_unavailable"]);
    expect((await box.last()).action).toBe("create");
    await all.evict();
    await box.pass(5000);
    await vi.waitFor(async () => expect((await box.last()).action).toBe("wake"));
    expect((await box.last()).egress?.brokered).toHaveLength(1);
  });

  it("without secrets asks nobody for any", async () => {
    const box = await TestOutside.make();
    await box.act("pause");
    await instead(all.stub, { give: () => Promise.reject(new Error("asked")) });
    expect(await box.act("wake")).toBe(200);
    await all.evict();
  });

  it("that is copied gives its copy the account's secrets, and none of its own", async () => {
    const name = freshSecret();
    await put(name, { value: "x", mode: "env", envName: "SHARED" });
    const box = await TestOutside.make({ secrets: [name] });
    await box.putSecret("own", { value: "y", mode: "env" });
    const { body: forks } = await ask<Forks>("POST", `/v1/sandboxes/${box.id}:fork`, { name: freshName() });
    const [fork] = forks.sandboxes;
    expect(fork?.secrets).toEqual([name]);
    expect((await fake.outside(fork?.label ?? "")).at(-1)?.env).toEqual({ SHARED: "x" });
    expect((await box.last()).env).toMatchObject({ OWN: "y" });
    await put(name, { value: "z", mode: "env", envName: "SHARED" });
    expect((await fake.outside(fork?.label ?? "")).at(-1)?.env).toEqual({ SHARED: "z" });
  });

  it("that is deleted takes its secrets with it, once it can't be taken back any more", async () => {
    const box = await TestOutside.make();
    await box.putSecret("own", { value: "y", mode: "env" });
    const count = () =>
      runInDurableObject(all.stub, (_object: object, { storage: { sql } }) =>
        ["secrets WHERE scope", "uses WHERE sandbox_id", "tells WHERE sandbox_id"].map(
          (where) => sql.exec(`SELECT 1 FROM ${where} = ?`, box.id).toArray().length,
        ),
      );
    await ask("DELETE", `/v1/sandboxes/${box.id}?graceSeconds=60`);
    await settled(box, all);
    expect((await count())[0]).toBe(1);
    await ask("POST", `/v1/sandboxes/${box.id}:undelete`, {});
    await box.act("wake");
    expect((await box.last()).env).toEqual({ OWN: "y" });
    await instead(all.stub, { purge: () => Promise.reject(new Error("not now")) });
    await ask("DELETE", `/v1/sandboxes/${box.id}`);
    await runDurableObjectAlarm(box.stub);
    await all.evict();
    await box.pass(10_000);
    expect(await count()).toEqual([0, 0, 0]);
    // One that comes late finds no sandbox, and leaves nothing.
    expect((await call("PUT", `/v1/sandboxes/${box.id}/secrets/late`, { value: "y", mode: "env" })).status).toBe(410);
  });

  it("of which a secret was used shows when", async () => {
    const name = freshSecret();
    await put(name, broker);
    const box = await TestOutside.make({ secrets: [name] });
    const lastAt = Date.now() - 60_000;
    const use = { name, version: 1, count: 2, lastAt };
    expect((await box.report({ secretUses: [use] })).status).toBe(200);
    await box.report({
      secretUses: [
        { ...use, lastAt: lastAt - 5000 },
        { ...use, name: "unknown" },
      ],
    });
    await all.evict();
    const used = async () => (await ask<Secret>("GET", `/v1/secrets/${name}`)).body.lastUsedAt;
    expect(await used()).toBe(new Date(lastAt).toISOString());
    await box.report({ secretUses: [{ ...use, lastAt: lastAt + 1000 }] }, "spare-1");
    expect(await used()).toBe(new Date(lastAt).toISOString());
  });

  it("has no more secrets than it may", async () => {
    const box = await TestOutside.make();
    for (let n = 0; n < 16; n++) expect((await box.putSecret(`S${n}`, { value: "x", mode: "env" })).version).toBe(1);
    expect((await box.putSecret("ONE_MORE", { value: "x", mode: "env" })).error.code).toBe("quota_exceeded");
    expect((await box.putSecret("S0", { value: "y", mode: "env" })).version).toBe(2);
    const many = Array.from({ length: 17 }, (_, n) => `m${n}`);
    expect(await box.update({ secrets: many })).toBe(400);
    // More variables than a sandbox may have of its own still reach it.
    expect(Object.keys((await box.last()).env)).toHaveLength(16);
  });
});

describe("values", () => {
  it("are in clear nowhere but with the host", async () => {
    const canary = `canary-${crypto.randomUUID()}`;
    const lines: string[] = [];
    const spies = (["log", "error", "warn", "info"] as const).map((level) =>
      vi.spyOn(console, level).mockImplementation((...args: unknown[]) => void lines.push(args.join(" "))),
    );
    const name = freshSecret();
    const answers: unknown[] = [];
    const key = { "idempotency-key": crypto.randomUUID() };
    answers.push(await put(name, { value: `${canary}-a`, hosts: ["a.example.com"] }, key));
    answers.push(await put(`${name}-p`, { value: `${canary}-p`, mode: "placeholder", hosts: ["a.example.com"] }));
    answers.push(
      await put(`${name}-e`, { value: `${canary}-e`, mode: "env" }, { "idempotency-key": crypto.randomUUID() }),
    );
    const box = await TestOutside.make({ secrets: [name, `${name}-p`, `${name}-e`] });
    answers.push(await box.putSecret("own", { value: `${canary}-o`, mode: "env" }));
    answers.push(await put(name, { value: `${canary}-b\u0000`, mode: "broker" }));
    await box.act("pause");
    await box.act("wake");
    const told = JSON.stringify(await box.last());
    for (const which of ["a", "p", "e", "o"]) expect(told).toContain(`${canary}-${which}`);
    for (const path of ["", ":why", "/network", "/secrets", "/events"])
      answers.push(await (await call("GET", `/v1/sandboxes/${box.id}${path}`)).text());
    answers.push(await (await call("GET", "/v1/secrets")).text(), await (await call("GET", "/v1/sandboxes")).text());
    const stubs = [all.stub, box.stub, env.ACCOUNT.getByName("default"), env.OUTBOX.getByName("default")];
    const stored = await Promise.all(stubs.map((stub) => runInDurableObject(stub, everything)));
    for (const spy of spies) spy.mockRestore();
    // Nothing of it, and no hash of it that a guess could be compared with.
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${canary}-a`));
    const hash = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    for (const text of [JSON.stringify(answers), lines.join("\n"), ...stored]) {
      expect(text).not.toContain(canary);
      expect(text).not.toContain(btoa(canary).slice(0, 20));
      expect(text).not.toContain(hash);
    }
    expect(stored[0]).toContain(name);
  });

  it("do not open as another's", async () => {
    const account = await openAccount();
    await account.as("PUT", "/v1/secrets/a", { value: "one", mode: "env" });
    await account.as("PUT", "/v1/secrets/b", { value: "two", mode: "env" });
    const stub = env.SECRETS.getByName(account.name) as DurableObjectStub;
    await runInDurableObject(stub, (_object: object, { storage: { sql } }) => {
      sql.exec("UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'b') WHERE name = 'a'");
    });
    const response = await edge("http://api.test/v1/sandboxes", {
      method: "POST",
      headers: { authorization: `Bearer ${account.key}`, prefer: "wait=5" },
      body: JSON.stringify({ name: "x", secrets: ["a"] }),
    });
    expect((await faultOf(response)).code).toBe("host_unavailable");
  });

  it("are asked of an account that has none without a trace", async () => {
    const account = await openAccount();
    expect((await account.as<SecretList>("GET", "/v1/secrets")).body.data).toEqual([]);
    const stub = env.SECRETS.getByName(account.name) as DurableObjectStub;
    const tables = await runInDurableObject(stub, (_object: object, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'secrets'").toArray(),
    );
    expect(tables).toEqual([]);
  });
});

/** All rows of all tables of an object, as text. */
function everything(_object: object, { storage: { sql } }: DurableObjectState): string {
  const tables = sql
    .exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
    )
    .toArray();
  return tables
    .map(({ name }) =>
      JSON.stringify(
        sql
          .exec(`SELECT * FROM "${name}"`)
          .toArray()
          .map((row) =>
            Object.values(row).map((cell) => (cell instanceof ArrayBuffer ? new TextDecoder().decode(cell) : cell)),
          ),
      ),
    )
    .join("\n");
}
