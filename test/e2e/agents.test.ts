/** An agent of a preset of one's own, in a real machine: messages wake it, and its key is the host's alone. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Rouse, type AgentPreset } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { ask, status } from "../../backend-pool/local/story/agent-runtime.ts";
import { MODEL_HOST, startFakeModel, type FakeModel } from "../../backend-pool/local/story/fake-model.ts";
import { freshName } from "./fresh-name.ts";

const KEY = "sk-ant-test-0123456789abcdef";

/** Passes each message to the model, and keeps what it answers. */
const APP = `
import http.server, json, os, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        sent = json.dumps({"model": "m", "messages": [{"role": "user", "content": body["message"]}]}).encode()
        headers = {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}
        answer = urllib.request.urlopen(urllib.request.Request("https://${MODEL_HOST}/v1/messages", sent, headers))
        with open("/workspace/app/answers", "a") as kept:
            kept.write(json.load(answer)["content"][0]["text"] + "\\n")
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
`;

const preset: AgentPreset = {
  ...{ id: "echo", title: "Echo", version: "1", source: { registry: "own" } },
  install: { command: `mkdir -p app && cat > app/app.py <<'END'\n${APP}END` },
  ...{ start: ["python3", "app/app.py"], port: 3000, health: { path: "/" }, ready: { path: "/" } },
  state: { folders: ["/workspace/app"] },
  providers: { anthropic: { env: "ANTHROPIC_API_KEY" } },
  trigger: { path: "/messages" },
  ...{ minMemoryMiB: 512, proved: true },
};

let system: System;
let model: FakeModel;
let stateDir: string;

beforeAll(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "rouse-agents-"));
  model = await startFakeModel(stateDir);
  const env = { ...model.env, ROUSE_ARCHIVE_SECONDS: "off" };
  system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, env });
});
afterAll(async () => {
  await system.stop();
  await model.close();
  await rm(stateDir, { recursive: true, force: true });
});

it("answers a message that finds it asleep, and one after its process was killed, with a key that it does not have", async () => {
  const rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url });
  const made = await rouse.agents.create({ name: freshName("echo"), preset, keys: { anthropic: KEY } });
  const { sandbox } = made;
  await sandbox.pause();
  expect(await ask(made, model, KEY)).toBe(true);
  const { pid, startedAt } = await status(sandbox);
  await sandbox.exec(`kill -KILL ${pid}`, { check: true });
  await expect.poll(async () => (await status(sandbox)).startedAt, { timeout: 60_000 }).not.toBe(startedAt);
  await sandbox.pause();
  expect(await ask(made, model, KEY)).toBe(true);
  const { stdout } = await sandbox.exec(`cat app/answers; grep -c '${KEY}' /proc/[0-9]*/environ app/* | grep -v ':0'`);
  expect(stdout).toBe("Answer number 1.\nAnswer number 2.\n");
  await sandbox.delete();
});
