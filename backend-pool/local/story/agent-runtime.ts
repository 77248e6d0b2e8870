/**
 * An agent is made with its gateway up, and its key outside of it. A message wakes it from sleep and it answers; then its
 * process is killed, and it answers again. The model is a stand-in on this machine.
 */
import { createHmac, randomBytes, randomUUID } from "node:crypto";
import { Rouse, type NewAgent, type Sandbox } from "rouse";
import { presetOf } from "../../../sdk/contract/presets/index.ts";
import { eventually } from "./eventually.ts";
import { startFakeModel, type FakeModel } from "./fake-model.ts";
import type { Prepared } from "./prepared.ts";
import type { Stage } from "./tell.ts";

const RUNTIME = "openclaw";
/** Half seconds: an emulated machine takes minutes for a process start. */
export const TRIES = 1800;

export interface AgentResult {
  readonly runtime: string;
  readonly answered: boolean;
  readonly answeredAfterKill: boolean;
  /** From the first request to a sleeper until the agent says that it is ready. */
  readonly wakeReadyMs: number;
  /** From `kill -9` of the agent until it says so again: a process start, and the second before it. */
  readonly processStartMs: number;
}

export async function prepareAgent(stateDir: string): Promise<Prepared> {
  const model = await startFakeModel(stateDir);
  return {
    options: { env: { ...model.env, ROUSE_AGENTS: RUNTIME } },
    tell: (stage) => tellAgent(stage, model),
    close: () => model.close(),
  };
}

/** @throws Error when a message is lost, or the key does not get to the model as it is, or is found in the machine */
export async function tellAgent(stage: Omit<Stage, "accelerator">, model: FakeModel): Promise<AgentResult> {
  const { say } = stage;
  const rouse = new Rouse({ apiKey: stage.apiKey, baseUrl: stage.url, timeoutMs: 900_000 });
  const key = `sk-ant-demo-${randomBytes(16).toString("hex")}`;
  const name = `agent-${process.pid}`;
  const { title = "", port = 0, ready } = presetOf(RUNTIME) ?? {};
  say(`An agent is made of ${title}'s image, in which it runs already ...`);
  const began = performance.now();
  const made = await rouse.agents.create({ name, runtime: RUNTIME, keys: { anthropic: key } });
  const { sandbox } = made;
  const isReady = async () => (await sandbox.fetch(ready?.path ?? "/", {}, port)).ok;
  await eventually(isReady, TRIES);
  say(`  ready ${seconds(began)} after it was asked for, with tokens of its own`);

  say("It is put to sleep, and looked at ...");
  await pauseOnceIdle(sandbox);
  const woken = performance.now();
  await eventually(isReady, TRIES);
  const wakeReadyMs = Math.round(performance.now() - woken);
  say(`  ready ${wakeReadyMs} ms after the request that woke it`);

  say("It sleeps again, and a message comes to its hook ...");
  await pauseOnceIdle(sandbox);
  const answered = await ask(made, model, key);
  say(`  it woke and asked the model with the key that it does not have`);
  if (await has(sandbox, key)) throw new Error("the key is in the machine");

  say("Its process is killed ...");
  const killed = performance.now();
  const { startedAt, pid } = await status(sandbox);
  await sandbox.exec(`kill -KILL ${pid}`, { check: true });
  await eventually(async () => (await status(sandbox)).startedAt !== startedAt && (await isReady()), TRIES);
  const processStartMs = Math.round(performance.now() - killed);
  say(`  up again after ${Math.round(processStartMs / 1000)} s, and another message comes ...`);
  const answeredAfterKill = await ask(made, model, key);
  await sandbox.delete();
  return { runtime: RUNTIME, answered, answeredAfterKill, wakeReadyMs, processStartMs };
}

/** While an agent is at work it refuses to sleep. */
export async function pauseOnceIdle(sandbox: Sandbox): Promise<void> {
  await eventually(async () => (await sandbox.pause(), true), TRIES);
}

/** Send a message as a sender of webhooks does, and wait until the model was asked with it. */
export async function ask({ hook, sandbox }: NewAgent, model: FakeModel, key: string): Promise<boolean> {
  const word = `question-${randomUUID()}`;
  const body = JSON.stringify({ message: `Please answer ${word}.` });
  const [id, at] = [`msg_${randomUUID()}`, String(Math.floor(Date.now() / 1000))];
  const secret = Buffer.from((hook?.secret ?? "").replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", secret).update(`${id}.${at}.${body}`).digest("base64");
  const taken = await fetch(hook?.url ?? "", {
    method: "POST",
    headers: {
      ...{ "content-type": "application/json", "webhook-id": id },
      ...{ "webhook-timestamp": at, "webhook-signature": `v1,${signature}` },
    },
    body,
  });
  if (!taken.ok) throw new Error(`the message was answered ${taken.status}: ${await taken.text()}`);
  await eventually(async () => model.asked.some((one) => one.body.includes(word)), TRIES);
  const asked = model.asked.find((one) => one.body.includes(word));
  if (asked?.key !== key) throw new Error("the model was asked with another key");
  // Delivered once the runtime says that its work is done.
  await eventually(async () => (await sandbox.hooks.events.list({ state: "waiting" })).data.length === 0, TRIES);
  const delivered = await sandbox.hooks.events.list({ state: "delivered" });
  return delivered.data.length > 0;
}

export async function status(sandbox: Sandbox) {
  const found = (await sandbox.services.list()).find(({ name }) => name === "agent");
  if (!found) throw new Error("the agent is no service of its machine");
  return found;
}

/** Whether a root of the machine finds it in files or environments; the pattern does not have it whole. */
async function has(sandbox: Sandbox, key: string): Promise<boolean> {
  const pattern = `${key.slice(0, 20)}[${key[20]}]${key.slice(21)}`;
  const places = "/proc/[0-9]*/environ /workspace /etc /run /tmp /var";
  const { stdout } = await sandbox.exec(`sudo grep -rlsaE --exclude-dir=fd -m1 '${pattern}' ${places} | head -3`, {
    timeoutMs: 300_000,
  });
  return stdout.trim() !== "";
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}
