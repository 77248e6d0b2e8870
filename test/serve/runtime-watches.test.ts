/** Runtime's client, pointed here: watches of files, as it begins, reads, follows and ends them. */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startAgent, type Agent } from "../guest/agent.ts";
import type { Json } from "../support/runtime-client.ts";
import { created, fault, stage } from "./runtimes.ts";
import { eventually } from "./test-edge.ts";

let agent: Agent;
let id: string;
let folder: string;
let count = 0;
const on = stage(async () => {
  agent = await startAgent();
  return agent.port;
});
beforeAll(async () => {
  id = (await created(on)).id;
});
beforeEach(async () => {
  folder = join(agent.home, `watched-${count++}`);
  await mkdir(folder);
});
afterAll(() => agent.stop());

const watches = () => `${on.runtime.path(id)}/files/watches`;
const begin = (more: Json = {}) =>
  on.runtime.call("POST", watches(), { json: { path: folder, recursive: true, batchMs: 20, ...more } });
const page = (watch: unknown, cursor: unknown = 0, waitMs?: number) =>
  on.runtime.call<Page>("GET", `${watches()}/${String(watch)}/events`, { query: { cursor: Number(cursor), waitMs } });
const stop = (watch: unknown) => on.runtime.call("DELETE", `${watches()}/${String(watch)}`);
const write = (name: string) => writeFile(join(folder, name), name);

interface Page {
  readonly events: Json[];
  readonly notices: Json[];
  readonly nextCursor: number;
  readonly lostBytes: number;
  readonly ended: boolean;
}

/** What a reader follows, while it does. */
function following(watch: unknown, cursor: unknown = 0): { lines: Json[]; done: Promise<void> } {
  const lines: Json[] = [];
  const done = (async () => {
    for await (const line of on.runtime.watch(id, String(watch), Number(cursor))) lines.push(line);
  })();
  done.catch(() => undefined);
  return { lines, done };
}

/** Names of files that lines tell were made. */
const made = (lines: readonly Json[]): string[] =>
  lines
    .flatMap((line) => (line["k"] === "events" ? (line["events"] as Json[]) : []))
    .filter(({ type }) => type === "create")
    .map(({ path }) => String(path).slice(folder.length + 1));

describe("a watch", () => {
  it("is begun, listed, read by pages that wait, and stopped", async () => {
    const watch = await begin({ events: ["create", "remove"], exclude: ["*.tmp"] });
    expect(watch).toEqual({
      ...{ id: expect.any(String), path: folder, cursor: 0, processId: expect.any(String), state: "running" },
      startedAt: expect.any(Number),
    });
    const { data } = await on.runtime.call<{ data: Json[] }>("GET", watches());
    expect(data).toContainEqual(watch);
    expect(await page(watch["id"])).toEqual({ events: [], notices: [], nextCursor: 0, lostBytes: 0, ended: false });
    const waiting = page(watch["id"], 0, 8000);
    await write("not.tmp");
    await write("one");
    const first = await waiting;
    expect(first).toEqual({
      events: [{ type: "create", path: join(folder, "one"), isDir: false }],
      ...{ notices: [], nextCursor: expect.any(Number), lostBytes: 0, ended: false },
    });
    await rm(join(folder, "one"));
    const second = await page(watch["id"], first.nextCursor, 8000);
    expect(second.events).toEqual([{ type: "remove", path: join(folder, "one"), isDir: false }]);
    expect(second.nextCursor).toBeGreaterThan(first.nextCursor);
    expect(await stop(watch["id"])).toEqual({ stopped: true });
    const last = await page(watch["id"], second.nextCursor);
    expect(last).toMatchObject({ events: [], ended: true });
    expect(last.notices).toEqual([{ k: "end", reason: "stopped", cursor: last.nextCursor }]);
  });

  it("is followed by lines that each have a cursor, to a last one that says why", async () => {
    const watch = await begin();
    const { lines, done } = following(watch["id"]);
    await write("a");
    await eventually(
      () => made(lines),
      (names) => names.includes("a"),
    );
    await mkdir(join(folder, "deep"));
    await write("deep/ü");
    await eventually(
      () => made(lines),
      (names) => names.includes("deep/ü"),
    );
    await rm(folder, { recursive: true });
    await done;
    expect(lines.at(-1)).toEqual({ k: "end", reason: "root-removed", cursor: expect.any(Number) });
    // Whoever comes later reads the same, and from a cursor on what was behind it.
    const all = following(watch["id"]);
    await all.done;
    expect(all.lines).toEqual(lines);
    const rest = following(watch["id"], lines[0]?.["cursor"]);
    await rest.done;
    expect(rest.lines).toEqual(lines.slice(1));
  });

  it("ends when its time is over", async () => {
    const watch = await begin({ timeoutMs: 50 });
    const { lines, done } = following(watch["id"]);
    await done;
    expect(lines).toEqual([{ k: "end", reason: "timeout", cursor: expect.any(Number) }]);
  });

  it("may have an id of the caller's: the same again is the same one, another is none", async () => {
    const first = await begin({ id: "mine" });
    expect(await begin({ id: "mine" })).toEqual(first);
    expect(await fault(begin({ id: "mine", recursive: false }))).toMatchObject({ status: 409, code: "conflict" });
    await stop("mine");
  });

  it("is refused where there is nothing, and where it would ask for what is not offered", async () => {
    expect(await fault(begin({ path: "none/at/all" }))).toMatchObject({ status: 404, code: "file_not_found" });
    const told = await fault(begin({ webhook: { url: "https://hooks.example.com" } }));
    expect(told).toMatchObject({ status: 503, code: "unavailable", details: { field: "webhook" } });
    expect(await fault(page("none"))).toMatchObject({ status: 404, code: "watch_not_found" });
    expect((await fault(following("none").done)).status).toBe(404);
    expect((await fault(stop("none"))).status).toBe(404);
  });
});

