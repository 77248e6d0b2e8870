/**
 * `npm run demo [-- story|host-loss|fork|webhook|socket]`: start everything on free ports, tell a story, stop. The last line is one
 * JSON object.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultHome } from "../config.ts";
import { launch, type LaunchOptions, type System } from "./launcher.ts";
import { tellFork } from "./story/fork.ts";
import { tellHostLoss } from "./story/host-loss.ts";
import { tellSocket } from "./story/socket.ts";
import { tellStory } from "./story/tell.ts";
import { tellWebhook } from "./story/webhook.ts";

interface Demo {
  readonly options?: Pick<LaunchOptions, "hosts" | "env">;
  readonly tell: (stage: System & { say: (line: string) => void; stateDir: string }) => Promise<object>;
}

const demos: Readonly<Record<string, Demo>> = {
  story: { tell: tellStory },
  "host-loss": {
    options: { hosts: 2, env: { ROUSE_ARCHIVE_SECONDS: "0", ROUSE_HOST_LEASE_SECONDS: "12" } },
    tell: tellHostLoss,
  },
  fork: { tell: tellFork },
  webhook: { tell: tellWebhook },
  socket: { tell: tellSocket },
};

const name = process.argv.slice(2).find((arg) => arg !== "--") ?? "story";
const demo = Object.hasOwn(demos, name) ? demos[name] : undefined;
if (!demo) {
  console.error(`There is no demo "${name}"; there are: ${Object.keys(demos).join(", ")}.`);
  process.exit(2);
}

const stateDir = await mkdtemp(join(tmpdir(), "rouse-demo-"));
const system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, ...demo.options });
let code = 0;
try {
  const result = await demo.tell({ ...system, stateDir, say: (line) => console.log(line) });
  console.log(JSON.stringify(result));
} catch (fault) {
  console.error(fault);
  code = 1;
} finally {
  await system.stop();
  await rm(stateDir, { recursive: true, force: true });
}
process.exit(code);
