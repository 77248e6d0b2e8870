/** The child of `Sealer`: seals what it is told to, behind everything else on the host. */
import { readdirSync } from "node:fs";
import { setPriority } from "node:os";
import { DamagedState } from "./damage.ts";
import { openManifest } from "./manifest.ts";
import { seal } from "./seal.ts";
import type { SealerAnswer, SealerCall, SealJob } from "./sealer.ts";

/**
 * Linux's niceness. Behind machines and the host agent, and yet a tenth of a CPU's share: with the lowest one, guests that
 * compute all the time would keep a host's pauses from ever becoming durable.
 */
const NICENESS = 10;
// Linux keeps a priority per thread, and a new thread has that of the one that starts it.
for (const thread of readdirSync("/proc/self/task")) setPriority(Number(thread), NICENESS);

let current = new AbortController();

// The host agent is gone, or has no more to do. What is half done counts for nothing.
process.on("disconnect", () => process.exit());

process.on("message", (call: SealerCall) => {
  if ("abort" in call) current.abort();
  else {
    current = new AbortController();
    void work(call.seal, current.signal);
  }
});

async function work(job: SealJob, signal: AbortSignal): Promise<void> {
  process.send?.(await answer(job, signal));
}

async function answer({ previous, ...job }: SealJob, signal: AbortSignal): Promise<SealerAnswer> {
  try {
    const opened = previous && (await openManifest(previous.bytes, previous));
    return { sealed: await seal({ ...job, previous: opened, signal }) };
  } catch (fault) {
    if (!(fault instanceof Error)) return { fault: { name: "Error", message: String(fault) } };
    const { name, message } = fault;
    return { fault: { name, message, ...(fault instanceof DamagedState && { blob: fault.blob, fault: fault.fault }) } };
  }
}
