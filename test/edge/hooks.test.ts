/** Hooks: how they are made and changed, and who each provider's webhooks are let in by. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { HookList, NewHook, type Hook, type HookEvent } from "../../sdk/contract/hook.ts";
import { readBytes } from "../../worker/read-bytes.ts";
import { API, ask, call, edge, fake, faultOf, freshName, heartbeat } from "./client.ts";
import { nowSeconds, standard, TestInbox, type Answer } from "./inboxes.ts";
import { openAccount } from "./accounts.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const hmac = (secret: string, text: string) => createHmac("sha256", secret).update(text).digest("hex");
const codeOf = async (response: Response) => `${response.status} ${(await faultOf(response)).code}`;
const SECRET = "it-is-a-secret-of-a-test";
const OLD = String(Math.floor(Date.now() / 1000) - 301);

describe("a hook", () => {
  it("is made, listed, read, changed and deleted; URL and secrets are shown once", async () => {
    const inbox = await TestInbox.make({ name: "orders", filters: ["order"], path: "/in?x=1", timeoutSeconds: 5 });
    const made = NewHook.parse(inbox.hook);
    expect(made).toMatchObject({
      ...{ kind: "hook", sandboxId: inbox.id, name: "orders", provider: "standard", port: 8080, path: "/in?x=1" },
      ...{ mode: "async", filters: ["order"], maxBytes: 1_048_576, timeoutSeconds: 5, enabled: true },
      ...{ disabledReason: null, hasSecret: true, previousSecretUntil: null, waiting: 0, dead: 0, lastEventAt: null },
    });
    expect(made.url).toMatch(new RegExp(`^${API}/hooks/default\\.${inbox.name}\\.[A-Za-z0-9]{32}$`));
    expect(made.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(made.deliverySecret).toMatch(/^whsec_/);
    const { url: _, secret: _s, deliverySecret: _d, ...plain } = made;
    expect((await ask<Hook>("GET", inbox.url("/orders"))).body).toEqual(plain);
    expect(HookList.parse((await ask<HookList>("GET", inbox.url())).body).data).toEqual([plain]);
    const second = await inbox.add({ name: "b", provider: "none" });
    expect(second).toMatchObject({ secret: null, hasSecret: false });
    expect(
      (await ask<Answer<Hook>>("POST", inbox.url(), { name: "b", provider: "none", port: 1 })).body.error.code,
    ).toBe("name_taken");
    const changed = await ask<Hook>("POST", inbox.url("/b:update"), {
      name: "c",
      port: 9,
      mode: "sync",
      enabled: false,
    });
    expect(changed.body).toMatchObject({
      id: second.id,
      name: "c",
      port: 9,
      mode: "sync",
      enabled: false,
      path: "/in",
    });
    expect(await codeOf(await inbox.post("{}", {}, second))).toBe("410 hook_disabled");
    expect((await ask("DELETE", inbox.url("/c"))).body).toMatchObject({ id: second.id, deleted: true });
    expect((await ask<Answer<Hook>>("GET", inbox.url("/c"))).body.error.code).toBe("hook_not_found");
    expect(await codeOf(await inbox.post("{}", {}, second))).toBe("404 hook_not_found");
    expect((await ask("POST", inbox.url("/orders:delete"), {})).status).toBe(200);
    expect((await ask<HookList>("GET", inbox.url())).body.data).toEqual([]);
  });

  it("is made once per Idempotency-Key, and what was shown is shown again", async () => {
    const { name } = await TestInbox.make();
    const headers = { "idempotency-key": crypto.randomUUID() };
    const make = (port: number) =>
      ask<Answer<NewHook>>("POST", `/v1/sandboxes/${name}/hooks`, { name: "k", provider: "github", port }, headers);
    const [first, again] = await Promise.all([make(80), make(80)]);
    expect(again.body.id).toBe(first.body.id);
    const { replayed, ...later } = (await make(80)).body;
    expect(replayed).toBe(true);
    expect([first.body, again.body]).toContainEqual(later);
    expect((await make(81)).body.error.code).toBe("idempotency_key_reused");
  });

  it("refuses what can't be, with every fault", async () => {
    const { name } = await TestInbox.make();
    const make = async (input: object) => {
      const path = `/v1/sandboxes/${name}/hooks`;
      const { body } = await ask<Answer<Hook>>("POST", path, { name: "x", provider: "none", port: 80, ...input });
      return body.error.details?.issues?.map((issue) => issue.path).join() ?? body.error.code;
    };
    expect(await make({ port: 0, maxBytes: 26_214_401, timeoutSeconds: 301 })).toBe("port,maxBytes,timeoutSeconds");
    expect(await make({ port: AGENT_PORT })).toBe("port");
    for (const path of ["in", "//host/", "/a/../b", "/%2e%2e/x", "/a#b", "/a b"])
      expect(await make({ path })).toBe("path");
    for (const provider of ["slack", "stripe", "discord"]) expect(await make({ provider })).toBe("secret");
    expect(await make({ provider: "discord", secret: "xyz" })).toBe("secret");
    expect(await make({ provider: "standard", secret: "whsec_short" })).toBe("secret");
    expect(await make({ provider: "none", secret: SECRET })).toBe("secret");
    expect(
      (await ask("POST", `/v1/sandboxes/${freshName()}/hooks`, { name: "x", provider: "none", port: 80 })).status,
    ).toBe(404);
  });

  it("is one of at most 20", async () => {
    const inbox = await TestInbox.make();
    for (let n = 1; n < 20; n++) await inbox.add({ provider: "none" });
    const { body } = await ask<Answer<Hook>>("POST", inbox.url(), { name: "x", provider: "none", port: 80 });
    expect(body.error.code).toBe("quota_exceeded");
  });

  it("keeps no secret in the clear, and of its URL only a hash", async () => {
    const inbox = await TestInbox.make({ provider: "slack", secret: SECRET });
    const rows = await runInDurableObject(inbox.stub, (_object, state) =>
      JSON.stringify(["hooks", "changes"].map((table) => state.storage.sql.exec(`SELECT * FROM ${table}`).toArray())),
    );
    const random = inbox.hook.url?.split(".").at(-1) ?? "";
    for (const text of [SECRET, inbox.hook.deliverySecret ?? "", random]) expect(rows).not.toContain(text);
    expect(rows).toContain(inbox.hook.id);
  });

  it("is another account's or prefix's business as the sandbox is", async () => {
    const inbox = await TestInbox.make();
    const other = await openAccount();
    expect((await other.as("GET", inbox.url())).status).toBe(404);
    const key = async (input: object) =>
      (await ask<{ key: string }>("POST", "/v1/keys", { name: "k", ...input })).body.key;
    const reader = { authorization: `Bearer ${await key({ access: "read" })}` };
    expect((await call("GET", inbox.url(), undefined, reader)).status).toBe(200);
    expect((await call("POST", inbox.url("/in:rotate"), {}, reader)).status).toBe(403);
    const id = await inbox.sent("one");
    const event = `/v1/sandboxes/${inbox.name}/hook-events/${id}`;
    expect((await call("GET", event, undefined, reader)).status).toBe(200);
    expect((await call("GET", `${event}?body=1`, undefined, reader)).status).toBe(403);
  });
});

describe("a URL that no hook has", () => {
  it("is answered the same whatever is wrong, and leaves no trace", async () => {
    const inbox = await TestInbox.make();
    const url = inbox.hook.url ?? "";
    const stranger = freshName();
    const answers = [];
    for (const bad of [
      url.slice(0, -1),
      `${url}x`,
      url.replace(/.{32}$/, "A".repeat(32)),
      `${API}/hooks/default.${stranger}.${"A".repeat(32)}`,
      `${API}/hooks/nobody.${inbox.name}.${"A".repeat(32)}`,
      `${API}/hooks/${"x".repeat(500)}`,
    ]) {
      const response = await edge(bad, { method: "POST", body: "{}" });
      const { requestId: _, ...fault } = await faultOf(response);
      answers.push(JSON.stringify([response.status, fault]));
    }
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toContain('[404,{"code":"hook_not_found"');
    const tables = await runInDurableObject(env.INBOX.getByName(`default/${stranger}`), (_object, state) =>
      state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
    );
    expect(tables).toEqual([]);
    expect((await edge(url)).status).toBe(405);
  });
});

/** What each provider signs with, how it signs, and what of it must not be taken. */
const discord = generateKeyPairSync("ed25519");
const publicKey = discord.publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("hex");

