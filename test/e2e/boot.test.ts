/** Real machines: what they start with is there before the first request, over sleep, boots and deaths. */
import { readdir, readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import type { Sandbox } from "rouse";
import { freshName, named, rouse, system } from "./support.ts";

/** A job of ten steps that notes each before it goes on, and says over HTTP how far it is. */
const JOB = `
import http.server, json, os, pathlib, threading, time
notes = pathlib.Path("/workspace/job.json")
step = json.loads(notes.read_text())["step"] if notes.exists() else 0
began = step
def work():
    global step
    limit = 7 if not os.path.exists("/workspace/finish") else 10
    while step < limit:
        part = notes.with_suffix(".part")
        with open(part, "w") as file:
            json.dump({"step": step + 1}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, notes)
        os.sync()
        step += 1
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = json.dumps({"pid": os.getpid(), "began": began, "step": step, "read": open("/workspace/read").read()}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *args):
        pass
threading.Thread(target=work, daemon=True).start()
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`;

interface Said {
  readonly pid: number;
  readonly began: number;
  readonly step: number;
  readonly read: string;
}

const polled = { timeout: 60_000, interval: 250 };
const say = async (sandbox: Sandbox): Promise<Said> => {
  const answer = await named(sandbox, "/");
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
  return JSON.parse(answer.text) as Said;
};

it("a job goes on at step 8 of 10 after its machine died, and the first request finds it at work", async () => {
  const sandbox = await rouse.sandboxes.create({
    name: freshName("job"),
    idlePauseSeconds: 0,
    onBoot: { command: "cp /workspace/job.json /workspace/read 2>/dev/null || echo nothing > /workspace/read" },
    onWake: { command: "echo woke >> /workspace/wakes" },
    services: [
      {
        name: "job",
        command: `[ -e job.py ] || cat > job.py <<'END'\n${JOB}\nEND\nexec python3 job.py`,
        ready: { port: 8080, path: "/" },
        freeze: { command: "echo freeze >> /workspace/hooks", required: true },
        thaw: { command: "echo thaw >> /workspace/hooks" },
      },
    ],
  });
  // Nothing was waited for but the creation: the service is up before the first request is let in.
  const first = await say(sandbox);
  expect(first).toMatchObject({ began: 0, read: "nothing\n" });
  await expect.poll(async () => (await say(sandbox)).step, polled).toBe(7);

  // Asleep and awake again it is the same program, and the hooks around it were called once each.
  await sandbox.pause();
  expect((await say(sandbox)).pid).toBe(first.pid);
  const read = async (file: string) => (await sandbox.exec(`cat /workspace/${file} 2>/dev/null || true`)).stdout;
  await expect.poll(() => read("wakes"), polled).toBe("woke\n");
  await expect.poll(() => read("hooks"), polled).toBe("freeze\nthaw\n");
  await expect
    .poll(() => sandbox.resume(), polled)
    .toMatchObject({ bootKind: "restored", onBoot: { exitCode: 0 }, onWake: { exitCode: 0, generation: 2 } });

  // Killed, the program is back by itself, and goes on where it was.
  await sandbox.exec(`kill -9 ${first.pid}`);
  await expect
    .poll(() => sandbox.services.list(), polled)
    .toMatchObject([{ name: "job", state: "ready", restarts: 1 }]);
  const again = await say(sandbox);
  expect(again.pid).not.toBe(first.pid);
  expect(again).toMatchObject({ began: 7, step: 7 });

  // The machine dies; what it knew is read back, and it goes on with step 8.
  await sandbox.exec("touch /workspace/finish && sync");
  await killMachine(sandbox);
  await expect.poll(async () => (await sandbox.refresh()).state, polled).toBe("stopped");
  await sandbox.restart();
  const last = await say(sandbox);
  expect(last).toMatchObject({ began: 7, read: '{"step": 7}' });
  await expect.poll(async () => (await say(sandbox)).step, polled).toBe(10);
  await expect
    .poll(() => sandbox.resume(), polled)
    .toMatchObject({
      bootKind: "booted",
      memoryRestored: false,
      onBoot: { exitCode: 0 },
      services: [{ state: "ready" }],
    });
  const { chunks } = await sandbox.services.logs("job");
  expect(chunks).toEqual(expect.any(Array));
  await sandbox.delete();
}, 600_000);

/** The processes of one machine of this test's own system. */
async function killMachine({ id }: Sandbox): Promise<void> {
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (command.includes(`${system.stateDir}/machines/${id}/`)) process.kill(Number(pid), "SIGKILL");
  }
}

it("a command that fails is told, and the machine can be looked into", async () => {
  const sandbox = await rouse.sandboxes.create({
    name: freshName("fails"),
    onBoot: { command: "echo 'no notes' >&2; exit 3" },
    services: [{ name: "web", command: "exec python3 -m http.server 8080 --bind 127.0.0.1", port: 8080 }],
  });
  const refused = await named(sandbox, "/");
  expect([refused.status, JSON.parse(refused.text).error.code]).toEqual([502, "boot_failed"]);
  expect((await sandbox.exec("echo here")).stdout).toBe("here\n");
  await expect
    .poll(() => sandbox.resume(), polled)
    .toMatchObject({ onBoot: { exitCode: 3, stderr: "no notes\n" }, services: [{ state: "pending" }] });
  await sandbox.delete();
}, 300_000);
