/** What runs in an image's machine before its state is saved: services that are up, and what must not be in all copies. */
import { GOLDEN_ID } from "../../../sdk/contract/guest-limits.ts";
import type { Readying } from "../../images/agents/image.ts";
import { agentBoot, agentExec, serviceOutput, tellServices } from "../agent-client.ts";
import type { Endpoint } from "../driver.ts";

const COMMAND_LIMIT_MS = 600_000;
const LOOK_MS = 10_000;
/** What a first start still does in the background, milliseconds. */
const REST_MS = 5000;
const COUNT = "ps -u runtime -o pid= | wc -l";
const none = { onBoot: null, onWake: null, services: [] };

/** @throws Error with what the service said, when one does not get ready */
export async function makeReady(agent: Endpoint, { onBoot, services, stops, seal, limitMs }: Readying): Promise<void> {
  const signal = AbortSignal.timeout(limitMs);
  const tell = (kind: "boot" | "configure", boot: Parameters<typeof tellServices>[1]["boot"] & object) =>
    tellServices(agent, { id: GOLDEN_ID, generation: 1, kind, boot }, signal);
  const before = await count(agent, signal);
  await tell("boot", { onBoot, onWake: null, services: [...services] });
  await allReady(agent, signal);
  await rest();
  if (stops) {
    await tell("configure", none);
    // A service that is told to stop goes on for as long as it may.
    while ((await count(agent, signal)) > before) await rest();
  }
  for (const command of seal) await inside(agent, command, signal);
}

async function allReady(agent: Endpoint, signal: AbortSignal): Promise<void> {
  for (let after = 0; ;) {
    const report = await agentBoot(agent, { after, waitMs: LOOK_MS, probe: true }, signal);
    const { onBoot } = report;
    if (onBoot !== null && onBoot.endedAt !== null && onBoot.exitCode !== 0)
      throw new Error(`the command before the services ended with ${onBoot.exitCode}: ${onBoot.stderr.slice(-500)}`);
    if (report.services.every(({ state }) => state === "ready")) return;
    const failed = report.services.find(
      ({ state, restarts }) => state === "failed" || state === "ended" || restarts > 2,
    );
    if (failed) {
      const said = await serviceOutput(agent, failed.name, signal).catch(() => "");
      throw new Error(`the service "${failed.name}" does not get ready: ${said.trim().slice(-1500)}`);
    }
    after = report.version;
  }
}

async function count(agent: Endpoint, signal: AbortSignal): Promise<number> {
  return Number((await inside(agent, COUNT, signal)).trim());
}

async function inside(agent: Endpoint, command: string, signal: AbortSignal): Promise<string> {
  const order = { argv: ["/bin/bash", "-c", command], stdin: "", timeoutMs: COMMAND_LIMIT_MS };
  const { exitCode, stdout, stderr } = await agentExec(agent, order, signal);
  if (exitCode !== 0) throw new Error(`"${command}" ended with ${exitCode}: ${stderr.slice(-500)}`);
  return stdout;
}

function rest(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, REST_MS));
}
