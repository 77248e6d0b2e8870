/** What users wait on where states leave their host: pauses, wakes from what is stored, copies. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Rouse, type Sandbox } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { count, startCounter } from "../../backend-pool/local/story/counter.ts";
import { controlSecret } from "../../sdk/contract/host-secrets.ts";
import { hostPaths, Machine, type SleepDepth } from "../../sdk/contract/host.ts";
import { timed } from "./floor.ts";

export interface StorageTimes {
  /** Pause acknowledged until it is durable. */
  readonly durable: number[];
  readonly compact: number[];
  readonly cold: number[];
  /** How long a snapshot's source stood still. */
  readonly frozen: number[];
  readonly snapshot: number[];
  /** `:fork` asked until the fork served. */
  readonly fork: number[];
}

/** Milliseconds, in a system of its own. */
export async function measureStorage(runs: number): Promise<StorageTimes> {
  const stateDir = await mkdtemp(join(tmpdir(), "rouse-bench-"));
  const env = { ROUSE_ARCHIVE_SECONDS: "0" };
  const system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, env });
  try {
    return await measure(system, runs);
  } finally {
    await system.stop();
    await rm(stateDir, { recursive: true, force: true });
  }
}

async function measure(system: System, runs: number): Promise<StorageTimes> {
  const rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url });
  const sandbox = await rouse.sandboxes.create({ name: `bench-${process.pid}`, idlePauseSeconds: 0 });
  await startCounter(sandbox);
  // The golden image goes first, once.
  await sandbox.pause();
  await sandbox.waitUntilDurable({ timeoutMs: 600_000 });
  await count(sandbox);
  const times: StorageTimes = { durable: [], compact: [], cold: [], frozen: [], snapshot: [], fork: [] };
  for (let n = 0; n < runs; n++) {
    for (const depth of ["compact", "cold"] as const) {
      await sandbox.pause();
      times.durable.push(await timed(() => durable(sandbox)));
      await settle(system, sandbox, depth);
      // Spares that were taken are made anew in the background.
      await new Promise((resolve) => setTimeout(resolve, 2000));
      times[depth].push(await timed(() => count(sandbox)));
    }
    times.snapshot.push(
      await timed(async () => {
        const snapshot = await sandbox.snapshot();
        times.frozen.push(snapshot.frozenMs ?? 0);
      }),
    );
    let fork: Sandbox | undefined;
    times.fork.push(
      await timed(async () => {
        fork = await sandbox.fork();
        await count(fork);
      }),
    );
    await fork?.delete();
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  return times;
}

async function durable(sandbox: Sandbox): Promise<void> {
  for (;;) {
    const { durability } = (await sandbox.refresh()).info;
    if (durability?.state === "durable") return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Make it sleep that deep; its files are where they were for a moment after it was stored. */
async function settle({ hostUrl, home }: System, { id }: Sandbox, depth: SleepDepth): Promise<void> {
  const authorization = `Bearer ${await controlSecret(home.secrets.hostSecret, "local")}`;
  for (let tries = 0; tries < 100; tries++) {
    const answer = await fetch(hostUrl + hostPaths.act(id, "settle"), {
      method: "POST",
      headers: { authorization },
      body: JSON.stringify({ depth }),
    });
    if (Machine.parse(await answer.json()).depth === depth) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`the sleeper does not become ${depth}`);
}
