/** The Python SDK has what the TypeScript SDK has: classes, methods and arguments, by a rule of names. Both halves. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { snakeCase } from "../support/python-types.ts";
import { NO_PYTHON, halves, pythonText } from "./python-run.ts";
import { exported, functionArguments, membersOf, reachable, type Members } from "./typescript-surface.ts";

/** Of every call: what Python has in another way, for all methods alike. */
const NOWHERE: ReadonlySet<string> = new Set([
  "signal", // A task is cancelled, a program interrupted.
  "fetch", // There is one client of HTTP.
  "webSocket", // And one of WebSockets.
]);

/** What differs, and why. `Class.member`, as TypeScript has it. */
const differs: Readonly<Record<string, { python: string[] | "none"; why: string }>> = {
  "Agents.create": {
    python: [
      ...[
        "access",
        "disk_mib",
        "env",
        "idle_pause_seconds",
        "keys",
        "labels",
        "memory_mib",
        "model",
        "name",
        "network",
      ],
      ...["preset", "runtime", "vcpu", "volumes"],
    ],
    why: "TypeScript takes the options of a call for their signal alone",
  },
  "Agents.trigger": { python: ["id", "id_or_name", "message", "timeout_seconds"], why: "the time is timeout_seconds" },
  "Drills.run": {
    python: ["idempotency_key", "kill", "on_progress", "timeout_ms", "wait"],
    why: "what is killed is all of its input",
  },
  ...Object.fromEntries(
    ["Process", "Processes", "Terminal", "Terminals"].map((name) => [
      `${name}.kill`,
      {
        python: [
          ...(name.endsWith("s") && name !== "Process" ? ["id"] : []),
          "idempotency_key",
          "signal",
          "timeout_ms",
        ],
        why: "this signal is not that of a call",
      },
    ]),
  ),
  "Checkpoint.load": { python: ["default", "version"], why: "the module is a program of its own, and older" },
  "Memory.forget": {
    python: ["confirm", "filter", "idempotency_key", "timeout_ms", "which"],
    why: "a filter with its confirm are arguments of their own",
  },
  "Objects.begin": {
    python: ["content_type", "idempotency_key", "key", "timeout_ms"],
    why: "an etag counts when it is completed",
  },
  "Page.toArray": { python: "none", why: "it is to_list" },
  "Rouse.usage": { python: ["by", "idempotency_key", "month", "timeout_ms"], why: "what is month and by" },
  "Sandbox.fetch": {
    python: ["body", "headers", "method", "path", "port", "redirect", "timeout_ms"],
    why: "Python has no Request; its parts are arguments",
  },
  ...Object.fromEntries(
    Object.entries({ ack: [], nack: ["delay_seconds", "error"], extend: ["lease_seconds"] }).map(([method, more]) => [
      `TaskQueue.${method}`,
      { python: [...more, "idempotency_key", "task", "timeout_ms"].toSorted(), why: "the task is one argument" },
    ]),
  ),
};
/** What Python has beside. */
const more: Readonly<Record<string, string[]>> = {
  Page: ["to_list"],
  Rouse: ["close", "aclose"],
  StateTransaction: ["seen", "writes"],
};
/** What the package gives away in TypeScript alone. */
const alone: Readonly<Record<string, string>> = {
  secretProviders: "data, which GET /v1/agent-presets and docs/secrets.md list",
  socketHeaders: "for programs in a machine, in whatever language",
};

interface Surface {
  sync: Record<string, Record<string, string[] | null>>;
  async: Record<string, Record<string, string[] | null>>;
  shared: Record<string, Record<string, string[] | null> | string[]>;
  names: string[];
}
let surface: Surface;
beforeAll(async () => {
  if (NO_PYTHON !== null) return;
  const program = await readFile(join(import.meta.dirname, "python-surface.py"), "utf8");
  surface = JSON.parse(await pythonText(program, [])) as Surface;
}, 120_000);
beforeEach((context) => {
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
});

const named = (given: readonly string[]) =>
  [...new Set(given.filter((name) => !NOWHERE.has(name)).map(snakeCase))].toSorted();

function compare(name: string, wanted: Members, found: Record<string, string[] | null>): string[] {
  const faults: string[] = [];
  // JavaScript's errors have a message of their own, and Python's classes their name.
  const isError = name.endsWith("Error");
  for (const [member, given] of Object.entries(wanted)) {
    if (member === "constructor") continue;
    const exception = differs[`${name}.${member}`];
    if (exception?.python === "none" || (member === "name" && isError)) continue;
    const python = found[snakeCase(member)];
    if (python === undefined) faults.push(`${name}.${member} is missing`);
    else if (given !== null && python !== null) {
      const expected = exception ? exception.python : named(given);
      if (`${python}` !== `${expected}`)
        faults.push(`${name}.${member}(${expected.join(", ")}) is (${python.join(", ")})`);
    } else if ((given === null) !== (python === null)) faults.push(`${name}.${member} is a method in one of them`);
  }
  const known = new Set([
    ...Object.keys(wanted).map(snakeCase),
    ...(more[name] ?? []),
    "__init__",
    isError ? "message" : "",
  ]);
  for (const member of Object.keys(found)) if (!known.has(member)) faults.push(`${name}.${member} is in Python alone`);
  return faults;
}

test.each(halves)("classes, methods and arguments are the same: %s", (half) => {
  const faults: string[] = [];
  const classes = [...reachable(), "StateTransaction"];
  expect(classes.length).toBeGreaterThan(40);
  for (const name of classes) {
    const wanted = membersOf(name);
    const shared = surface.shared[name];
    const found = surface[half][name] ?? (Array.isArray(shared) ? undefined : shared);
    if (!wanted || !found) faults.push(`class ${name} is missing`);
    else faults.push(...compare(name, wanted, found));
  }
  expect(faults).toEqual([]);
});

test("a client is made of the same, functions take the same, and no name is missing", () => {
  for (const half of halves)
    expect(surface[half]["Rouse"]?.["__init__"]).toEqual(named(membersOf("Rouse")?.["constructor"] ?? []));
  for (const name of ["deviceLogin", "verifyWebhook"])
    expect(surface.shared[snakeCase(name)]).toEqual(named(functionArguments(name) ?? []));
  const python = new Set([...Object.keys(surface.shared), ...Object.keys(surface.sync), ...surface.names]);
  const has = (name: string) => python.has(name) || python.has(snakeCase(name));
  const missing = exported().filter((name) => !has(name) && !(name in alone));
  expect(missing).toEqual([]);
});

test("each exception is one still", () => {
  for (const key of Object.keys(differs)) {
    const [name = "", member = ""] = key.split(".");
    expect(Object.keys(membersOf(name) ?? {})).toContain(member);
  }
});
