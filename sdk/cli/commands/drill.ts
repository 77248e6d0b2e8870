import { createInterface } from "node:readline/promises";
import { drillKills, type Drill, type DrillView } from "../../contract/drill.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { table } from "../output.ts";

export const drill: Command = {
  name: "drill",
  summary: "Kill a part of what a sandbox runs on, and see what comes back",
  usage: "<sandbox> --kill guest|vmm|host|edge [--yes] [--schedule CRON] | <sandbox> --list",
  details:
    "guest: the system in the machine, as by a fault of it. vmm: the process that runs the machine. host: the host agent.\n" +
    "edge: the edge. The last two need their operator's leave (ROUSE_DRILLS=all), which npm start gives.\n" +
    "Files are compared as synced before the kill. RAM is lost with guest and vmm, and that counts as no loss.\n" +
    "Exit code 1: something that was acknowledged was lost, or the drill failed.",
  words: [1, 1],
  options: {
    kill: { type: "string", value: "WHAT", help: drillKills.join(", ") },
    yes: { type: "boolean", help: "Do not ask first" },
    list: { type: "boolean", help: "List the drills so far" },
    schedule: { type: "string", value: "CRON", help: 'Run it at these times, such as "0 4 * * 0"' },
  },
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const kill = args.choice("kill", drillKills);
    if (args.flag("list")) {
      const data = await (await sandbox(which)).drills.list();
      const rows = data.map((one) => [one.id, one.kill, one.state, one.createdAt, took(one), String(one.lost.length)]);
      const heading = ["DRILL", "KILLED", "STATE", "BEGUN", "ANSWERED AFTER", "LOST"];
      out.result(rows.length === 0 ? "No drills." : table(heading, rows), { data });
      return 0;
    }
    if (kill === undefined) throw new UsageError("drill needs --kill", `One of ${drillKills.join(", ")}.`);
    const cron = args.text("schedule");
    if (cron !== undefined) {
      const action = { kind: "drill", kill } as const;
      const made = await (await sandbox(which)).schedules.create({ name: `drill-${kill}`, cron, action });
      out.note(`It runs next at ${made.next[0] ?? "-"}; see rouse schedule runs ${which} drill-${kill}.`);
      out.result(made.id, made);
      return 0;
    }
    if (!args.flag("yes") && !(await agreed(`This kills the ${kill} of ${which}. Go on? [y/N] `))) return 1;
    const target = await sandbox(which);
    let step = "";
    const over = await target.drills.run(
      { kill },
      {
        onProgress: (now) => {
          if (now.step !== step) out.note(stepText(now));
          step = now.step ?? "";
        },
      },
    );
    out.result(shown(over), over);
    return over.state === "passed" ? 0 : 1;
  },
};

/** @throws UsageError where nobody can be asked */
async function agreed(question: string): Promise<boolean> {
  if (!process.stdin.isTTY)
    throw new UsageError("nobody is there to be asked", "Pass --yes to kill without being asked.");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await lines.question(question)).trim());
  } finally {
    lines.close();
  }
}

function stepText({ step, kill }: Drill): string {
  switch (step) {
    case "before":
      return "Looking at the machine ...";
    case "kill":
      return `Killing: ${kill} ...`;
    default:
      return "Killed; waiting for it to answer again ...";
  }
}

function took({ answeredAfterMs }: Drill): string {
  return answeredAfterMs === null ? "-" : `${answeredAfterMs} ms`;
}

function shown(drill: Drill): string {
  const { before, after, kill, state, reason, message, lost } = drill;
  const why = [reason, message].filter((one) => one !== null).join(": ");
  const head = `${kill} killed: ${state}${why === "" ? "" : ` (${why})`}, answered after ${took(drill)}`;
  const rows = lines.map(([name, of]) => [name, before ? of(before) : "-", after ? of(after) : "-"]);
  const losses = lost.map(({ what, name, message: text }) => `lost: ${what} ${name}: ${text}`);
  return [head, ...(before ? [table(["", "BEFORE", "AFTER"], rows)] : []), ...losses].join("\n");
}

const list = (all: readonly string[]) => (all.length === 0 ? "none" : all.join(", "));
const lines: readonly (readonly [string, (view: DrillView) => string])[] = [
  ["files", ({ files }) => `${files.count}, ${files.bytes} bytes`],
  ["boot", ({ bootId }) => bootId.slice(0, 8)],
  ["run", ({ generation }) => String(generation)],
  ["RAM marker", ({ ram }) => (ram.marker ? "there" : "gone")],
  ["process", ({ ram }) => (ram.process ? "lives" : "gone")],
  [
    "checkpoints",
    ({ checkpoints }) => list(checkpoints.map(({ name, version, step }) => `${name} ${version} (step ${step ?? "-"})`)),
  ],
  ["mirror", ({ mirror }) => (mirror ? `${mirror.name} ${mirror.version} (step ${mirror.step ?? "-"})` : "none")],
  ["queues", ({ queues }) => list(queues.map(({ name, tasks }) => `${name}: ${tasks}`))],
  ["services", ({ services }) => list(services.map(({ name, state }) => `${name}: ${state}`))],
];
