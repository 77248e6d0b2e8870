/** Verbs for keys and SQL that a sandbox keeps outside of its machine. */
import { buffer } from "node:stream/consumers";
import { stateLimits } from "../../contract/state.ts";
import { UsageError } from "../args.ts";
import { group, type Part } from "../group.ts";
import { ago, sizeOf, table } from "../output.ts";

const get: Part = {
  name: "get",
  summary: "Print a value as it was set",
  usage: "<sandbox> <key>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", key = ""] = args.positionals;
    const found = await (await sandbox(which)).data.readBytes(key);
    if (found === undefined) {
      out.note(`There is no key ${key}.`);
      return 1;
    }
    await out.pass("stdout", found.value);
    return 0;
  },
};

const set: Part = {
  name: "set",
  summary: "Set a key: to text, JSON, or with - to what comes on stdin",
  usage: "<sandbox> <key> <value|-> [options]",
  words: [3, 3],
  options: {
    type: { type: "string", value: "T", help: "Content type (application/json for JSON, else text/plain)" },
    ttl: { type: "string", value: "SECONDS", help: "When it ends; never unless given" },
    "if-version": { type: "string", value: "N", help: "Only when the key has that version; 0: when it is not there" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", key = "", value = ""] = args.positionals;
    const data = value === "-" ? new Uint8Array(await buffer(process.stdin)) : value;
    const ttlSeconds = args.whole("ttl", 1, stateLimits.ttlSecondsMax);
    const version = args.whole("if-version");
    const contentType = args.text("type") ?? typeOf(data);
    const ifVersion = version === 0 ? null : version;
    const entry = await (await sandbox(which)).data.setBytes(key, data, { contentType, ttlSeconds, ifVersion });
    out.result(`${key}: version ${entry.version}`, entry);
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete a key",
  usage: "<sandbox> <key>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", key = ""] = args.positionals;
    const deleted = await (await sandbox(which)).data.delete(key);
    out.result(deleted ? `${key}: deleted` : `${key}: was not there`, { key, deleted });
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List keys, or those that begin with a prefix",
  usage: "<sandbox> [<prefix>]",
  words: [1, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", prefix] = args.positionals;
    const data = await (await (await sandbox(which)).data.list({ prefix, limit: 1000 })).toArray();
    const now = Date.now();
    const rows = data.map((one) => [
      ...[one.key, String(one.version), sizeOf(one.bytes), one.contentType, ago(one.updatedAt, now), one.by],
    ]);
    out.result(rows.length === 0 ? "No keys." : table(["KEY", "VERSION", "SIZE", "TYPE", "SET", "BY"], rows), { data });
    return 0;
  },
};

const sql: Part = {
  name: "sql",
  summary: "Run a statement in the sandbox's database",
  usage: "<sandbox> <statement> [<parameter>...]",
  words: [2, 102],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", text = "", ...params] = args.positionals;
    const [result] = await (await sandbox(which)).data.sqlBatch([{ sql: text, params: params.map(paramOf) }]);
    if (!result) throw new UsageError("there is no statement", "Such as 'SELECT 1'.");
    const { columns, rows, rowsWritten, truncated } = result;
    const cells = rows.map((row) => row.map(textOf));
    const shown = columns.length === 0 ? `${rowsWritten} rows written` : table(columns, cells);
    out.result(truncated ? `${shown}\n... there are more` : shown, result);
    return 0;
  },
};

export const state = group({
  name: "state",
  summary: "Keys with values, and a database, of a sandbox that may sleep",
  details:
    "They are kept outside of the machine, which is not woken. Inside it they are at http://rouse.internal/state.\n" +
    "Parameters of SQL that are JSON numbers, true, false or null are such; all others are text.",
  parts: [get, set, rm, ls, sql],
});

function typeOf(data: string | Uint8Array): string {
  if (typeof data !== "string") return "application/octet-stream";
  try {
    JSON.parse(data);
    return "application/json";
  } catch {
    return "text/plain; charset=utf-8";
  }
}

function paramOf(text: string): string | number | boolean | null {
  try {
    const value: unknown = JSON.parse(text);
    return value === null || typeof value === "number" || typeof value === "boolean" ? value : text;
  } catch {
    return text;
  }
}

function textOf(value: unknown): string {
  if (value === null) return "NULL";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