describe("over a sleep", () => {
  it("a follower is told of it, and goes on from its cursor without loss or repetition", async () => {
    const watch = await begin({ events: ["create"] });
    const before = following(watch["id"]);
    await write("before");
    await eventually(
      () => made(before.lines),
      (names) => names.length === 1,
    );
    await on.runtime.act(id, "pause", {}, 60);
    await before.done;
    const { cursor } = before.lines.at(-1) ?? {};
    expect(before.lines.at(-1)).toEqual({ k: "paused", cursor: before.lines.at(-2)?.["cursor"] });
    // What its machine did at the last moment, and nobody has read.
    await write("while nobody reads");
    const asleep = following(watch["id"], cursor);
    await asleep.done;
    expect(asleep.lines).toEqual([{ k: "paused", cursor }]);
    expect(await page(watch["id"], cursor, 1000)).toEqual({
      ...{ events: [], notices: [{ k: "paused", cursor }], nextCursor: cursor, lostBytes: 0, ended: false },
    });
    expect(await on.runtime.call("GET", on.runtime.path(id))).toMatchObject({ state: "paused" });
    await on.runtime.act(id, "wake", {}, 60);
    const after = following(watch["id"], cursor);
    await write("after");
    await eventually(
      () => made(after.lines),
      (names) => names.length === 2,
    );
    expect(made(after.lines)).toEqual(["while nobody reads", "after"]);
    await stop(watch["id"]);
    await after.done;
    expect(after.lines.at(-1)).toMatchObject({ k: "end", reason: "stopped" });
  });

  it("one that waits for a page is answered the same", async () => {
    const watch = await begin({ events: ["create"] });
    const waiting = page(watch["id"], 0, 8000);
    await on.runtime.act(id, "pause", {}, 60);
    expect(await waiting).toEqual({
      ...{ events: [], notices: [{ k: "paused", cursor: 0 }], nextCursor: 0, lostBytes: 0, ended: false },
    });
    await on.runtime.act(id, "wake", {}, 60);
    await stop(watch["id"]);
  });

  it("a sandbox that is stopped meanwhile is an error", async () => {
    const other = (await created(on)).id;
    const path = `${on.runtime.path(other)}/files/watches`;
    const watch = await on.runtime.call("POST", path, { json: { path: folder } });
    const lines: Json[] = [];
    const done = (async () => {
      for await (const line of on.runtime.watch(other, String(watch["id"]))) lines.push(line);
    })();
    done.catch(() => undefined);
    await on.runtime.act(other, "stop", {}, 60);
    expect(await fault(done)).toMatchObject({ status: 409, code: "sandbox_stopped" });
  });
});
