/** Verbs for share links. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Link } from "../../sdk/contract/link.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo } from "./wire-server.ts";

let bench: CliBench;

beforeEach(async () => {
  bench = await CliBench.start();
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const ID = `link-${"0".repeat(20)}`;
const link: Link = {
  ...{ id: ID, sandboxId: "demo~abcdefghijkl", name: "for Ada", port: 8080, path: "/docs", wake: true, state: "live" },
  ...{ createdAt: "2031-01-02T03:04:05.000Z", expiresAt: "2031-01-09T03:04:05.000Z", revokedAt: null },
  ...{ lastUsedAt: "2031-01-02T04:00:00.000Z", url: "http://demo.rouse.test/docs" },
};
const made = { ...link, token: "rl_a.b", urlWithToken: "http://demo.rouse.test/docs?rouse_token=rl_a.b" };

test("link create prints the URL alone, and says how it ends", async () => {
  bench.server.on(`POST ${SANDBOX}/links`, (_request, reply) => reply.json(made));
  const words = ["--name", "for Ada", "--port", "8080", "--path", "/docs", "--ttl", "3600", "--no-wake"];
  const run = await bench.run(["link", "create", "demo", ...words]);
  expect([run.code, run.stdout]).toEqual([0, `${made.urlWithToken}\n`]);
  expect(run.stderr).toContain(`rouse link rm demo ${ID}`);
  expect(bench.server.requests.at(-1)?.json()).toEqual({
    ...{ name: "for Ada", port: 8080, path: "/docs", ttlSeconds: 3600, wake: false },
  });
});

test("link ls, show and rm", async () => {
  const uses = [{ at: "2031-01-02T04:00:00.000Z", request: "GET /docs/a", woke: true }];
  bench.server.on(`GET ${SANDBOX}/links`, (_request, reply) => reply.json({ data: [link] }));
  bench.server.on(`GET ${SANDBOX}/links/${ID}`, (_request, reply) => reply.json({ ...link, uses }));
  bench.server.on(`DELETE ${SANDBOX}/links/${ID}`, (_request, reply) => reply.json({ ...link, state: "revoked" }));
  const rows = (await bench.run(["link", "ls", "demo"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^LINK +NAME +PORT +PATH +STATE +ENDS +USED$/);
  expect(rows[1]).toMatch(/^link-0+ +for Ada +8080 +\/docs +live +2031-01-09T03:04:05\.000Z /);
  const shown = (await bench.run(["link", "show", "demo", ID])).stdout.trimEnd().split("\n");
  expect(shown.at(-1)).toMatch(/ GET \/docs\/a +woke it$/);
  expect((await bench.run(["link", "rm", "demo", ID])).stdout).toBe(`${ID} is revoked\n`);
});
