/** Verbs for agents: sandboxes with a known runtime in them. */
import { text } from "node:stream/consumers";
import type { AgentPreset } from "../../contract/agent-preset.ts";
import { agentPresets } from "../../contract/presets/index.ts";
import { secretProviderNames } from "../../contract/secret-providers.ts";
import { readFile } from "node:fs/promises";
import { runtimeOf } from "../../src/agents.ts";
import { UsageError } from "../args.ts";
import type { Args } from "../args.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";
import { secretFromInput } from "../secret-input.ts";

const FILE_BYTES = 1_048_576;

const create: Part = {
  name: "create",
  summary: "Make an agent; print its URL, and where messages for it are sent to",
  usage: "<name> --runtime R | --preset FILE [--key P=SOURCE ...] [options]",
  words: [1, 1],
  options: {
    runtime: { type: "string", value: "R", help: agentPresets.map(({ id }) => id).join(", ") },
    preset: { type: "string", value: "FILE", help: "A preset of your own, as JSON" },
    key: {
      type: "string",
      value: "P=SOURCE",
      multiple: true,
      help: `Key of a provider (${secretProviderNames.join(", ")}): P=- reads it from stdin, P=env:NAME from a variable`,
    },
    model: { type: "string", value: "M", help: "Model, as the runtime writes it" },
    vcpu: { type: "string", value: "N", help: "Virtual CPUs (of the preset)" },
    memory: { type: "string", value: "MIB", help: "Memory in MiB (of the preset)" },
    disk: { type: "string", value: "MIB", help: "Disk in MiB (of the preset)" },
    "idle-pause": { type: "string", value: "SEC", help: "Pause after so many seconds without activity (60)" },
    label: { type: "string", value: "K=V", multiple: true, help: "Label" },
    "no-internet": { type: "boolean", help: "It reaches nothing outside but what is allowed" },
    allow: { type: "string", value: "X", multiple: true, help: "Host name, *.name or range that it may reach" },
  },
  async run({ args, out, client }) {
    const [name = ""] = args.positionals;
    const [runtime, file] = [args.text("runtime"), args.text("preset")];
    if ((runtime === undefined) === (file === undefined))
      throw new UsageError("agent create needs --runtime or --preset", "Such as --runtime openclaw.");
    const preset = file === undefined ? undefined : await presetIn(file);
    const [isClosed, allow] = [args.flag("no-internet"), args.all("allow")];
    const { keys, shown } = await keysIn(args);
    if (shown)
      out.note(
        "A key in the command line is seen by everybody on this machine: use --key P=env:NAME, or P=- for stdin.",
      );
    out.progress(`Starting ${name}...`);
    const { sandbox, hook } = await client.agents.create({
      ...{ name, runtime, preset, keys, model: args.text("model"), labels: args.pairs("label") },
      ...{ vcpu: args.number("vcpu"), memoryMiB: args.number("memory"), diskMiB: args.number("disk") },
      idlePauseSeconds: args.number("idle-pause"),
      network: isClosed || allow.length > 0 ? { internet: !isClosed, allow } : undefined,
    });
    const port = (preset ?? agentPresets.find(({ id }) => id === runtime))?.port;
    const lines = [sandbox.url(port), ...(hook ? [`messages ${hook.url}`, `secret ${hook.secret}`] : [])];
    out.result(lines.join("\n"), { sandbox: sandbox.info, hook });
    if (hook) out.note("URL and secret of its messages are not shown again.");
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List agents",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const data = await client.agents.list();
    const now = Date.now();
    const rows = data.map(({ id, name, info }, i) => [
      ...[name ?? id, runtimeOf(data[i] as (typeof data)[number]) ?? "-", info.state],
      ago(info.createdAt, now),
    ]);
    out.result(rows.length === 0 ? "No agents." : table(["NAME", "RUNTIME", "STATE", "MADE"], rows), {
      data: data.map(({ info }) => info),
    });
    return 0;
  },
};

