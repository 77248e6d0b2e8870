/** Accounts, keys, members, usage and host secrets through the SDK. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { InvalidRequestError, PermissionDeniedError, Rouse } from "../../sdk/src/index.ts";
import { accountAnswer, keyAnswer, MEMBER, NEW_KEY, usageAnswer } from "./account-answers.ts";
import { TEST_KEY, WireServer } from "./wire-server.ts";

let server: WireServer;
let rouse: Rouse;
beforeEach(async () => {
  server = await WireServer.start();
  rouse = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY });
});
afterEach(() => server[Symbol.asyncDispose]());

test("keys are made once however often the answer is lost, listed and revoked", async () => {
  server
    .on("POST /v1/keys", (_request, reply, count) =>
      count === 0 ? reply.cut() : reply.json({ ...keyAnswer(), key: NEW_KEY }),
    )
    .on("GET /v1/keys", (_request, reply) => reply.json({ data: [keyAnswer()] }))
    .on("DELETE /v1/keys/abcdefghijkl", (_request, reply) =>
      reply.json(keyAnswer({ revokedAt: "2031-01-02T03:00:00.000Z" })),
    );
  const expiresAt = new Date("2031-06-01T00:00:00Z");
  const made = await rouse.keys.create({ name: "ci", access: "sandboxes", namePrefix: "ci-", expiresAt });
  expect([made.key, made.id]).toEqual([NEW_KEY, "abcdefghijkl"]);
  const [first, second] = server.of("POST /v1/keys");
  expect(second?.json()).toEqual({
    name: "ci",
    access: "sandboxes",
    namePrefix: "ci-",
    expiresAt: expiresAt.toISOString(),
  });
  expect(second?.headers["idempotency-key"]).toEqual(expect.any(String));
  expect(second?.headers["idempotency-key"]).toBe(first?.headers["idempotency-key"]);
  expect((await rouse.keys.list()).map(({ id }) => id)).toEqual(["abcdefghijkl"]);
  expect((await rouse.keys.revoke("abcdefghijkl")).revokedAt).not.toBeNull();
  expect(server.of("DELETE /v1/keys/abcdefghijkl")[0]?.headers["idempotency-key"]).toEqual(expect.any(String));
});

test("a key that would be more is refused with what is more", async () => {
  server.on("POST /v1/keys", (_request, reply) =>
    reply.error("permission_denied", { details: { more: ["maxSandboxes"] } }),
  );
  const failure = await rouse.keys.create().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(PermissionDeniedError);
  expect(failure).toMatchObject({ details: { more: ["maxSandboxes"] } });
});

test("members are added, listed and removed", async () => {
  server
    .on("POST /v1/members", (_request, reply) => reply.json(MEMBER))
    .on("GET /v1/members", (_request, reply) => reply.json({ data: [MEMBER] }))
    .on("DELETE /v1/members/mb-1", (_request, reply) => reply.json(MEMBER));
  expect(await rouse.members.create({ name: "Ada", role: "developer" })).toEqual(MEMBER);
  expect(await rouse.members.list()).toEqual([MEMBER]);
  expect(await rouse.members.remove("mb-1")).toEqual(MEMBER);
  expect(server.of("POST /v1/members")[0]?.json()).toEqual({ name: "Ada", role: "developer" });
});

test("the operator opens, reads, changes and credits accounts", async () => {
  server
    .on("POST /v1/accounts", (_request, reply) => reply.json({ ...accountAnswer(), key: NEW_KEY }))
    .on("GET /v1/accounts", (_request, reply) =>
      reply.json({ data: [{ name: "acme", createdAt: accountAnswer().createdAt }] }),
    )
    .on("GET /v1/accounts/acme", (_request, reply) => reply.json(accountAnswer()))
    .on("POST /v1/accounts/acme:update", (_request, reply) => reply.json(accountAnswer({ suspended: true })))
    .on("POST /v1/accounts/acme:credit", (_request, reply) => reply.json(accountAnswer()));
  expect((await rouse.accounts.open({ name: "acme", creditMicros: 5 })).key).toBe(NEW_KEY);
  expect((await rouse.accounts.list())[0]?.name).toBe("acme");
  expect((await rouse.accounts.get("acme")).plan).toBe("metered");
  expect((await rouse.accounts.update("acme", { suspended: true })).suspended).toBe(true);
  await rouse.accounts.addCredit("acme", { micros: 500, note: "May" }, { idempotencyKey: "invoice-7" });
  const [credit] = server.of("POST /v1/accounts/acme:credit");
  expect([credit?.json(), credit?.headers["idempotency-key"]]).toEqual([{ micros: 500, note: "May" }, "invoice-7"]);
  // A name can't lead to another path.
  await expect(rouse.accounts.get("acme/x:y")).rejects.toMatchObject({ code: "route_not_found" });
  expect(server.requests.at(-1)?.path).toBe("/v1/accounts/acme%2Fx%3Ay");
});

test("account and notices", async () => {
  const notice = { kind: "credit_low", message: "soon", at: null, sandboxId: null, name: null };
  server
    .on("GET /v1/account", (_request, reply) => reply.json(accountAnswer()))
    .on("GET /v1/notices", (_request, reply) => reply.json({ data: [notice] }));
  expect((await rouse.account()).availableMicros).toBe(48_489_167);
  expect(await rouse.notices()).toEqual([notice]);
});

test("usage takes a month, or month and grouping", async () => {
  server.on("GET /v1/usage", (_request, reply) => reply.json(usageAnswer()));
  await rouse.usage();
  await rouse.usage("2026-11");
  await rouse.usage({ month: "all", by: "label:team" });
  await rouse.usage({ by: "month" }, { timeoutMs: 5000 });
  expect(server.requests.map(({ query }) => query.toString())).toEqual([
    "",
    "month=2026-11",
    "month=all&by=label%3Ateam",
    "by=month",
  ]);
  server.on("GET /v1/usage", (_request, reply) => reply.error("invalid_request"));
  await expect(rouse.usage("13")).rejects.toBeInstanceOf(InvalidRequestError);
});

test("addHost answers the secrets that the host's file holds", async () => {
  const made = {
    hostId: "h-3",
    hostKey: `rousehost_h-3_2_${"A".repeat(43)}`,
    controlSecret: "c".repeat(43),
    ticketSecret: "t".repeat(43),
  };
  server.on("POST /v1/hosts", (_request, reply) => reply.json(made));
  expect(await rouse.addHost("h-3")).toEqual(made);
  expect(server.requests[0]?.json()).toEqual({ hostId: "h-3" });
  server.on("POST /v1/hosts", (_request, reply) => reply.json({ ...made, hostKey: "nonsense" }));
  const failure = await rouse.addHost("h-3").catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: "unexpected_answer" });
  expect(JSON.stringify(failure)).not.toContain(made.controlSecret);
});
