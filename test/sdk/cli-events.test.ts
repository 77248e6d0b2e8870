/** Verbs for events and the endpoints that they are sent to, and the SDK below them. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { EventDelivery, EventEndpoint, RouseEvent } from "../../sdk/contract/event.ts";
import { Rouse } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo, TEST_KEY } from "./wire-server.ts";

let bench: CliBench;

beforeEach(async () => {
  bench = await CliBench.start();
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const AT = "2031-01-02T03:04:05.000Z";
const EP = `ep-${"0".repeat(20)}`;
const DLV = `dlv-${"0".repeat(20)}`;
const E = `/v1/event-endpoints/${EP}`;

const endpoint: EventEndpoint = {
  ...{ id: EP, kind: "event-endpoint", url: "https://example.com/rouse", events: ["sandbox.*"] },
  ...{
    sandboxes: { names: ["agent-*"], labels: { team: "a" } },
    description: null,
    enabled: true,
    disabledReason: null,
  },
  ...{
    disabledAt: null,
    failingSince: null,
    lastSuccessAt: AT,
    previousSecretUntil: null,
    waiting: 1,
    dead: 2,
    createdAt: AT,
  },
};
const delivery: EventDelivery = {
  ...{ id: DLV, kind: "event-delivery", endpointId: EP, eventId: `ev-${"0".repeat(20)}`, type: "sandbox.woken" },
  ...{ subject: "demo~abcdefghijkl", sequence: 4, state: "dead", attempts: 12, nextAttemptAt: null, createdAt: AT },
  ...{ endedAt: AT, expiresAt: AT, reason: "answered 500", lastAnswer: "no\u001b[2J" },
  tries: [{ at: AT, ms: 12, status: 500, reason: "answered 500" }],
};
const event = (sequence: number): RouseEvent => ({
  ...{ id: `ev-${"0".repeat(20)}`, type: "sandbox.woken", timestamp: AT, subject: "demo~abcdefghijkl", sequence },
  sandbox: { id: "demo~abcdefghijkl", name: "demo", labels: {} },
  data: {
    ...{ state: "running", generation: 2, wakeMs: 31 },
    cause: { kind: "request", keyId: null, request: "GET /", port: 8080, requestId: "r" },
  },
});

test("events prints what happened, in pages, and with -f what happens", async () => {
  const after: (string | null)[] = [];
  bench.server.on(`GET ${SANDBOX}/events`, ({ query }, reply) => {
    after.push(`${query.get("after")} ${query.get("waitSeconds")}`);
    const from = Number(query.get("after"));
    if (from >= 2 && query.get("waitSeconds") !== null) return reply.error("forbidden");
    return reply.json({ data: from < 2 ? [event(from + 1)] : [], nextAfter: 2, hasMore: from < 1 });
  });
  const run = await bench.run(["events", "demo"]);
  const lines = run.stdout.trimEnd().split("\n");
  expect(lines[0]).toMatch(/^N +AT +EVENT/);
  expect(lines[2]).toMatch(/^2 +2031-01-02T03:04:05\.000Z +sandbox\.woken +31 ms, GET \/$/);
  expect(after).toEqual(["0 null", "1 null", "2 null"]);
  const json = await bench.run(["events", "demo", "--after", "1", "--json"]);
  expect(JSON.parse(json.stdout)).toEqual(event(2));
  const followed = await bench.run(["events", "demo", "-f"]);
  expect(followed.stdout.trimEnd().split("\n")).toHaveLength(2);
  expect(followed.code).not.toBe(0);
  expect(after.at(-1)).toBe("2 30");
});

test("endpoint create, rotate: the secret on stdout, this once", async () => {
  bench.server.on("POST /v1/event-endpoints", (_request, reply) => reply.json({ ...endpoint, secret: "whsec_abc" }));
  bench.server.on(`POST ${E}:rotate`, (_request, reply) => reply.json({ ...endpoint, secret: "whsec_def" }));
  const words = ["--event", "sandbox.*", "--sandbox", "agent-*", "--label", "team=a", "--description", "ours"];
  const made = await bench.run(["endpoint", "create", endpoint.url, ...words]);
  expect([made.code, made.stdout]).toEqual([0, `${EP}\nsecret whsec_abc\n`]);
  expect(made.stderr).toContain("not shown again");
  expect(bench.server.requests.at(-1)?.json()).toEqual({
    ...{ url: endpoint.url, events: ["sandbox.*"], sandboxes: { names: ["agent-*"], labels: { team: "a" } } },
    description: "ours",
  });
  const rotated = await bench.run(["endpoint", "rotate", EP, "--overlap", "60"]);
  expect(rotated.stdout).toBe("secret whsec_def\n");
  expect(bench.server.requests.at(-1)?.json()).toEqual({ overlapSeconds: 60 });
});

test("endpoint ls, show, update, test, rm, deliveries and redeliver", async () => {
  bench.server.on("GET /v1/event-endpoints", (_request, reply) => reply.json({ data: [endpoint] }));
  bench.server.on(`GET ${E}`, (_request, reply) => reply.json(endpoint));
  bench.server.on(`POST ${E}:update`, (_request, reply) =>
    reply.json({ ...endpoint, enabled: false, disabledReason: "gone" }),
  );
  bench.server.on(`POST ${E}:test`, (_request, reply) => reply.json(delivery));
  bench.server.on(`DELETE ${E}`, (_request, reply) => reply.json({ id: EP, deleted: true }));
  bench.server.on(`GET ${E}/deliveries`, (_request, reply) => reply.json({ data: [delivery], nextCursor: null }));
  bench.server.on(`GET ${E}/deliveries/${DLV}`, (_request, reply) => reply.json({ ...delivery, event: event(4) }));
  bench.server.on(`POST ${E}/deliveries/${DLV}:redeliver`, (_request, reply) =>
    reply.json({ ...delivery, state: "waiting" }),
  );
  bench.server.on(`POST ${E}:redeliver`, (_request, reply) => reply.json({ redelivered: 3 }));
  const out = async (...words: string[]) => (await bench.run(["endpoint", ...words])).stdout;
  expect(await out("ls")).toMatch(/ep-0+ +https:\/\/example\.com\/rouse +sandbox\.\* +on +1 +2\n$/);
  expect(await out("show", EP)).toMatch(/sandboxes +agent-\*, team=a\n/);
  expect(await out("update", EP, "--enabled", "off")).toContain("off: gone");
  const tested = await bench.run(["endpoint", "test", EP]);
  expect([tested.code, tested.stdout]).toEqual([1, `${DLV}: answered 500\n`]);
  expect(await out("deliveries", EP, "--state", "dead")).toMatch(/sandbox\.woken +demo~abcdefghijkl +4 +dead +12 /);
  expect(bench.server.requests.at(-1)?.query.get("state")).toBe("dead");
  expect(await out("deliveries", EP, DLV)).toMatch(/12 ms +500 +answered 500\n\nno\ufffd\[2J\n$/);
  expect(await out("redeliver", EP, DLV)).toBe(`${DLV}: waiting\n`);
  expect(await out("redeliver", EP, "--dead", "--since", "2031-01-01T00:00:00Z")).toBe("3 deliveries wait again\n");
  expect(bench.server.requests.at(-1)?.json()).toEqual({ since: "2031-01-01T00:00:00.000Z" });
  expect(await out("rm", EP)).toBe(`${EP}: deleted\n`);
  for (const words of [
    ["redeliver", EP],
    ["redeliver", EP, DLV, "--dead"],
    ["update", EP],
    ["create", "u", "--label", "x"],
  ])
    expect((await bench.run(["endpoint", ...words])).code).toBe(2);
  expect((await bench.run(["endpoint", "show", "x"])).code).not.toBe(0);
});

test("the SDK follows events from where it was, and pages deliveries", async () => {
  bench.server.on(`GET ${SANDBOX}/events`, ({ query }, reply) => {
    const from = Number(query.get("after"));
    return reply.json({ data: [event(from + 1)], nextAfter: from + 1, hasMore: true });
  });
  bench.server.on(`GET ${E}/deliveries`, ({ query }, reply) =>
    reply.json({ data: [delivery], nextCursor: query.get("cursor") === null ? "next" : null }),
  );
  const rouse = new Rouse({ baseUrl: bench.server.url, apiKey: TEST_KEY });
  const sandbox = await rouse.sandboxes.get("demo");
  const seen: number[] = [];
  for await (const { sequence } of sandbox.events.follow({ after: 5 })) {
    seen.push(sequence);
    if (seen.length === 3) break;
  }
  expect(seen).toEqual([6, 7, 8]);
  expect(await (await rouse.eventEndpoints.deliveries(EP)).toArray()).toHaveLength(2);
});
