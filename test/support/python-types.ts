/** The types of the wire, from sdk/openapi.json, as Python. No I/O. */

/** A schema of JSON Schema, as far as the document has it. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: boolean | Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

export interface Document {
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** What methods take as keyword arguments, and what those refer to. */
export const ARGUMENTS = [
  "AddCredit",
  "BackupPolicy",
  "BackupVolume",
  "CreateAccount",
  "CreateContext",
  "CreateDrill",
  "CreateEventEndpoint",
  "CreateHook",
  "CreateKey",
  "CreateLink",
  "CreateMember",
  "CreatePreview",
  "CreateSandbox",
  "CreateSchedule",
  "CreateSession",
  "CreateSnapshot",
  "CreateVolume",
  "ForkSandbox",
  "Grant",
  "McpServer",
  "MemoryFilter",
  "NackTask",
  "NewMemory",
  "PutSecret",
  "PutStore",
  "RotateEventEndpoint",
  "RotateHook",
  "SearchMemory",
  "SetNetwork",
  "SignObject",
  "StateBatch",
  "TakeTasks",
  "UpdateAccount",
  "UpdateEventEndpoint",
  "UpdateHook",
  "UpdateMemory",
  "UpdateSandbox",
  "UpdateSchedule",
  "UpdateSnapshot",
  "UpdateVolume",
] as const;

const PLAIN: Readonly<Record<string, string>> = {
  string: "str",
  integer: "int",
  number: "float",
  boolean: "bool",
  null: "None",
};
const KEYWORDS: ReadonlySet<string> = new Set(["from", "import", "global", "class", "in", "is", "def", "not"]);

/** Those of them that stand in the place of one argument. */
const ENTRIES: ReadonlySet<string> = new Set(["McpServer", "MemoryFilter", "NewMemory", "SearchMemory"]);

/** The same without fields that a method takes by themselves, or sets. */
const WITHOUT: Readonly<Record<string, { from: string; fields: readonly string[] }>> = {
  NewSandbox: { from: "CreateSandbox", fields: ["getOrCreate"] },
  NamedSandbox: { from: "CreateSandbox", fields: ["getOrCreate", "name"] },
  NewForks: { from: "ForkSandbox", fields: ["count", "funding"] },
  RestoreVolume: { from: "CreateVolume", fields: ["fromBackup"] },
  MemorySearch: { from: "SearchMemory", fields: ["query"] },
  ObjectSignature: { from: "SignObject", fields: ["key"] },
};

