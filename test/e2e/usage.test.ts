/** What a real machine used reaches the account's books, by the host's own meters. */
import { afterAll, beforeAll, describe, it } from "vitest";
import type { Sandbox, UsageLine } from "rouse";
import { freshName, rouse } from "./support.ts";

/** Hosts report within seconds of a change; a busy machine of this test may take longer. */
const TOLD = { timeout: 60_000, interval: 500 };

describe("usage", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await rouse.sandboxes.create({ name: freshName("usage"), idlePauseSeconds: 0 });
  });
  afterAll(() => sandbox.delete());

  const lineOf = async (): Promise<UsageLine | undefined> =>
    (await rouse.usage()).lines.find(({ sandboxId }) => sandboxId === sandbox.id);

  it("counts CPU and memory of a run, then storage of a sleep, and nothing of what is gone", async ({ expect }) => {
    const began = performance.now();
    await sandbox.exec("end=$(( $(date +%s) + 2 )); while [ $(date +%s) -lt $end ]; do :; done");
    await sandbox.pause();
    const ranMs = performance.now() - began;
    await expect.poll(async () => Number((await lineOf())?.stored ?? 0), TOLD).toBeGreaterThan(0);
    const slept = await lineOf();
    expect(Number(slept?.cpu)).toBeGreaterThan(500_000_000);
    expect(Number(slept?.memory)).toBeGreaterThan(0);
    // It also ran a moment before the first command.
    expect(Number(slept?.memory)).toBeLessThan(2048 * (ranMs + 30_000));
    // A sleeper is told of once an hour, and when it wakes.
    await new Promise((resolve) => setTimeout(resolve, 6000));
    expect(await lineOf()).toMatchObject({ cpu: slept?.cpu, memory: slept?.memory });
    await sandbox.wake();
    await expect.poll(async () => Number((await lineOf())?.stored ?? 0), TOLD).toBeGreaterThan(Number(slept?.stored));
    await sandbox.delete();
    let last = "";
    await expect
      .poll(
        async () => {
          const now = JSON.stringify(await lineOf());
          const same = now === last;
          last = now;
          return same;
        },
        { timeout: 60_000, interval: 7000 },
      )
      .toBe(true);
  });
});
