import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { FileWatch, WatchEvents, WatchLine } from "../../sdk/contract/guest.ts";
import { WatchLog } from "../../backend-pool/guest/watch-log.ts";
import { codeOf, lines, startAgent, type Agent } from "./agent.ts";

let agent: Agent;
let folder: string;
let count = 0;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(async () => {
  await agent.stop();
});
beforeEach(async () => {
  folder = join(agent.home, `watched-${count++}`);
  await mkdir(folder);
});

const watch = async (more: Record<string, unknown> = {}) => {
  const answer = await agent.call("POST", "/files/watches", {
    body: { path: folder, recursive: true, batchMs: 30, ...more },
  });
  if (answer.status !== 200) throw new Error(answer.bytes.toString());
  return FileWatch.parse(answer.body);
};
const page = async (id: string, cursor = 0, waitMs = 0) =>
  WatchEvents.parse((await agent.call("GET", `/files/watches/${id}/events?cursor=${cursor}&waitMs=${waitMs}`)).body);
const stop = (id: string) => agent.call("DELETE", `/files/watches/${id}`);
const inside = (path: string) => join(folder, path);

/** All events so far as `type path`, below the folder. */
async function seen(id: string): Promise<string[]> {
  return (await page(id)).events.map(({ type, path, oldPath }) =>
    [type, ...(oldPath === undefined ? [] : [oldPath.slice(folder.length)]), path.slice(folder.length)].join(" "),
  );
}

test("tells what is made, written, renamed, changed and removed, in folders that are new as well", async () => {
  const { id, path, state } = await watch();
  expect([path, state]).toEqual([folder, "running"]);
  await agent.exec({
    command:
      "mkdir -p a/b/c; echo 1 >a/b/c/f; sleep .2; chmod 600 a/b/c/f; sleep .2; mv a/b/c/f a/g; sleep .2; mv a/b a/d; sleep .2; echo 2 >a/d/c/h; sleep .2; rm a/g",
    cwd: folder,
  });
  await expect.poll(() => seen(id)).toContain("remove /a/g");
  const all = await seen(id);
  for (const wanted of [
    "create /a",
    "create /a/b/c",
    "create /a/b/c/f",
    "chmod /a/b/c/f",
    "rename /a/b/c/f /a/g",
    "rename /a/b /a/d",
    "create /a/d/c/h",
    "write /a/d/c/h",
  ])
    expect(all).toContain(wanted);
  expect(all.filter((one) => one === "create /a/b/c/f")).toHaveLength(1);
  expect((await page(id)).events.find(({ path: at }) => at === inside("a"))).toMatchObject({ isDir: true });
  await stop(id);
});

test("a cursor goes on behind what was read, by pages, waits and streams alike", async () => {
  const { id } = await watch();
  await writeFile(inside("one"), "1");
  const first = await page(id, 0, 8000);
  expect(first.events[0]).toMatchObject({ type: "create", path: inside("one") });
  await expect.poll(async () => (await page(id)).events.some(({ type }) => type === "write")).toBe(true);
  const { nextCursor } = await page(id);
  expect(await page(id, nextCursor)).toMatchObject({ events: [], nextCursor, lostBytes: 0, ended: false });
  const stream = await agent.answer("GET", `/files/watches/${id}/events?follow=true&cursor=${nextCursor}`);
  await writeFile(inside("two"), "2");
  for await (const line of lines(stream)) {
    const told = WatchLine.parse(line);
    if (told.k !== "events") continue;
    expect(told.events[0]).toMatchObject({ type: "create", path: inside("two") });
    expect(told.cursor).toBeGreaterThan(nextCursor);
    break;
  }
  await stop(id);
  const rest = await agent.answer("GET", `/files/watches/${id}/events?follow=true&cursor=${nextCursor}`);
  const all = [];
  for await (const line of lines(rest)) all.push(WatchLine.parse(line));
  expect(all.at(-1)).toMatchObject({ k: "end", reason: "stopped" });
  expect(await page(id)).toMatchObject({ ended: true });
});

test("many new folders at once are all watched", async () => {
  const { id } = await watch({ events: ["create"] });
  await agent.exec({ command: "for i in $(seq 300); do mkdir -p d$i/e/f && : >d$i/e/f/x; done", cwd: folder });
  const files = async () => new Set((await seen(id)).filter((one) => one.endsWith("/x"))).size;
  await expect.poll(files, { timeout: 15_000 }).toBe(300);
  await stop(id);
});

test("filters by kind and by pattern; what is excluded is not even looked into", async () => {
  await mkdir(inside("node_modules/p"), { recursive: true });
  const { id } = await watch({ events: ["create", "remove"], include: ["*.ts", "docs/**"], exclude: ["node_modules"] });
  await agent.exec({
    command:
      "mkdir -p docs/x src; sleep .1; : >docs/x/page; : >src/a.ts; : >src/a.js; : >node_modules/p/b.ts; rm src/a.ts; : >last.ts",
    cwd: folder,
  });
  await expect.poll(() => seen(id)).toContain("create /last.ts");
  expect((await seen(id)).toSorted()).toEqual(
    ["create /docs/x", "create /docs/x/page", "create /last.ts", "create /src/a.ts", "remove /src/a.ts"].toSorted(),
  );
  await stop(id);
});

