/** OpenClaw as an agent on real machines: what clones share, what it takes, and that it answers whatever was killed. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { NewAgent, Sandbox } from "rouse";
import { ask, pauseOnceIdle, status, TRIES } from "../../backend-pool/local/story/agent-runtime.ts";
import { eventually } from "../../backend-pool/local/story/eventually.ts";
import { startFakeModel, type FakeModel } from "../../backend-pool/local/story/fake-model.ts";
import { openclaw } from "../../sdk/contract/presets/openclaw.ts";
import type { Part } from "./part.ts";

const KEY = "sk-ant-endurance-0123456789abcdef";
const TOKENS = ["gateway-token", "hook-token"].map((name) => `/workspace/.rouse-agent/${name}`);
const PREVIOUS = "sha256sum /workspace/.openclaw/openclaw.json";
let model: FakeModel;

export const agents: Part = {
  async launch(stateDir) {
    model = await startFakeModel(stateDir);
    return { env: { ...model.env, ROUSE_AGENTS: openclaw.id, ROUSE_RESIDENT_SECONDS: "600" } };
  },

  async run({ rouse, stateDir, say, expect }) {
    const create = async (name: string) => {
      const began = performance.now();
      const made = await rouse.agents.create({ name, runtime: openclaw.id, keys: { anthropic: KEY } });
      await isUp(made.sandbox);
      return { made, ms: since(began) };
    };
    const first = await create("first");
    const second = await create("second");
    const figures: Record<string, number> = { createReadyMs: first.ms, secondReadyMs: second.ms };
    const { sandbox } = first.made;
    say(`two agents are ready, after ${first.ms} and ${second.ms} ms`);

    const [mine, theirs] = await Promise.all([tokens(sandbox), tokens(second.made.sandbox)]);
    expect(
      mine.every((token) => /^[0-9a-f]{64}$/.test(token)),
      "the tokens are random",
    );
    expect(!mine.some((token) => theirs.includes(token)), "two agents share no token");
    expect((await rpc(sandbox, mine[0] ?? "")) === 200, "the agent takes its own token");
    expect((await rpc(sandbox, theirs[0] ?? "")) === 401, "it refuses another's");
    expect((await rpc(sandbox, "image-".padEnd(48, "0"))) === 401, "it refuses the image's");
    const configs = await Promise.all([sandbox, second.made.sandbox].map((one) => one.exec(PREVIOUS)));
    expect(configs[0]?.stdout !== configs[1]?.stdout, "their settings differ");
    await second.made.sandbox.delete();

    const free = await sandbox.exec("awk '/MemTotal|MemAvailable/{print $2}' /proc/meminfo");
    const [total = 0, available = 0] = free.stdout.trim().split("\n").map(Number);
    figures["usedMiB"] = Math.round((total - available) / 1024);

    const answers = async (what: string, made: NewAgent) => expect(await ask(made, model, KEY), `it answers ${what}`);
    await pauseOnceIdle(sandbox);
    figures["wakeReadyMs"] = await measured(() => isUp(sandbox));
    await pauseOnceIdle(sandbox);
    await answers("after a sleep", first.made);
    say(`it wakes in ${figures["wakeReadyMs"]} ms, and answers`);

    const { pid, startedAt } = await status(sandbox);
    await sandbox.exec(`kill -KILL ${pid}`, { check: true });
    figures["processStartMs"] = await measured(async () => {
      await eventually(async () => (await status(sandbox)).startedAt !== startedAt, TRIES);
      await isUp(sandbox);
    });
    await answers("after kill -9 of its process", first.made);
    say(`its process is up again after ${figures["processStartMs"]} ms, and it answers`);

    for (const name of await readdir(join(stateDir, "run")))
      if (name.endsWith(".pid")) kill(Number(await readFile(join(stateDir, "run", name), "utf8")));
    await sandbox.waitFor("stopped", { timeoutSeconds: 120 });
    figures["bootReadyMs"] = await measured(async () => {
      await sandbox.restart();
      await isUp(sandbox);
    });
    expect((await tokens(sandbox)).join() === mine.join(), "its tokens are as they were");
    await answers("after kill -9 of its machine", first.made);
    await sandbox.delete();
    await model.close();
    return figures;
  },
};

async function isUp(sandbox: Sandbox): Promise<void> {
  await eventually(async () => (await sandbox.fetch(openclaw.ready.path, {}, openclaw.port)).ok, TRIES);
}

async function tokens(sandbox: Sandbox): Promise<string[]> {
  return (await sandbox.exec(`cat ${TOKENS.join("; echo; cat ")}`, { check: true })).stdout.split("\n");
}

/** What the gateway answers somebody with that token, from inside. */
async function rpc(sandbox: Sandbox, token: string): Promise<number> {
  const url = `http://127.0.0.1:${openclaw.port}/api/v1/admin/rpc`;
  const options = `-s -o /dev/null -w '%{http_code}' -H 'authorization: Bearer ${token}' -H 'content-type: application/json'`;
  const { stdout } = await sandbox.exec(`curl ${options} -d '{"method":"health"}' ${url}`, { timeoutMs: 60_000 });
  return Number(stdout);
}

async function measured(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return since(began);
}

function since(began: number): number {
  return Math.round(performance.now() - began);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}
