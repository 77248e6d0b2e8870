/** Verbs for secrets of the account, and of a sandbox. */
import { secretModes, type PutSecret, type SecretRule } from "../../contract/secret.ts";
import { secretProviderNames } from "../../contract/secret-providers.ts";
import type { Secrets } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Args, OptionSpecs } from "../args.ts";
import type { Context } from "../command.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";
import { secretFromInput } from "../secret-input.ts";

const ofSandbox: OptionSpecs = {
  sandbox: { type: "string", value: "S", help: "Of that sandbox alone, instead of the account" },
};

const set: Part = {
  name: "set",
  summary: "Store a secret; its value comes from standard input",
  usage: "<name> [--sandbox S] [--provider P | --host H ...] [options]",
  words: [1, 1],
  options: {
    ...ofSandbox,
    provider: { type: "string", value: "P", help: `Fills in the rest: ${secretProviderNames.join(", ")}` },
    mode: { type: "string", value: "M", help: `${secretModes.join(", ")} (broker)` },
    host: { type: "string", value: "H", multiple: true, help: "Host name that gets it, or *.name; may be given again" },
    header: { type: "string", value: "NAME", help: "Header that is set (authorization)" },
    format: { type: "string", value: "F", help: "What the header holds (Bearer {value})" },
    env: { type: "string", value: "NAME", help: "Variable of its programs (the name in upper case)" },
    rule: {
      type: "string",
      value: "R",
      multiple: true,
      help: 'Only such requests, as "POST /v1/*", "GET,HEAD" or "/v1/**"; may be given again',
    },
  },
  async run(context) {
    const { args, out } = context;
    const [name = ""] = args.positionals;
    const settings = settingsIn(args);
    const secrets = await secretsOf(context);
    const value = await secretFromInput(`Value of ${name} (not shown): `);
    const stored = await secrets.set(name, { value, ...settings });
    const where = stored.hosts.length === 0 ? "" : `, for ${stored.hosts.join(" ")}`;
    out.result(`${name}: version ${stored.version}, ${stored.mode}${where}`, stored);
    if (!stored.enforced) out.note("Some of the sandboxes that run do not have it yet; they are told until they do.");
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List secrets, without their values",
  usage: "[--sandbox S]",
  words: [0, 0],
  options: ofSandbox,
  async run(context) {
    const data = await (await secretsOf(context)).list();
    const now = Date.now();
    const rows = data.map((one) => [
      ...[one.name, one.mode, String(one.version), one.hosts.join(" ") || "-", one.envName ?? "-"],
      ...[one.mode === "env" ? "-" : one.lastUsedAt === null ? "never" : ago(one.lastUsedAt, now)],
      ago(one.updatedAt, now),
    ]);
    const heading = ["SECRET", "MODE", "VERSION", "HOSTS", "VARIABLE", "USED", "AGE"];
    context.out.result(rows.length === 0 ? "No secrets." : table(heading, rows), { data });
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete a secret; running sandboxes lose it at once",
  usage: "<name> [--sandbox S]",
  words: [1, 1],
  options: ofSandbox,
  async run(context) {
    const [name = ""] = context.args.positionals;
    const gone = await (await secretsOf(context)).delete(name);
    context.out.result(`${name}: deleted`, gone);
    if (!gone.enforced)
      context.out.note("Some of the sandboxes that run have it still; they are told until they do not.");
    return 0;
  },
};

const attach: Part = {
  name: "attach",
  summary: "Give a sandbox secrets of the account",
  usage: "<sandbox> <name>...",
  words: [2, 17],
  options: {},
  run: (context) => give(context, true),
};

const detach: Part = {
  name: "detach",
  summary: "Take secrets of the account away from a sandbox",
  usage: "<sandbox> <name>...",
  words: [2, 17],
  options: {},
  run: (context) => give(context, false),
};

async function give({ args, out, sandbox }: Context, has: boolean): Promise<number> {
  const [which = "", ...names] = args.positionals;
  const { secrets: of } = await sandbox(which);
  const secrets = has ? await of.attach(...names) : await of.detach(...names);
  out.result(`${which}: ${secrets.join(" ") || "none of the account's secrets"}`, { secrets });
  return 0;
}

export const secret = group({
  name: "secret",
  summary: "Store keys that sandboxes use, most of them without ever having them",
  details:
    "Modes: broker (the host puts it into requests to its hosts; the machine never has it), placeholder (programs have\n" +
    "a random word in its place), env (programs have it as a variable). A value is read from standard input, or asked\n" +
    "for on a terminal, and is never shown again. A secret of the account is had by sandboxes that it is attached to.",
  parts: [set, ls, rm, attach, detach],
});

async function secretsOf({ args, client, sandbox }: Context): Promise<Secrets> {
  const which = args.text("sandbox");
  return which === undefined ? client.secrets : (await sandbox(which)).secrets;
}

function settingsIn(args: Args): Omit<PutSecret, "value"> {
  const hosts = args.all("host");
  const rules = args.all("rule").map(ruleOf);
  return {
    mode: args.choice("mode", secretModes),
    provider: args.choice("provider", secretProviderNames),
    hosts: hosts.length === 0 ? undefined : hosts,
    header: args.text("header"),
    format: args.text("format"),
    envName: args.text("env"),
    rules: rules.length === 0 ? undefined : rules,
  };
}

/** `POST /v1/*`, `GET,HEAD`, or a path alone. */
function ruleOf(text: string): SecretRule {
  const words = text.trim().split(/\s+/);
  const methods = words.filter((word) => !word.startsWith("/")).flatMap((word) => word.split(","));
  const paths = words.filter((word) => word.startsWith("/"));
  if (text.trim() === "" || methods.some((method) => !/^[A-Za-z]+$/.test(method)))
    throw new UsageError(
      `--rule ${JSON.stringify(text)} is no rule`,
      'Such as --rule "POST /v1/*" or --rule GET,HEAD.',
    );
  return { ...(methods.length > 0 ? { methods } : {}), ...(paths.length > 0 ? { paths } : {}) };
}