test("a single file, links that are not followed, and a root that goes", async () => {
  await writeFile(inside("file"), "");
  await mkdir(join(agent.home, "elsewhere"), { recursive: true });
  await symlink(join(agent.home, "elsewhere"), inside("link"));
  const file = await watch({ path: inside("file"), recursive: false });
  const all = await watch();
  await writeFile(join(agent.home, "elsewhere/unseen"), "1");
  await writeFile(inside("file"), "more");
  await expect.poll(async () => (await page(file.id)).events.map(({ type }) => type)).toContain("write");
  await rm(inside("file"));
  await expect.poll(async () => (await page(file.id)).ended).toBe(true);
  expect((await page(file.id)).notices.at(-1)).toMatchObject({ k: "end", reason: "root-removed" });
  await expect.poll(() => seen(all.id)).toContain("remove /file");
  expect((await seen(all.id)).some((one) => one.includes("unseen"))).toBe(false);
  await rm(folder, { recursive: true });
  await expect
    .poll(async () => (await page(all.id)).notices.at(-1))
    .toMatchObject({ k: "end", reason: "root-removed" });
});

/** The helper of a watch stands still meanwhile. */
async function stopped(id: string, work: () => Promise<unknown>): Promise<void> {
  const helper = `pkill -f -- "watch.py .*${folder}\\"" -`;
  await agent.exec(`${helper}STOP`);
  await work();
  await agent.exec(`${helper}CONT`);
  await page(id);
}

test("what the kernel could not keep is told as missing, and what comes later is there", async () => {
  const { id } = await watch({ events: ["create"] });
  const files = (count: number) =>
    `python3 -c 'for i in range(${count}): open(f"a-name-of-some-length-{i}", "w").close()'`;
  await stopped(id, () => agent.exec({ command: files(20_000), cwd: folder, timeoutMs: 60_000 }));
  await expect
    .poll(async () => (await page(id)).notices)
    .toContainEqual(expect.objectContaining({ k: "overflow", dropped: null, reason: "kernel" }));
  const { nextCursor } = await page(id);
  await agent.exec({ command: "mkdir -p new", cwd: folder });
  // What comes within the second of the flood may be dropped, as it tells.
  let tried = 0;
  await expect
    .poll(
      async () => {
        await writeFile(inside(`new/file-${tried++}`), "");
        return (await page(id, nextCursor, 200)).events.map(({ path }) => path);
      },
      { timeout: 10_000 },
    )
    .toContainEqual(expect.stringContaining(inside("new/file-")));
  await stop(id);
}, 120_000);

test("more than is kept is told as lost, in bytes", () => {
  const log = new WatchLog();
  const told = { k: "events", events: "x".repeat(1000) };
  for (let i = 0; i < 2000; i++) log.append(told);
  const { lost, told: rest } = log.read(0);
  const size = Buffer.byteLength(JSON.stringify(told));
  expect(lost).toBe(size * (2000 - rest.length));
  expect(rest.at(-1)?.cursor).toBe(log.total);
  expect(rest.length * size).toBeLessThanOrEqual(1_048_576 + size);
  expect(log.read(log.total - size).told).toHaveLength(1);
});

test("folders beyond the limit are told of", async () => {
  await agent.exec({ command: "mkdir -p $(seq 20)", cwd: folder });
  const { id } = await watch({ maxWatches: 5 });
  await expect
    .poll(async () => (await page(id)).notices)
    .toContainEqual(expect.objectContaining({ k: "limit", watches: 5 }));
  await stop(id);
});

test("what can't be is refused; a key or an id begins one watch", async () => {
  const refused = async (body: Record<string, unknown>) => {
    const answer = await agent.call("POST", "/files/watches", { body });
    return [answer.status, codeOf(answer)];
  };
  expect(await refused({ path: inside("none") })).toEqual([404, "file_not_found"]);
  expect(await refused({ events: ["born"], batchMs: 1, id: "A" })).toEqual([400, "invalid_request"]);
  const key = { body: { path: folder }, key: "once" };
  const twice = await Promise.all([
    agent.call("POST", "/files/watches", key),
    agent.call("POST", "/files/watches", key),
  ]);
  expect(new Set(twice.map(({ body }) => body["id"])).size).toBe(1);
  const named = { path: folder, id: "mine" };
  expect(await watch(named)).toMatchObject({ id: "mine" });
  expect(await watch(named)).toMatchObject({ id: "mine" });
  expect(await refused({ ...named, recursive: false })).toEqual([409, "conflict"]);
  const running = async () =>
    FileWatch.array()
      .parse((await agent.call("GET", "/files/watches")).body["data"])
      .filter(({ state }) => state === "running");
  while ((await running()).length < guestLimits.watches) await watch();
  expect(await refused({ path: folder })).toEqual([409, "quota_exceeded"]);
  for (const { id } of await running()) await stop(id);
  expect(codeOf(await stop("w-none"))).toBe("watch_not_found");
  const timed = await watch({ timeoutMs: 200 });
  await expect.poll(async () => (await page(timed.id)).notices.at(-1)).toMatchObject({ k: "end", reason: "timeout" });
});

test("the agent had no fault of its own", () => {
  expect(agent.errors).toBe("");
});
