/** Who scans: ports, names, keys and links that are tried one after the other wake nothing, and learn nothing. */
import { env } from "cloudflare:workers";
import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import type { Link } from "../../sdk/contract/link.ts";
import type { Preview } from "../../sdk/contract/sandbox.ts";
import type { Why } from "../../sdk/contract/timeline.ts";
import { openAccount } from "./accounts.ts";
import { API, ask, created, edge, fake, freshName, heartbeat, paused, secrets } from "./client.ts";
import { HOUR, shift } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const KNOWN = [443, 1080, 2375, 3000, 3306, 5000, 5432, 5900, 6379, 8000, 8080, 8443, 8888, 9000, 9200, 11_211, 27_017];
const PORTS = [...Array.from({ length: 200 }, (_, at) => at + 1), ...KNOWN, 65_535].filter((one) => one !== AGENT_PORT);
const UPGRADE = {
  ...{ upgrade: "websocket", connection: "upgrade", "sec-websocket-version": "13" },
  "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
};
type Headers = Record<string, string>;

const urlOf = (name: string, port: number, path = "/") => `http://${port}-${name}.rouse.test${path}`;

/** An answer, but for what is another one each time, or says no more than the question did. */
async function seen(url: string, name: string, headers: Headers = {}): Promise<string> {
  const response = await edge(url, { headers });
  const told = [...response.headers].filter(([header]) => header !== "x-request-id" && header !== "date");
  const text = (await response.text()).replace(/"requestId":"[^"]+"/, "").replaceAll(name, "<name>");
  return `${response.status} ${JSON.stringify(told)} ${text}`;
}

/** Everything that a wake would change. */
async function trace(name: string): Promise<object> {
  const { body } = await ask<Why>("GET", `/v1/sandboxes/${name}:why`);
  const { log, requests } = await fake.state(name);
  const { state, runsToday, timeline } = body;
  return { state, runsToday, timeline, log, requests };
}

/** Ask all of them, a few at once. */
async function all<T, R>(items: readonly T[], each: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = [];
  for (let at = 0; at < items.length; at += 20)
    answers.push(...(await Promise.all(items.slice(at, at + 20).map(each))));
  return answers;
}

it("tries ports of a private sandbox that sleeps: each answer is that of a sandbox that is not there", async () => {
  const { name } = await paused();
  const absent = freshName();
  const before = await trace(name);
  for (const headers of [{}, UPGRADE, { authorization: "Bearer abc" }, { "x-rouse-token": "abc.def" }] as Headers[]) {
    const answers = await all(PORTS, async (port) => [
      await seen(urlOf(name, port), name, headers),
      await seen(urlOf(absent, port), absent, headers),
      await seen(`${API}/s/${name}/${port}/`, name, headers),
      await seen(`${API}/s/${absent}/${port}/`, absent, headers),
    ]);
    // Below the dashboard's own host name, answers are in a sandbox of the browser's; there or not, they are the same.
    for (const [one, other] of [
      [0, 1],
      [2, 3],
    ] as const)
      expect(new Set(answers.flatMap((all) => [all[one], all[other]])).size).toBe(1);
    expect(answers[0]?.[0]).toMatch(/^401 /);
  }
  await evictDurableObject(env.SANDBOX.getByName(`default/${name}`));
  expect(await trace(name)).toEqual(before);
}, 90_000);

it("tries names, with keys and links that are bad, of others, or over: what is there, was there and never was are one", async () => {
  const other = await openAccount();
  const elsewhere = await created();
  const { body: link } = await ask<Link>("POST", `/v1/sandboxes/${elsewhere.id}/links`, { ttlSeconds: 3600 });
  const own = await paused();
  const { body: over } = await ask<Link>("POST", `/v1/sandboxes/${own.id}/links`, { ttlSeconds: 3600 });
  const { body: preview } = await ask<Preview>("POST", `/v1/sandboxes/${own.id}/previews`, { port: 8080 });
  await ask("DELETE", `/v1/sandboxes/${own.id}/previews/8080`);
  const deleted = await created();
  await ask("DELETE", `/v1/sandboxes/${deleted.id}`);
  const stopped = await created();
  await ask("POST", `/v1/sandboxes/${stopped.id}:stop`, {});
  const sleepers = [own, await paused({ autoWake: false })];
  shift(2 * HOUR);
  await heartbeat();
  const { body: fresh } = await ask<Link>("POST", `/v1/sandboxes/${elsewhere.id}/links`, { ttlSeconds: 3600 });
  const before = await all(sleepers, ({ name }) => trace(name));
  const names = [...sleepers, deleted, stopped].map(({ name }) => name);
  const strangers = Array.from({ length: 200 - names.length }, () => freshName());
  const credentials: [number, Headers][] = [
    [401, {}],
    [401, { authorization: `Bearer ${secrets.apiKey.slice(0, -1)}!` }],
    [401, { authorization: `Bearer rouse_default_abcdefghijkl_${"B".repeat(32)}` }],
    [401, { "x-rouse-key": `rouse_nobody_abcdefghijkl_${"B".repeat(32)}` }],
    [404, { authorization: `Bearer ${other.key}` }],
    [401, { "x-rouse-token": over.token ?? "" }],
    [401, { "x-rouse-token": link.token ?? "" }],
    [403, { "x-rouse-token": fresh.token ?? "" }],
    [401, { "x-rouse-token": new URL(preview.url).searchParams.get("rouse_token") ?? "none" }],
  ];
  for (const [status, headers] of credentials) {
    const answers = await all([...names, ...strangers], (name) => seen(`http://${name}.rouse.test/`, name, headers));
    expect([...new Set(answers)].map((answer) => Number(answer.slice(0, 3)))).toEqual([status]);
  }
  expect(await all(sleepers, ({ name }) => trace(name))).toEqual(before);
}, 120_000);

it("tries the API without a key, or with one that is none: each is refused alike, and nothing wakes", async () => {
  const { name } = await paused();
  const before = await trace(name);
  const verbs = [":exec", ":wake", ":pause", ":why", "", "/files/list?path=/", "/hooks", "/previews", ":explode"];
  const answers = await all(verbs, async (verb) =>
    Promise.all(
      [name, freshName()].map(async (one) => {
        const init = { method: verb.startsWith(":") && verb !== ":why" ? "POST" : "GET" };
        const bad = { authorization: `Bearer rouse_default_abcdefghijkl_${"B".repeat(32)}` };
        return [
          (await edge(`${API}/v1/sandboxes/${one}${verb}`, init)).status,
          (await edge(`${API}/v1/sandboxes/${one}${verb}`, { ...init, headers: bad })).status,
        ];
      }),
    ),
  );
  for (const [there, absent] of answers) expect(there).toEqual(absent);
  expect(new Set(answers.slice(0, -1).flat(2))).toEqual(new Set([401]));
  expect(await trace(name)).toEqual(before);
});
