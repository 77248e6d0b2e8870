/** Verbs for domains, and the SDK that they go by. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Domain } from "../../sdk/contract/domain.ts";
import { NotFoundError, Rouse } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo, TEST_KEY, type WireServer } from "./wire-server.ts";

let bench: CliBench;
let server: WireServer;
const rouse = (...words: string[]) => bench.run(words);

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const DOMAINS = `${SANDBOX}/domains`;
const ONE = `${DOMAINS}/shop.example.com`;
const AT = "2031-01-02T03:04:05.000Z";

function answer(changes: Partial<Domain> = {}): Domain {
  return {
    ...{ id: "dom-0123456789abcdefghij", kind: "domain", sandboxId: "demo~abcdefghijkl", domain: "shop.example.com" },
    ...{ port: 8080, state: "pending", reason: null, url: "https://shop.example.com/", dns: null, checkedAt: null },
    ...{ nextCheckAt: AT, verifiedAt: null, missingSince: null, expiresAt: AT, createdAt: AT },
    records: [
      { type: "TXT", name: "_rouse-challenge.shop.example.com", value: "rouse-verify=abc" },
      { type: "CNAME", name: "shop.example.com", value: "demo.rouse.example" },
    ],
    ...changes,
  };
}
const dns = { cnames: ["demo.rouse.example"], addresses: ["203.0.113.7"], pointsHere: true, checkedAt: AT };
const verified = answer({ state: "verified", verifiedAt: AT, expiresAt: null, dns });

test("add prints the records to set, and ls, show, port and rm do what they say", async () => {
  server
    .on(`POST ${DOMAINS}`, (_request, reply) => reply.json(answer()))
    .on(`GET ${DOMAINS}`, (_request, reply) => reply.json({ data: [answer({ reason: "txt_missing" }), verified] }))
    .on(`GET ${ONE}`, (_request, reply) => reply.json(answer({ reason: "txt_other", checkedAt: AT })))
    .on(`POST ${ONE}:update`, (request, reply) => reply.json(answer(request.json() as object)))
    .on(`DELETE ${ONE}`, (_request, reply) =>
      reply.json({ sandboxId: "demo~abcdefghijkl", domain: "shop.example.com", deleted: true }),
    );
  const added = await rouse("domain", "add", "demo", "Shop.example.com", "--port", "3000");
  expect(server.requests.at(-1)?.json()).toEqual({ domain: "Shop.example.com", port: 3000 });
  expect(added.stdout.trimEnd().split("\n")).toEqual([
    "TYPE   NAME                               VALUE",
    "TXT    _rouse-challenge.shop.example.com  rouse-verify=abc",
    "CNAME  shop.example.com                   demo.rouse.example",
  ]);
  expect(added.stderr).toContain("rouse domain verify demo shop.example.com");
  const rows = (await rouse("domain", "ls", "demo")).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^DOMAIN +PORT +STATE +WHY +LOOKED AT$/);
  expect(rows[1]).toMatch(/^shop\.example\.com +8080 +pending +txt_missing +never$/);
  const shown = (await rouse("domain", "show", "demo", "shop.example.com")).stdout;
  expect(shown).toContain("shop.example.com is pending (txt_other), for port 8080");
  expect(shown).toContain("rouse-verify=abc");
  expect((await rouse("domain", "port", "demo", "shop.example.com", "3000")).stdout).toContain("leads to port 3000");
  expect((await rouse("domain", "rm", "demo", "shop.example.com")).stdout).toBe("shop.example.com is given up\n");
});

test("verify exits with 1 while it is not verified; --wait asks until it is, or the time is up", async () => {
  let looks = 0;
  server.on(`POST ${ONE}:verify`, (_request, reply) => {
    looks += 1;
    reply.json(looks % 2 === 1 ? answer({ reason: "txt_missing" }) : verified);
  });
  const first = await rouse("domain", "verify", "demo", "shop.example.com");
  expect([first.code, first.stdout]).toEqual([1, expect.stringContaining("pending (txt_missing)") as string]);
  const second = await rouse("domain", "verify", "demo", "shop.example.com", "--json");
  expect([second.code, JSON.parse(second.stdout)]).toEqual([0, verified]);
  const waited = await rouse("domain", "verify", "demo", "shop.example.com", "--wait");
  expect([waited.code, looks]).toEqual([0, 4]);
  expect(waited.stdout).toContain("leads to demo.rouse.example, 203.0.113.7 (here)");
  server.on(`POST ${DOMAINS}`, (_request, reply) => reply.json(answer()));
  server.on(`POST ${ONE}:verify`, (_request, reply) => reply.json(answer({ reason: "txt_missing" })));
  const late = await rouse("domain", "add", "demo", "shop.example.com", "--wait", "--timeout", "1");
  expect([late.code === 0, late.stderr.includes("rouse-verify=abc"), late.stderr.includes("txt_missing")]).toEqual([
    ...[false, true, true],
  ]);
});

test("the SDK says what it sends, and refuses what can be no domain", async () => {
  server
    .on(`POST ${ONE}:verify`, (_request, reply) => reply.json(verified))
    .on(`GET ${DOMAINS}/b%C3%BCcher.example`, (_request, reply) => reply.error("domain_not_found"));
  const sandbox = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo");
  const seen: string[] = [];
  const done = await sandbox.domains.waitVerified("shop.example.com", { onLook: ({ state }) => seen.push(state) });
  expect([done.url, seen]).toEqual(["https://shop.example.com/", ["verified"]]);
  await expect(sandbox.domains.get("bücher.example")).rejects.toThrow(NotFoundError);
  await expect(sandbox.domains.get("..")).rejects.toThrow("no domain");
});