const providers: {
  provider: string;
  secret: string;
  type: string | null;
  body: string;
  providerId: string;
  sign: (body: string, at?: string) => Record<string, string>;
  bad: Record<string, string>;
  hasTime: boolean;
}[] = [
  {
    ...{ provider: "standard", secret: `whsec_${Buffer.from("k".repeat(32)).toString("base64")}` },
    ...{ type: "user.created", body: '{"type":"user.created"}', providerId: "msg_1", hasTime: true },
    sign: (body, at) => standard(`whsec_${Buffer.from("k".repeat(32)).toString("base64")}`, "msg_1", body, at),
    bad: { "webhook-signature": "v1,AAAA" },
  },
  {
    ...{ provider: "github", secret: SECRET, type: "pull_request.opened", body: '{"action":"opened"}' },
    ...{ providerId: "72d3162e", hasTime: false },
    sign: (body) => ({
      "x-hub-signature-256": `sha256=${hmac(SECRET, body)}`,
      "x-github-event": "pull_request",
      "x-github-delivery": "72d3162e",
    }),
    bad: { "x-hub-signature-256": `sha256=${"0".repeat(64)}` },
  },
  {
    ...{ provider: "stripe", secret: SECRET, type: "invoice.paid", body: '{"id":"evt_1","type":"invoice.paid"}' },
    ...{ providerId: "evt_1", hasTime: true },
    sign: (body, at = nowSeconds()) => ({
      "stripe-signature": `t=${at},v1=${"0".repeat(64)},v1=${hmac(SECRET, `${at}.${body}`)},v0=x`,
    }),
    bad: { "stripe-signature": "t=1,v1=00" },
  },
  {
    ...{ provider: "slack", secret: SECRET, type: "app_mention", providerId: "Ev1", hasTime: true },
    body: '{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"}}',
    sign: (body, at = nowSeconds()) => ({
      "x-slack-request-timestamp": at,
      "x-slack-signature": `v0=${hmac(SECRET, `v0:${at}:${body}`)}`,
    }),
    bad: { "x-slack-signature": "v0=zz" },
  },
  {
    ...{ provider: "telegram", secret: SECRET, type: "message", body: '{"update_id":7,"message":{"text":"hi"}}' },
    ...{ providerId: "7", hasTime: false },
    sign: () => ({ "x-telegram-bot-api-secret-token": SECRET }),
    bad: { "x-telegram-bot-api-secret-token": `${SECRET}x` },
  },
  {
    ...{ provider: "discord", secret: publicKey, type: "application_command", body: '{"id":"99","type":2}' },
    ...{ providerId: "99", hasTime: true },
    sign: (body, at = nowSeconds()) => ({
      "x-signature-timestamp": at,
      "x-signature-ed25519": sign(null, Buffer.from(at + body), discord.privateKey).toString("hex"),
    }),
    bad: { "x-signature-ed25519": "0".repeat(128) },
  },
  {
    ...{ provider: "bearer", secret: SECRET, type: "ping", body: '{"type":"ping"}', hasTime: false },
    providerId: `key-1:${"dfa2cc5b9a"}`,
    sign: () => ({ authorization: `Bearer ${SECRET}`, "idempotency-key": "key-1" }),
    bad: { authorization: "Bearer other-secret-of-someone" },
  },
];

