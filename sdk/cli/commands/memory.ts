/** Verbs for the memory of a sandbox, or of a store. */
import { text } from "node:stream/consumers";
import { memoryLimits, MemoryOrder } from "../../contract/memory.ts";
import type { Memory, MemoryEntry } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Args, OptionSpecs } from "../args.ts";
import type { Context } from "../command.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";

const storeOption: OptionSpecs = { store: { type: "boolean", help: "NAME is a store that agents share" } };
const filters: OptionSpecs = {
  tag: { type: "string", value: "TAG", multiple: true, help: "Only with this tag; may be given again" },
  author: { type: "string", value: "A", help: "Only by this sandbox or key, by id or name" },
  since: { type: "string", value: "TIME", help: "Only from then on, such as 2026-11-01T00:00:00Z" },
  until: { type: "string", value: "TIME", help: "Only before then" },
  meta: { type: "string", value: "K=V", multiple: true, help: "Only with this metadata; may be given again" },
};

const add: Part = {
  name: "add",
  summary: "Add an entry; print its id",
  usage: "<name> <text>|- [--tag T] [--meta K=V] [--once ID]",
  words: [2, 2],
  options: {
    ...storeOption,
    tag: { type: "string", value: "TAG", multiple: true, help: "A tag; may be given again" },
    meta: { type: "string", value: "K=V", multiple: true, help: "Metadata; may be given again" },
    once: { type: "string", value: "ID", help: "Add it once under this id, however often this runs" },
  },
  async run(context) {
    const { args, out } = context;
    const given = args.positionals[1] ?? "";
    const entry = {
      text: given === "-" ? await text(process.stdin) : given,
      tags: args.all("tag"),
      metadata: metadataIn(args),
      idempotencyId: args.text("once"),
    };
    const added = await (await memoryOf(context)).add(entry);
    out.result(added.id, added);
    return 0;
  },
};

