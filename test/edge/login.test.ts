/** Device login (RFC 8628): link and code, a person's approval, and the key; nothing for whoever guesses. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { clientOf, openAccount } from "./accounts.ts";
import { API, ask, edge, freshName, heartbeat, secrets } from "./client.ts";

interface Started {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
  readonly expires_in: number;
  readonly interval: number;
}

beforeEach(async () => {
  await heartbeat();
  // Polls and forms are limited by address: each test has its own.
  address = `203.0.113.${++tests}`;
});
afterEach(() => {
  vi.useRealTimers();
});
let tests = 0;
let address = "";

function form(path: string, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Response> {
  return edge(`${API}${path}`, {
    method: "POST",
    body: new URLSearchParams(fields),
    headers: { "cf-connecting-ip": address, ...headers },
  });
}
const start = async (fields: Record<string, string> = {}) => {
  const answer = await form("/oauth/device_authorization", {
    client_id: "rouse-cli",
    client_name: "rouse on <laptop>",
    ...fields,
  });
  expect(answer.status).toBe(200);
  return answer.json<Started>();
};
const poll = async (deviceCode: string) => {
  const answer = await form("/oauth/token", {
    grant_type: "urn:ietf:params:oauth:grant-type:device_code",
    device_code: deviceCode,
    client_id: "rouse-cli",
  });
  return {
    status: answer.status,
    body: await answer.json<{ error?: string; access_token?: string; account?: string }>(),
  };
};
const page = (code: string) =>
  edge(`${API}/connect?code=${code}`, { headers: { "cf-connecting-ip": address } }).then((answer) => answer.text());
const decide = async (code: string, fields: Record<string, string>) =>
  (await form("/connect", { code, ...fields })).text();
const stubOf = (userCode: string) => env.LOGIN.getByName(userCode.replace("-", ""));
const later = (ms: number) => {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + ms);
};

describe("a device login", () => {
  it("gives the program a key that the approver's key made, the same one however often it asks", async () => {
    const started = await start();
    expect(started.user_code).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
    expect(started.verification_uri_complete).toBe(`http://rouse.test/connect?code=${started.user_code}`);
    expect(started).toMatchObject({ expires_in: 900, interval: 5 });
    expect(await poll(started.device_code)).toEqual({ status: 400, body: { error: "authorization_pending" } });
    expect((await poll(started.device_code)).body.error).toBe("slow_down");
    const shown = await page(started.user_code.toLowerCase());
    expect(shown).toContain(started.user_code);
    expect(shown).toContain("rouse on &#60;laptop&#62;");
    const account = await openAccount();
    await evictDurableObject(stubOf(started.user_code));
    expect(
      await decide(started.user_code, { decision: "approve", api_key: account.key, access: "sandboxes" }),
    ).toContain(account.name);
    await evictDurableObject(stubOf(started.user_code));
    const [first, second] = await Promise.all([poll(started.device_code), poll(started.device_code)]);
    expect(first.status).toBe(200);
    expect(first.body.account).toBe(account.name);
    expect(second.body).toEqual(first.body);
    const { as } = clientOf(first.body.access_token ?? "");
    expect((await as("GET", "/v1/me")).body).toMatchObject({ orgId: account.name, access: "sandboxes" });
    // It is listed by the program's name, and can be revoked like any other.
    const keys = (await account.as<{ data: { id: string; name: string }[] }>("GET", "/v1/keys")).body.data;
    const made = keys.find(({ name }) => name === "rouse on <laptop>");
    await account.as("DELETE", `/v1/keys/${made?.id}`);
    expect((await as("GET", "/v1/me")).status).toBe(401);
  });

  it("is over after a quarter of an hour, after a refusal, and once it was decided", async () => {
    const refused = await start();
    expect(await decide(refused.user_code, { decision: "deny" })).toContain("Refused");
    expect((await poll(refused.device_code)).body.error).toBe("access_denied");
    expect(await decide(refused.user_code, { decision: "approve", api_key: secrets.apiKey })).toContain("Not valid");
    const late = await start();
    later(901_000);
    expect((await poll(late.device_code)).body.error).toBe("expired_token");
    expect(await page(late.user_code)).toContain("Not valid");
    await runDurableObjectAlarm(stubOf(late.user_code));
    await runDurableObjectAlarm(stubOf(late.user_code));
  });

  it("gives nothing to guesses, and ends after five wrong keys", async () => {
    const started = await start();
    const [code] = started.device_code.split(".");
    for (const wrong of [`${code}.${"A".repeat(43)}`, `${code}.`, "", "nonsense", `BBBBBBBB.${"A".repeat(43)}`]) {
      const { status, body } = await poll(wrong);
      expect(status).toBe(400);
      expect(["invalid_grant", "expired_token"]).toContain(body.error);
    }
    const read = (await ask<{ key: string }>("POST", "/v1/keys", { access: "sandboxes" })).body.key;
    for (const key of ["nonsense", read, `${secrets.apiKey.slice(0, -1)}B`, ""])
      expect(await decide(started.user_code, { decision: "approve", api_key: key })).toContain("That key is not valid");
    expect(await decide(started.user_code, { decision: "approve", api_key: "x" })).toContain("Not valid any more");
    expect((await poll(started.device_code)).body.error).toBe("access_denied");
    expect((await form("/oauth/token", { grant_type: "password" })).status).toBe(400);
  });

  it("is not decided by another site, nor in a frame", async () => {
    const started = await start();
    const answer = await form(
      "/connect",
      { code: started.user_code, decision: "deny" },
      { origin: "https://evil.example" },
    );
    expect(answer.status).toBe(403);
    expect((await poll(started.device_code)).body.error).toBe("authorization_pending");
    const shown = await edge(`${API}/connect?code=${started.user_code}`, { headers: { "cf-connecting-ip": address } });
    expect(shown.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(shown.headers.get("cache-control")).toBe("no-store");
  });

  it("can't be begun without end from one address", async () => {
    const codes = await Promise.all(
      Array.from({ length: 25 }, () => form("/oauth/device_authorization", { client_id: "flood" })),
    );
    const refused = codes.find(({ status }) => status === 429);
    expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThan(0);
  });
});

describe("a trial", () => {
  it("begins with the approval, in an account of its own, with a key of its own", async () => {
    const started = await start({ scope: "trial" });
    expect(await page(started.user_code)).toContain("trial account");
    expect(await decide(started.user_code, { decision: "trial" })).toContain("Connected");
    const { body } = await poll(started.device_code);
    const again = await poll(started.device_code);
    expect(again.body).toEqual(body);
    const { as } = clientOf(body.access_token ?? "");
    const account = (await as<Record<string, unknown>>("GET", "/v1/account")).body;
    expect(account).toMatchObject({ name: body.account, plan: "trial", creditedMicros: 1_000_000 });
    const name = freshName();
    const input = { name, getOrCreate: true, idlePauseSeconds: 600, funding: "trial" };
    const first = await as("POST", "/v1/sandboxes", input);
    expect(first.status).toBe(200);
    // Tomorrow the same line prints the same id.
    expect((await as("POST", "/v1/sandboxes", input)).body.id).toBe(first.body.id);
  });

  it("is not offered to a program that does not ask for one", async () => {
    const started = await start();
    expect(await page(started.user_code)).not.toContain("trial account");
    expect((await form("/connect", { code: started.user_code, decision: "trial" })).status).toBe(403);
  });
});
