/** Verbs for the webhook inbox of a sandbox. */
import { HookEventState, HookMode, HookProvider, hookLimits } from "../../contract/hook.ts";
import type { HookEvent, NewHook } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Args, OptionSpecs } from "../args.ts";
import { group, type Part } from "../group.ts";
import type { Output } from "../output.ts";
import { ago, sizeOf, table } from "../output.ts";

const settings: OptionSpecs = {
  port: { type: "string", value: "N", help: "Port of the program in the sandbox (8080)" },
  path: { type: "string", value: "P", help: "Path there (/)" },
  mode: { type: "string", value: "M", help: "async, or sync: the sender gets the program's answer (async)" },
  filter: { type: "string", value: "TYPE", multiple: true, help: "Only events of that type; may be given again" },
  "max-bytes": { type: "string", value: "N", help: "Largest body, at most 26214400 (1048576)" },
  timeout: { type: "string", value: "SECONDS", help: "Time for one try, 1 to 300 (60)" },
};
const secretOption: OptionSpecs = {
  secret: { type: "string", value: "S", help: "What the provider signs with; - reads it from ROUSE_HOOK_SECRET" },
};

const create: Part = {
  name: "create",
  summary: "Make a hook; print its URL",
  usage: "<sandbox> <name> --provider P [--port N] [options]",
  words: [2, 2],
  options: {
    provider: { type: "string", value: "P", help: HookProvider.options.join(", ") },
    ...secretOption,
    ...settings,
  },
  async run({ args, out, sandbox }) {
    const [which = "", name = ""] = args.positionals;
    const provider = args.choice("provider", HookProvider.options);
    const settings = settingsIn(args);
    if (provider === undefined)
      throw new UsageError("hook create needs --provider", "Such as --provider github --port 3000.");
    const secret = secretIn(args);
    const made = await (await sandbox(which)).hooks.create({ name, provider, secret, ...settings });
    showNew(out, made);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List the hooks of a sandbox",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const data = await (await sandbox(args.positionals[0] ?? "")).hooks.list();
    const now = Date.now();
    const rows = data.map((one) => [
      ...[one.id, one.name, one.provider, `${one.port}${one.path}`, one.mode],
      one.enabled ? "on" : (one.disabledReason ?? "off"),
      ...[String(one.waiting), String(one.dead), ago(one.lastEventAt, now)],
    ]);
    const heading = ["HOOK", "NAME", "PROVIDER", "TO", "MODE", "STATE", "WAITING", "DEAD", "LAST"];
    out.result(rows.length === 0 ? "No hooks." : table(heading, rows), { data });
    return 0;
  },
};

const update: Part = {
  name: "update",
  summary: "Change where it delivers or what it takes; turn it on or off",
  usage: "<sandbox> <hook> [options]",
  words: [2, 2],
  options: { ...settings, enabled: { type: "string", value: "on|off", help: "Whether it takes events" } },
  async run({ args, out, sandbox }) {
    const [which = "", hook = ""] = args.positionals;
    const enabled = args.choice("enabled", ["on", "off"]);
    const changes = { ...settingsIn(args), enabled: enabled === undefined ? undefined : enabled === "on" };
    if (Object.values(changes).every((change) => change === undefined))
      throw new UsageError("hook update needs something to change", "See the options with --help.");
    const after = await (await sandbox(which)).hooks.update(hook, changes);
    out.result(`${after.name}: ${after.enabled ? "on" : "off"}, to ${after.port}${after.path}`, after);
    return 0;
  },
};

const rotate: Part = {
  name: "rotate",
  summary: "Replace its secret, delivery secret or URL; print what is new",
  usage: "<sandbox> <hook> [--what W] [options]",
  words: [2, 2],
  options: {
    what: { type: "string", value: "W", help: "secret, deliverySecret or url (secret)" },
    ...secretOption,
    overlap: { type: "string", value: "SECONDS", help: "How long the one before still counts (86400)" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", hook = ""] = args.positionals;
    const what = args.choice("what", ["secret", "deliverySecret", "url"]);
    const overlapSeconds = args.whole("overlap", 0, hookLimits.overlapSecondsMax);
    const secret = secretIn(args);
    showNew(out, await (await sandbox(which)).hooks.rotate(hook, { what, secret, overlapSeconds }));
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete a hook with its events",
  usage: "<sandbox> <hook>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", hook = ""] = args.positionals;
    const deleted = await (await sandbox(which)).hooks.delete(hook);
    out.result(`${hook}: deleted`, deleted);
    return 0;
  },
};