/** `sizeMiB` is `size_mib`, and what Python keeps for itself ends in `_`. */
export function snakeCase(name: string): string {
  const snake = name
    .replaceAll("MiB", "Mib")
    .replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter}`)
    .toLowerCase();
  return KEYWORDS.has(snake) ? `${snake}_` : snake;
}

/** How the Python SDK makes the wire's name of it again; the same rule is in `rouse/wire.py`. */
function wireName(snake: string): string {
  return snake
    .replace(/_$/, "")
    .replace(/_([a-z0-9]+)/g, (_, word: string) =>
      word === "mib" ? "MiB" : `${word.charAt(0).toUpperCase()}${word.slice(1)}`,
    );
}

class Writer {
  readonly #schemas: Readonly<Record<string, Schema>>;
  readonly #nameOf: (property: string) => string;
  /** What every TypedDict of the names that are asked for has beside its own. */
  readonly #base: string | null;
  readonly #roots: ReadonlySet<string>;
  readonly #time: string;
  readonly #done = new Map<string, string>();
  readonly #waiting: string[] = [];

  constructor(
    document: Document,
    roots: readonly string[],
    nameOf: (property: string) => string,
    base: string | null,
    /** What a time is. */
    time: string,
  ) {
    this.#time = time;
    this.#schemas = document.components.schemas;
    this.#nameOf = nameOf;
    this.#base = base;
    this.#roots = new Set(roots);
    this.#waiting.push(...roots);
  }

  all(): { text: string; names: string[] } {
    for (let name = this.#waiting.shift(); name !== undefined; name = this.#waiting.shift()) this.#named(name);
    const names = [...this.#done.keys()].filter((name) => !name.startsWith("_"));
    return { text: [...this.#done.values()].join("\n\n"), names: names.toSorted() };
  }

  #named(name: string): void {
    if (this.#done.has(name)) return;
    const schema = this.#schemas[name] ?? {};
    this.#done.set(name, "");
    const isCall = this.#roots.has(name) && !ENTRIES.has(name);
    if (schema.properties) this.#class(name, schema, isCall ? this.#base : null);
    else this.#done.set(name, `${name} = ${quotedUnion(this.#type(schema, name))}\n`);
  }

  #class(name: string, schema: Schema, base: string | null): void {
    this.#done.set(name, "");
    const required = new Set(schema.required ?? []);
    const fields = Object.entries(schema.properties ?? {}).map(([property, one]) => ({
      line: [this.#nameOf(property), this.#type(one, `${name}${property.charAt(0).toUpperCase()}${property.slice(1)}`)],
      must: required.has(property),
    }));
    const [must, may] = [fields.filter((one) => one.must), fields.filter((one) => !one.must)];
    const body = (some: typeof fields) =>
      some.map(({ line: [key, type] }) => `    ${key}: ${type}\n`).join("") || "    pass\n";
    // Of Python 3.10 only whole classes know which of their keys must be there.
    const first = base ?? "TypedDict";
    if (fields.some(({ line: [key = ""] }) => !/^[A-Za-z_]\w*$/.test(key) || KEYWORDS.has(key))) {
      const entries = fields
        .map(({ line: [key, type = ""] }) => `        "${key}": ${JSON.stringify(type)},\n`)
        .join("");
      this.#done.set(
        name,
        `${name} = TypedDict(\n    "${name}",\n    {\n${entries}    },\n    total=${may.length === 0 ? "True" : "False"},\n)\n`,
      );
      return;
    }
    const text =
      must.length === 0
        ? `class ${name}(${first}, total=False):\n${body(may)}`
        : may.length === 0
          ? `class ${name}(${first}):\n${body(must)}`
          : `class _${name}(${first}):\n${body(must)}\n\nclass ${name}(_${name}, total=False):\n${body(may)}`;
    this.#done.set(name, text);
  }

  #type(schema: Schema, name: string): string {
    if (schema.$ref !== undefined) {
      const target = schema.$ref.split("/").at(-1) ?? "";
      // JSON of any form.
      if (target.startsWith("__")) return "Any";
      this.#waiting.push(target);
      return target;
    }
    const options = schema.anyOf ?? schema.oneOf;
    if (options) {
      const several = options.filter((one) => one.properties).length > 1 || this.#done.has(name);
      return union(options.map((one, at) => this.#type(one, several ? `${name}${at + 1}` : name)));
    }
    if ("const" in schema) return literal([schema.const]);
    if (schema.enum) return literal(schema.enum);
    if (Array.isArray(schema.type))
      return union(schema.type.map((type: string) => this.#type({ ...schema, type }, name)));
    if (schema.type === "array") return `List[${schema.items ? this.#type(schema.items, `${name}Item`) : "Any"}]`;
    if (schema.properties) {
      this.#class(name, schema, null);
      return name;
    }
    if (schema.type === "object") {
      const values = schema.additionalProperties;
      return `Dict[str, ${typeof values === "object" && Object.keys(values).length > 0 ? this.#type(values, `${name}Value`) : "Any"}]`;
    }
    if (schema.format === "date-time") return this.#time;
    return PLAIN[String(schema.type)] ?? "Any";
  }
}

function union(types: readonly string[]): string {
  const each = [...new Set(types)];
  if (each.includes("Any")) return "Any";
  if (each.includes("float")) each.splice(0, each.length, ...each.filter((one) => one !== "int"));
  const rest = each.filter((one) => one !== "None");
  const text = rest.length > 1 ? `Union[${rest.join(", ")}]` : (rest[0] ?? "None");
  return each.includes("None") && rest.length > 0 ? `Optional[${text}]` : text;
}

function literal(values: readonly unknown[]): string {
  const text = values.map((value) => (value === true ? "True" : value === false ? "False" : JSON.stringify(value)));
  return `Literal[${text.join(", ")}]`;
}

/** Names of classes that come later have quotes where the file is run. */
function quotedUnion(type: string): string {
  return type.replace(/\b(?!Union|Optional|List|Dict|Literal|Any|None)[A-Z]\w*\b(?!["'])/g, '"$&"');
}

export function answerTypes(document: Document): string {
  const names = Object.keys(document.components.schemas).filter((name) => !name.startsWith("__"));
  const { text } = new Writer(document, names.toSorted(), (name) => name, null, "str").all();
  return `# long file: made by test/support/print-python.ts from sdk/openapi.json: change sdk/contract.
"""What the API answers: dicts, with the names that the wire has."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union


${text}`;
}

export function argumentTypes(document: Document): string {
  const schemas = { ...document.components.schemas };
  for (const [name, { from, fields }] of Object.entries(WITHOUT)) {
    const { properties = {}, required = [], ...rest } = schemas[from] ?? {};
    const kept = Object.entries(properties).filter(([field]) => !fields.includes(field));
    schemas[name] = {
      ...rest,
      properties: Object.fromEntries(kept),
      required: required.filter((one) => !fields.includes(one)),
    };
  }
  const roots = [...ARGUMENTS, ...Object.keys(WITHOUT)].toSorted();
  const { text } = new Writer({ components: { schemas } }, roots, snakeCase, "RequestOptions", "Time").all();
  const free = freeNames(document);
  return `# long file: made by test/support/print-python.ts from sdk/openapi.json: change sdk/contract.
"""What methods take as keyword arguments, and what is in them."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Literal, Optional, TypedDict, Union

from .options import RequestOptions, Time

#: Fields whose value is the caller's: the names in it are left as they are.
FREE: FrozenSet[str] = frozenset(
    {
${free.map((name) => `        ${JSON.stringify(name)},\n`).join("")}    }
)


${text}`;
}

/** Properties of arguments that hold names of the caller's. @throws Error for names that no rule brings back */
function freeNames(document: Document): string[] {
  const { schemas } = document.components;
  const free = new Set<string>();
  const ours = new Set<string>();
  const seen = new Set<string>();
  const look = (schema: Schema, property: string): void => {
    if (schema.$ref !== undefined) {
      const target = schema.$ref.split("/").at(-1) ?? "";
      if (target.startsWith("__")) free.add(property);
      else if (schemas[target]?.properties) ours.add(property);
      if (seen.has(target)) return;
      seen.add(target);
      return look(schemas[target] ?? {}, "");
    }
    for (const one of schema.anyOf ?? schema.oneOf ?? []) look(one, property);
    if (schema.items) look(schema.items, property);
    if (schema.properties) {
      ours.add(property);
      for (const [name, one] of Object.entries(schema.properties)) {
        if (wireName(snakeCase(name)) !== name) throw new Error(`${name} has no way back from ${snakeCase(name)}`);
        look(one, name);
      }
    } else if (
      schema.type === "object" ||
      (schema.type === undefined && !schema.anyOf && !schema.oneOf && !("const" in schema) && !schema.enum)
    )
      free.add(property);
  };
  for (const name of ARGUMENTS) look({ $ref: `#/${name}` }, "");
  free.delete("");
  for (const name of free) if (ours.has(name)) throw new Error(`${name} is free in one place and ours in another`);
  return [...free].toSorted();
}