describe.each(providers)("$provider", ({ provider, secret, type, body, providerId, sign: signed, bad, hasTime }) => {
  it("lets in what is signed, once, and nothing else; a sandbox that sleeps is not woken by the rest", async () => {
    const inbox = await TestInbox.make({ provider, secret }, true);
    expect(inbox.hook.secret).toBe(null);
    for (const headers of [{}, { ...signed(body), ...bad }])
      expect(await codeOf(await inbox.post(body, headers))).toBe("401 signature_invalid");
    // A changed body has another signature, where the body is signed at all.
    const isSigned = provider !== "telegram" && provider !== "bearer";
    const changed = isSigned ? [await codeOf(await inbox.post(`${body} `, signed(body)))] : [];
    expect(changed).toEqual(isSigned ? ["401 signature_invalid"] : []);
    const late = hasTime ? [await codeOf(await inbox.post(body, signed(body, OLD)))] : [];
    expect(late).toEqual(hasTime ? ["401 signature_expired"] : []);
    expect(await inbox.events()).toEqual([]);
    expect([await inbox.wakes(), await inbox.state()]).toEqual([0, "paused"]);

    const first = await inbox.post(body, signed(body));
    expect(first.ok).toBe(true);
    const id = first.headers.get("x-rouse-event") ?? "";
    const again = await inbox.post(body, signed(body));
    expect([again.status, again.headers.get("x-rouse-event")]).toEqual([first.status, id]);
    const event = await inbox.delivered(id);
    expect(event).toMatchObject({ type, bytes: body.length, contentType: "application/json", attempts: 1 });
    expect(event.providerId?.startsWith(providerId.split(":")[0] ?? "")).toBe(true);
    expect(await inbox.taken()).toEqual([id]);
    expect(await inbox.wakes()).toBe(1);
    // What proved the sender is no business of the program, and neither is who is between.
    const [taken] = await fake.taken(inbox.name);
    expect(taken?.headers).not.toHaveProperty("authorization");
    expect(taken?.headers).not.toHaveProperty("x-telegram-bot-api-secret-token");
    expect(Buffer.from(taken?.base64 ?? "", "base64").toString()).toBe(body);
  });
});

