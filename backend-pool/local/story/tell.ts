/** Tells the story once on a running system, with timings: Monday, a sleep, Thursday. */
import { execFile } from "node:child_process";
import { request } from "node:http";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { z } from "zod";
import { Rouse, type Sandbox } from "rouse";

const Monday = z.object({ id: z.string(), url: z.string(), page: z.string(), bootId: z.string() });
const Thursday = z.object({ reused: z.boolean(), recall: z.string(), sum: z.string(), bootId: z.string() });

export const StoryResult = z.object({
  recall: z.string(),
  reused: z.boolean(),
  sameBootId: z.boolean(),
  pauseMs: z.number(),
  wakeMs: z.number(),
  wakeFirstByteMs: z.number(),
  coldBootMs: z.number(),
  accelerator: z.string(),
});
export type StoryResult = z.infer<typeof StoryResult>;

export interface Stage {
  readonly url: string;
  readonly apiKey: string;
  readonly accelerator: string;
  readonly say: (line: string) => void;
}

/** @throws Error when what comes back on Thursday is not what was left on Monday */
export async function tellStory(stage: Stage): Promise<StoryResult> {
  const { say } = stage;
  const rouse = new Rouse({ apiKey: stage.apiKey, baseUrl: stage.url });
  // Another run's machine of that name is another story.
  const user = `u-${42 + Math.floor(Math.random() * 100_000)}`;

  say(`Monday    an agent's machine is made: agent-${user}`);
  const began = performance.now();
  const monday = Monday.parse(await play("monday.ts", user, stage));
  say(`          it loaded a data frame, took a note and serves ${monday.url}   (${seconds(began)})`);
  const sandbox = await rouse.sandboxes.get(`agent-${user}`);

  say("          nobody calls; after 10 quiet seconds it goes to sleep with all its memory ...");
  await waitPaused(sandbox);
  const info = sandbox.info;
  const pauseMs = await timed(async () => {
    await sandbox.wake();
    return timed(() => sandbox.pause());
  });
  say(`Tuesday   asleep (${info.stopReason}): no CPU, no process needed. Pausing by hand takes ${ms(pauseMs)}`);

  const wakeFirstByteMs = await timed(() => firstByte(sandbox, stage));
  say(`Thursday  one plain HTTP request to its name wakes it: first byte after ${ms(wakeFirstByteMs)}`);
  await sandbox.pause();
  const wakeMs = await timed(() => sandbox.wake());
  await sandbox.pause();
  const thursday = Thursday.parse(await play("thursday.ts", user, stage));
  const page = (await (await sandbox.fetch("/")).text()).trim();
  say(`          notes = ${thursday.recall}, the frame still sums to ${thursday.sum}, the server says "${page}"`);

  say("          for comparison, the same machine started from its disk ...");
  const coldBootMs = await timed(() => sandbox.restart());
  say(`          a boot took ${ms(coldBootMs)}; its memory is gone, its files are not`);
  await sandbox.delete();

  const result = {
    recall: thursday.recall,
    reused: thursday.reused,
    sameBootId: thursday.bootId === monday.bootId,
    pauseMs,
    wakeMs,
    wakeFirstByteMs,
    coldBootMs,
    accelerator: stage.accelerator,
  };
  const held = {
    recall: result.recall === "['prefers weekly summaries']",
    reused: result.reused,
    sameBootId: result.sameBootId,
    page: page === monday.page,
  };
  const lost = Object.entries(held).filter(([, isSo]) => !isSo);
  if (lost.length > 0) {
    const names = lost.map(([name]) => name).join(", ");
    throw new Error(
      `what came back on Thursday is not what was left: ${names} of ${JSON.stringify({ ...result, page })}`,
    );
  }
  return result;
}

async function play(file: string, user: string, stage: Stage): Promise<unknown> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ["--conditions=rouse-source", path, user], {
    env: { ...process.env, ROUSE_API_KEY: stage.apiKey, ROUSE_API_URL: stage.url },
  });
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
}

async function waitPaused(sandbox: Sandbox): Promise<void> {
  // A host that has just made its image has other work, too.
  await sandbox.waitFor("paused", { timeoutSeconds: 180 });
}

/** The named URL itself, by host name, as a browser or a webhook reaches it. */
function firstByte(sandbox: Sandbox, stage: Stage): Promise<void> {
  const named = new URL(sandbox.url());
  const edge = new URL(stage.url);
  return new Promise((resolve, reject) => {
    const options = {
      host: "127.0.0.1",
      port: edge.port,
      path: "/",
      headers: { host: named.host, authorization: `Bearer ${stage.apiKey}` },
    };
    const req = request(options, (res) => {
      res.resume();
      if (res.statusCode === 200) resolve();
      else reject(new Error(`the named URL answered ${res.statusCode}`));
    });
    req.on("error", reject);
    req.end();
  });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  const inner = await work();
  return Math.round(typeof inner === "number" ? inner : performance.now() - began);
}

const ms = (value: number) => (value < 1000 ? `${value} ms` : `${(value / 1000).toFixed(1)} s`);
const seconds = (began: number) => ms(Math.round(performance.now() - began));
