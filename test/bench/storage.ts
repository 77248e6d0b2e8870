/** What users wait on where states leave their host: pauses, wakes from what is stored, copies. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Rouse, type Sandbox } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { exists } from "../../backend-pool/paths.ts";
import { count, startCounter } from "../../backend-pool/local/story/counter.ts";
import { controlSecret } from "../../sdk/contract/host-secrets.ts";
import { hostPaths, Machine, type SleepDepth } from "../../sdk/contract/host.ts";
import { HOST_SILENT_MS } from "../../durable/hosts/placement.ts";
import { timed, type Floor } from "./floor.ts";

export interface StorageTimes {
  /** Pause acknowledged until it is durable. */
  readonly durable: number[];
  readonly compact: number[];
  readonly cold: number[];
  /** On another host, as its own drains. */
  readonly elsewhere: number[];
  /** How long a snapshot's source stood still. */
  readonly frozen: number[];
  readonly snapshot: number[];
  /** `:fork` asked until the fork served. */
  readonly fork: number[];
  /** The floor, in turns with all of it. */
  readonly bareWake: number[];
  readonly barePause: number[];
}

/** Milliseconds, in a system of its own. */
export async function measureStorage(floor: Floor, runs: number): Promise<StorageTimes> {
  const stateDir = await mkdtemp(join(tmpdir(), "rouse-bench-"));
  const env = { ROUSE_ARCHIVE_SECONDS: "0" };
  const system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, hosts: 2, env });
  try {
    return await measure(system, stateDir, floor, runs);
  } finally {
    await system.stop();
    await rm(stateDir, { recursive: true, force: true });
  }
}

async function measure(system: System, stateDir: string, floor: Floor, runs: number): Promise<StorageTimes> {
  const rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url });
  // All but the last row is about one host.
  await rouse.drainHost("local-2");
  const sandbox = await rouse.sandboxes.create({ name: `bench-${process.pid}`, idlePauseSeconds: 0 });
  await startCounter(sandbox);
  // The golden image goes first, once.
  await sandbox.pause();
  await sandbox.waitUntilDurable({ timeoutMs: 600_000 });
  await count(sandbox);
  const times: StorageTimes = {
    ...{ durable: [], compact: [], cold: [], elsewhere: [], frozen: [], snapshot: [], fork: [] },
    ...{ bareWake: [], barePause: [] },
  };
  const bare = async (): Promise<void> => {
    times.bareWake.push((await floor.start()) + (await floor.wake()));
    await new Promise((resolve) => setTimeout(resolve, 200));
    times.barePause.push(await floor.pause());
    await floor.end();
  };
  for (let n = 0; n < runs; n++) {
    for (const depth of ["compact", "cold"] as const) {
      await sandbox.pause();
      times.durable.push(await timed(() => durable(sandbox)));
      await settle(system, sandbox, depth);
      // Spares that were taken are made anew in the background.
      await new Promise((resolve) => setTimeout(resolve, 2000));
      await bare();
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
  const dirs = { local: join(stateDir, "machines"), "local-2": join(stateDir, "host-2/machines") };
  const hosts = ["local", "local-2"] as const;
  for (let n = 0; n < runs; n++) {
    const [from, to] = n % 2 === 0 ? hosts : ([hosts[1], hosts[0]] as const);
    await sandbox.pause();
    await sandbox.waitUntilDurable({ timeoutMs: 600_000 });
    await rouse.drainHost(to, { draining: false });
    await rouse.drainHost(from);
    // A host that has just put a sandbox to sleep is asked without a look at the board.
    await new Promise((resolve) => setTimeout(resolve, HOST_SILENT_MS + 2000));
    await bare();
    times.elsewhere.push(await timed(() => count(sandbox)));
    if (!(await exists(join(dirs[to], sandbox.id, "ram")))) throw new Error("it woke on the host that drains");
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
