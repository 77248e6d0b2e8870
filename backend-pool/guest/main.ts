/**
 * The guest agent: one file inside every machine, run as the guest's user.
 *
 * Flags: --listen HOST:PORT (port 0: a free one; the port is told on stdout), --allow-from ADDRESS (refuse others),
 * --user NAME (become that user; default: stay who started it), --home FOLDER, --state FOLDER (a place for pipes and
 * sockets; default: a temporary one), --version-id TEXT, --python PROGRAM, --preload-interpreter,
 * --inside HOST:PORT (there, timers can be set by programs in the machine), --timers FILE (keeps them when the agent
 * ends), --identity FILE (changes when this machine became another one, a copy; default /etc/machine-id).
 */
import { readFileSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { WORKSPACE } from "../../sdk/contract/guest-limits.ts";
import { Interpreter } from "./interpreter.ts";
import { Processes } from "./processes.ts";
import { agentServer, insideServer } from "./server.ts";
import { Services } from "./services.ts";
import { Timers } from "./timers.ts";
import { becomeUser, stateFolder } from "./user.ts";

const { values: flags } = parseArgs({
  options: {
    listen: { type: "string", default: "127.0.0.1:0" },
    "allow-from": { type: "string" },
    user: { type: "string" },
    home: { type: "string", default: WORKSPACE },
    state: { type: "string" },
    "version-id": { type: "string", default: "unknown" },
    python: { type: "string", default: "/usr/bin/python3" },
    "preload-interpreter": { type: "boolean", default: false },
    inside: { type: "string" },
    timers: { type: "string" },
    identity: { type: "string", default: "/etc/machine-id" },
  },
});

if (flags.user !== undefined) {
  const folders = [flags.state, flags.timers === undefined ? undefined : dirname(flags.timers)];
  becomeUser(
    flags.user,
    folders.filter((folder) => folder !== undefined),
  );
}
const folder = stateFolder(flags.state);
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => process.exit(0));
// A fault nobody waited for must not end the agent and with it everything it watches over.
process.on("uncaughtException", (fault) => console.error(fault));

const processes = new Processes(flags.home, folder);
const interpreter = new Interpreter({
  processes,
  folder,
  python: flags.python,
  bridge: fileURLToPath(new URL("interpreter.py", import.meta.url)),
  identity: () => {
    try {
      return readFileSync(flags.identity, "utf8");
    } catch {
      return "";
    }
  },
});
const timers = new Timers(flags.timers);
const services = new Services(processes, flags.state ?? folder);
const server = agentServer({
  home: flags.home,
  folder,
  version: flags["version-id"],
  allowFrom: flags["allow-from"],
  processes,
  interpreter,
  timers,
  services,
});
services.takeUp();
server.once("error", (fault) => {
  console.error(fault);
  process.exit(1);
});
server.listen(addressOf(flags.listen), () => {
  process.stdout.write(`${JSON.stringify({ listening: (server.address() as AddressInfo).port })}\n`);
});
if (flags.inside !== undefined) {
  const inside = insideServer(timers);
  // A program may have that port; the machine is as good without timers.
  inside.once("error", (fault) => console.error(fault));
  inside.listen(addressOf(flags.inside));
}
if (flags["preload-interpreter"]) interpreter.preload().catch((fault: unknown) => console.error(fault));

function addressOf(text: string): { host: string; port: number } {
  const colon = text.lastIndexOf(":");
  return { host: text.slice(0, colon), port: Number(text.slice(colon + 1)) };
}
