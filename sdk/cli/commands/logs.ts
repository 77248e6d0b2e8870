import type { Process } from "../../src/index.ts";
import type { Command } from "../command.ts";
import { ago, exitCodes, table } from "../output.ts";

export const logs: Command = {
  name: "logs",
  summary: "Print a background process's output",
  usage: "<name> [process] [-f] [--list]",
  details:
    "Without a process, that of the one that started last. The last MiB of each is kept. With --json one event per line.",
  words: [1, 2],
  options: {
    follow: { type: "boolean", short: "f", help: "Go on until the process ends" },
    list: { type: "boolean", help: "List the processes instead" },
  },
  async run({ args, out, sandbox }) {
    const [name = "", id] = args.positionals;
    const target = await sandbox(name);
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
    const chosen = id === undefined ? latest(await target.processes.list()) : await target.processes.get(id);
    if (chosen === null) {
      out.note(`${name} has run no processes.`);
      return exitCodes.ok;
    }
    for await (const event of chosen.output({ follow: args.flag("follow") })) {
      if (out.json) out.result("", event);
      else if (event.type === "stdout" || event.type === "stderr") {
        await out.pass(event.type, event.base64 === undefined ? event.data : Buffer.from(event.base64, "base64"));
      } else if (event.type === "truncated") out.note(`rouse: ${event.droppedBytes} bytes are no longer kept`);
    }
    return 0;
  },
};

function latest(processes: readonly Process[]): Process | null {
  return processes.toSorted((a, b) => Date.parse(a.info.startedAt) - Date.parse(b.info.startedAt)).at(-1) ?? null;
}
