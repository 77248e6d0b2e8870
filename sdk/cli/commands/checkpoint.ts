import { open } from "node:fs/promises";
import { UsageError } from "../args.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";

const ls: Part = {
  name: "ls",
  summary: "List what programs in the sandbox saved, with the newest versions",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const data = await (await sandbox(args.positionals[0] ?? "")).checkpoints.list();
    const now = Date.now();
    const rows = data.flatMap(({ name, versions }) =>
      versions.map(({ version, step, savedAt, bytes }) => [
        ...[name, String(version), step === null ? "-" : String(step), `${ago(savedAt, now)} ago`, `${bytes} bytes`],
      ]),
    );
    const heading = ["CHECKPOINT", "VERSION", "STEP", "SAVED", "SIZE"];
    out.result(rows.length === 0 ? "No checkpoints." : table(heading, rows), { data });
    return 0;
  },
};

const get: Part = {
  name: "get",
  summary: "Print what was saved; the sandbox sleeps on",
  usage: "<sandbox> <checkpoint> [--version N]",
  words: [2, 2],
  options: { version: { type: "string", value: "N", help: "This version, instead of the newest" } },
  async run({ args, out, sandbox }) {
    const [which = "", name = ""] = args.positionals;
    const version = args.whole("version", 1, 9_999_999_999);
    const { value, ...about } = await (await sandbox(which)).checkpoints.get(name, { version });
    const isBytes = value instanceof Uint8Array;
    if (out.json) out.result("", { ...about, value: isBytes ? Buffer.from(value).toString("base64") : value });
    else await out.pass("stdout", isBytes ? Buffer.from(value) : Buffer.from(`${JSON.stringify(value)}\n`));
    return 0;
  },
};

const put: Part = {
  name: "put",
  summary: "Put a file into the mirror as the next version; JSON is loaded as a value",
  usage: "<sandbox> <checkpoint> <FILE> [--step N]",
  words: [3, 3],
  options: { step: { type: "string", value: "N", help: "How far the job is" } },
  async run({ args, out, sandbox }) {
    const [which = "", name = "", path = ""] = args.positionals;
    const step = args.whole("step", 0, Number.MAX_SAFE_INTEGER);
    const data = await read(path);
    const saved = await (await sandbox(which)).checkpoints.put(name, valueOf(data), { step });
    out.result(`${name}: version ${saved.version}`, saved);
    return 0;
  },
};

export const checkpoint = group({
  name: "checkpoint",
  summary: "See what programs in a sandbox saved, while it sleeps",
  details: "Programs save by the SDKs, or by rouse-checkpoint in the sandbox; the newest five versions are kept here.",
  parts: [ls, get, put],
});

async function read(path: string): Promise<Buffer> {
  try {
    await using file = await open(path);
    return await file.readFile();
  } catch {
    throw new UsageError(`${path} can't be read`, "Pass a file of this machine.");
  }
}

function valueOf(data: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data));
  } catch {
    return new Uint8Array(data);
  }
}
