/** Verbs for objects that a sandbox keeps outside of its machine. */
import { createReadStream, createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeStream } from "node:stream/web";
import { objectLimits } from "../../contract/object.ts";
import { UsageError } from "../args.ts";
import { group, type Part } from "../group.ts";
import { ago, sizeOf, table } from "../output.ts";

const put: Part = {
  name: "put",
  summary: "Store a file, or with - what comes on stdin",
  usage: "<sandbox> <file|-> [<key>] [--type T]",
  words: [2, 3],
  options: { type: { type: "string", value: "T", help: "Content type (application/octet-stream)" } },
  async run({ args, out, sandbox }) {
    const [which = "", file = "", name] = args.positionals;
    const key = name ?? basename(file);
    if (key === "-") throw new UsageError("what comes on stdin needs a key", "rouse object put <sandbox> - <key>");
    if (file !== "-" && (await stat(file).catch(() => null))?.isFile() !== true)
      throw new UsageError(`${file} can't be read`, "A file, or - for stdin.");
    const source = file === "-" ? process.stdin : createReadStream(file);
    const stream = Readable.toWeb(source) as unknown as ReadableStream<Uint8Array>;
    const { objects } = await sandbox(which);
    const object = await objects.put(key, stream, { contentType: args.text("type"), timeoutMs: 0 });
    out.result(`${key}: ${sizeOf(object.bytes)}`, object);
    return 0;
  },
};

const get: Part = {
  name: "get",
  summary: "Write an object to a file, or with - to stdout",
  usage: "<sandbox> <key> [<file|->]",
  words: [2, 3],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", key = "", name] = args.positionals;
    const file = name ?? basename(key);
    const stream = Readable.fromWeb((await (await sandbox(which)).objects.getStream(key)) as unknown as NodeStream);
    if (file === "-") {
      for await (const chunk of stream) await out.pass("stdout", chunk as Uint8Array);
      return 0;
    }
    await pipeline(stream, createWriteStream(file));
    out.result(`${key} -> ${file}`, { key, file });
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List objects like a folder; with --all also those further down",
  usage: "<sandbox> [<prefix>] [--all]",
  words: [1, 2],
  options: { all: { type: "boolean", help: "Every key that begins so" } },
  async run({ args, out, sandbox }) {
    const [which = "", prefix] = args.positionals;
    const { objects } = await sandbox(which);
    const delimiter = args.flag("all") ? undefined : "/";
    const [data, prefixes] = [[], []] as [Awaited<ReturnType<typeof objects.list>>["data"], string[]];
    for (let cursor: string | undefined; ;) {
      const page = await objects.list({ prefix, delimiter, cursor, limit: 1000 });
      data.push(...page.data);
      prefixes.push(...page.prefixes);
      if (page.nextCursor === null) break;
      cursor = page.nextCursor;
    }
    const now = Date.now();
    const rows = [
      ...prefixes.map((folder) => [folder, "", "", ""]),
      ...data.map((one) => [one.key, sizeOf(one.bytes), one.contentType, ago(one.updatedAt, now)]),
    ];
    out.result(rows.length === 0 ? "No objects." : table(["KEY", "SIZE", "TYPE", "STORED"], rows), { data, prefixes });
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete an object",
  usage: "<sandbox> <key>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", key = ""] = args.positionals;
    const deleted = await (await sandbox(which)).objects.delete(key);
    out.result(deleted ? `${key}: deleted` : `${key}: was not there`, { key, deleted });
    return 0;
  },
};

const sign: Part = {
  name: "sign",
  summary: "Print a URL that reads (or with --put writes) an object without a key",
  usage: "<sandbox> <key> [--put] [--expires SECONDS]",
  words: [2, 2],
  options: {
    put: { type: "boolean", help: "To write it" },
    expires: { type: "string", value: "SECONDS", help: "How long it lasts, at most 604800 (3600)" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", key = ""] = args.positionals;
    const signed = await (
      await sandbox(which)
    ).objects.sign(key, {
      method: args.flag("put") ? "PUT" : "GET",
      expiresSeconds: args.whole("expires", 1, objectLimits.signSecondsMax),
    });
    out.result(signed.url, signed);
    return 0;
  },
};

export const object = group({
  name: "object",
  summary: "Objects of a sandbox that may sleep: bytes under keys",
  details:
    "They are kept outside of the machine, which is not woken. Inside it they are at http://rouse.internal/objects.",
  parts: [put, get, ls, rm, sign],
});