describe.each(providers.filter(({ hasTime }) => hasTime))("the time that $provider signs", ({ provider, ...given }) => {
  const { secret, body, sign: signed } = given;
  it("counts for five minutes either way, and not a second longer; that wakes nothing", async () => {
    const inbox = await TestInbox.make({ provider, secret }, true);
    // On a whole second, which stands still.
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Math.floor(Date.now() / 1000) * 1000);
    const at = (seconds: number) => inbox.post(body, signed(body, String(Number(nowSeconds()) + seconds)));
    for (const off of [-301, 301, -3600, 86_400]) expect(await codeOf(await at(off))).toBe("401 signature_expired");
    for (const time of ["", "-1", "1e9", "NaN", "99999999999999999999"])
      expect((await inbox.post(body, signed(body, time))).status).toBe(401);
    expect([await inbox.events(), await inbox.wakes()]).toEqual([[], 0]);
    const ids = [];
    for (const off of [-300, 0, 300, -299]) {
      const response = await at(off);
      expect(response.ok).toBe(true);
      ids.push(response.headers.get("x-rouse-event"));
    }
    // Whoever repeats it, within its time, sends nothing new.
    expect(new Set(ids).size).toBe(1);
  });
});

describe("secrets", () => {
  it("of which the one before counts for a while after a rotation, and not for longer", async () => {
    const inbox = await TestInbox.make();
    const rotated = await ask<Answer<NewHook>>("POST", inbox.url("/in:rotate"), { overlapSeconds: 3600 });
    expect(rotated.body).toMatchObject({ url: null, deliverySecret: null });
    const fresh = { ...inbox.hook, secret: rotated.body.secret };
    expect(fresh.secret).not.toBe(inbox.hook.secret);
    expect((await inbox.send("a")).status).toBe(202);
    expect((await inbox.send("b", undefined, fresh)).status).toBe(202);
    expect((await ask<Hook>("GET", inbox.url("/in"))).body.previousSecretUntil).not.toBe(null);
    await inbox.pass(3_601_000);
    expect((await inbox.send("c")).status).toBe(401);
    expect((await inbox.send("c", undefined, fresh)).status).toBe(202);
    // At most two: with one more rotation the first of three is over at once.
    const third = await ask<NewHook>("POST", inbox.url("/in:rotate"), {});
    await ask<NewHook>("POST", inbox.url("/in:rotate"), { overlapSeconds: 0 });
    expect((await inbox.send("d", undefined, fresh)).status).toBe(401);
    expect((await inbox.send("d", undefined, { ...fresh, secret: third.body.secret })).status).toBe(401);
  });

  it("of deliveries both sign while one is replaced; a new URL ends the one before", async () => {
    const inbox = await TestInbox.make();
    const key = async (what: string) => (await ask<NewHook>("POST", inbox.url("/in:rotate"), { what })).body;
    const { deliverySecret } = await key("deliverySecret");
    await inbox.delivered(await inbox.sent("one"));
    const [taken] = await fake.taken(inbox.name);
    const { "webhook-id": id = "", "webhook-timestamp": at = "", "webhook-signature": given } = taken?.headers ?? {};
    const body = Buffer.from(taken?.base64 ?? "", "base64").toString();
    const signatures = [deliverySecret, inbox.hook.deliverySecret].map(
      (secret) => standard(secret ?? "", id, body, at)["webhook-signature"],
    );
    expect(given).toBe(signatures.join(" "));
    const { url } = await key("url");
    expect((await inbox.send("two")).status).toBe(404);
    expect((await inbox.send("two", undefined, { ...inbox.hook, url })).status).toBe(202);
    const refusal = await ask<Answer<NewHook>>("POST", inbox.url("/in:rotate"), { secret: "x" });
    expect(refusal.body.error.code).toBe("invalid_request");
  });
});

