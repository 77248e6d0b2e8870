import { plans, Quotas } from "../../contract/account.ts";
import type { Account, UpdateAccount } from "../../src/index.ts";
import { UsageError, type Args, type OptionSpecs } from "../args.ts";
import { group, type Part } from "../group.ts";
import { microsOf, usd } from "../money.ts";
import { ago, table } from "../output.ts";

/** Most that one credit may be, microdollars. */
const CREDIT_MAX = 1_000_000_000_000n;
const QUOTAS = Object.keys(Quotas.shape) as (keyof Quotas)[];

const settings: OptionSpecs = {
  "display-name": { type: "string", value: "TEXT", help: "Name for people" },
  plan: { type: "string", value: "PLAN", help: plans.join(", ") },
  quota: { type: "string", value: "Q=N", multiple: true, help: `Most of ${QUOTAS.join(", ")}; none for no limit` },
  "daily-limit": { type: "string", value: "USD", help: "What it may cost in a day (UTC); none for no limit" },
  flat: { type: "string", value: "USD", help: "Price of a sandbox for 30 days on the plan flat" },
};
/** For changes that must not happen twice, whatever becomes of this program. */
const once: OptionSpecs = {
  "idempotency-key": { type: "string", value: "KEY", help: "The same key again does nothing more, for 24 hours" },
};

const show: Part = {
  name: "show",
  summary: "Show the account of the key: plan, quotas, credit",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const account = await client.account();
    out.result(textOf(account), account);
    return 0;
  },
};

const open: Part = {
  name: "open",
  summary: "Open an account and print its first key, this once (operator)",
  usage: "<name> [options]",
  words: [1, 1],
  options: {
    ...settings,
    credit: { type: "string", value: "USD", help: "Prepaid credit to begin with (0)" },
    ...once,
  },
  async run({ args, out, client }) {
    const [name = ""] = args.positionals;
    const creditMicros = microsOf("--credit", args.text("credit"));
    const made = await client.accounts.open({ name, ...settingsOf(args), creditMicros }, onceOf(args));
    out.result(made.key, made);
    out.note(`Account ${made.name} is open. This is the only time that its key is shown.`);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List accounts (operator)",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const accounts = await client.accounts.list();
    const rows = accounts.map(({ name, createdAt }) => [name, ago(createdAt, Date.now())]);
    out.result(rows.length === 0 ? "No accounts." : table(["ACCOUNT", "AGE"], rows), { data: accounts });
    return 0;
  },
};

const get: Part = {
  name: "get",
  summary: "Show an account (operator)",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const account = await client.accounts.get(args.positionals[0] ?? "");
    out.result(textOf(account), account);
    return 0;
  },
};

const update: Part = {
  name: "update",
  summary: "Change plan, quotas and limits, or suspend (operator)",
  usage: "<name> [options]",
  words: [1, 1],
  options: {
    ...settings,
    suspend: { type: "boolean", help: "Put everything to sleep, and let nothing wake" },
    resume: { type: "boolean", help: "Let it go on again" },
  },
  async run({ args, out, client }) {
    const [name = ""] = args.positionals;
    const suspend = args.flag("suspend");
    if (suspend && args.flag("resume")) throw new UsageError("--suspend or --resume, not both", "Use one of them.");
    const change = { ...settingsOf(args), ...(suspend || args.flag("resume") ? { suspended: suspend } : {}) };
    if (Object.values(change).every((value) => value === undefined))
      throw new UsageError("account update needs something to change", "See the options with --help.");
    const account = await client.accounts.update(name, change);
    out.result(textOf(account), account);
    return 0;
  },
};

const credit: Part = {
  name: "credit",
  summary: "Add prepaid credit (operator)",
  usage: "<name> <USD> [--note TEXT]",
  words: [2, 2],
  options: { note: { type: "string", value: "TEXT", help: "What it is for" }, ...once },
  async run({ args, out, client }) {
    const [name = "", amount = ""] = args.positionals;
    const micros = microsOf("the credit", amount, CREDIT_MAX);
    if (micros === 0) throw new UsageError("a credit of 0 is none", "Such as: rouse account credit acme 12.50");
    const account = await client.accounts.addCredit(name, { micros, note: args.text("note") }, onceOf(args));
    const left = account.availableMicros === null ? "" : `, ${usd(account.availableMicros)} available`;
    out.result(`${name}: ${usd(micros)} added${left}`, account);
    return 0;
  },
};

export const account = group({
  name: "account",
  summary: "Show the account; for the operator, look after all of them",
  details: "Money is in dollars, with at most 6 decimals.",
  parts: [show, open, ls, get, update, credit],
  fallback: "show",
});

function onceOf(args: Args): { idempotencyKey: string | undefined } {
  return { idempotencyKey: args.text("idempotency-key") };
}

function settingsOf(args: Args): UpdateAccount {
  const daily = args.text("daily-limit");
  return {
    displayName: args.text("display-name"),
    plan: args.choice("plan", plans),
    quotas: quotasOf(args),
    dailyLimitMicros: daily === "none" ? null : microsOf("--daily-limit", daily),
    flatMicrosPerMonth: microsOf("--flat", args.text("flat")),
  };
}

function quotasOf(args: Args): Partial<Quotas> | undefined {
  const pairs = args.pairs("quota");
  if (pairs === undefined) return undefined;
  const quotas: Partial<Quotas> = {};
  for (const [name, text] of Object.entries(pairs)) {
    const quota = QUOTAS.find((one) => one === name);
    if (quota === undefined)
      throw new UsageError(`there is no quota ${JSON.stringify(name)}`, `Quotas: ${QUOTAS.join(", ")}.`);
    if (text !== "none" && !/^\d{1,9}$/.test(text))
      throw new UsageError(`--quota ${name} is ${JSON.stringify(text)}`, `A whole number or none: --quota ${name}=4`);
    quotas[quota] = text === "none" ? null : Number(text);
  }
  return quotas;
}

function textOf(one: Account): string {
  const { used, quotas } = one;
  const of = (count: number, quota: number | null, unit = "") =>
    `${count}${unit}${quota === null ? "" : ` of ${quota}${unit}`}`;
  const rows = [
    ["account", one.name === one.displayName ? one.name : `${one.name} (${one.displayName})`],
    ["plan", `${one.plan}${one.suspended ? ", suspended" : ""}`],
    ...(one.flatMicrosPerMonth === null ? [] : [["flat price", `${usd(one.flatMicrosPerMonth)} per 30 days`]]),
    ...(one.availableMicros === null
      ? [["spent", usd(one.spentMicros)]]
      : [
          ["available", `${usd(one.availableMicros)} of ${usd(one.creditedMicros)}`],
          ["spent", `${usd(one.spentMicros)}, and ${usd(one.heldMicros)} held for what runs`],
        ]),
    ["today", `${usd(one.spentTodayMicros)}${one.dailyLimitMicros === null ? "" : ` of ${usd(one.dailyLimitMicros)}`}`],
    ["running", of(used.running, quotas.running)],
    ["vcpus", of(used.vcpus, quotas.vcpus)],
    ["memory", of(used.memoryMiB, quotas.memoryMiB, " MiB")],
    ["kept", of(used.kept, quotas.kept)],
    ["made today", of(used.createdToday, quotas.createdPerDay)],
    ...(one.unpaidSince === null
      ? []
      : [["unpaid since", `${one.unpaidSince}; what sleeps is deleted at ${one.unpaidDeletesAt ?? "-"}`]]),
  ];
  return table(["FIELD", "VALUE"], rows);
}
