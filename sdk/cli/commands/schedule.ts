/** Verbs for the schedules of a sandbox. */
import { ScheduleRunState, scheduleLimits } from "../../contract/schedule.ts";
import type { Schedule, ScheduleAction, ScheduleOutput, ScheduleRun } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Args, OptionSpecs } from "../args.ts";
import { group, type Part } from "../group.ts";
import type { Output } from "../output.ts";
import { ago, table } from "../output.ts";

const actions: OptionSpecs = {
  cwd: { type: "string", value: "PATH", help: "Of a command: its working folder (/workspace)" },
  env: { type: "string", value: "K[=V]", multiple: true, help: "Of a command: variable; K alone takes this shell's" },
  request: { type: "string", value: "M:/PATH", help: "A request in the place of a command, such as POST:/jobs" },
  port: { type: "string", value: "N", help: "Of a request: port of the program (8080)" },
  header: { type: "string", value: "K=V", multiple: true, help: "Of a request; may be given again" },
  data: { type: "string", value: "TEXT", help: "Of a request: its body" },
  wake: { type: "boolean", help: "Only wake the sandbox" },
  timeout: { type: "string", value: "SECONDS", help: "Time limit: of a command 3600, of a request 60 unless given" },
};
const times: OptionSpecs = {
  zone: { type: "string", value: "ZONE", help: "Whose clock it goes by, such as Europe/Berlin (UTC)" },
  at: { type: "string", value: "TIME", help: "Once, such as 2026-12-01T09:00+01:00" },
  name: { type: "string", value: "NAME", help: "What to call it" },
  "catch-up": { type: "string", value: "on|off", help: "Whether a time that was missed runs late, within a day (on)" },
};

const create: Part = {
  name: "create",
  summary: "Make a schedule",
  usage: '<sandbox> "<cron>"|--at TIME [options] [-- <command...>]',
  words: [1, 2],
  takesRest: true,
  options: { ...times, ...actions },
  async run({ args, out, sandbox }) {
    const [which = "", cron] = args.positionals;
    const timing = timingIn(args, cron);
    if (timing.cron === undefined && timing.at === undefined)
      throw new UsageError(
        "schedule create needs an expression, or --at",
        'Such as "0 9 * * mon-fri", or --at 2026-12-01T09:00+01:00.',
      );
    const action = actionIn(args);
    if (action === undefined)
      throw new UsageError(
        "schedule create needs something to do",
        "A command after --, or --request POST:/path, or --wake.",
      );
    const made = await (await sandbox(which)).schedules.create({ ...timing, action });
    out.note(`It runs next at ${made.next[0] ?? "-"}.`);
    out.result(made.id, made);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List the schedules of a sandbox",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const data = await (await sandbox(args.positionals[0] ?? "")).schedules.list();
    const now = Date.now();
    const rows = data.map((one) => [
      ...[one.id, one.name ?? "-", whenOf(one), whatOf(one.action), one.enabled ? "on" : "off", one.next[0] ?? "-"],
      one.lastRun ? `${outcomeOf(one.lastRun)}, ${ago(one.lastRun.scheduledAt, now)} ago` : "-",
    ]);
    const heading = ["SCHEDULE", "NAME", "WHEN", "DOES", "STATE", "NEXT", "LAST"];
    out.result(rows.length === 0 ? "No schedules." : table(heading, rows), { data });
    return 0;
  },
};

const show: Part = {
  name: "show",
  summary: "Show a schedule, or with --run a run with its output",
  usage: "<sandbox> <schedule> [--run RUN]",
  words: [2, 2],
  options: { run: { type: "string", value: "RUN", help: "This run" } },
  async run({ args, out, sandbox }) {
    const [which = "", schedule = ""] = args.positionals;
    const { schedules } = await sandbox(which);
    const id = args.text("run");
    if (id !== undefined) {
      await showRun(out, await schedules.getRun(schedule, id));
      return 0;
    }
    const found = await schedules.get(schedule);
    const lines = [
      `${found.name ?? found.id} is ${found.enabled ? "on" : "off"}: ${whenOf(found)}`,
      `  does: ${whatOf(found.action)}`,
      ...found.next.map((time, at) => `  ${at === 0 ? "next" : "then"}: ${time}`),
      ...(found.lastRun ? [`  last: ${outcomeOf(found.lastRun)} at ${found.lastRun.scheduledAt}`] : []),
    ];
    out.result(lines.join("\n"), found);
    return 0;
  },
};