describe("handshakes are answered without waking, and are no events", () => {
  it.each([
    ["slack", '{"type":"url_verification","challenge":"abc"}', "abc"],
    ["discord", '{"type":1}', '{"type":1}'],
    ["github", '{"zen":"x"}', "pong"],
  ])("of %s", async (provider, body, answer) => {
    const given = providers.find((one) => one.provider === provider);
    const inbox = await TestInbox.make({ provider, secret: given?.secret }, true);
    const headers = { ...given?.sign(body), "x-github-event": "ping" };
    const response = await inbox.post(body, headers);
    expect([response.status, await response.text()]).toEqual([200, answer]);
    expect(await codeOf(await inbox.post(body, { ...headers, ...given?.bad }))).toBe("401 signature_invalid");
    expect([await inbox.events(), await inbox.wakes()]).toEqual([[], 0]);
  });
});

describe("what providers are told", () => {
  it("is nothing that Slack or Telegram would take for an answer, and to Discord that more comes", async () => {
    const say = async (provider: string, body: string) => {
      const given = providers.find((one) => one.provider === provider);
      const inbox = await TestInbox.make({
        provider,
        secret: given?.secret,
        filters: ["message", "app_mention", "modal_submit"],
      });
      const response = await inbox.post(body, given?.sign(body));
      return [response.status, await response.text()];
    };
    expect(await say("slack", '{"event_id":"E","event":{"type":"app_mention"}}')).toEqual([200, ""]);
    expect(await say("telegram", '{"update_id":1,"message":{}}')).toEqual([200, ""]);
    expect(await say("discord", '{"id":"1","type":5}')).toEqual([200, '{"type":5}']);
    expect(await say("discord", '{"id":"1","type":3}')).toEqual([200, '{"type":6}']);
    expect((await say("discord", '{"id":"1","type":2}'))[1]).toContain('"flags":64');
  });

  it("of commands and buttons of Slack, which are forms, too", async () => {
    const inbox = await TestInbox.make({ provider: "slack", secret: SECRET });
    const given = providers.find((one) => one.provider === "slack");
    const post = async (body: string) => {
      const response = await inbox.post(body, {
        ...given?.sign(body),
        "content-type": "application/x-www-form-urlencoded",
      });
      return inbox.event(response.headers.get("x-rouse-event") ?? "");
    };
    expect(await post("command=%2Fgo&trigger_id=1.2")).toMatchObject({ type: "slash_command", providerId: "1.2" });
    const payload = encodeURIComponent('{"type":"block_actions","trigger_id":"3.4"}');
    expect(await post(`payload=${payload}`)).toMatchObject({ type: "block_actions", providerId: "3.4" });
  });

  it("of what no filter lets pass: it is acknowledged, noted without its body, and wakes nothing", async () => {
    const given = providers.find(({ provider }) => provider === "github");
    const inbox = await TestInbox.make({ provider: "github", secret: SECRET, filters: ["pull_request"] }, true);
    const body = '{"action":"x"}';
    const response = await inbox.post(body, { ...given?.sign(body), "x-github-event": "issues" });
    const told = await response.json<{ id: string; state: string }>();
    expect([response.status, told.state]).toEqual([200, "ignored"]);
    const { body: event } = await ask<HookEvent>("GET", `/v1/sandboxes/${inbox.name}/hook-events/${told.id}?body=1`);
    expect(event).toMatchObject({ state: "ignored", type: "issues.x", body: null, timeline: [{ what: "ignored" }] });
    expect(await inbox.wakes()).toBe(0);
    const replay = await ask<Answer<HookEvent>>(
      "POST",
      `/v1/sandboxes/${inbox.name}/hook-events/${told.id}:replay`,
      {},
    );
    expect(replay.body.error.code).toBe("conflict");
    // What is below the type passes.
    expect((await inbox.post(body, { ...given?.sign(body), "x-github-delivery": "2" })).status).toBe(202);
  });
});

