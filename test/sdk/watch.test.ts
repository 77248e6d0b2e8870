import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FileWatch, WatchEvent } from "../../sdk/src/index.ts";
import { GuestEdge } from "./guest-edge.ts";

let edge: GuestEdge;
let folder: string;
beforeAll(async () => {
  edge = await GuestEdge.start();
  folder = join(edge.agent.home, "watched");
  await mkdir(folder);
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
});

function reading(watch: FileWatch): { events: WatchEvent[]; done: Promise<void> } {
  const events: WatchEvent[] = [];
  const done = (async () => {
    for await (const event of watch.events()) events.push(event);
  })();
  done.catch(() => undefined);
  return { events, done };
}

test("tells what happens, over a sleep that it does not end, and to whoever reads on", async () => {
  const { files } = await edge.sandbox;
  const watch = await files.watch(folder, { events: ["create"], recursive: true });
  const { events, done } = reading(watch);
  await writeFile(join(folder, "one"), "");
  await expect.poll(() => events).toHaveLength(1);
  const { cursor } = watch;
  edge.sleep();
  edge.cutRequests();
  await writeFile(join(folder, "while-asleep"), "");
  await new Promise((resolve) => setTimeout(resolve, 3000));
  expect([edge.state, events.length]).toEqual(["paused", 1]);
  edge.state = "running";
  await expect.poll(() => events).toHaveLength(2);
  edge.cutRequests();
  await writeFile(join(folder, "after-a-cut"), "");
  await expect.poll(() => events).toHaveLength(3);
  const [again] = await files.watches();
  expect(again?.id).toBe(watch.id);
  if (!again) return;
  again.cursor = cursor;
  const rest = reading(again);
  await expect
    .poll(() => rest.events.map((event) => event.type === "create" && event.path))
    .toEqual([join(folder, "while-asleep"), join(folder, "after-a-cut")]);
  await watch.stop();
  await Promise.all([done, rest.done]);
  await expect(files.watch("/no/such/folder")).rejects.toMatchObject({ code: "file_not_found" });
}, 60_000);
