/** `rouse watch`, at a real guest agent behind an edge that sleeps. */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { CliBench } from "./cli-bench.ts";
import { GuestEdge } from "./guest-edge.ts";

let edge: GuestEdge;
let bench: CliBench;
let folder: string;
let count = 0;
beforeAll(async () => {
  [edge, bench] = await Promise.all([GuestEdge.start(), CliBench.start()]);
});
beforeEach(async () => {
  folder = join(edge.agent.home, `watched-${count++}`);
  await mkdir(folder);
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await bench[Symbol.asyncDispose]();
});

const launch = (...words: string[]) => {
  const { child, done } = bench.launch(["watch", "demo", ...words], { ROUSE_API_URL: edge.url });
  let text = "";
  let notes = "";
  child.stdout.on("data", (more: string) => (text += more));
  child.stderr.on("data", (more: string) => (notes += more));
  return {
    done,
    lines: () => text.split("\n").slice(0, -1),
    begun: () => expect.poll(() => notes, { timeout: 20_000 }).toMatch(/^(?:watching |\{"watch":\{"id":)/),
    notes: () => notes.split("\n").slice(0, -1),
    interrupt: () => child.kill("SIGINT"),
  };
};
const run = (...words: string[]) => bench.run(["watch", "demo", ...words], { ROUSE_API_URL: edge.url });
const write = (name: string) => writeFile(join(folder, name), "");
const running = async () =>
  (await (await edge.sandbox).files.watches()).filter(({ info }) => info.state === "running").map(({ id }) => id);

test("tells people what happens, until Ctrl-C, which ends the watch", async () => {
  const watch = launch(folder, "-r", "--event", "create", "--event", "rename", "--exclude", "*.tmp");
  await watch.begun();
  await mkdir(join(folder, "deep"));
  await expect.poll(watch.lines).toEqual([`create    ${folder}/deep/`]);
  await write("deep/not.tmp");
  await write("deep/one");
  await edge.agent.exec({ command: "sleep 0.3; mv deep/one deep/two", cwd: folder });
  await expect
    .poll(watch.lines)
    .toEqual([
      `create    ${folder}/deep/`,
      `create    ${folder}/deep/one`,
      `rename    ${folder}/deep/one -> ${folder}/deep/two`,
    ]);
  watch.interrupt();
  expect(await watch.done).toMatchObject({ code: 0 });
  expect(await running()).toEqual([]);
}, 60_000);

test("one with an id goes on, and is read from a cursor: each event is a line of JSON", async () => {
  const words = [folder, "--id", "mine", "--event", "create", "--json"];
  const first = launch(...words);
  await first.begun();
  expect(await running()).toEqual(["mine"]);
  await write("one");
  await expect.poll(first.lines).toHaveLength(1);
  const [line = ""] = first.lines();
  const event = JSON.parse(line) as { cursor: number };
  expect(event).toEqual({ type: "create", path: join(folder, "one"), isDir: false, cursor: expect.any(Number) });
  first.interrupt();
  expect(await first.done).toMatchObject({ code: 0 });
  expect(JSON.parse(first.notes().at(-1) ?? "")).toEqual({ id: "mine", cursor: event.cursor });
  await write("while nobody reads");
  const second = launch(...words, "--cursor", String(event.cursor));
  await expect.poll(second.lines, { timeout: 20_000 }).toHaveLength(1);
  expect(JSON.parse(second.lines()[0] ?? "")).toMatchObject({ path: join(folder, "while nobody reads") });
  const listed = JSON.parse((await run("--list", "--json")).stdout) as { data: object[] };
  expect(listed.data).toContainEqual(expect.objectContaining({ id: "mine", state: "running", path: folder }));
  expect(await run("--stop", "mine")).toMatchObject({ code: 0, stdout: "stopped mine\n" });
  expect(await second.done).toMatchObject({ code: 0 });
  expect((await run("--stop", "none")).code).toBe(3);
}, 60_000);

test("its exit code says how it ended", async () => {
  const removed = launch(folder);
  await removed.begun();
  await rm(folder, { recursive: true });
  expect(await removed.done).toMatchObject({ code: 3 });
  await mkdir(folder);
  expect(await run(folder, "--timeout", "1")).toMatchObject({ code: 124 });
  const none = await run("/no/such/folder", "--json");
  expect([none.code, JSON.parse(none.stderr)]).toMatchObject([3, { error: { code: "file_not_found" } }]);
}, 60_000);

test("Ctrl-C while the sandbox sleeps does not wake it", async () => {
  const watch = launch(folder);
  await watch.begun();
  await write("one");
  await expect.poll(watch.lines).not.toHaveLength(0);
  edge.sleep();
  edge.cutRequests();
  const { wakes } = edge;
  watch.interrupt();
  expect(await watch.done).toMatchObject({ code: 0 });
  expect([edge.state, edge.wakes]).toEqual(["paused", wakes]);
}, 60_000);

test.each([
  [["demo"], "no path"],
  [["demo", "src", "--cursor", "5"], "--cursor"],
  [["demo", "src", "--event", "born"], "--event"],
  [["demo", "src", "--timeout", "90000"], "--timeout"],
  [["demo", "src", "--list"], "--list"],
  [["demo", "--stop", "a", "--id", "b"], "--stop"],
])("%j is refused", async (words, about) => {
  expect((await bench.refusal(["watch", ...words]))?.message).toContain(about);
});
