/**
 * `npm run demo [-- story|host-loss|fork|webhook|socket|secrets|agent]`: start everything on free ports, tell a story, stop. The last line is one
 * JSON object.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultHome } from "../config.ts";
import { prepareAgent } from "./story/agent-runtime.ts";
import { untilEnded } from "./ending.ts";
import { launch, type System } from "./launcher.ts";
import { tellFork } from "./story/fork.ts";
import { tellHostLoss } from "./story/host-loss.ts";
import type { Demo, Prepared } from "./story/prepared.ts";
import { prepareSecrets } from "./story/secrets.ts";
import { tellSocket } from "./story/socket.ts";
import { tellStory } from "./story/tell.ts";
import { tellWebhook } from "./story/webhook.ts";

const demos: Readonly<Record<string, Demo | ((stateDir: string) => Promise<Prepared>)>> = {
  story: { tell: tellStory },
  "host-loss": {
    options: { hosts: 2, env: { ROUSE_ARCHIVE_SECONDS: "0", ROUSE_HOST_LEASE_SECONDS: "12" } },
    tell: tellHostLoss,
  },
  fork: { tell: tellFork },
  webhook: { tell: tellWebhook },
  socket: { tell: tellSocket },
  secrets: prepareSecrets,
  agent: prepareAgent,
};

const name = process.argv.slice(2).find((arg) => arg !== "--") ?? "story";
const chosen = Object.hasOwn(demos, name) ? demos[name] : undefined;
if (!chosen) {
  console.error(`There is no demo "${name}"; there are: ${Object.keys(demos).join(", ")}.`);
  process.exit(2);
}

const ended = untilEnded();
const stateDir = await mkdtemp(join(tmpdir(), "rouse-demo-"));
const prepared = typeof chosen === "function" ? await chosen(stateDir) : null;
const demo = prepared ?? (chosen as Demo);
let code = 0;
let system: System | undefined;
try {
  const options = { homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, signal: ended, ...demo.options };
  system = await launch(options);
  const result = await Promise.race([
    demo.tell({ ...system, stateDir, say: (line) => console.log(line) }),
    aborted(ended),
  ]);
  console.log(JSON.stringify(result));
} catch (fault) {
  if (ended.aborted) console.log("\nEnding: its machines are put away.");
  else console.error(fault);
  code = ended.aborted ? 130 : 1;
} finally {
  await system?.stop();
  await prepared?.close();
  await rm(stateDir, { recursive: true, force: true });
}
process.exit(code);

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
}