const search: Part = {
  name: "search",
  summary: "Find entries by words, the best first",
  usage: "<name> <words> [--limit N] [filters]",
  words: [2, 2],
  options: { ...storeOption, ...filters, limit: { type: "string", value: "N", help: "At most so many, to 50 (10)" } },
  async run(context) {
    const { args, out } = context;
    const limit = args.whole("limit", 1, memoryLimits.searchMax);
    const memory = await memoryOf(context);
    const hits = await memory.search(args.positionals[1] ?? "", { limit, filter: filterIn(args) });
    const now = Date.now();
    const rows = hits.data.map((one) => [one.id, authorOf(one), ago(one.createdAt, now), line(one.snippet)]);
    out.result(rows.length === 0 ? "Nothing found." : table(["ENTRY", "AUTHOR", "AGE", "TEXT"], rows), hits);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List entries, the newest first",
  usage: "<name> [--limit N] [--order oldest] [filters]",
  words: [1, 1],
  options: {
    ...storeOption,
    ...filters,
    limit: { type: "string", value: "N", help: "At most so many (50)" },
    order: { type: "string", value: "O", help: MemoryOrder.options.join(", ") },
  },
  async run(context) {
    const { args, out } = context;
    const limit = args.whole("limit", 1) ?? 50;
    const order = args.choice("order", MemoryOrder.options);
    const memory = await memoryOf(context);
    const data: MemoryEntry[] = [];
    const page = await memory.list({ ...filterIn(args), order, limit: Math.min(limit, memoryLimits.listMax) });
    for await (const entry of page) {
      data.push(entry);
      if (data.length >= limit) break;
    }
    const now = Date.now();
    const rows = data.map((one) => [
      one.id,
      authorOf(one),
      ago(one.createdAt, now),
      one.tags.join(","),
      line(one.text),
    ]);
    out.result(rows.length === 0 ? "No entries." : table(["ENTRY", "AUTHOR", "AGE", "TAGS", "TEXT"], rows), { data });
    return 0;
  },
};

const get: Part = {
  name: "get",
  summary: "Print the text of an entry",
  usage: "<name> <entry>",
  words: [2, 2],
  options: storeOption,
  async run(context) {
    const entry = await (await memoryOf(context)).get(context.args.positionals[1] ?? "");
    context.out.result(entry.text, entry);
    return 0;
  },
};

const forget: Part = {
  name: "forget",
  summary: "Forget entries for good: by id, or with --yes all that filters say",
  usage: "<name> <entry>... | <name> --all|filters --yes",
  words: [1, 1 + memoryLimits.forgetMax],
  options: {
    ...storeOption,
    ...filters,
    all: { type: "boolean", help: "Everything" },
    yes: { type: "boolean", help: "Many entries may go" },
  },
  async run(context) {
    const { args, out } = context;
    const ids = args.positionals.slice(1);
    const filter = filterIn(args);
    const isAll = args.flag("all");
    const isFilter = Object.values(filter).some((condition) => condition !== undefined);
    if (Number(ids.length > 0) + Number(isAll) + Number(isFilter) !== 1)
      throw new UsageError("memory forget needs ids, filters, or --all", "Such as: rouse memory forget NAME mem-...");
    if (ids.length === 0 && !args.flag("yes"))
      throw new UsageError("That may forget many entries for good", "Say --yes; rouse memory ls shows which.");
    const memory = await memoryOf(context);
    const forgotten = await memory.forget(ids.length > 0 ? ids : { filter, confirm: true });
    out.result(`${forgotten} forgotten`, { forgotten });
    return 0;
  },
};

const exporting: Part = {
  name: "export",
  summary: "Print all of it, embeddings too, as lines of JSON",
  usage: "<name>",
  words: [1, 1],
  options: storeOption,
  async run(context) {
    const memory = await memoryOf(context);
    for await (const entry of memory.export()) await context.out.pass("stdout", `${JSON.stringify(entry)}\n`);
    return 0;
  },
};

const importing: Part = {
  name: "import",
  summary: "Add the lines of an export from stdin, each once",
  usage: "<name>",
  words: [1, 1],
  options: storeOption,
  async run(context) {
    const lines = (await text(process.stdin)).split("\n").filter((one) => one.trim() !== "");
    const entries = lines.map((one, index) => {
      try {
        return JSON.parse(one) as MemoryEntry;
      } catch {
        throw new UsageError(`Line ${index + 1} is not JSON`, "See: rouse memory export NAME");
      }
    });
    const done = await (await memoryOf(context)).import(entries);
    context.out.result(`${done.added} added, ${done.known} there already`, done);
    return 0;
  },
};

export const memory = group({
  name: "memory",
  summary: "What an agent remembers: add, find, forget, take along",
  details:
    "<name> is a sandbox, or with --store a store that agents share. The sandbox sleeps on.\n" +
    "Entries are what agents wrote: data, not instructions.",
  parts: [add, search, ls, get, forget, exporting, importing],
});

async function memoryOf({ args, client, sandbox }: Context): Promise<Memory> {
  const name = args.positionals[0] ?? "";
  return args.flag("store") ? client.stores.memory(name) : (await sandbox(name)).memory;
}

function filterIn(args: Args) {
  const tags = args.all("tag");
  return {
    tags: tags.length === 0 ? undefined : tags,
    author: args.text("author"),
    since: args.text("since"),
    until: args.text("until"),
    metadata: metadataIn(args),
  };
}

/** Numbers, true, false and null are those; anything else is text. */
function metadataIn(args: Args): Record<string, string | number | boolean | null> | undefined {
  const pairs = args.pairs("meta");
  return pairs && Object.fromEntries(Object.entries(pairs).map(([key, value]) => [key, valueOf(value)]));
}

function valueOf(word: string): string | number | boolean | null {
  if (word === "true" || word === "false") return word === "true";
  if (word === "null") return null;
  return /^-?\d+(\.\d+)?$/.test(word) ? Number(word) : word;
}

function authorOf({ author }: MemoryEntry): string {
  return author.name ?? author.id;
}

/** On one line, and without what would steer a terminal. */
function line(words: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are just what this takes out
  const plain = words.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
  return plain.length > 100 ? `${plain.slice(0, 99)}\u2026` : plain;
}
