/** What web pages may do with session tokens, and what browsers are told of it. */
import { beforeEach, describe, expect, it } from "vitest";
import { hostHeaders } from "../../sdk/contract/host.ts";
import type { NewSession, Session } from "../../sdk/contract/session.ts";
import { uuidOf } from "../../sdk/contract/uuid.ts";
import { API, ask, call, created, edge, fake, heartbeat, paused, secrets } from "./client.ts";
import { APP, begin, codeOf, from, sessionsOf, untouched } from "./sessions.ts";

beforeEach(async () => {
  await heartbeat();
});

describe("a page", () => {
  const preflight = (path: string, headers: Record<string, string> = {}) =>
    edge(API + path, {
      method: "OPTIONS",
      headers: { origin: APP, "access-control-request-method": "POST", ...headers },
    });

  it("may ask to send what session tokens are good for, without credentials, and nothing wakes for it", async () => {
    const sandbox = await paused();
    const answer = await preflight(`/v1/sandboxes/${sandbox.id}:exec`, {
      "access-control-request-headers": "authorization,content-type",
    });
    expect(answer.status).toBe(204);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "access-control-allow-origin": APP,
      "access-control-allow-methods": "POST",
      "access-control-allow-headers": expect.stringContaining("authorization"),
      vary: expect.stringContaining("Origin"),
    });
    expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
    expect(answer.headers.get("set-cookie")).toBeNull();
    await untouched(sandbox);
    for (const [path, headers] of [
      ["/v1/keys", {}],
      ["/v1/sandboxes", {}],
      [`/v1/sandboxes/${sandbox.id}:pause`, {}],
      [`/v1/sandboxes/${sandbox.id}/sessions`, {}],
      [`/v1/sandboxes/${sandbox.id}:exec`, { "access-control-request-method": "PUT" }],
      [`/v1/sandboxes/${sandbox.id}:exec`, { origin: "null" }],
    ] as const) {
      const refused = await preflight(path, headers);
      expect([path, refused.status]).toEqual([path, 403]);
    }
  });

  it("can't use an API key, and is told why, whether the key is good or not", async () => {
    const sandbox = await paused();
    for (const key of [secrets.apiKey, `${secrets.apiKey.slice(0, -1)}X`]) {
      const refused = await call(
        "POST",
        `/v1/sandboxes/${sandbox.id}:exec`,
        { command: "true" },
        {
          ...{ authorization: `Bearer ${key}`, origin: APP },
        },
      );
      expect(refused.headers.get("access-control-allow-origin")).toBe(APP);
      expect(await codeOf(refused)).toEqual([403, "origin_not_allowed"]);
    }
    expect((await call("GET", "/v1/me", undefined, { origin: "null" })).status).toBe(403);
    await untouched(sandbox);
    // A page of the API's own origin may, as it always could.
    expect((await call("GET", "/v1/me", undefined, { origin: API })).status).toBe(200);
  });

  const upgrade = {
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": btoa("0123456789abcdef"),
  };
  const terminal = (id: string, origin: string | null, ...protocols: string[]) =>
    edge(`${API}/v1/sandboxes/${id}/terminal?cols=80&rows=24`, {
      headers: {
        ...upgrade,
        "sec-websocket-protocol": protocols.join(", "),
        ...(origin === null ? {} : { origin }),
      },
    });

  it("has a terminal by a token among its subprotocols, from its origin alone", async () => {
    const sandbox = await paused();
    const { token } = await begin(sandbox.id, { scopes: ["terminal"] });
    const offered = ["rouse.v1", `rouse.token.${token}`];
    for (const [origin, protocols, code] of [
      ["https://evil.example", offered, "origin_not_allowed"],
      ["null", offered, "origin_not_allowed"],
      [null, offered, "origin_not_allowed"],
      [APP, ["rouse.v1"], "unauthorized"],
      [APP, ["rouse.v1", `rouse.token.${secrets.apiKey}`], "unauthorized"],
      [APP, ["rouse.v1", `rouse.token.${(await begin(sandbox.id)).token}`], "permission_denied"],
    ] as const)
      expect([origin, protocols, (await codeOf(await terminal(sandbox.id, origin, ...protocols)))[1]]).toEqual([
        ...[origin, protocols, code],
      ]);
    await untouched(sandbox);
    const opened = await terminal(sandbox.id, APP, ...offered);
    expect([opened.status, opened.headers.get("sec-websocket-protocol")]).toEqual([101, "rouse.v1"]);
    opened.webSocket?.accept();
    const [seen] = await fake.sockets(sandbox.name);
    expect(JSON.stringify(seen)).not.toContain(token);
    expect(seen?.headers).not.toHaveProperty("sec-websocket-protocol");
    opened.webSocket?.close();
    const alone = await terminal(sandbox.id, APP, `rouse.token.${token}`);
    expect([alone.status, alone.headers.get("sec-websocket-protocol")]).toEqual([101, `rouse.token.${token}`]);
    alone.webSocket?.accept();
    alone.webSocket?.close();
  });

  describe.each([
    ["the named URL", (name: string) => `http://${name}.rouse.test/page?a=b`],
    ["its path form", (name: string) => `${API}/s/${name}/8080/page?a=b`],
  ])("reaches a program at %s", (_what, urlOf) => {
    it("with a token for http, by a header that no API key is taken from", async () => {
      const sandbox = await paused();
      const { token, id } = await begin(sandbox.id, { scopes: ["http"] });
      const url = urlOf(sandbox.name);
      const asked = await edge(url, {
        method: "OPTIONS",
        headers: {
          ...{ origin: APP, "access-control-request-method": "PUT" },
          "access-control-request-headers": "authorization,content-type,x-rouse-key,x-rouse-token",
        },
      });
      expect([asked.status, asked.headers.get("access-control-allow-headers")]).toEqual([
        ...[204, "content-type, x-rouse-token"],
      ]);
      const visit = (origin: string | null, given: Record<string, string>) =>
        edge(url, { headers: { ...given, ...(origin === null ? {} : { origin }) } });
      const other = await begin(sandbox.id, { scopes: ["exec"] });
      for (const [origin, given, code] of [
        ["https://evil.example", { "x-rouse-token": token }, "origin_not_allowed"],
        [null, { "x-rouse-token": token }, "origin_not_allowed"],
        [APP, { "x-rouse-token": other.token }, "permission_denied"],
        [APP, { "x-rouse-token": `${token.slice(0, -1)}-` }, "unauthorized"],
        [APP, { cookie: `rouse_token=${token}` }, "unauthorized"],
      ] as const)
        expect([given, (await codeOf(await visit(origin, given)))[1]]).toEqual([given, code]);
      expect((await edge(`${url}&rouse_token=${token}`, { headers: { origin: APP } })).status).toBe(401);
      await untouched(sandbox);
      const answer = await visit(APP, { "x-rouse-token": token });
      expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([200, APP]);
      const seen = await answer.json<{ headers: Record<string, string> }>();
      expect(seen.headers[hostHeaders.keyId]).toBe(id);
      expect(JSON.stringify(seen)).not.toContain(token);
      // As a bearer token, too, and the program does not see it there either.
      const bearer = await visit(APP, { authorization: `Bearer ${token}` });
      expect(bearer.status).toBe(200);
      expect(await bearer.text()).not.toContain(token);
      await ask("POST", `${sessionsOf(sandbox.id)}/${id}:revoke`, {});
      expect((await visit(APP, { "x-rouse-token": token })).status).toBe(401);
    });
  });

  it("reads a preview whose token does not outlive its session", async () => {
    const { id } = await created();
    await ask("POST", `/v1/sandboxes/${id}/previews`, { port: 3000 });
    const { token, expiresAt } = await begin(id, { scopes: ["http"] });
    const one = await from(APP, token, "GET", `/v1/sandboxes/${id}/previews/3000?ttlSeconds=600000`);
    expect(await one.json()).toMatchObject({ port: 3000, tokenExpiresAt: expiresAt });
    const list = await from(APP, token, "GET", `/v1/sandboxes/${id}/previews`);
    expect(await list.json()).toMatchObject({ data: [{ port: 3000, token: null, urlWithToken: null }] });
  });
});

it("a client of Runtime makes and uses a session as it knows it", async () => {
  const { id } = await created();
  const uuid = uuidOf(id);
  const runtime = { "x-runtime-client": "runtime-js/0.11.0" };
  const { body } = await ask<NewSession>("POST", sessionsOf(uuid), { origins: [APP] }, runtime);
  expect(body).toMatchObject({ sandboxId: uuid, state: "active", origins: [APP], apiUrl: API });
  expect(Date.parse(body.expiresAt) - Date.parse(body.createdAt)).toBe(3_600_000);
  const path = `/v1/sandboxes/${uuid}`;
  expect((await from(APP, body.token, "GET", path, undefined, runtime)).status).toBe(200);
  expect((await from(APP, body.token, "POST", `${path}:exec`, { command: "true" }, runtime)).status).toBe(200);
  const revoked = await ask<Session>("POST", `${sessionsOf(uuid)}/${body.id}:revoke`, {}, runtime);
  expect(revoked.body.state).toBe("revoked");
});
