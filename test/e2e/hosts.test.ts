/** Several hosts: each machine wakes where it sleeps, whatever the edge forgot, and a draining host keeps what it has. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { Rouse, type Sandbox } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { freshName } from "./fresh-name.ts";

describe("two hosts", () => {
  let own: System;
  let rouse: Rouse;
  let stateDir: string;

  beforeAll(async () => {
    stateDir = await mkdtemp(join(tmpdir(), "rouse-hosts-"));
    own = await launch({
      homeDir: defaultHome(),
      stateDir,
      edgePort: 0,
      hostPort: 0,
      hosts: 2,
      env: { ROUSE_ARCHIVE_SECONDS: "off" },
    });
    rouse = new Rouse({ apiKey: own.apiKey, baseUrl: own.url });
  });
  afterAll(async () => {
    await own.stop();
    await rm(stateDir, { recursive: true, force: true });
  });

  const counts = async () =>
    Object.fromEntries((await rouse.hosts()).map(({ hostId, running, paused }) => [hostId, running + paused]));
  const create = () => rouse.sandboxes.create({ name: freshName("hosts"), idlePauseSeconds: 0 });
  const bootOf = async (sandbox: Sandbox) => (await sandbox.exec("cat /proc/sys/kernel/random/boot_id")).stdout;

  it("share the machines, and each wakes where it sleeps when the edge starts anew", async ({ expect }) => {
    await expect.poll(async () => (await rouse.hosts()).map(({ hostId }) => hostId)).toEqual(["local", "local-2"]);
    await rouse.drainHost("local");
    const second = [await create(), await create()];
    await rouse.drainHost("local", { draining: false });
    await rouse.drainHost("local-2");
    const first = [await create(), await create()];
    const all = [...first, ...second];
    await expect.poll(counts, { timeout: 30_000 }).toEqual({ local: 2, "local-2": 2 });
    const boots = await Promise.all(all.map(bootOf));
    expect(new Set(boots).size).toBe(4);
    await Promise.all(all.map((sandbox) => sandbox.pause()));
    await own.edge.kill();
    await own.edge.start();
    // A draining host takes no new machines, and wakes those it has.
    expect(await Promise.all(all.map(bootOf))).toEqual(boots);
    for (const sandbox of all)
      expect((await sandbox.refresh()).info).toMatchObject({ generation: 2, memoryRestored: true });
    await Promise.all(all.map((sandbox) => sandbox.delete()));
    await expect.poll(counts, { timeout: 30_000 }).toEqual({ local: 0, "local-2": 0 });
  });
});
