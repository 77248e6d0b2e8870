/** What many compact sleepers take of their host: disk, and no process. */
import { join } from "node:path";
import type { Sandbox } from "rouse";
import { allocatedBytes, exists } from "../../backend-pool/paths.ts";
import { run } from "../../backend-pool/process.ts";
import type { Course, Part } from "./part.ts";

/** For a thousand. */
const BYTES_MAX = 1_000_000_000;
const AT_ONCE = 2;

export const sleepers: Part = { run: many };

async function many({ rouse, stateDir, count, say, expect }: Course): Promise<Record<string, unknown>> {
  const wanted = count ?? 1000;
  const made: Sandbox[] = [];
  const compact = async (sandbox: Sandbox) => {
    await sandbox.pause();
    await sandbox.waitUntilDurable({ timeoutMs: 900_000 });
    while (await exists(join(stateDir, "machines", sandbox.id, "ram"))) await new Promise((go) => setTimeout(go, 200));
  };
  let begun = 0;
  const worker = async () => {
    while (begun < wanted) {
      const sandbox = await rouse.sandboxes.create({ name: `sleeper-${++begun}`, idlePauseSeconds: 0 });
      made.push(sandbox);
      await compact(sandbox);
      if (made.length % 50 === 0) say(`${made.length} sleepers`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  const bytes = await allocatedBytes(join(stateDir, "machines"));
  const each = Math.round(bytes / made.length);
  const running = (await run("ps", ["-eo", "args"])).stdout.split("\n").filter((line) => line.includes(`${stateDir}/`));
  const processes = running.filter((line) => line.startsWith("qemu-system")).length;
  expect(each * 1000 <= BYTES_MAX, `a thousand would take ${each * 1000} bytes`);
  expect(processes === 0, `${processes} processes of sleepers are left`);
  const began = performance.now();
  await rouse.sandboxes.list();
  return { sleepers: made.length, bytes, bytesEach: each, processes, listMs: Math.round(performance.now() - began) };
}
