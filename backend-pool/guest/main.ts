/**
 * The guest agent: one file inside every machine, run as the guest's user.
 *
 * Flags: --listen HOST:PORT (port 0: a free one; the port is told on stdout), --allow-from ADDRESS (refuse others),
 * --user NAME (become that user; default: stay who started it), --home FOLDER, --state FOLDER (a place for pipes and
 * sockets; default: a temporary one), --version-id TEXT, --python PROGRAM, --preload-interpreter,
 * --identity FILE (changes when this machine became another one, a copy; default /etc/machine-id).
 */
import { readFileSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { WORKSPACE } from "../../sdk/contract/guest-limits.ts";
import { Interpreter } from "./interpreter.ts";
import { Processes } from "./processes.ts";
import { agentServer } from "./server.ts";
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
    identity: { type: "string", default: "/etc/machine-id" },
  },
});

if (flags.user !== undefined) becomeUser(flags.user, flags.state);
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
const server = agentServer({
  home: flags.home,
  folder,
  version: flags["version-id"],
  allowFrom: flags["allow-from"],
  processes,
  interpreter,
});
const colon = flags.listen.lastIndexOf(":");
server.once("error", (fault) => {
  console.error(fault);
  process.exit(1);
});
server.listen(Number(flags.listen.slice(colon + 1)), flags.listen.slice(0, colon), () => {
  process.stdout.write(`${JSON.stringify({ listening: (server.address() as AddressInfo).port })}\n`);
});
if (flags["preload-interpreter"]) interpreter.preload().catch((fault: unknown) => console.error(fault));