const events: Part = {
  name: "events",
  summary: "List what came in, or show one event with its timeline",
  usage: "<sandbox> [<event>] [--hook H] [--state S] [--body]",
  words: [1, 2],
  options: {
    hook: { type: "string", value: "H", help: "Only of this hook" },
    state: { type: "string", value: "S", help: HookEventState.options.join(", ") },
    limit: { type: "string", value: "N", help: "At most so many, newest first (50)" },
    body: { type: "boolean", help: "Of one event: print its body alone" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", id] = args.positionals;
    const state = args.choice("state", HookEventState.options);
    const limit = args.whole("limit", 1, hookLimits.listMax) ?? 50;
    const called = args.text("hook");
    const body = args.flag("body");
    if (body && id === undefined)
      throw new UsageError("--body is for one event", "Name it: rouse hook events S EVENT.");
    const { hooks } = await sandbox(which);
    if (id !== undefined) {
      const event = await hooks.events.get(id, { body });
      if (body && !out.json) await out.pass("stdout", bodyOf(event));
      else out.result(timelineOf(event), event);
      return 0;
    }
    const hookId = called === undefined ? undefined : (await hooks.get(called)).id;
    const { data } = await hooks.events.list({ state, hookId, limit });
    const now = Date.now();
    const rows = data.map((one) => [
      ...[one.id, one.type ?? "-", one.state, String(one.attempts), sizeOf(one.bytes), ago(one.receivedAt, now)],
      lastReason(one),
    ]);
    const heading = ["EVENT", "TYPE", "STATE", "TRIES", "SIZE", "AGE", "LAST"];
    out.result(rows.length === 0 ? "No events." : table(heading, rows), { data });
    return 0;
  },
};

const replay: Part = {
  name: "replay",
  summary: "Deliver an event again, or all of a hook that were given up",
  usage: "<sandbox> <event> | <sandbox> --dead <hook>",
  words: [1, 2],
  options: { dead: { type: "string", value: "HOOK", help: "All of this hook that were given up" } },
  async run({ args, out, sandbox }) {
    const [which = "", id] = args.positionals;
    const dead = args.text("dead");
    if ((id === undefined) === (dead === undefined))
      throw new UsageError("hook replay needs an event, or --dead HOOK", "See: rouse hook events SANDBOX");
    const { hooks } = await sandbox(which);
    if (id !== undefined) {
      const event = await hooks.events.replay(id);
      out.result(`${id}: ${event.state}`, event);
      return 0;
    }
    const replayed = await hooks.replayDead(dead ?? "");
    out.result(`${replayed} events wait again`, { replayed });
    return 0;
  },
};

export const hook = group({
  name: "hook",
  summary: "Take webhooks for a sandbox that sleeps; see, and deliver again, what came in",
  details:
    "<hook> is an id or a name. Webhooks are verified, stored and acknowledged while the sandbox sleeps, then delivered\n" +
    "to a port of it, which wakes it. URL and secrets are printed once.",
  parts: [create, ls, update, rotate, rm, events, replay],
});

function settingsIn(args: Args) {
  const filters = args.all("filter");
  return {
    port: args.whole("port", 1, 65_535),
    path: args.text("path"),
    mode: args.choice("mode", HookMode.options),
    filters: filters.length === 0 ? undefined : filters,
    maxBytes: args.whole("max-bytes", 1, hookLimits.maxBytesMax),
    timeoutSeconds: args.whole("timeout", 1, hookLimits.timeoutSecondsMax),
  };
}

/** Words of a command line are seen by everybody on the machine, variables are not. */
function secretIn(args: Args): string | undefined {
  const secret = args.text("secret");
  if (secret !== "-") return secret;
  const fromEnvironment = process.env["ROUSE_HOOK_SECRET"];
  if (fromEnvironment) return fromEnvironment;
  throw new UsageError("ROUSE_HOOK_SECRET is not set", "Set it, or leave --secret out where one may be made.");
}

/** What is shown once: the URL on stdout, for scripts, and secrets next to it. */
function showNew(out: Output, made: NewHook): void {
  const { url, secret, deliverySecret } = made;
  const lines = [
    ...(url === null ? [] : [url]),
    ...(secret === null ? [] : [`secret ${secret}`]),
    ...(deliverySecret === null ? [] : [`deliverySecret ${deliverySecret}`]),
  ];
  out.result(lines.length === 0 ? `${made.name}: changed` : lines.join("\n"), made);
  if (lines.length > 0) out.note("Keep this: it is not shown again.");
}

function bodyOf({ body }: HookEvent): Uint8Array {
  return Buffer.from(body?.data ?? "", body?.encoding === "base64" ? "base64" : "utf8");
}

function lastReason({ timeline }: HookEvent): string {
  const attempt = timeline.findLast(({ what }) => what === "attempt");
  return attempt?.reason ?? (attempt?.status ? String(attempt.status) : "-");
}

function timelineOf(event: HookEvent): string {
  const rows = event.timeline.map(({ at, what, status, ms, woken, reason, nextAt }) => {
    const facts = [
      ...(status ? [String(status)] : []),
      ...(ms === undefined ? [] : [`${ms} ms`]),
      ...(woken ? ["woke it"] : []),
      ...(reason === undefined ? [] : [reason]),
      ...(nextAt === undefined ? [] : [`next ${nextAt}`]),
    ];
    return [at, what, facts.join(", ")];
  });
  return `${event.id}  ${event.type ?? "-"}  ${event.state}\n${table(["AT", "WHAT", ""], rows)}`;
}
