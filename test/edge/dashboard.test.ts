/** The dashboard at the edge: its files, the sessions of browsers and what they are kept from, and what pages are told. */
import { beforeAll, describe, expect, it } from "vitest";
import type { NewKey } from "../../sdk/contract/account.ts";
import type { DashboardSession } from "../../sdk/contract/dashboard.ts";
import type { SandboxChanges } from "../../sdk/contract/sandbox.ts";
import { API, ask, created, edge, faultOf, freshName, heartbeat, secrets } from "./client.ts";

beforeAll(async () => {
  await heartbeat();
});

interface SignedIn {
  readonly cookie: string;
  readonly session: DashboardSession;
}

function openSession(apiKey: string, headers: Record<string, string> = {}): Promise<Response> {
  return edge(`${API}/dashboard/session`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ apiKey }),
  });
}

async function signedIn(apiKey: string = secrets.apiKey): Promise<SignedIn> {
  const response = await openSession(apiKey);
  expect(response.status).toBe(200);
  const [cookie = ""] = (response.headers.get("set-cookie") ?? "").split(";");
  return { cookie, session: await response.json<DashboardSession>() };
}

/** A call as a page sends it: with the cookie, and whatever else. */
function asBrowser(cookie: string, method: string, path: string, headers: Record<string, string> = {}, body?: object) {
  return edge(API + path, {
    method,
    headers: { cookie, ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

describe("files", () => {
  it("are one page for every view, with a policy that lets nothing in from elsewhere", async () => {
    const pages = await Promise.all(
      ["", "/", "/usage", "/sandboxes/a/files"].map((path) => edge(`${API}/dashboard${path}`)),
    );
    const texts = await Promise.all(pages.map((page) => page.text()));
    expect(new Set(texts).size).toBe(1);
    for (const page of pages) {
      expect(page.status).toBe(200);
      expect(page.headers.get("cache-control")).toBe("no-cache");
      const policy = page.headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).not.toContain("unsafe");
      expect(policy).toContain("frame-ancestors 'none'");
    }
    expect(texts[0]).not.toMatch(/<script>|<style|\bon\w+=|https?:\/\//);
  });

  it("are kept for ever by browsers, but for the page, which is asked for anew by its tag", async () => {
    const page = await edge(`${API}/dashboard`);
    const paths = [...(await page.text()).matchAll(/"(\/dashboard\/assets\/[^"]+)"/g)].map(([, path]) => path ?? "");
    expect(paths.length).toBeGreaterThanOrEqual(3);
    for (const path of paths) {
      const file = await edge(API + path);
      expect([file.status, file.headers.get("cache-control")]).toEqual([200, "public, max-age=31536000, immutable"]);
      expect((await file.arrayBuffer()).byteLength).toBeGreaterThan(50);
    }
    const tag = page.headers.get("etag") ?? "";
    const again = await edge(`${API}/dashboard`, { headers: { "if-none-match": `W/${tag}` } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    expect((await edge(`${API}/dashboard/assets/nothing.js`)).status).toBe(404);
  });

  it("leave the root to the API, but for people", async () => {
    const person = await edge(`${API}/`, { headers: { accept: "text/html" }, redirect: "manual" });
    expect([person.status, person.headers.get("location")]).toEqual([302, "/dashboard"]);
    expect((await faultOf(await edge(`${API}/`))).code).toBe("route_not_found");
  });
});

describe("a session", () => {
  it("begins with a key, which is not in what the browser has", async () => {
    const { status } = await openSession("rouse_default_000000000000_wrong");
    expect(status).toBe(401);
    const response = await openSession(secrets.apiKey);
    const cookie = response.headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/^rouse_session=rouses_default_\w{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
    const body = await response.text();
    expect(body + cookie).not.toContain(secrets.apiKey.split("_").at(-1));
  });

  it("is of HTTPS alone, and of this host alone, where there is HTTPS", async () => {
    const response = await edge("https://api.test/dashboard/session", {
      method: "POST",
      body: JSON.stringify({ apiKey: secrets.apiKey }),
    });
    expect(response.headers.get("set-cookie")).toMatch(/^__Host-rouse_session=[^;]+; Path=\/; .*; Secure$/);
  });

  it("changes things for a page of its own, and for no other", async () => {
    const { cookie, session } = await signedIn();
    const make = (headers: Record<string, string>) => asBrowser(cookie, "POST", "/v1/sandboxes", headers, {});
    const csrf = { "x-rouse-csrf": session.csrf };
    expect((await make({})).status).toBe(401);
    expect((await make({ "sec-fetch-site": "same-origin" })).status).toBe(401);
    expect((await make({ "x-rouse-csrf": "0".repeat(32) })).status).toBe(401);
    expect((await make({ ...csrf, origin: "http://agent.api.test" })).status).toBe(401);
    expect((await make({ ...csrf, origin: "null" })).status).toBe(401);
    expect((await make({ ...csrf, origin: API })).status).toBe(200);
  });

  it("reads for a page of its own, and wakes nothing for others", async () => {
    const { cookie, session } = await signedIn();
    const read = (headers: Record<string, string>) => asBrowser(cookie, "GET", "/v1/me", headers);
    expect((await read({})).status).toBe(401);
    expect((await read({ "sec-fetch-site": "same-site" })).status).toBe(401);
    expect((await read({ "sec-fetch-site": "none" })).status).toBe(401);
    const own = await read({ "sec-fetch-site": "same-origin" });
    expect(await own.json()).toMatchObject({ orgId: "default", credentialId: session.keyId });
    // What a machine's file holds becomes no page of the dashboard's origin.
    expect(own.headers.get("content-security-policy")).toBe("sandbox; default-src 'none'");
    expect((await read({ "x-rouse-csrf": session.csrf })).status).toBe(200);
  });

  it("is no key, and signing out ends it", async () => {
    const { cookie, session } = await signedIn();
    const token = cookie.slice(cookie.indexOf("=") + 1);
    expect((await edge(`${API}/v1/me`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(401);
    const csrf = { "x-rouse-csrf": session.csrf };
    expect((await asBrowser(cookie, "GET", "/v1/me", csrf)).status).toBe(200);
    const left = await asBrowser(cookie, "DELETE", "/dashboard/session", csrf);
    expect(left.headers.get("set-cookie")).toContain("rouse_session=; Path=/; Max-Age=0");
    expect((await asBrowser(cookie, "GET", "/v1/me", csrf)).status).toBe(401);
    expect(await (await asBrowser(cookie, "GET", "/dashboard/session", csrf)).json()).toBeNull();
  });

  it("may what its key may, and is over with it", async () => {
    const prefix = freshName();
    const made = await ask<NewKey>("POST", "/v1/keys", { name: "small", access: "sandboxes", namePrefix: prefix });
    const { cookie, session } = await signedIn(made.body.key);
    expect(session).toMatchObject({ access: "sandboxes", namePrefix: prefix, keyName: "small" });
    const csrf = { "x-rouse-csrf": session.csrf };
    expect((await asBrowser(cookie, "GET", "/v1/keys", csrf)).status).toBe(403);
    expect((await asBrowser(cookie, "POST", "/v1/sandboxes", csrf, { name: `${prefix}-a` })).status).toBe(200);
    expect((await asBrowser(cookie, "POST", "/v1/sandboxes", csrf, { name: freshName() })).status).toBe(403);
    expect((await ask("DELETE", `/v1/keys/${made.body.id}`)).status).toBe(200);
    expect((await asBrowser(cookie, "GET", "/v1/sandboxes", csrf)).status).toBe(401);
  });

  it("begins for nobody who sends a browser here from another site", async () => {
    const response = await openSession(secrets.apiKey, { origin: "http://elsewhere.test" });
    expect([response.status, response.headers.get("set-cookie")]).toEqual([403, null]);
  });

  it("begins by an approval, with no more than was approved, and makes no key", async () => {
    const asked = await edge(`${API}/oauth/device_authorization`, { method: "POST", body: new URLSearchParams() });
    const { device_code: deviceCode, user_code: code } = await asked.json<Record<string, string>>();
    const poll = () =>
      edge(`${API}/dashboard/session/device`, { method: "POST", body: JSON.stringify({ deviceCode }) });
    const waiting = await poll();
    expect([await waiting.json(), waiting.headers.get("set-cookie")]).toEqual([
      { state: "authorization_pending" },
      null,
    ]);
    const keysBefore = (await ask<{ data: object[] }>("GET", "/v1/keys")).body.data.length;
    await edge(`${API}/connect`, {
      method: "POST",
      body: new URLSearchParams({ code: code ?? "", api_key: secrets.apiKey, access: "read" }),
    });
    const response = await poll();
    const session = await response.json<DashboardSession>();
    expect(session).toMatchObject({ account: "default", access: "read" });
    const [cookie = ""] = (response.headers.get("set-cookie") ?? "").split(";");
    const csrf = { "x-rouse-csrf": session.csrf };
    expect((await asBrowser(cookie, "GET", "/v1/sandboxes", csrf)).status).toBe(200);
    expect((await asBrowser(cookie, "POST", "/v1/sandboxes", csrf, {})).status).toBe(403);
    expect((await ask<{ data: object[] }>("GET", "/v1/keys")).body.data).toHaveLength(keysBefore);
  });
});

describe("a sandbox on the dashboard's origin", () => {
  it("is not told the session, and its pages are of an origin of their own", async () => {
    const { cookie } = await signedIn();
    const { name } = await created({ access: "public" });
    const response = await edge(`${API}/s/${name}/8080/`, {
      headers: { cookie: `theme=dark; ${cookie}; __Host-rouse_session=other` },
    });
    const { headers } = await response.json<{ headers: Record<string, string> }>();
    expect(headers["cookie"]).toBe("theme=dark");
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toMatch(/^sandbox /);
    expect(policy).not.toContain("allow-same-origin");
    const byHost = await edge(`http://${name}.rouse.test/`);
    expect(byHost.headers.get("content-security-policy")).toBeNull();
  });
});

describe("changes of sandboxes", () => {
  const changes = async (query: string) => (await ask<SandboxChanges>("GET", `/v1/sandboxes:changes${query}`)).body;

  it("are told from where one began, each sandbox as it is now", async () => {
    const { nextAfter, data } = await changes("");
    expect(data).toEqual([]);
    const { name } = await created({ env: { SECRET: "x" } });
    await ask("POST", `/v1/sandboxes/${name}:pause`, {});
    const told = await changes(`?after=${nextAfter}`);
    const mine = told.data.filter(({ label }) => label === name);
    expect(mine.map(({ sandbox }) => sandbox?.state)).toEqual(["paused"]);
    expect(mine[0]?.sandbox).not.toHaveProperty("envNames");
    await ask("DELETE", `/v1/sandboxes/${name}`);
    const gone = await changes(`?after=${told.nextAfter}`);
    expect(gone.data.find(({ label }) => label === name)).toEqual({ label: name, sandbox: null });
    expect(gone.nextAfter).toBeGreaterThan(told.nextAfter);
  });

  it("are waited for", async () => {
    const { nextAfter } = await changes("");
    const waiting = changes(`?after=${nextAfter}&waitSeconds=20`);
    const { name } = await created();
    expect((await waiting).data.map(({ label }) => label)).toContain(name);
    expect(await changes(`?after=999999999&waitSeconds=1`)).toEqual({
      data: [],
      nextAfter: 999_999_999,
      hasMore: false,
    });
  });

  it("of others are not told to a key of a part", async () => {
    const prefix = freshName();
    const { body: key } = await ask<NewKey>("POST", "/v1/keys", { access: "sandboxes", namePrefix: prefix });
    const { nextAfter } = await changes("");
    await created();
    await ask("POST", "/v1/sandboxes", { name: `${prefix}-a` });
    await ask("DELETE", `/v1/sandboxes/${prefix}-a`);
    const own = await ask<SandboxChanges>("GET", `/v1/sandboxes:changes?after=${nextAfter}`, undefined, {
      authorization: `Bearer ${key.key}`,
    });
    expect(own.body.data).toEqual([{ label: `${prefix}-a`, sandbox: null }]);
  });
});
