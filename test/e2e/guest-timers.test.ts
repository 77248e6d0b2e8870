/** A program in a real machine says when it must run next; the machine sleeps, and wakes by itself in time for it. */
import { expect, it } from "vitest";
import { freshName, rouse } from "./support.ts";

/** Sets a timer and waits for its time by the clock, asleep or not. */
const PROGRAM = `
import json, sys, time, urllib.request
at = time.time() + float(sys.argv[1])
stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
body = json.dumps({"at": stamp}).encode()
asked = urllib.request.Request("http://127.0.0.1:10800/timers/report", body, method="PUT")
print(urllib.request.urlopen(asked).read().decode(), flush=True)
while time.time() < at:
    time.sleep(2)
open("/workspace/ran", "w").write(str(time.time() - at))
`;

it("a program has its sleeper woken in time, and goes on where it was", async () => {
  const sandbox = await rouse.sandboxes.create({ name: freshName("timer"), idlePauseSeconds: 10 });
  await sandbox.files.write("/workspace/program.py", PROGRAM);
  const due = Date.now() + 60_000;
  await sandbox.exec("nohup python3 /workspace/program.py 60 > /workspace/said 2>&1 & sleep 1");
  const info = async () => (await sandbox.refresh()).info;
  await expect.poll(async () => (await info()).state, { timeout: 60_000, interval: 500 }).toBe("paused");
  const { wakesAt } = await info();
  expect(Math.abs(Date.parse(wakesAt ?? "") - due)).toBeLessThan(10_000);
  // Looking wakes nothing.
  await expect.poll(async () => (await info()).state, { timeout: 120_000, interval: 500 }).toBe("running");
  const { lastRun } = await sandbox.why();
  expect(lastRun).toMatchObject({ event: "woke", cause: { kind: "timer", request: "report", requestId: wakesAt } });
  expect(Date.parse(lastRun?.at ?? "")).toBeLessThan(Date.parse(wakesAt ?? ""));
  await expect
    .poll(async () => (await sandbox.exec("cat /workspace/ran 2>/dev/null")).stdout, { timeout: 60_000 })
    .not.toBe("");
  const said = await sandbox.exec("cat /workspace/said; curl -s 127.0.0.1:10800/timers");
  expect(said.stdout).toContain('"name":"report"');
  expect(said.stdout).toContain('{"data":[]}');
  await sandbox.delete();
}, 300_000);
