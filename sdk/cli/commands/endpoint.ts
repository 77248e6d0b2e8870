/** Verbs for the endpoints that events are sent to. */
import { DeliveryState, eventLimits } from "../../contract/event.ts";
import type { EventDelivery, EventEndpoint, NewEventEndpoint } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Args, OptionSpecs } from "../args.ts";
import { group, type Part } from "../group.ts";
import type { Output } from "../output.ts";
import { ago, table } from "../output.ts";

const settings: OptionSpecs = {
  event: { type: "string", value: "TYPE", multiple: true, help: "A type, or sandbox.*; may be given again (*)" },
  sandbox: { type: "string", value: "NAME", multiple: true, help: "Only of this name, or agent-*; may be given again" },
  label: { type: "string", value: "K=V", multiple: true, help: "Only of sandboxes with this label" },
  description: { type: "string", value: "TEXT", help: "What it is for" },
};

const create: Part = {
  name: "create",
  summary: "Make an endpoint; print its secret, this once",
  usage: "<url> [options]",
  words: [1, 1],
  options: settings,
  async run({ args, out, client }) {
    const made = await client.eventEndpoints.create({ url: args.positionals[0] ?? "", ...settingsIn(args) });
    showNew(out, made, `${made.id}\nsecret ${made.secret ?? ""}`);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List endpoints",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const data = await client.eventEndpoints.list();
    const rows = data.map((one) => [
      ...[one.id, one.url, one.events.join(","), stateOf(one), String(one.waiting), String(one.dead)],
    ]);
    const heading = ["ENDPOINT", "URL", "EVENTS", "STATE", "WAITING", "DEAD"];
    out.result(rows.length === 0 ? "No endpoints." : table(heading, rows), { data });
    return 0;
  },
};

const show: Part = {
  name: "show",
  summary: "Show an endpoint",
  usage: "<endpoint>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const one = await client.eventEndpoints.get(args.positionals[0] ?? "");
    const { names = [], labels = {} } = one.sandboxes ?? {};
    const filters = [...names, ...Object.entries(labels).map(([key, value]) => `${key}=${value}`)];
    const rows = [
      ["url", one.url],
      ["events", one.events.join(", ")],
      ["sandboxes", filters.length === 0 ? "all" : filters.join(", ")],
      ["state", stateOf(one)],
      ["failing since", one.failingSince ?? "-"],
      ["last success", one.lastSuccessAt ?? "-"],
      ["second secret until", one.previousSecretUntil ?? "-"],
      ["waiting, dead", `${one.waiting}, ${one.dead}`],
      ["description", one.description ?? "-"],
    ];
    out.result(table(["ENDPOINT", one.id], rows), one);
    return 0;
  },
};

const update: Part = {
  name: "update",
  summary: "Change where it is or what it gets; turn it on or off",
  usage: "<endpoint> [options]",
  words: [1, 1],
  options: {
    ...settings,
    url: { type: "string", value: "URL", help: "Where it is" },
    enabled: { type: "string", value: "on|off", help: "Whether it is sent to" },
  },
  async run({ args, out, client }) {
    const enabled = args.choice("enabled", ["on", "off"]);
    const changes = {
      ...settingsIn(args),
      url: args.text("url"),
      enabled: enabled === undefined ? undefined : enabled === "on",
    };
    if (Object.values(changes).every((change) => change === undefined))
      throw new UsageError("endpoint update needs something to change", "See the options with --help.");
    const after = await client.eventEndpoints.update(args.positionals[0] ?? "", changes);
    out.result(`${after.id}: ${stateOf(after)}, to ${after.url}`, after);
    return 0;
  },
};

const rotate: Part = {
  name: "rotate",
  summary: "Replace its secret; print the new one, this once",
  usage: "<endpoint> [--overlap SECONDS]",
  words: [1, 1],
  options: { overlap: { type: "string", value: "SECONDS", help: "How long both sign (86400)" } },
  async run({ args, out, client }) {
    const overlapSeconds = args.whole("overlap", 0, eventLimits.overlapSecondsMax);
    const made = await client.eventEndpoints.rotate(args.positionals[0] ?? "", { overlapSeconds });
    showNew(out, made, `secret ${made.secret ?? ""}`);
    return 0;
  },
};

const test: Part = {
  name: "test",
  summary: "Send it a test event; say what it answered",
  usage: "<endpoint>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const delivery = await client.eventEndpoints.test(args.positionals[0] ?? "");
    out.result(`${delivery.id}: ${lastOf(delivery)}`, delivery);
    return delivery.state === "delivered" ? 0 : 1;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete an endpoint with its deliveries",
  usage: "<endpoint>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const deleted = await client.eventEndpoints.delete(args.positionals[0] ?? "");
    out.result(`${deleted.id}: deleted`, deleted);
    return 0;
  },
};

