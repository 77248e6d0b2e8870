/** Each part of a whole system is killed by a drill, on real machines: what was acknowledged is there again. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Rouse, type Sandbox } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { freshName } from "./fresh-name.ts";

/** A job of ten steps that is killed whenever: it goes on after the last step that was saved. */
const JOB = `
step=$(rouse-checkpoint load job --default 0)
while [ "$step" -lt 7 ]; do
  step=$((step + 1))
  echo "$step" >>steps
  echo "$step" | rouse-checkpoint save job --step "$step" >/dev/null
done
sync`;

/** Programs that only start are slow in emulation. */
const PATIENCE_MS = 240_000;

describe("a drill", () => {
  let own: System;
  let sandbox: Sandbox;
  let stateDir: string;

  beforeAll(async () => {
    stateDir = await mkdtemp(join(tmpdir(), "rouse-drills-"));
    own = await launch({
      ...{ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, supervise: true },
      env: { ROUSE_ARCHIVE_SECONDS: "off" },
    });
    const rouse = new Rouse({ apiKey: own.apiKey, baseUrl: own.url });
    sandbox = await rouse.sandboxes.create({ name: freshName("drill"), idlePauseSeconds: 0 });
    await sandbox.exec(JOB, { check: true, timeoutMs: PATIENCE_MS });
  });
  afterAll(async () => {
    await own.stop();
    await rm(stateDir, { recursive: true, force: true });
  });

  it.each(["guest", "vmm", "host", "edge"] as const)("of the %s: nothing acknowledged is lost", async (kill) => {
    const drill = await sandbox.drills.run({ kill });
    expect(drill).toMatchObject({ kill, state: "passed", lost: [] });
    const { before, after } = drill;
    const survives = kill === "host" || kill === "edge";
    expect(after?.ram).toEqual({ marker: survives, process: survives });
    expect(after?.bootId === before?.bootId).toBe(survives);
    expect(after?.checkpoints).toEqual([{ name: "job", version: 7, step: 7 }]);
    expect(after?.files.count).toBeGreaterThan(0);
    expect(drill.answeredAfterMs).toBeGreaterThan(0);
  });

  it("leaves the job where it was: it goes on at the step after the last", async () => {
    await sandbox.exec(JOB.replace("-lt 7", "-lt 10"), { check: true, timeoutMs: PATIENCE_MS });
    expect((await sandbox.exec("cat steps")).stdout.trim().split("\n").map(Number)).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
    ]);
    expect((await sandbox.exec("rouse-checkpoint load job")).stdout).toBe("10\n");
  });
});
