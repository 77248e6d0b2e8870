/**
 * The guest agent: one file inside every machine, run as the guest's user.
 *
 * Flags: --listen HOST:PORT (port 0: a free one; the port is told on stdout), --allow-from ADDRESS (refuse others),
 * --user NAME (become that user; default: stay who started it), --home FOLDER, --state FOLDER (a place for pipes and
 * sockets; default: a temporary one), --version-id TEXT, --python PROGRAM, --preload-interpreter,
 * --inside HOST:PORT (there, timers can be set by programs in the machine), --timers FILE (keeps them when the agent
 * ends), --identity FILE (changes when this machine became another one, a copy; default /etc/machine-id).
 * The way out: --proxy HOST:PORT, --resolver HOST:PORT (their ports are told on stdout too), --names FILE (keeps which
 * name an address stands for when the agent ends), --redirect PROGRAM and --redirect-port PORT (`rouse-redirect`, kept
 * running), --trust PROGRAM (makes the system trust the host's certificates).
 */
import { once } from "node:events";
import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { WORKSPACE } from "../../sdk/contract/guest-limits.ts";
import { networkEnvironment } from "./environment.ts";
import { Interpreter } from "./interpreter.ts";
import { Names } from "./names.ts";
import { Processes } from "./processes.ts";
import { Proxy } from "./proxy.ts";
import { keepRedirect } from "./redirect.ts";
import { HandedOn } from "./handed-on.ts";
import { Renewal } from "./renewal.ts";
import { Resolver } from "./resolver.ts";
import { agentServer, insideServer } from "./server.ts";
import { Services } from "./services.ts";
import { Timers } from "./timers.ts";
import { Trust } from "./trust.ts";
import { HostTunnel } from "./tunnel.ts";
import { Watches } from "./watches.ts";
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
    proxy: { type: "string" },
    resolver: { type: "string" },
    names: { type: "string" },
    redirect: { type: "string" },
    "redirect-port": { type: "string", default: "10802" },
    trust: { type: "string" },
    renewable: { type: "string" },
  },
});

const trust = flags.trust === undefined ? null : new Trust(flags.trust);
const tunnel = new HostTunnel(async (opened) => trust?.renew(opened));
// The port of a resolver is root's alone.
const ports: Record<string, number> = {};
let names: Names | undefined;
if (flags.resolver !== undefined) {
  names = namesOf(flags.names);
  const resolver = new Resolver((query) => tunnel.fetch("POST", "/dns", query), names);
  // A program may have that port; the machine is as good without names.
  await resolver.listen(addressOf(flags.resolver)).then(
    (port) => (ports["resolver"] = port),
    (fault: unknown) => console.error(fault),
  );
}

if (flags.user !== undefined) {
  const folders = [flags.state, ...[flags.timers, flags.names].map((file) => file && dirname(file))];
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

const beside = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const processes = new Processes(flags.home, folder, { python: flags.python, script: beside("terminal.py") });
const interpreter = new Interpreter({
  processes,
  folder: flags.state === undefined ? folder : join(flags.state, "interpreter"),
  outlives: flags.state !== undefined,
  python: flags.python,
  bridge: beside("interpreter.py"),
  identity: () => {
    try {
      return readFileSync(flags.identity, "utf8");
    } catch {
      return "";
    }
  },
});
const timers = new Timers(flags.timers);
const services = new Services(processes, flags.state ?? folder, trust === null ? undefined : () => tunnel.settled());
const watches = new Watches(flags.home, flags.python, beside("watch.py"));
const environment =
  flags.state === undefined ? null : new HandedOn<Record<string, string>>(join(flags.state, "environment.json"));
const renewal =
  flags.renewable === undefined || flags.state === undefined
    ? null
    : new Renewal(flags.renewable, flags.state, () => [
        ...processes.holds(),
        ...interpreter.holds(),
        ...watches.holds(),
      ]);
const server = agentServer({
  home: flags.home,
  folder,
  version: flags["version-id"],
  allowFrom: flags["allow-from"],
  processes,
  interpreter,
  timers,
  services,
  tunnel,
  watches,
  renewal,
  configured: (env) => {
    try {
      environment?.write(env);
    } catch (fault) {
      console.error(fault);
    }
  },
});
if (flags.proxy !== undefined) {
  const proxy = new Proxy(tunnel, names ?? namesOf(undefined));
  proxy.http.on("error", (fault) => console.error(fault));
  proxy.http.listen(addressOf(flags.proxy));
  await once(proxy.http, "listening").catch((fault: unknown) => console.error(fault));
  const port = (proxy.http.address() as AddressInfo | null)?.port;
  if (port !== undefined) {
    ports["proxy"] = port;
    processes.network = networkEnvironment(port, trust !== null);
  }
  if (flags.redirect !== undefined) {
    const socketPath = join(folder, "redirect");
    proxy.redirected.on("error", (fault) => console.error(fault));
    proxy.redirected.listen(socketPath);
    await once(proxy.redirected, "listening");
    keepRedirect(flags.redirect, Number(flags["redirect-port"]), socketPath);
  }
}
services.takeUp();
processes.env = environment?.read() ?? processes.env;
interpreter.takeUp();
server.once("error", (fault) => {
  console.error(fault);
  process.exit(1);
});
server.listen(addressOf(flags.listen), () => {
  renewal?.confirm();
  process.stdout.write(`${JSON.stringify({ listening: (server.address() as AddressInfo).port, ...ports })}\n`);
});
if (flags.inside !== undefined) {
  const inside = insideServer(timers);
  // A program may have that port; the machine is as good without timers.
  inside.once("error", (fault) => console.error(fault));
  inside.listen(addressOf(flags.inside));
}
if (flags["preload-interpreter"]) interpreter.preload().catch((fault: unknown) => console.error(fault));

function namesOf(file: string | undefined): Names {
  if (file === undefined) return new Names();
  const kept = (work: () => void): void => {
    try {
      work();
    } catch (fault) {
      console.error(fault);
    }
  };
  return new Names({
    read: () => {
      try {
        return readFileSync(file, "utf8");
      } catch {
        return "";
      }
    },
    append: (text) => kept(() => appendFileSync(file, text, { mode: 0o600 })),
    write: (text) => kept(() => writeFileSync(file, text, { mode: 0o600 })),
  });
}

function addressOf(text: string): { host: string; port: number } {
  const colon = text.lastIndexOf(":");
  return { host: text.slice(0, colon), port: Number(text.slice(colon + 1)) };
}
