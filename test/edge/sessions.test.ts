/** Session tokens: what they open, until when, and that nothing else wakes a sandbox or reaches it. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NewKey } from "../../sdk/contract/account.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";
import { sessionTokenOf, type Session } from "../../sdk/contract/session.ts";
import { uuidOf } from "../../sdk/contract/uuid.ts";
import type { AccountObject } from "../../durable/account/object.ts";
import { clientOf, openAccount } from "./accounts.ts";
import { API, ask, created, fake, freshName, heartbeat, paused } from "./client.ts";
import { APP, begin, codeOf, from, run, sessionsOf, untouched } from "./sessions.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const account = () => env.ACCOUNT.getByName("default") as DurableObjectStub<AccountObject>;

describe("a session token", () => {
  it("lets pages of its origins use its sandbox, wakes it, and says so to the browser", async () => {
    const { id, name } = await paused();
    const session = await begin(id, { name: "editor" });
    expect(session).toMatchObject({
      ...{ sandboxId: id, name: "editor", scopes: ["exec", "files", "interpreter"], origins: [APP], servers: false },
      ...{ state: "active", revokedAt: null, lastUsedAt: null, apiUrl: API, url: `http://${name}.rouse.test/` },
    });
    expect(Date.parse(session.expiresAt) - Date.parse(session.createdAt)).toBe(900_000);
    for (const reference of [id, name, uuidOf(id)]) {
      const answer = await run(APP, session.token, reference);
      expect([reference, answer.status]).toEqual([reference, 200]);
      expect(answer.headers.get("access-control-allow-origin")).toBe(APP);
      expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
      expect(answer.headers.get("vary")).toContain("Origin");
      expect(answer.headers.get("access-control-expose-headers")).not.toContain("*");
    }
    // The host knows which session came in and when it ends; the guest agent sees no token.
    const seen = (await from(APP, session.token, "GET", `/v1/sandboxes/${id}/files/list?path=/`)).json<{
      headers: Record<string, string>;
    }>();
    expect((await seen).headers).toMatchObject({
      [hostHeaders.keyId]: session.id,
      [hostHeaders.endsAt]: String(Date.parse(session.expiresAt)),
    });
    expect(JSON.stringify(await seen)).not.toContain(session.token);
    const { body: why } = await ask<{ lastRun: { cause: { keyId: string } } }>("GET", `/v1/sandboxes/${id}:why`);
    expect(why.lastRun.cause.keyId).toBe(session.id);
  });

  it("reads its sandbox's state, and not how it is set up", async () => {
    const { id } = await created({ labels: { customer: "c-7" }, env: { SECRET_PLAN: "x" } });
    const { token } = await begin(id, { scopes: ["http"] });
    const shown = await from(APP, token, "GET", `/v1/sandboxes/${id}`);
    const text = await shown.text();
    expect(JSON.parse(text)).toMatchObject({ id, state: "running" });
    expect(text).not.toContain("c-7");
    expect(text).not.toContain("SECRET_PLAN");
  });

  it.each([
    ["another site", "https://evil.example"],
    ["a subdomain", "https://x.app.example"],
    ["a site whose name begins so", "https://app.example.evil.example"],
    ["a site whose name ends so", "https://myapp.example"],
    ["another port", "https://app.example:8443"],
    ["the same without TLS", "http://app.example"],
    ["other letters", "https://APP.example"],
    ["a path behind it", "https://app.example/"],
    ["a page without an origin, such as a file or a sandboxed frame", "null"],
  ])("is refused from %s, in words that a page can read, and wakes nothing", async (_what, origin) => {
    const sandbox = await paused();
    const { token } = await begin(sandbox.id);
    const refused = await run(origin, token, sandbox.id);
    const readable = refused.headers.get("access-control-allow-origin");
    expect(await codeOf(refused)).toEqual([403, "origin_not_allowed"]);
    // What is no origin is told nothing.
    expect(readable).toBe(/^https?:\/\/[a-z.:0-9]+$/.test(origin) ? origin : null);
    await untouched(sandbox);
  });

  it("is for pages, or for servers, or for both, as it was made", async () => {
    const sandbox = await paused();
    const page = await begin(sandbox.id);
    expect(await codeOf(await run(null, page.token, sandbox.id))).toEqual([403, "origin_not_allowed"]);
    const server = await begin(sandbox.id, { origins: undefined });
    expect(server.servers).toBe(true);
    expect(await codeOf(await run(APP, server.token, sandbox.id))).toEqual([403, "origin_not_allowed"]);
    await untouched(sandbox);
    const both = await begin(sandbox.id, { servers: true });
    for (const [origin, { token }] of [
      [null, server],
      [null, both],
      [APP, both],
    ] as const)
      expect((await run(origin, token, sandbox.id)).status).toBe(200);
  });

  it("opens no other sandbox, there or not, nor the next one of its name", async () => {
    const { id, name } = await created();
    const { token } = await begin(id);
    const other = await paused();
    for (const reference of [other.id, other.name, freshName(), uuidOf(other.id)])
      expect(await codeOf(await run(APP, token, reference))).toEqual([403, "forbidden"]);
    await untouched(other);
    await ask("DELETE", `/v1/sandboxes/${id}`);
    expect(await codeOf(await run(APP, token, id))).toEqual([410, "sandbox_gone"]);
    const next = (await ask("POST", "/v1/sandboxes", { name })).body;
    expect(await codeOf(await run(APP, token, name))).toEqual([410, "sandbox_gone"]);
    expect(await codeOf(await run(APP, token, next.id))).toEqual([403, "forbidden"]);
  });

  it("does what its scopes say, and no more", async () => {
    const sandbox = await paused();
    const S = `/v1/sandboxes/${sandbox.id}`;
    const calls = {
      exec: ["POST", `${S}:exec`, { command: "true" }],
      list: ["GET", `${S}/files/list?path=/`, undefined],
      write: ["PUT", `${S}/files/content?path=/workspace/a`, "x"],
      code: ["POST", `${S}/interpreter:run`, { code: "1" }],
      processes: ["GET", `${S}/processes`, undefined],
    } as const;
    const opened: Readonly<Record<string, readonly string[]>> = {
      exec: ["exec", "processes"],
      files: ["list", "write"],
      "files:read": ["list"],
      interpreter: ["code"],
      terminal: ["processes"],
      http: [],
    };
    for (const [scope, wanted] of Object.entries(opened)) {
      const { token } = await begin(sandbox.id, { scopes: [scope] });
      const refused = [];
      for (const [name, [method, path, body]] of Object.entries(calls))
        if (!wanted.includes(name)) refused.push(await codeOf(await from(APP, token, method, path, body)));
      expect([scope, refused]).toEqual([scope, refused.map(() => [403, "permission_denied"])]);
    }
    await untouched(sandbox);
    for (const [scope, wanted] of Object.entries(opened)) {
      const { token } = await begin(sandbox.id, { scopes: [scope] });
      for (const name of wanted) {
        const [method, path, body] = calls[name as keyof typeof calls];
        expect([scope, name, (await from(APP, token, method, path, body)).status]).toEqual([scope, name, 200]);
      }
    }
  });

  it("with every scope neither looks after the sandbox, nor sees the account, nor makes tokens", async () => {
    const sandbox = await paused();
    const S = `/v1/sandboxes/${sandbox.id}`;
    const { token } = await begin(sandbox.id, {
      scopes: ["exec", "files", "files:read", "interpreter", "terminal", "http"],
      servers: true,
    });
    for (const [method, path, body] of [
      ["POST", S + ":wake", {}],
      ["POST", S + ":pause", {}],
      ["POST", S + ":fork", {}],
      ["POST", S + ":update", {}],
      ["DELETE", S, undefined],
      ["GET", S + ":why", undefined],
      ["GET", S + "/events", undefined],
      ["GET", S + "/secrets", undefined],
      ["GET", S + "/state/keys", undefined],
      ["GET", S + "/tunnel", undefined],
      ["POST", S + "/links", {}],
      ["POST", S + "/previews", { port: 3000 }],
      ["POST", sessionsOf(sandbox.id), {}],
      ["GET", sessionsOf(sandbox.id), undefined],
      ["GET", "/v1/sandboxes", undefined],
      ["POST", "/v1/sandboxes", {}],
      ["GET", "/v1/keys", undefined],
      ["GET", "/v1/me", undefined],
      ["GET", "/v1/usage", undefined],
    ] as const)
      expect([path, ...(await codeOf(await from(APP, token, method, path, body)))]).toEqual([
        ...[path, 403, "permission_denied"],
      ]);
    await untouched(sandbox);
  });

  it("is over with its time, and what it let in with it", async () => {
    const sandbox = await paused();
    const { token, id } = await begin(sandbox.id, { ttlSeconds: 60 });
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 61_000);
    const refused = await run(APP, token, sandbox.id);
    // The page is told, so that it can have another.
    expect(refused.headers.get("access-control-allow-origin")).toBe(APP);
    expect(await codeOf(refused)).toEqual([401, "unauthorized"]);
    const { data } = (await ask<{ data: Session[] }>("GET", sessionsOf(sandbox.id))).body;
    expect(data).toMatchObject([{ id, state: "expired" }]);
    vi.useRealTimers();
    await untouched(sandbox);
  });

  it("is over at once when it is revoked, where it was believed too, and again changes nothing", async () => {
    const { id } = await created();
    const { token, id: session } = await begin(id);
    const other = await begin(id);
    expect((await run(APP, token, id)).status).toBe(200);
    const path = `${sessionsOf(id)}/${session}:revoke`;
    const [first, again] = await Promise.all([ask<Session>("POST", path, {}), ask<Session>("POST", path, {})]);
    expect([first.body.state, again.body.revokedAt]).toEqual(["revoked", first.body.revokedAt]);
    expect(await codeOf(await run(APP, token, id))).toEqual([401, "unauthorized"]);
    expect((await run(APP, other.token, id)).status).toBe(200);
    expect(await fake.revoked()).toContain(session);
    await evictDurableObject(account());
    expect(await codeOf(await run(APP, token, id))).toEqual([401, "unauthorized"]);
    const wrong = await ask("POST", `${sessionsOf(id)}/ses-${"0".repeat(20)}:revoke`, {});
    expect(wrong.body.error.code).toBe("session_not_found");
    // Of another sandbox, it is not there.
    const elsewhere = await ask("POST", `${sessionsOf((await created()).id)}/${other.id}:revoke`, {});
    expect(elsewhere.body.error.code).toBe("session_not_found");
  });

  it("is over when the key that made it is, and ends no later than it", async () => {
    const { id } = await created();
    const key = NewKey.parse((await ask("POST", "/v1/keys", { ttlSeconds: 120, access: "sandboxes" })).body);
    const headers = { authorization: `Bearer ${key.key}` };
    const session = await begin(id, { ttlSeconds: 3600 }, headers);
    expect([session.createdBy, session.expiresAt]).toEqual([key.id, key.expiresAt]);
    expect((await run(APP, session.token, id)).status).toBe(200);
    await ask("DELETE", `/v1/keys/${key.id}`);
    expect(await codeOf(await run(APP, session.token, id))).toEqual([401, "unauthorized"]);
    expect(await fake.revoked()).toEqual(expect.arrayContaining([key.id, session.id]));
  });

  it("that was tampered with, or is none, is refused, and wakes nothing", async () => {
    const sandbox = await paused();
    const { token } = await begin(sandbox.id);
    const last = token.at(-1) === "a" ? "b" : "a";
    const { name: stranger } = await openAccount();
    for (const wrong of [
      `${token.slice(0, -1)}${last}`,
      `${token}a`,
      token.replace("rs_default", `rs_${stranger}`),
      token.replace("rs_", "rouses_"),
      token.replace("rs_", "rouse_"),
      sessionTokenOf("default"),
      "rs_default_short",
      "",
    ])
      expect([wrong, ...(await codeOf(await run(APP, wrong, sandbox.id)))]).toEqual([wrong, 401, "unauthorized"]);
    await untouched(sandbox);
  });

  it("is shown once, kept as a hash, made once, and found again after an eviction and an alarm", async () => {
    const { id } = await created();
    const headers = { "idempotency-key": `session-${freshName()}` };
    const [first, again] = await Promise.all([begin(id, {}, headers), begin(id, {}, headers)]);
    expect([again.id, again.token]).toEqual([first.id, first.token]);
    const other = await begin(id);
    await evictDurableObject(account());
    expect((await begin(id, {}, headers)).token).toBe(first.token);
    await runDurableObjectAlarm(account());
    await runDurableObjectAlarm(account());
    expect((await run(APP, first.token, id)).status).toBe(200);
    const { data } = (await ask<{ data: Session[] }>("GET", sessionsOf(id))).body;
    expect(data.map((one) => one.id).toSorted()).toEqual([first.id, other.id].toSorted());
    expect(data.find((one) => one.id === first.id)?.lastUsedAt).not.toBeNull();
    const stored = await runInDurableObject(account(), (_object, state) =>
      JSON.stringify(["tokens", "answers"].map((table) => state.storage.sql.exec(`SELECT * FROM ${table}`).toArray())),
    );
    expect(stored).toContain(first.id);
    expect(stored).not.toContain(first.token);
    expect(JSON.stringify(data)).not.toContain(first.token);
    const reused = await ask("POST", sessionsOf(id), { origins: ["https://other.example"] }, headers);
    expect(reused.body.error.code).toBe("idempotency_key_reused");
  });

  it("is told of in the sandbox's events, when it is made and when it is revoked, and never itself", async () => {
    const { id } = await created();
    const session = await begin(id, { scopes: ["files:read"] });
    await ask("POST", `${sessionsOf(id)}/${session.id}:revoke`, {});
    await ask("POST", `${sessionsOf(id)}/${session.id}:revoke`, {});
    const { data } = (await ask<{ data: { type: string; data: object }[] }>("GET", `/v1/sandboxes/${id}/events`)).body;
    const told = data.filter(({ type }) => type.startsWith("session."));
    const keyId = session.createdBy;
    expect(told).toMatchObject([
      {
        type: "session.created",
        data: { sessionId: session.id, keyId, scopes: ["files:read"], origins: [APP], expiresAt: session.expiresAt },
      },
      { type: "session.revoked", data: { sessionId: session.id, keyId } },
    ]);
    expect(JSON.stringify(data)).not.toContain(session.token);
  });

  it("is made by who may use the sandbox, of what makes sense, and so many at most", async () => {
    const { id } = await created();
    for (const [wrong, path] of [
      [{ origins: ["app.example"] }, "origins.0"],
      [{ origins: ["https://app.example/"] }, "origins.0"],
      [{ origins: ["https://app.example/path"] }, "origins.0"],
      [{ origins: ["https://*.example"] }, "origins.0"],
      [{ origins: ["*"] }, "origins.0"],
      [{ origins: ["null"] }, "origins.0"],
      [{ origins: ["https://app.example:443"] }, "origins.0"],
      [{ origins: ["https://App.example"] }, "origins.0"],
      [{ origins: ["ftp://app.example"] }, "origins.0"],
      [{ origins: Array.from({ length: 21 }, (_, n) => `https://a${n}.example`) }, "origins"],
      [{ origins: [], servers: false }, "origins"],
      [{ scopes: [] }, "scopes"],
      [{ scopes: ["root"] }, "scopes.0"],
      [{ ttlSeconds: 59 }, "ttlSeconds"],
      [{ ttlSeconds: 86_401 }, "ttlSeconds"],
      [{ name: "" }, "name"],
      [{ extra: 1 }, ""],
    ] as const) {
      const { body } = await ask("POST", sessionsOf(id), wrong);
      expect([wrong, body.error.code]).toEqual([wrong, "invalid_request"]);
      expect(body.error.details?.issues?.map((issue) => issue.path)).toContain(path);
    }
    const read = NewKey.parse((await ask("POST", "/v1/keys", { access: "read" })).body);
    const { as } = clientOf(read.key);
    expect((await as("POST", sessionsOf(id), {})).body.error.code).toBe("permission_denied");
    expect((await as("GET", sessionsOf(id))).status).toBe(200);
    const stranger = await openAccount();
    expect((await stranger.as("POST", sessionsOf(id), {})).body.error.code).toBe("not_found");
    const prefixed = NewKey.parse((await ask("POST", "/v1/keys", { namePrefix: `${freshName()}-` })).body);
    expect((await clientOf(prefixed.key).as("POST", sessionsOf(id), {})).body.error.code).toBe("not_found");
    await runInDurableObject(account(), (_object, state) => {
      state.storage.sql.exec(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO tokens (id, hash, sandbox_id, key_id, created_at, expires_at, body)
         SELECT 'ses-' || ?1 || i, ?1 || i, ?1, 'k', ?2, ?2, '{}' FROM n`,
        ...[id, Date.now() + 60_000],
      );
    });
    expect((await ask("POST", sessionsOf(id), {})).body.error.code).toBe("quota_exceeded");
  });
});