const deliveries: Part = {
  name: "deliveries",
  summary: "List what was sent, or show one delivery with its tries",
  usage: "<endpoint> [<delivery>] [--state S]",
  words: [1, 2],
  options: {
    state: { type: "string", value: "S", help: DeliveryState.options.join(", ") },
    limit: { type: "string", value: "N", help: "At most so many, newest first (50)" },
  },
  async run({ args, out, client }) {
    const [endpoint = "", id] = args.positionals;
    const state = args.choice("state", DeliveryState.options);
    const limit = args.whole("limit", 1, eventLimits.listMax) ?? 50;
    if (id !== undefined) {
      const one = await client.eventEndpoints.delivery(endpoint, id);
      const rows = one.tries.map(({ at, ms, status, reason }) => [
        at,
        `${ms} ms`,
        String(status ?? "-"),
        reason ?? "ok",
      ]);
      const answer = one.lastAnswer === null ? "" : `\n\n${printable(one.lastAnswer)}`;
      out.result(`${one.id}  ${one.type}  ${one.state}\n${table(["AT", "TOOK", "STATUS", ""], rows)}${answer}`, one);
      return 0;
    }
    const { data } = await client.eventEndpoints.deliveries(endpoint, { state, limit });
    const now = Date.now();
    const rows = data.map((one) => [
      ...[
        one.id,
        one.type,
        one.subject,
        String(one.sequence),
        one.state,
        String(one.attempts),
        ago(one.createdAt, now),
      ],
      lastOf(one),
    ]);
    const heading = ["DELIVERY", "EVENT", "OF", "N", "STATE", "TRIES", "AGE", "LAST"];
    out.result(rows.length === 0 ? "No deliveries." : table(heading, rows), { data });
    return 0;
  },
};

const redeliver: Part = {
  name: "redeliver",
  summary: "Send one again, or all that was given up",
  usage: "<endpoint> <delivery> | <endpoint> --dead [--since TIME]",
  words: [1, 2],
  options: {
    dead: { type: "boolean", help: "All that was given up" },
    since: { type: "string", value: "TIME", help: "Since then, such as 2026-11-30T12:00:00Z" },
  },
  async run({ args, out, client }) {
    const [endpoint = "", id] = args.positionals;
    if ((id === undefined) !== args.flag("dead"))
      throw new UsageError("endpoint redeliver needs a delivery, or --dead", "See: rouse endpoint deliveries ENDPOINT");
    if (id !== undefined) {
      const one = await client.eventEndpoints.redeliver(endpoint, id);
      out.result(`${id}: ${one.state}`, one);
      return 0;
    }
    const since = args.text("since");
    if (since !== undefined && Number.isNaN(Date.parse(since)))
      throw new UsageError(`--since ${since} is no time`, "Such as --since 2026-11-30T12:00:00Z.");
    const at = since === undefined ? undefined : new Date(since);
    const redelivered = await client.eventEndpoints.redeliverDead(endpoint, { since: at });
    out.result(`${redelivered} deliveries wait again`, { redelivered });
    return 0;
  },
};

export const endpoint = group({
  name: "endpoint",
  summary: "Have events sent to a URL of yours; see, and send again, what was sent",
  details:
    "Events are signed (Standard Webhooks), those of each sandbox in order, and tried for three days.\n" +
    "See what happened without an endpoint: rouse events <name>.",
  parts: [create, ls, show, update, rotate, test, rm, deliveries, redeliver],
});

function settingsIn(args: Args) {
  const [events, names, pairs] = [args.all("event"), args.all("sandbox"), args.all("label")];
  const labels = Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at <= 0) throw new UsageError(`--label ${pair} is not key=value`, "Such as --label team=a.");
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
  const sandboxes = {
    ...(names.length === 0 ? {} : { names: [...names] }),
    ...(pairs.length === 0 ? {} : { labels }),
  };
  return {
    events: events.length === 0 ? undefined : [...events],
    sandboxes: Object.keys(sandboxes).length === 0 ? undefined : sandboxes,
    description: args.text("description"),
  };
}

function stateOf({ enabled, disabledReason, failingSince }: EventEndpoint): string {
  if (!enabled) return disabledReason === null ? "off" : `off: ${disabledReason}`;
  return failingSince === null ? "on" : "failing";
}

function lastOf({ state, tries, reason }: EventDelivery): string {
  const last = tries.at(-1);
  return reason ?? last?.reason ?? (last?.status ? String(last.status) : state);
}

/** Somebody else wrote it: it must not steer the terminal. */
function printable(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n\t]/gu, "\u{fffd}");
}

/** What is shown once. */
function showNew(out: Output, made: NewEventEndpoint, text: string): void {
  out.result(text, made);
  out.note("Keep the secret: it is not shown again.");
}
