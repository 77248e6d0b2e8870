/** Schedules with a real machine: a sleeper is woken for a command and for a request, and what came of them is kept. */
import { expect, it } from "vitest";
import { freshName, rouse } from "./support.ts";

const SERVER = `
from http.server import BaseHTTPRequestHandler, HTTPServer
class Job(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.send_response(201)
        self.end_headers()
        self.wfile.write((body + " " + self.headers["idempotency-key"]).encode())
HTTPServer(("", 3000), Job).serve_forever()
`;

it("a command and a request wake a sleeper at their times, once, and their output is in the history", async () => {
  const sandbox = await rouse.sandboxes.create({ name: freshName("timed"), idlePauseSeconds: 0 });
  await sandbox.files.write("/workspace/job.py", SERVER);
  await sandbox.spawn("python3 /workspace/job.py");
  const listening = () => sandbox.exec("ss -tlnH sport = :3000 | wc -l").then(({ stdout }) => stdout.trim());
  await expect.poll(listening, { timeout: 60_000 }).toBe("1");
  await sandbox.pause();
  const soon = () => new Date(Date.now() + 3000);
  const over = async (schedule: string) => {
    const runs = async () => (await sandbox.schedules.runs(schedule)).data;
    await expect.poll(async () => (await runs())[0]?.state, { timeout: 120_000 }).not.toBe("running");
    await expect.poll(async () => (await runs())[0]?.endedAt ?? null, { timeout: 120_000 }).not.toBeNull();
    return { count: (await runs()).length, run: await sandbox.schedules.getRun(schedule, (await runs())[0]?.id ?? "") };
  };

  // Longer than any wait for one answer, so that it is looked after from outside, and held awake for.
  const command = 'echo "$WHO began" >> /workspace/log; sleep 12; cat /workspace/log; echo oh >&2; exit 3';
  const action = { kind: "command", command, env: { WHO: "it" } } as const;
  const job = await sandbox.schedules.create({ name: "job", at: soon(), action });
  await expect.poll(async () => (await sandbox.schedules.get("job")).lastRun, { timeout: 60_000 }).not.toBeNull();
  const first = await over(job.id);
  expect(first.count).toBe(1);
  expect(first.run).toMatchObject({
    ...{ state: "failed", reason: "exit_code", exitCode: 3, wasAsleep: true, attempts: 1 },
    output: { stdout: { data: "it began\n" }, stderr: { data: "oh\n" }, truncated: false },
  });
  expect((await sandbox.why()).lastRun?.cause).toMatchObject({ kind: "schedule", request: "job" });

  await sandbox.pause();
  const request = { kind: "request", port: 3000, path: "/jobs", body: "hello" } as const;
  const call = await sandbox.schedules.create({ at: soon(), action: request });
  await expect.poll(async () => (await sandbox.schedules.get(call.id)).lastRun, { timeout: 60_000 }).not.toBeNull();
  const { run } = await over(call.id);
  expect(run).toMatchObject({ state: "succeeded", status: 201, wasAsleep: true, attempts: 1 });
  expect(run.output?.body?.data).toBe(`hello ${run.id}`);
  await sandbox.delete();
});
