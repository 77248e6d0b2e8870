import { guestLimits, watchEvents } from "../../contract/guest-limits.ts";
import type { WatchEvent } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Args } from "../args.ts";
import type { Command } from "../command.ts";
import { ago, exitCodes, table } from "../output.ts";
import { plain } from "../text-width.ts";

export const watch: Command = {
  name: "watch",
  summary: "Show what happens to files of a sandbox",
  usage: "<name> [path] [options]",
  details:
    "A file or folder, until Ctrl-C, over sleep and broken connections: beginning wakes the sandbox, reading neither wakes\n" +
    "it nor keeps it awake. A watch with an --id goes on after this program; the same line with --cursor reads on.\n" +
    "With --json an event a line; its cursor is where to go on, at most with some of its batch once more.\n" +
    "Exits with 124 when the watch's time is over, and 3 when what it watches was removed.",
  words: [1, 2],
  options: {
    recursive: { type: "boolean", short: "r", help: "With everything below it, also what is made later" },
    event: { type: "string", value: "TYPE", multiple: true, help: `Only these: ${watchEvents.join(", ")}` },
    include: { type: "string", value: "GLOB", multiple: true, help: "Only paths that match; without a / it is a name" },
    exclude: { type: "string", value: "GLOB", multiple: true, help: "No paths that match" },
    id: { type: "string", value: "ID", help: "Its id; one with the same settings that is there is read" },
    cursor: { type: "string", value: "N", help: "Where to go on, of one with an --id (0)" },
    timeout: { type: "string", value: "S", help: "Ends after so many seconds; 0: never (3600)" },
    list: { type: "boolean", short: "l", help: "List watches" },
    stop: { type: "string", value: "ID", help: "Stop a watch" },
  },
  async run({ args, out, sandbox }) {
    const [name = "", path] = args.positionals;
    const [id, stop, cursor] = [args.text("id"), args.text("stop"), args.whole("cursor")];
    if (args.flag("list") || stop !== undefined) {
      if (path !== undefined || args.given().filter((option) => option !== "json").length > 1)
        throw new UsageError("--list and --stop go with nothing else", "Such as: rouse watch demo --stop build");
      const all = await (await sandbox(name)).files.watches();
      if (stop === undefined) {
        const rows = all.map(({ info }) => [info.id, info.state, ago(at(info.startedAt), Date.now()), info.path]);
        out.result(table(["ID", "STATE", "AGE", "PATH"], rows), { data: all.map(({ info }) => info) });
        return exitCodes.ok;
      }
      const found = all.find((one) => one.id === stop);
      if (found === undefined) {
        out.note(`rouse: there is no watch ${stop}`);
        return exitCodes.notFound;
      }
      await found.stop();
      out.result(`stopped ${stop}`, { id: stop });
      return exitCodes.ok;
    }
    if (path === undefined) throw new UsageError("no path", "Such as: rouse watch demo src -r");
    if (cursor !== undefined && id === undefined)
      throw new UsageError("--cursor is of a watch with an --id", "Give its --id, and the same settings as before.");
    const settings = settingsOf(args);
    const over = new AbortController();
    const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
    for (const signal of signals) process.once(signal, () => over.abort());
    const target = await sandbox(name);
    const begun = await target.files.watch(path, { ...settings, id });
    begun.cursor = cursor ?? begun.cursor;
    const { info } = begun;
    out.announce(`watching ${info.path}; Ctrl-C ends ${id === undefined ? "it" : "this program"}`, { watch: info });
    try {
      for await (const event of begun.events({ signal: over.signal }))
        out.result(lineOf(event), { ...event, cursor: begun.cursor });
    } catch (error) {
      if (!over.signal.aborted) throw error;
    }
    if (begun.endReason === "timeout") return exitCodes.timedOut;
    if (begun.endReason === "root-removed") return exitCodes.notFound;
    if (begun.endReason === null && id !== undefined)
      out.announce(`read on with --id ${id} --cursor ${begun.cursor}`, { id, cursor: begun.cursor });
    // One that sleeps is not woken for it: there the watch ends when its time is over.
    else if (begun.endReason === null && (await target.refresh()).state === "running") await begun.stop();
    return exitCodes.ok;
  },
};

/** @throws UsageError */
function settingsOf(args: Args) {
  const events = args.all("event").map((given) => {
    const known = watchEvents.find((one) => one === given);
    if (known) return known;
    throw new UsageError(`--event is ${JSON.stringify(given)}`, `It is one of: ${watchEvents.join(", ")}.`);
  });
  const [include, exclude] = [args.all("include"), args.all("exclude")];
  const seconds = args.whole("timeout", 0, guestLimits.watchMsMax / 1000);
  return {
    recursive: args.flag("recursive"),
    events: events.length === 0 ? undefined : events,
    include: include.length === 0 ? undefined : include,
    exclude: exclude.length === 0 ? undefined : exclude,
    timeoutMs: seconds === undefined ? undefined : seconds * 1000,
  };
}

/** For people: what is missing is told as well. */
function lineOf(event: WatchEvent): string {
  switch (event.type) {
    case "overflow":
      return `missing   ${event.dropped === null ? "some" : event.dropped} events: there were too many`;
    case "lost":
      return `missing   ${event.bytes} bytes of events, which are kept no more`;
    case "limit":
      return `limited   no more than ${event.watches} folders are watched`;
    default: {
      const { type, path, oldPath, isDir, count } = event;
      const from = oldPath === undefined ? "" : `${plain(oldPath)} -> `;
      const times = count === undefined ? "" : ` (${count} times)`;
      return `${type.padEnd(8)}  ${from}${plain(path)}${isDir ? "/" : ""}${times}`;
    }
  }
}

function at(ms: number): string {
  return new Date(ms).toISOString();
}