const runs: Part = {
  name: "runs",
  summary: "List what became of its runs",
  usage: "<sandbox> <schedule> [--state S] [--limit N]",
  words: [2, 2],
  options: {
    state: { type: "string", value: "S", help: ScheduleRunState.options.join(", ") },
    limit: { type: "string", value: "N", help: "At most so many, newest first (50)" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", schedule = ""] = args.positionals;
    const state = args.choice("state", ScheduleRunState.options);
    const limit = args.whole("limit", 1, scheduleLimits.listMax) ?? 50;
    const { data } = await (await sandbox(which)).schedules.runs(schedule, { state, limit });
    const rows = data.map((one) => [
      ...[one.id, one.scheduledAt, one.manual ? "by hand" : one.caughtUp ? "late" : "on time", outcomeOf(one)],
      ...[String(one.attempts), one.wakeMs === null ? "-" : `${one.wakeMs} ms`, lengthOf(one)],
    ]);
    const heading = ["RUN", "FOR", "HOW", "STATE", "TRIES", "WAKE", "TOOK"];
    out.result(rows.length === 0 ? "No runs." : table(heading, rows), { data });
    return 0;
  },
};

const run: Part = {
  name: "run",
  summary: "Run it now, and wait for its end",
  usage: "<sandbox> <schedule> [--no-wait]",
  words: [2, 2],
  options: { "no-wait": { type: "boolean", help: "Print the run's id at once" } },
  async run({ args, out, sandbox }) {
    const [which = "", schedule = ""] = args.positionals;
    const { schedules } = await sandbox(which);
    const begun = await schedules.run(schedule);
    if (args.flag("no-wait")) {
      out.result(begun.id, begun);
      return 0;
    }
    let now = begun;
    for (let wait = 100; now.state === "running"; wait = Math.min(2 * wait, 5000)) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      now = await schedules.getRun(schedule, begun.id);
    }
    await showRun(out, now);
    return now.state === "succeeded" ? 0 : 1;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete a schedule with its runs",
  usage: "<sandbox> <schedule>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", schedule = ""] = args.positionals;
    out.result(`${schedule}: deleted`, await (await sandbox(which)).schedules.delete(schedule));
    return 0;
  },
};

const update: Part = {
  name: "update",
  summary: "Change when it runs or what it does",
  usage: '<sandbox> <schedule> ["<cron>"|--at TIME] [options] [-- <command...>]',
  words: [2, 3],
  takesRest: true,
  options: { ...times, ...actions },
  async run({ args, out, sandbox }) {
    const [which = "", schedule = "", cron] = args.positionals;
    const changes = { ...timingIn(args, cron), action: actionIn(args) };
    if (Object.values(changes).every((change) => change === undefined))
      throw new UsageError("schedule update needs something to change", "See the options with --help.");
    const after = await (await sandbox(which)).schedules.update(schedule, changes);
    out.result(`${after.name ?? after.id}: ${whenOf(after)}, next at ${after.next[0] ?? "-"}`, after);
    return 0;
  },
};

/** On, or off. */
function turn(name: string, summary: string, enabled: boolean): Part {
  return {
    name,
    summary,
    usage: "<sandbox> <schedule>",
    words: [2, 2],
    options: {},
    async run({ args, out, sandbox }) {
      const [which = "", called = ""] = args.positionals;
      const after = await (await sandbox(which)).schedules.update(called, { enabled });
      out.result(`${called}: ${enabled ? `on, next at ${after.next[0] ?? "-"}` : "off"}`, after);
      return 0;
    },
  };
}

export const schedule = group({
  name: "schedule",
  summary: "Run something in a sandbox at its times, for which it is woken",
  details:
    "<schedule> is an id or a name. An expression has five fields (minute, hour, day of month, month, day of week), or is\n" +
    "@hourly, @daily, @weekly, @monthly or @yearly. One word after -- is a shell line; several are a program and its\n" +
    'arguments. Such as: rouse schedule create bot "0 9 * * mon-fri" --zone Europe/Berlin -- python3 report.py',
  parts: [
    ...[create, ls, show, runs, run, update],
    turn("pause", "Turn a schedule off", false),
    turn("resume", "Turn a schedule on; what it missed within a day runs once", true),
    rm,
  ],
});

