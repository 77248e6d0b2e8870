/**
 * What of the Python SDK is made from other files: the codes of errors, the types of the wire, and the synchronous half,
 * which is the asynchronous one without `await`. Writes them; with `--check` it only says which are not as they would be.
 */
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCodes, hintOf, statusOf } from "../../sdk/contract/error-codes.ts";
import {
  DELIVERY_SECRET_FILE,
  TRIGGER_PORT,
  TRIGGER_PROGRAM,
  TRIGGER_VARIABLE,
} from "../../sdk/contract/agent-preset.ts";
import { bootLimits } from "../../sdk/contract/boot.ts";
import { agentPresets } from "../../sdk/contract/presets/index.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import { BROKERED_ENV_VALUE, secretProviderNames } from "../../sdk/contract/secret-providers.ts";
import { argumentTypes, answerTypes, type Document } from "./python-types.ts";
import { synchronous } from "./python-sync.ts";

const root = join(import.meta.dirname, "../..");
const folder = join(root, "sdk/python/rouse");
/** Written by hand for each half: where a thread, and where a task, waits. */
const BY_HAND: ReadonlySet<string> = new Set(["driver.py", "channels.py"]);

async function files(): Promise<Map<string, string>> {
  const document = JSON.parse(await readFile(join(root, "sdk/openapi.json"), "utf8")) as Document;
  const made = new Map([
    ["error_codes.py", errorCodesFile()],
    ["agent_presets.py", presetsFile()],
    ["answers.py", answerTypes(document)],
    ["inputs.py", argumentTypes(document)],
  ]);
  for (const name of await readdir(join(folder, "_async"))) {
    if (!name.endsWith(".py") || BY_HAND.has(name)) continue;
    made.set(`_sync/${name}`, synchronous(await readFile(join(folder, "_async", name), "utf8"), name));
  }
  return made;
}

function errorCodesFile(): string {
  const lines = errorCodes.map(
    (code) => `    ${JSON.stringify(code)}: (${statusOf(code)}, ${JSON.stringify(hintOf(code))}),`,
  );
  return `# Made by test/support/print-python.ts from sdk/contract/error-codes.ts: change that file.
"""The codes of errors that servers answer."""

from __future__ import annotations

from typing import Dict, Literal, Tuple

ErrorCode = Literal[
${errorCodes.map((code) => `    ${JSON.stringify(code)},`).join("\n")}
]

#: HTTP status and hint of each code.
ERROR_CODES: Dict[ErrorCode, Tuple[int, str]] = {
${lines.join("\n")}
}
`;
}

function presetsFile(): string {
  // What only the operator's host does with one is in its image.
  const presets = agentPresets.map((preset) => [preset.id, { ...preset, ...(preset.recipe ? { recipe: {} } : {}) }]);
  const { image, vcpu, memoryMiB, diskMiB } = defaults;
  const values = { image, vcpu, memoryMiB, diskMiB, readySeconds: bootLimits.readySeconds };
  return `# Made by test/support/print-python.ts from sdk/contract/presets: change what is there.
"""The presets of agents that come with it."""

from __future__ import annotations

from typing import Any, Dict, List

BROKERED = ${python(BROKERED_ENV_VALUE)}
DELIVERY_SECRET_FILE = ${python(DELIVERY_SECRET_FILE)}
TRIGGER_PORT = ${TRIGGER_PORT}
TRIGGER_PROGRAM = ${python(TRIGGER_PROGRAM)}
TRIGGER_VARIABLE = ${python(TRIGGER_VARIABLE)}
#: Of a sandbox.
DEFAULTS: Dict[str, Any] = ${python(values)}
#: Model providers whose keys are known.
PROVIDERS: List[str] = ${python(secretProviderNames)}
PRESETS: Dict[str, Dict[str, Any]] = ${python(Object.fromEntries(presets))}
`;
}

/** A value as Python has it. */
function python(value: unknown, indent = ""): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  const items = Array.isArray(value)
    ? value.map((one) => `${inner}${python(one, inner)},\n`)
    : Object.entries(value)
        .filter(([, one]) => one !== undefined)
        .map(([name, one]) => `${inner}${JSON.stringify(name)}: ${python(one, inner)},\n`);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return items.length === 0 ? `${open}${close}` : `${open}\n${items.join("")}${indent}${close}`;
}

async function current(path: string): Promise<string | null> {
  return await readFile(path, "utf8").catch(() => null);
}

const made = await files();
const stale: string[] = [];
for (const [name, text] of made) if ((await current(join(folder, name))) !== text) stale.push(name);
const kept = await readdir(join(folder, "_sync")).catch(() => []);
const gone = kept.filter((name) => name.endsWith(".py") && !BY_HAND.has(name) && !made.has(`_sync/${name}`));

if (process.argv.includes("--check")) {
  for (const name of [...stale, ...gone.map((one) => `_sync/${one}`)])
    console.log(`sdk/python/rouse/${name} is not what it is made from`);
  process.exitCode = stale.length + gone.length > 0 ? 1 : 0;
} else {
  await mkdir(join(folder, "_sync"), { recursive: true });
  for (const name of stale) await writeFile(join(folder, name), made.get(name) ?? "");
  for (const name of gone) await rm(join(folder, "_sync", name));
}
