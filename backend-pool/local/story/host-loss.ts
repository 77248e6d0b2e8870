/** Ten machines sleep on a host that is then gone for good, with its disk: all of them wake on the other one. */
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Rouse, type Sandbox } from "rouse";
import type { System } from "../launcher.ts";
import { bootId, count, median, startCounter } from "./counter.ts";
import type { Stage } from "./tell.ts";

const SLEEPERS = 10;
/** At once, so that machines under software emulation do not wait for each other. */
const TOGETHER = 2;
const WAKE_TRIES = 120;

export interface HostLossResult {
  readonly sleepers: number;
  readonly woken: number;
  readonly sameBootId: number;
  readonly wakeMsP50: number;
}

/** @throws Error when a machine does not come back as it was */
export async function tellHostLoss(
  stage: Stage & Pick<System, "hosts"> & { stateDir: string },
): Promise<HostLossResult> {
  const { say } = stage;
  const rouse = new Rouse({ apiKey: stage.apiKey, baseUrl: stage.url });
  const machinesDir = join(stage.stateDir, "host-2", "machines");

  say(`${SLEEPERS} machines are made on the second host, each with a counter in memory ...`);
  await rouse.drainHost("local");
  const sandboxes = await inTurns(Array.from({ length: SLEEPERS }), async (_, n) => {
    const sandbox = await rouse.sandboxes.create({ name: `counter-${n + 1}`, idlePauseSeconds: 0 });
    await startCounter(sandbox);
    return sandbox;
  });
  await rouse.drainHost("local", { draining: false });
  const before = await inTurns(sandboxes, async (one) => ({ n: await count(one), boot: await bootId(one) }));

  say("They go to sleep, and their states leave the host ...");
  await inTurns(sandboxes, (one) => one.pause());
  const began = performance.now();
  await Promise.all(sandboxes.map((one) => one.waitUntilDurable({ timeoutMs: 600_000 })));
  const bytes = sandboxes.reduce((sum, { info }) => sum + (info.durability?.ownedBytes ?? 0), 0);
  say(`All are durable: ${(bytes / 1e6).toFixed(1)} MB in all, ${((performance.now() - began) / 1000).toFixed(1)} s`);

  await stage.hosts[1]?.kill();
  await killMachines(join(stage.stateDir, "host-2", "run"));
  await rm(machinesDir, { recursive: true, force: true });
  say("The second host is killed, and its disk is emptied. One request to each name ...");
  await silent(rouse);

  const wakes: number[] = [];
  const after = await inTurns(sandboxes, async (one) => {
    const asked = performance.now();
    const n = await counted(one);
    wakes.push(performance.now() - asked);
    return { n, boot: await bootId(one) };
  });
  const woken = after.filter(({ n }, i) => n === (before[i]?.n ?? 0) + 1).length;
  const sameBootId = after.filter(({ boot }, i) => boot === before[i]?.boot).length;
  say(
    `${woken} of ${SLEEPERS} count on from where they were, ${sameBootId} of them without a boot; ${median(wakes)} ms to a first byte`,
  );
  await inTurns(sandboxes, (one) => one.delete());
  if (woken < SLEEPERS || sameBootId < SLEEPERS) throw new Error("not all machines came back as they were");
  return { sleepers: SLEEPERS, woken, sameBootId, wakeMsP50: median(wakes) };
}

/** A host that is gone takes its processes along. */
async function killMachines(runDir: string): Promise<void> {
  for (const name of await readdir(runDir)) {
    const pid = name.endsWith(".pid") ? Number(await readFile(join(runDir, name), "utf8")) : Number.NaN;
    try {
      if (pid > 0) process.kill(pid, "SIGKILL");
    } catch {
      // it had ended
    }
  }
}

/** Wait until the edge has noticed that the host says nothing. */
async function silent(rouse: Rouse): Promise<void> {
  for (let tries = 0; tries < WAKE_TRIES; tries++) {
    const host = (await rouse.hosts()).find(({ hostId }) => hostId === "local-2");
    if (!host?.live) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

async function counted(sandbox: Sandbox): Promise<number> {
  for (let tries = 0; ; tries++) {
    try {
      return await count(sandbox);
    } catch (fault) {
      if (tries > WAKE_TRIES) throw fault;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

async function inTurns<T, R>(items: readonly T[], work: (item: T, n: number) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += TOGETHER) {
    const turn = items.slice(at, at + TOGETHER);
    results.push(...(await Promise.all(turn.map((item, i) => work(item, at + i)))));
  }
  return results;
}
