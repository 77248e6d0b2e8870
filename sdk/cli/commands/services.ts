import { Services } from "../../contract/boot.ts";
import type { ServiceStatus } from "../../src/index.ts";
import { group, type Part } from "../group.ts";
import { jsonFrom } from "../json-file.ts";
import { ago, table } from "../output.ts";

const ls: Part = {
  name: "ls",
  summary: "List the services, in the order that they start",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const all = await (await sandbox(which)).services.list();
    out.result(all.length === 0 ? "No services." : serviceTable(all, Date.now()), { data: all });
    return 0;
  },
};

const set: Part = {
  name: "set",
  summary: "Set all services; one that changed is started anew",
  usage: "<sandbox> <FILE>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", file = ""] = args.positionals;
    const target = await sandbox(which);
    await target.update({ services: await jsonFrom(file, Services, "services", "See rouse help services.") });
    const { services = [] } = target.info;
    const names = services.map(({ name }) => name).join(", ");
    out.result(names === "" ? "No services." : `Services: ${names}`, { services });
    return 0;
  },
};

const restart: Part = {
  name: "restart",
  summary: "Stop a service and start it again",
  usage: "<sandbox> <service>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", name = ""] = args.positionals;
    const status = await (await sandbox(which)).services.restart(name);
    out.result(`${status.name}: ${status.state}`, status);
    return 0;
  },
};

const logs: Part = {
  name: "logs",
  summary: "Show the last that a service wrote, 64 KiB at most",
  usage: "<sandbox> <service>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", name = ""] = args.positionals;
    const found = await (await sandbox(which)).services.logs(name);
    out.result(
      found.chunks
        .map(({ text }) => text)
        .join("")
        .trimEnd(),
      found,
    );
    return 0;
  },
};

export function serviceTable(all: readonly ServiceStatus[], now: number): string {
  const rows = all.map(({ name, state, late, port, restarts, startedAt, lastExit }) => {
    const exit = lastExit === null ? "" : (lastExit.exitCode?.toString() ?? lastExit.signal ?? "unknown");
    const shown = late ? `${state}, late` : state;
    return [name, shown, port?.toString() ?? "", String(restarts), startedAt ? ago(startedAt, now) : "", exit];
  });
  return table(["SERVICE", "STATE", "PORT", "RESTARTS", "STARTED", "LAST EXIT"], rows);
}

export const services = group({
  name: "services",
  summary: "Programs that a sandbox starts with, and that are kept running",
  details:
    "FILE (- for stdin) holds all services as a JSON list, in the order that they start; [] for none. Such as:\n" +
    '  [{"name":"web","command":"node server.js","ready":{"port":8080,"path":"/health"}}]',
  parts: [ls, set, restart, logs],
  unnamed: "ls",
});
