import type { Awake, TimelineEntry, Why } from "../../src/index.ts";
import type { Command } from "../command.ts";
import { ago, table } from "../output.ts";

/** Entries that people are shown; `--json` has all. */
const SHOWN = 10;

export const why: Command = {
  name: "why",
  summary: "Say what keeps a sandbox awake, who had it wake, and when it slept",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const answer = await (await sandbox(which)).why();
    const now = Date.now();
    out.result([...stateOf(which, answer, now), ...timelineOf(answer, now)].join("\n"), answer);
    return 0;
  },
};

function stateOf(which: string, answer: Why, now: number): string[] {
  const since = answer.since === null ? "" : `, for ${ago(answer.since, now)}`;
  const lines = [`${which} is ${answer.state}${since}`];
  for (const one of answer.awake) lines.push(`  awake: ${reasonOf(one, now)}`);
  if (answer.state === "running" && !answer.hostAnswered) lines.push("  its host did not say what is under way");
  if (answer.wakesAt) lines.push(`  wakes by itself at ${answer.wakesAt}, for a program in it`);
  const { cause = null } = answer.lastRun ?? {};
  if (cause) lines.push(`  last run: ${cause.request}${cause.keyId === null ? "" : `, with the key ${cause.keyId}`}`);
  return [...lines, `  runs in the last 24 hours: ${answer.runsToday}`];
}

function reasonOf(one: Awake, now: number): string {
  switch (one.because) {
    case "hold":
      return `held by ${one.name} until ${one.until}`;
    case "connections":
      return `${one.count} requests or connections are under way`;
    case "recent_use":
      return `used ${ago(one.lastActiveAt, now)} ago; pauses at ${one.pausesAt} unless it is used again`;
    case "cpu":
      return "its CPU is at work";
    case "no_idle_pause":
      return "it never pauses by itself (idlePauseSeconds is 0)";
  }
}

function timelineOf({ timeline }: Why, now: number): string[] {
  if (timeline.length === 0) return [];
  return [
    "",
    table(
      ["WHEN", "WHAT", "TOOK", "WHY"],
      timeline.slice(0, SHOWN).map((one) => rowOf(one, now)),
    ),
  ];
}

function rowOf({ at, event, tookMs, reason, cause }: TimelineEntry, now: number): string[] {
  return [ago(at, now), event, tookMs === null ? "" : `${tookMs} ms`, cause?.request ?? reason ?? ""];
}
