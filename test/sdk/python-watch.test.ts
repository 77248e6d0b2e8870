/** File watches of the Python SDK, in both halves: a real guest agent behind an edge that sleeps and cuts. */
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { GuestEdge } from "./guest-edge.ts";
import { NO_PYTHON, halves, python, stopPython } from "./python-run.ts";

let edge: GuestEdge;
beforeAll(async () => {
  edge = await GuestEdge.start();
});
afterAll(async () => {
  stopPython();
  await edge[Symbol.asyncDispose]();
});
beforeEach((context) => {
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
});

test.each(halves)(
  "%s: a watch tells what happens, over a cut and a sleep that it does not end",
  async (half) => {
    const folder = join(edge.agent.home, `watched-${half}`);
    const seen = (count: number) => `${folder}-seen-${count}`;
    await mkdir(folder);
    const reading = python(
      half,
      edge.url,
      `
from contextlib import aclosing
sandbox = await rouse.sandboxes.get("demo")
watch = await sandbox.files.watch("${folder}", events=["create"], recursive=True, id="of-${half}", timeout_ms=600_000)
start = watch.cursor
told = []
open("${seen(0)}", "w").close()
async with aclosing(watch.events()) as events:
    async for event in events:
        told.append([event["type"], os.path.basename(event["path"])])
        open("${folder}-seen-" + str(len(told)), "w").close()
        if len(told) == 3:
            break
same = [one.id for one in await sandbox.files.watches() if one.id == watch.id]
await watch.stop()
watch.cursor = start
again = [os.path.basename(event["path"]) async for event in watch.events()]
wrong = await failure(lambda: sandbox.files.watch("/no/such/folder"))
return {"told": told, "same": same, "again": again, "wrong": wrong["code"]}`,
    );
    reading.catch(() => undefined);
    const isSeen = (count: number) => expect.poll(() => existsSync(seen(count))).toBe(true);
    await isSeen(0);
    await writeFile(join(folder, "one"), "");
    await isSeen(1);
    edge.sleep();
    edge.cutRequests();
    const { wakes } = edge;
    await writeFile(join(folder, "while-asleep"), "");
    await new Promise((resolve) => setTimeout(resolve, 3000));
    expect([edge.state, edge.wakes, existsSync(seen(2))]).toEqual(["paused", wakes, false]);
    edge.state = "running";
    await isSeen(2);
    edge.cutRequests();
    await writeFile(join(folder, "after-a-cut"), "");
    const names = ["one", "while-asleep", "after-a-cut"];
    expect(await reading).toEqual({
      told: names.map((name) => ["create", name]),
      same: [`of-${half}`],
      again: names,
      wrong: "file_not_found",
    });
  },
  60_000,
);