const presets: Part = {
  name: "presets",
  summary: "List the runtimes that there are, and whether a host has their image",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const data = await client.agents.presets();
    const rows = data.map((one) => [
      ...[one.id, one.version, one.providers.join(" "), `${one.memoryMiB} MiB`],
      ...[one.available ? "yes" : "no", one.proved ? "" : "not proved"],
    ]);
    out.result(table(["PRESET", "VERSION", "KEYS", "MEMORY", "IMAGE", ""], rows), { data });
    return 0;
  },
};

const get: Part = {
  name: "get",
  summary: "Show an agent: its state, its services, its hook",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const agent = await client.agents.get(args.positionals[0] ?? "");
    const hooks = await agent.hooks.list();
    const { info } = agent;
    const lines = [
      `${info.name ?? info.id}: ${runtimeOf(agent) ?? ""}, ${info.state}`,
      ...(info.services ?? []).map((one) => `service ${one.name}${one.port === undefined ? "" : `, port ${one.port}`}`),
      ...hooks.map((one) => `hook ${one.name}: ${one.waiting} waiting, ${one.dead} given up`),
    ];
    out.result(lines.join("\n"), { ...info, hooks });
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete an agent with its keys, its hook and its disk",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [name = ""] = args.positionals;
    const deleted = await client.agents.delete(name);
    out.result(`${name}: deleted`, deleted);
    return 0;
  },
};

const trigger: Part = {
  name: "trigger",
  summary: "Give an agent a message, waking it; print what its runtime says once it has worked on it",
  usage: "<name> <message>",
  words: [2, 2],
  options: {
    id: { type: "string", value: "ID", help: "Two messages of one id are one" },
    timeout: { type: "string", value: "SECONDS", help: "Longest wait, 1 to 3600 (300)" },
  },
  async run({ args, out, client }) {
    const [name = "", message = ""] = args.positionals;
    const told = message === "-" ? await text(process.stdin) : message;
    const timeoutSeconds = args.whole("timeout", 1, 3600);
    const answer = await client.agents.trigger(name, told, { id: args.text("id"), timeoutSeconds });
    out.result(answer, { answer });
    return 0;
  },
};

export const agent = group({
  name: "agent",
  summary: "Agents: sandboxes with a runtime such as OpenClaw, that wake up with it running",
  details:
    "Keys are kept outside of the machine: its host puts them into requests to the provider. A message, sent by\n" +
    "trigger or to the URL that create prints, wakes an agent that sleeps; <message> may be - for stdin.",
  parts: [create, ls, get, trigger, presets, rm],
});

/** @returns also whether one of them stood in the command line */
async function keysIn(args: Args): Promise<{ keys: Record<string, string>; shown: boolean }> {
  const keys: Record<string, string> = {};
  let shown = false;
  let fromInput = false;
  for (const given of args.all("key")) {
    const [, provider, source] = /^([^=]+)=([^]+)$/.exec(given) ?? [];
    if (provider === undefined || source === undefined)
      throw new UsageError("--key is P=SOURCE", "Such as --key anthropic=env:ANTHROPIC_API_KEY.");
    if (Object.hasOwn(keys, provider)) throw new UsageError(`--key ${provider} is given twice`, "Give it once.");
    if (source === "-") {
      if (fromInput) throw new UsageError("Only one key can come from stdin", "Use P=env:NAME for the others.");
      fromInput = true;
      keys[provider] = await secretFromInput(`Key of ${provider} (not shown): `);
    } else if (source.startsWith("env:")) {
      const value = process.env[source.slice(4)];
      if (!value) throw new UsageError(`there is no variable ${source.slice(4)}`, "Set it, or use P=- for stdin.");
      keys[provider] = value;
    } else {
      keys[provider] = source;
      shown = true;
    }
  }
  return { keys, shown };
}

/** What it holds is checked with everything else. */
async function presetIn(file: string): Promise<AgentPreset> {
  const content = await readFile(file, "utf8").catch(() => null);
  if (content === null) throw new UsageError(`${file} can't be read`, "A file with a preset as JSON.");
  if (content.length > FILE_BYTES) throw new UsageError(`${file} is too large for a preset`, "1 MiB at most.");
  try {
    return JSON.parse(content) as AgentPreset;
  } catch {
    throw new UsageError(`${file} is no JSON`, "A file with a preset as JSON.");
  }
}