describe("bodies", () => {
  it("over the cap are refused without being read whole", async () => {
    const inbox = await TestInbox.make({ provider: "none", maxBytes: 1000 });
    expect(await codeOf(await inbox.post("x".repeat(1001)))).toBe("413 payload_too_large");
    let pulled = 0;
    const endless = new ReadableStream({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(400));
      },
    });
    expect(await codeOf(await inbox.post(endless))).toBe("413 payload_too_large");
    expect(pulled).toBeLessThan(20);
    expect((await inbox.post("x".repeat(1000))).status).toBe(202);
    expect(await inbox.events()).toHaveLength(1);
  });

  it("that come too slowly are given up", async () => {
    let cancelled = false;
    const slow = new ReadableStream({
      pull: () => new Promise(() => undefined),
      cancel: () => {
        cancelled = true;
      },
    });
    const request = new Request(`${API}/hooks/x`, { method: "POST", body: slow });
    await expect(readBytes(request, 1000, 50)).rejects.toMatchObject({ code: "body_too_slow" });
    expect(cancelled).toBe(true);
  });

  it("of any size arrive as they came, large ones by way of the blob store, where they are sealed", async () => {
    const inbox = await TestInbox.make({ provider: "none", maxBytes: 26_214_400 });
    for (const size of [0, 1, 65_536, 65_537, 3_000_000]) {
      const body = crypto.getRandomValues(new Uint8Array(Math.min(size, 65_536)));
      const whole = new Uint8Array(size).map((_, at) => body[at % body.length] ?? 0);
      const response = await inbox.post(whole, { "content-type": "application/octet-stream" });
      const { id } = await response.json<{ id: string }>();
      await inbox.delivered(id);
      const taken = (await fake.taken(inbox.name)).find(({ headers }) => headers["webhook-id"] === id);
      expect(taken?.base64 === Buffer.from(whole).toString("base64")).toBe(true);
      const { body: event } = await ask<HookEvent>("GET", `/v1/sandboxes/${inbox.name}/hook-events/${id}?body=1`);
      const { encoding = "text", data = "" } = event.body ?? {};
      const decoded = encoding === "text" ? Buffer.from(data) : Buffer.from(data, "base64");
      expect(decoded.equals(Buffer.from(whole))).toBe(true);
    }
    const { objects } = await env.BLOBS.list({ prefix: `inbox/default/${inbox.name}/` });
    expect(objects.map(({ size }) => size).toSorted((a, b) => a - b)).toEqual([65_537 + 28, 3_000_000 + 28]);
    await ask("DELETE", inbox.url("/in"));
    await inbox.alarm();
    expect((await env.BLOBS.list({ prefix: `inbox/default/${inbox.name}/` })).objects).toEqual([]);
  });
});