function timingIn(args: Args, cron: string | undefined) {
  const at = args.text("at");
  const catchUp = args.choice("catch-up", ["on", "off"]);
  if (cron !== undefined && at !== undefined) throw new UsageError("both an expression and --at", "Pass one of them.");
  return {
    ...{ name: args.text("name"), cron, zone: args.text("zone"), at: at === undefined ? undefined : timeIn(at) },
    catchUp: catchUp === undefined ? undefined : catchUp === "on",
  };
}

/** Seconds may be left out. */
function timeIn(text: string): string {
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/.test(text))
    return text.replace(/^(.{16})(?=Z|[+-])/, "$1:00");
  throw new UsageError(
    `--at is ${JSON.stringify(text)}, not a time with an offset`,
    "Such as 2026-12-01T09:00+01:00 or 2026-12-01T08:00:00Z.",
  );
}

function actionIn(args: Args): ScheduleAction | undefined {
  const request = args.text("request");
  const words = args.rest ?? [];
  const kinds = [words.length > 0, request !== undefined, args.flag("wake")].filter(Boolean).length;
  if (kinds > 1) throw new UsageError("more than one thing to do", "Pass a command after --, --request or --wake.");
  const options = { command: ["cwd", "env"], request: ["port", "header", "data"] };
  const foreign = [
    ...(words.length > 0 ? [] : options.command),
    ...(request !== undefined ? [] : options.request),
    ...(words.length > 0 || request !== undefined ? [] : ["timeout"]),
  ].filter((name) => args.given().includes(name));
  if (foreign.length > 0)
    throw new UsageError(
      `${foreign.map((name) => `--${name}`).join(", ")} without what it is for`,
      "Pass a command after --, or --request.",
    );
  if (args.flag("wake")) return { kind: "wake" };
  const timeoutSeconds = args.whole("timeout", 1, scheduleLimits.commandSecondsMax);
  if (words.length > 0) {
    const program = words.length === 1 ? { command: words[0] } : { argv: [...words] };
    return { kind: "command", ...program, cwd: args.text("cwd"), env: args.pairs("env", process.env), timeoutSeconds };
  }
  if (request === undefined) return undefined;
  const match = /^(?:(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS):)?(\/.*)$/.exec(request);
  if (!match) throw new UsageError(`--request is ${JSON.stringify(request)}`, "Such as POST:/jobs.");
  return {
    ...{ kind: "request", method: (match[1] ?? "POST") as "POST", path: match[2], port: args.whole("port", 1, 65_535) },
    ...{ headers: args.pairs("header"), body: args.text("data"), timeoutSeconds },
  };
}

function whenOf({ cron, zone, at }: Schedule): string {
  return cron === null ? `at ${at ?? "-"}` : `${cron} (${zone})`;
}

function whatOf(action: ScheduleAction): string {
  switch (action.kind) {
    case "command":
      return action.command ?? (action.argv ?? []).join(" ");
    case "request":
      return `${action.method ?? "POST"} ${action.path ?? "/"}${action.port === undefined ? "" : ` on ${action.port}`}`;
    case "drill":
      return `drill: ${action.kill}`;
    case "wake":
      return "wake";
  }
}

function outcomeOf({ state, reason, exitCode, status }: ScheduleRun): string {
  if (reason === "exit_code") return `${state}: exit ${exitCode ?? "-"}`;
  if (reason === "http_status") return `${state}: status ${status ?? "-"}`;
  return reason === null ? state : `${state}: ${reason}`;
}

function lengthOf({ startedAt, endedAt }: ScheduleRun): string {
  return startedAt === null || endedAt === null ? "-" : `${Date.parse(endedAt) - Date.parse(startedAt)} ms`;
}

/** What it wrote goes where it wrote it; all else is a note. */
async function showRun(out: Output, run: ScheduleRun): Promise<void> {
  if (out.json) return out.result("", run);
  out.note(`${run.id}: ${outcomeOf(run)}, ${run.attempts} tries, took ${lengthOf(run)}`);
  const { output } = run;
  if (!output) return;
  if (output.truncated) out.note(`${output.bytes} bytes in all; only a part is kept`);
  await out.pass("stdout", bytesOf(output.stdout ?? output.body));
  await out.pass("stderr", bytesOf(output.stderr));
}

function bytesOf(text: ScheduleOutput["stdout"]): Buffer {
  return text === null ? Buffer.alloc(0) : Buffer.from(text.data, text.encoding === "base64" ? "base64" : "utf8");
}
