/** `npm start [-- --hosts N] [--edge miniflare|workerd] [--agents openclaw,...]`: run the whole system on this machine, tell the story once, stay up. */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { defaultHome } from "../config.ts";
import { untilEnded } from "./ending.ts";
import { publishKey } from "./home.ts";
import { edgeKind, launch } from "./launcher.ts";
import { tellStory } from "./story/tell.ts";

const { values: flags } = parseArgs({
  options: { hosts: { type: "string", default: "1" }, edge: { type: "string" }, agents: { type: "string" } },
});
const hosts = Number(flags.hosts);
if (!Number.isInteger(hosts) || hosts < 1 || hosts > 16) {
  console.error(`--hosts ${flags.hosts}: expected 1 to 16`);
  process.exit(2);
}
const homeDir = defaultHome();
const edgePort = Number(process.env["ROUSE_PORT"] ?? 8787);
console.log("Rouse: named machines for agents. Starting ...");
const ended = untilEnded();
const system = await launch({
  homeDir,
  stateDir: join(homeDir, "state"),
  edgePort,
  hostPort: edgePort + 1,
  hosts,
  supervise: true,
  signal: ended,
  ...(flags.agents === undefined ? {} : { env: { ROUSE_AGENTS: flags.agents } }),
  edge: edgeKind(flags.edge ?? process.env["ROUSE_EDGE"]),
}).catch((fault: unknown) => {
  if (!ended.aborted) throw fault;
  console.log("\nEnded before it was up; the next start goes on from what is made.");
  process.exit(130);
});

const end = async () => {
  console.log("\nEnding: what runs is put to sleep; it wakes at its next request after the next start.");
  await system.stop();
  process.exit(0);
};
ended.addEventListener("abort", () => void end());

const keyFile = await publishKey(system.home, system.url);
console.log(
  `Up at ${system.url}${hosts > 1 ? ` with ${hosts} hosts` : ""} on ${system.accelerator === "kvm" ? "KVM" : "software emulation (fine for a try, not for production)"}.\n`,
);
try {
  await tellStory({ ...system, say: (line) => console.log(line) });
} catch (fault) {
  console.error("The story failed:", fault);
}
console.log(`
Now you. The SDK and the CLI find the key by themselves (${keyFile}):
  npx rouse sandbox create --name my-agent --get-or-create --idle-pause 60
  npx rouse exec my-agent -- python3 -c 'print(6 * 7)'
  npx rouse ls
The dashboard is at ${system.url}/dashboard: sign in with the key in that file.
Ctrl-C ends it; machines sleep until the next start.`);
