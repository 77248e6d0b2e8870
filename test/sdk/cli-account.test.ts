/** Verbs for keys, members, accounts and notices. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { accountAnswer, keyAnswer, MEMBER, NEW_KEY } from "./account-answers.ts";
import { CliBench } from "./cli-bench.ts";
import type { WireServer } from "./wire-server.ts";

let bench: CliBench;
let server: WireServer;
const rouse: CliBench["run"] = (words, env, input) => bench.run(words, env, input);

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
});
afterEach(() => bench[Symbol.asyncDispose]());

describe("keys", () => {
  beforeEach(() => {
    server
      .on("POST /v1/keys", (_request, reply) => reply.json({ ...keyAnswer(), key: NEW_KEY }))
      .on("GET /v1/keys", (_request, reply) =>
        reply.json({
          data: [
            keyAnswer({ namePrefix: "ci-", maxSandboxes: 3, dailyLimitMicros: 2_500_000, spentTodayMicros: 10_833 }),
            keyAnswer({ id: "k2", expiresAt: "2020-01-01T00:00:00.000Z" }),
            keyAnswer({ id: "k3", revokedAt: "2031-01-02T03:00:00.000Z" }),
            keyAnswer({ id: "k4", expiresAt: "2091-01-02T03:04:05.000Z", memberId: "mb-1" }),
          ],
        }),
      )
      .on("DELETE /v1/keys/abcdefghijkl", (_request, reply) =>
        reply.json(keyAnswer({ revokedAt: "2031-01-02T03:00:00.000Z" })),
      );
  });

  test("create prints the key alone, and sends what the options say", async () => {
    const limits = ["--prefix", "ci-", "--max-sandboxes", "3", "--daily-limit", "2.50", "--expires", "2031-12-31"];
    const made = await rouse([
      "keys",
      "create",
      "--name",
      "ci",
      "--access",
      "sandboxes",
      ...limits,
      "--member",
      "mb-1",
    ]);
    expect([made.code, made.stdout]).toEqual([0, `${NEW_KEY}\n`]);
    expect(made.stderr).toContain("abcdefghijkl");
    expect(made.stderr).not.toContain(NEW_KEY);
    expect(server.requests[0]?.json()).toEqual({
      name: "ci",
      access: "sandboxes",
      namePrefix: "ci-",
      maxSandboxes: 3,
      dailyLimitMicros: 2_500_000,
      expiresAt: "2031-12-31T00:00:00.000Z",
      memberId: "mb-1",
    });
    const json = await rouse(["keys", "create", "--ttl", "3600", "--json"]);
    expect([JSON.parse(json.stdout), json.stderr]).toEqual([{ ...keyAnswer(), key: NEW_KEY }, ""]);
    expect(server.requests[1]?.json()).toEqual({ ttlSeconds: 3600 });
  });

  test("ls shows states and limits", async () => {
    const rows = (await rouse(["keys", "ls"])).stdout.trimEnd().split("\n");
    expect(rows[1]).toMatch(
      /^abcdefghijkl +ci +sandboxes +active +names ci-\.\.\., 3 sandboxes, \$2\.50 a day +\$0\.010833 /,
    );
    expect(rows[2]).toMatch(/^k2 +ci +sandboxes +ended /);
    expect(rows[3]).toMatch(/^k3 +ci +sandboxes +revoked /);
    expect(rows[4]).toMatch(/^k4 +ci +sandboxes +until 2091-01-02T03:04Z +of mb-1 /);
    const json = JSON.parse((await rouse(["keys", "ls", "--json"])).stdout) as { data: unknown[] };
    expect(json.data).toHaveLength(4);
  });

  test("rm revokes by id, and sends no secret when it is given a whole key", async () => {
    expect((await rouse(["keys", "rm", "abcdefghijkl"])).stdout).toBe("abcdefghijkl: revoked\n");
    const verbless = await rouse(["keys"]);
    expect([verbless.code, verbless.stdout, verbless.stderr.includes("<create|ls|rm>")]).toEqual([2, "", true]);
    expect((await rouse(["keys", "rm", NEW_KEY])).stdout).toBe("abcdefghijkl: revoked\n");
    server.on("DELETE /v1/keys/nobody", (_request, reply) => reply.error("not_found"));
    expect((await rouse(["keys", "rm", "nobody"])).code).toBe(3);
    expect(server.requests.map(({ path }) => path).join(" ")).not.toContain("BBBB");
  });

  test.each([
    ["an unknown verb", ["keys", "remove"], "no verb"],
    ["a near one", ["keys", "creat"], "Did you mean rouse keys create?"],
    ["another verb's option", ["keys", "ls", "--prefix", "x"], "no option --prefix"],
    ["rm without a key", ["keys", "rm"], "needs <id>"],
    ["two keys", ["keys", "rm", "a", "b"], "one word too many"],
    ["an access that is none", ["keys", "create", "--access", "root"], "full, read, sandboxes, billing"],
    ["two ends", ["keys", "create", "--ttl", "60", "--expires", "2031-01-01"], "--expires"],
    ["an end that is no time", ["keys", "create", "--expires", "tomorrow"], "not a time"],
    ["half a sandbox", ["keys", "create", "--max-sandboxes", "1.5"], "whole number"],
    ["a negative limit", ["keys", "create", "--daily-limit=-5"], "--daily-limit"],
  ])("wrong use: %s", async (_what, words, says) => {
    const { message = "", hint = "" } = (await bench.refusal(words)) ?? {};
    expect(`${message} ${hint}`).toContain(says);
    expect(server.requests).toEqual([]);
  });
});

test("members are added, listed and removed", async () => {
  server
    .on("POST /v1/members", (_request, reply) => reply.json(MEMBER))
    .on("GET /v1/members", (_request, reply) => reply.json({ data: [MEMBER] }))
    .on("DELETE /v1/members/mb-1", (_request, reply) => reply.json(MEMBER));
  const added = await rouse(["members", "add", "Ada", "--role", "developer", "--email", "ada@example.com"]);
  expect([added.code, added.stdout]).toEqual([0, "mb-1\n"]);
  expect(server.requests[0]?.json()).toEqual({ name: "Ada", role: "developer", email: "ada@example.com" });
  expect((await rouse(["members", "ls"])).stdout).toMatch(/\nmb-1 +Ada +developer +- /);
  expect(JSON.parse((await rouse(["members", "ls", "--json"])).stdout)).toEqual({ data: [MEMBER] });
  expect((await rouse(["members", "rm", "mb-1"])).stdout).toBe("mb-1: removed\n");
  expect((await bench.refusal(["members", "add", "Ada"]))?.hint).toContain("owner, admin, developer, billing");
  expect((await bench.refusal(["members", "add", "--role", "owner"]))?.message).toContain("needs <name>");
});

describe("account", () => {
  beforeEach(() => {
    server
      .on("GET /v1/account", (_request, reply) => reply.json(accountAnswer()))
      .on("GET /v1/accounts", (_request, reply) =>
        reply.json({ data: [{ name: "acme", createdAt: accountAnswer().createdAt }] }),
      )
      .on("GET /v1/accounts/acme", (_request, reply) =>
        reply.json(
          accountAnswer({
            displayName: "Acme Ltd",
            suspended: true,
            plan: "flat",
            flatMicrosPerMonth: 12_000_000,
            dailyLimitMicros: 5_000_000,
            unpaidSince: "2031-01-02T03:00:00.000Z",
            unpaidDeletesAt: "2031-01-09T03:00:00.000Z",
          }),
        ),
      )
      .on("POST /v1/accounts", (_request, reply) => reply.json({ ...accountAnswer(), key: NEW_KEY }))
      .on("POST /v1/accounts/acme:update", (_request, reply) => reply.json(accountAnswer()))
      .on("POST /v1/accounts/acme:credit", (_request, reply) => reply.json(accountAnswer()));
  });

  test("shows the key's own, with or without show", async () => {
    const shown = await rouse(["account"]);
    expect(shown.stdout).toMatch(/\navailable +\$48\.489167 of \$50\.00\n/);
    expect(shown.stdout).toMatch(/\nrunning +1 of 4\n/);
    expect(shown.stdout).toMatch(/\nkept +3\n/);
    expect(await rouse(["account", "show"])).toEqual(shown);
    expect(JSON.parse((await rouse(["account", "--json"])).stdout)).toEqual(accountAnswer());
  });

  test("of others is for the operator to read", async () => {
    expect((await rouse(["account", "ls"])).stdout).toMatch(/^ACCOUNT +AGE\nacme /);
    const { stdout } = await rouse(["account", "get", "acme"]);
    for (const part of ["acme (Acme Ltd)", "flat, suspended", "$12.00 per 30 days", "$0.010833 of $5.00", "2031-01-09"])
      expect(stdout).toContain(part);
    server.on("GET /v1/accounts", (_request, reply) => reply.error("forbidden"));
    expect((await rouse(["account", "ls"])).code).toBe(4);
  });

  test("open prints the first key alone", async () => {
    const plan = ["--plan", "metered", "--quota", "running=4", "--quota", "kept=none", "--daily-limit", "10"];
    const more = ["--credit", "50", "--display-name", "Acme Ltd", "--idempotency-key", "order-7"];
    const opened = await rouse(["account", "open", "acme", ...plan, ...more]);
    expect([opened.code, opened.stdout]).toEqual([0, `${NEW_KEY}\n`]);
    expect(opened.stderr).toContain("acme");
    expect(server.requests[0]?.json()).toEqual({
      name: "acme",
      displayName: "Acme Ltd",
      plan: "metered",
      quotas: { running: 4, kept: null },
      dailyLimitMicros: 10_000_000,
      creditMicros: 50_000_000,
    });
    expect(server.requests[0]?.headers["idempotency-key"]).toBe("order-7");
    expect(JSON.parse((await rouse(["account", "open", "acme", "--json"])).stdout)).toMatchObject({ key: NEW_KEY });
  });

  test("update changes what is said, and credit adds dollars to the microdollar", async () => {
    expect((await rouse(["account", "update", "acme", "--suspend", "--flat", "12.345678"])).code).toBe(0);
    expect((await rouse(["account", "update", "acme", "--resume", "--daily-limit", "none"])).code).toBe(0);
    expect(server.of("POST /v1/accounts/acme:update").map((request) => request.json())).toEqual([
      { suspended: true, flatMicrosPerMonth: 12_345_678 },
      { suspended: false, dailyLimitMicros: null },
    ]);
    const credited = await rouse(["account", "credit", "acme", "12.1", "--note", "May", "--idempotency-key", "i-7"]);
    expect(credited.stdout).toBe("acme: $12.10 added, $48.489167 available\n");
    const [credit] = server.of("POST /v1/accounts/acme:credit");
    expect([credit?.json(), credit?.headers["idempotency-key"]]).toEqual([{ micros: 12_100_000, note: "May" }, "i-7"]);
  });

  test.each([
    ["nothing to change", ["update", "acme"], "something to change"],
    ["both ways", ["update", "acme", "--suspend", "--resume"], "not both"],
    ["an unknown quota", ["update", "acme", "--quota", "cats=4"], "running, vcpus"],
    ["a quota that is no number", ["update", "acme", "--quota", "running=-1"], "running=4"],
    ["an unknown plan", ["open", "acme", "--plan", "gold"], "unmetered, metered"],
    ["credit without an amount", ["credit", "acme"], "needs <name> <USD>"],
    ["no credit", ["credit", "acme", "0.00"], "a credit of 0"],
    ["too fine a credit", ["credit", "acme", "1.0000001"], "at most 6 decimals"],
    ["an absurd credit", ["credit", "acme", "1000000.01"], "more than $1,000,000.00"],
    ["suspend in open", ["open", "acme", "--suspend"], "no option --suspend"],
  ])("wrong use: %s", async (_what, words, says) => {
    const { message = "", hint = "" } = (await bench.refusal(["account", ...words])) ?? {};
    expect(`${message} ${hint}`).toContain(says);
    expect(server.requests).toEqual([]);
  });
});

test("notices are shown with their time and what they are about", async () => {
  const at = "2031-01-09T03:00:00.000Z";
  const one = {
    kind: "retention_ends",
    message: "demo sleeps unused",
    at,
    sandboxId: "demo~abcdefghijkl",
    name: "demo",
  };
  const other = { kind: "credit_gone", message: "no credit", at: null, sandboxId: null, name: null };
  server.on("GET /v1/notices", (_request, reply, count) => reply.json({ data: count < 2 ? [one, other] : [] }));
  const rows = (await rouse(["notices"])).stdout.trimEnd().split("\n");
  expect(rows[1]).toMatch(/^2031-01-09T03:00:00\.000Z +retention_ends +demo +demo sleeps unused$/);
  expect(rows[2]).toMatch(/^now +credit_gone +- +no credit$/);
  expect(JSON.parse((await rouse(["notices", "--json"])).stdout)).toEqual({ data: [one, other] });
  expect((await rouse(["notices"])).stdout).toBe("No notices.\n");
});
