/** Timers that programs in a machine set: kept over an agent's end, forgotten once they passed, and the only thing that is open inside. */
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GuestTimer, GuestTimers, SetGuestTimer } from "../../sdk/contract/guest-timer.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { Agent, codeOf, startAgent, type Answer } from "./agent.ts";

let folder: string;
let file: string;
let agent: Agent;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-timers-"));
  file = join(folder, "kept", "timers.json");
  agent = await startAgent("--timers", file);
});
afterEach(async () => {
  await agent.end();
  await rm(folder, { recursive: true, force: true });
});

const DAY_MS = 86_400_000;
const ahead = (ms: number) => new Date(Date.now() + ms).toISOString();
const set = (name: string, body: object, of = agent) => of.call("PUT", `/timers/${name}`, { body });
const listed = async (of = agent) => GuestTimers.parse((await of.call("GET", "/timers")).body).data;
const faultsOf = (answer: Answer) => {
  const { details } = answer.body["error"] as { details: { issues: { path: string }[] } };
  return details.issues.map(({ path }) => path);
};

test("are set, replaced, listed with the earliest first, and taken back", async () => {
  const at = ahead(3_600_000);
  expect(GuestTimer.parse((await set("report", { at })).body)).toEqual({ name: "report", at });
  const soon = GuestTimer.parse((await set("poll-1", { inSeconds: 60 })).body);
  expect(Math.abs(Date.parse(soon.at) - Date.now() - 60_000)).toBeLessThan(30_000);
  expect((await listed()).map(({ name }) => name)).toEqual(["poll-1", "report"]);
  await set("poll-1", { at: "2027-01-02T03:04:05+02:00" });
  expect(await listed()).toEqual([
    { name: "report", at },
    { name: "poll-1", at: "2027-01-02T01:04:05.000Z" },
  ]);
  expect((await agent.call("DELETE", "/timers/report")).body).toEqual({ name: "report", deleted: true });
  expect((await agent.call("DELETE", "/timers/report")).body).toEqual({ name: "report", deleted: false });
  expect(await listed()).toHaveLength(1);
});

test("outlive the agent in a file of its own, and whatever else is in that file does not count", async () => {
  const at = ahead(DAY_MS);
  await set("nightly", { at });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const again = await startAgent("--timers", file);
  try {
    expect(await listed(again)).toEqual([{ name: "nightly", at }]);
  } finally {
    await again.end();
  }
  const more = {
    ok: Date.now() + 60_000,
    "no way": 1,
    text: "soon",
    never: Date.now() + 400 * DAY_MS,
    half: 1.5,
    past: 5,
  };
  for (const [text, names] of [
    [JSON.stringify(more), ["ok"]],
    ["[1, 2", []],
    ["null", []],
  ] as const) {
    await writeFile(file, text);
    const other = await startAgent("--timers", file);
    try {
      expect((await listed(other)).map(({ name }) => name)).toEqual(names);
    } finally {
      await other.end();
    }
  }
});

test("are dropped once they passed", async () => {
  await set("soon", { at: ahead(300) });
  await set("later", { inSeconds: 600 });
  await expect.poll(async () => (await listed()).map(({ name }) => name)).toEqual(["later"]);
  await set("later", { inSeconds: 601 });
  expect(Object.keys(JSON.parse(await readFile(file, "utf8")) as object)).toEqual(["later"]);
});

test("are refused with everything that is wrong, and only so many are kept", async () => {
  const bad = await set("No_Name", { at: "tomorrow", inSeconds: 0, every: "day" });
  expect([bad.status, codeOf(bad)]).toEqual([400, "invalid_request"]);
  expect(faultsOf(bad).toSorted()).toEqual(["at", "at", "every", "inSeconds", "name"]);
  for (const body of [
    {},
    { at: ahead(60_000), inSeconds: 60 },
    { at: "2026-12-01T10:00:00" },
    { at: ahead(-1000) },
    { at: ahead(367 * DAY_MS) },
    { at: 5 },
    { inSeconds: 1.5 },
    { inSeconds: 367 * 86_400 },
  ]) {
    const answer = await set("a", body);
    expect([body, answer.status, codeOf(answer)]).toEqual([body, 400, "invalid_request"]);
  }
  expect(codeOf(await set("a".repeat(65), { inSeconds: 60 }))).toBe("invalid_request");
  // What the contract says of a body is what the agent takes.
  const valid = [{ inSeconds: 1 }, { inSeconds: 366 * 86_400 - 1 }, { at: ahead(60_000) }];
  for (const body of valid) {
    expect(SetGuestTimer.safeParse(body).success).toBe(true);
    expect((await set("a", body)).status).toBe(200);
  }
  await Promise.all(Array.from({ length: guestLimits.timers - 1 }, (_, n) => set(`t${n}`, { inSeconds: 60 + n })));
  expect(codeOf(await set("more", { inSeconds: 60 }))).toBe("quota_exceeded");
  expect((await set("a", { inSeconds: 90 })).status).toBe(200);
  expect(await listed()).toHaveLength(guestLimits.timers);
});

test("are all that is open to programs in the machine, and not to the pages in their browsers", async () => {
  const inside = await freePort();
  const outer = await startAgent("--allow-from", "10.0.2.2", "--inside", `127.0.0.1:${inside}`);
  const within = new Agent(
    inside,
    "",
    0,
    () => "",
    async () => undefined,
  );
  try {
    expect(await refused(outer.port)).toBe(true);
    await expect.poll(() => listed(within).catch(() => null)).toEqual([]);
    expect((await set("mine", { inSeconds: 60 }, within)).status).toBe(200);
    for (const [method, path] of [
      ["POST", "/exec"],
      ["GET", "/files/list"],
      ["GET", "/facts"],
      ["PUT", "/configure"],
      ["GET", "/port/80/"],
    ] as const)
      expect(codeOf(await within.call(method, path, method === "GET" ? {} : { body: {} }))).toBe("route_not_found");
    const page = { headers: { origin: "http://page.test" }, body: { inSeconds: 5 } };
    expect(codeOf(await within.call("PUT", "/timers/theirs", page))).toBe("forbidden");
    expect(await listed(within)).toHaveLength(1);
  } finally {
    await outer.end();
  }
});

test("an agent whose port inside is taken does its work all the same", async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const { port } = taken.address() as AddressInfo;
  const other = await startAgent("--inside", `127.0.0.1:${port}`);
  try {
    expect((await other.exec("echo hi")).stdout).toBe("hi\n");
  } finally {
    await other.stop();
    taken.close();
  }
});

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** Whether a connection is closed without a word. */
function refused(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => resolve(true));
    socket.on("data", () => resolve(false));
    socket.on("close", () => resolve(true));
    socket.write("GET /facts HTTP/1.1\r\nhost: x\r\n\r\n");
  });
}
