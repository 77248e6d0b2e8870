import { setTimeout as sleep } from "node:timers/promises";
import type { Process, Sandbox, ServiceLogs } from "../../src/index.ts";
import { RouseError } from "../../src/index.ts";
import type { Command, Context } from "../command.ts";
import { ago, exitCodes, table } from "../output.ts";
import { added } from "../tail.ts";

/** Between two looks at what a service wrote, milliseconds. */
const LOOK_MS = 1000;

export const logs: Command = {
  name: "logs",
  summary: "Print the output of a background process or of a service",
  usage: "<name> [process|service] [-f] [--list]",
  details:
    "Without a process, that of the one that started last. The last MiB of each is kept, of a service the last 64 KiB. With\n" +
    "-f it goes on until the process ends; of a service until Ctrl-C. With --json one event per line.",
  words: [1, 2],
  options: {
    follow: { type: "boolean", short: "f", help: "Go on with what is written from now on" },
    list: { type: "boolean", help: "List the processes instead" },
  },
  async run(context) {
    const { args, out } = context;
    const [name = "", id] = args.positionals;
    const target = await context.sandbox(name);
    if (args.flag("list")) {
      const all = await target.processes.list();
      const now = Date.now();
      const rows = all.map(({ info }) => [
        info.id,
        info.state,
        String(info.exitCode ?? "-"),
        ago(info.startedAt, now),
        info.command,
      ]);
      out.result(table(["PROCESS", "STATE", "EXIT", "AGE", "COMMAND"], rows), { data: all.map(({ info }) => info) });
      return 0;
    }
    if (id === undefined) {
      const newest = latest(await target.processes.list());
      if (newest !== null) return ofProcess(context, newest);
      out.note(`${name} has run no processes. Services are named by \`rouse services ls ${name}\`.`);
      return exitCodes.ok;
    }
    const found = await target.processes.get(id).catch((error: unknown) => {
      if (error instanceof RouseError && error.code === "process_not_found") return error;
      throw error;
    });
    if (!(found instanceof RouseError)) return ofProcess(context, found);
    const isService = target.info.services?.some((service) => service.name === id) === true;
    if (!isService) throw found;
    return ofService(context, target, id);
  },
};

async function ofProcess({ args, out }: Context, chosen: Process): Promise<number> {
  for await (const event of chosen.output({ follow: args.flag("follow") })) {
    if (out.json) out.result("", event);
    else if (event.type === "stdout" || event.type === "stderr") {
      await out.pass(event.type, event.base64 === undefined ? event.data : Buffer.from(event.base64, "base64"));
    } else if (event.type === "truncated") out.note(`rouse: ${event.droppedBytes} bytes are no longer kept`);
  }
  return 0;
}

async function ofService({ args, out }: Context, target: Sandbox, name: string): Promise<number> {
  let before: ServiceLogs["chunks"] = [];
  for (;;) {
    const { chunks } = await target.services.logs(name);
    for (const { stream, text } of added(before, chunks)) {
      if (out.json) out.result("", { type: stream, data: text });
      else await out.pass(stream, text);
    }
    if (!args.flag("follow")) return 0;
    before = chunks;
    await sleep(LOOK_MS);
  }
}

function latest(processes: readonly Process[]): Process | null {
  return processes.toSorted((a, b) => Date.parse(a.info.startedAt) - Date.parse(b.info.startedAt)).at(-1) ?? null;
}
