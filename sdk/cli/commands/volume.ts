import { AttachmentId } from "../../contract/names.ts";
import { VolumeMode, volumeLimits } from "../../contract/volume.ts";
import type { Attachment, Volume } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Args } from "../args.ts";
import type { Context } from "../command.ts";
import { group, type Part } from "../group.ts";
import { ago, fields, sizeOf, table } from "../output.ts";
import { labelOption, nameOption, noWaitOption, sizeOption, volumeSizeOf, wordOf } from "../volumes.ts";
import { backup, backupPolicy, backups, deleteBackup, restore } from "./volume-backups.ts";

const LISTED_STATES = ["creating", "ready", "failed", "deleting"] as const;

const create: Part = {
  name: "create",
  summary: "Make an empty one; print its id",
  usage: "--size-mib N [--name N] [options]",
  words: [0, 0],
  options: { "size-mib": sizeOption, name: nameOption, label: labelOption },
  async run({ args, out, client }) {
    const made = await client.volumes.create({
      sizeMiB: sizeIn(args, "create"),
      name: args.text("name"),
      labels: args.pairs("label"),
    });
    out.result(made.id, made);
    out.note(`Use it: rouse create --volume ${wordOf(made)}:/data`);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List volumes",
  usage: "[--name N] [--state S]",
  words: [0, 0],
  options: {
    name: nameOption,
    state: { type: "string", value: "S", help: "Only those in this state" },
  },
  async run({ args, out, client }) {
    const name = args.text("name");
    const state = args.choice("state", LISTED_STATES);
    const page = await client.volumes.list({ name, state, limit: volumeLimits.listMax });
    const all = await page.toArray();
    const now = Date.now();
    const rows = all.map((one) => [
      one.id,
      one.name ?? "-",
      one.state,
      volumeSizeOf(one.sizeMiB),
      one.storedAt === null ? "-" : sizeOf(one.storedBytes),
      holdersOf(one),
      ago(one.backups.lastReadyAt, now),
      ago(one.createdAt, now),
    ]);
    const heading = ["VOLUME", "NAME", "STATE", "SIZE", "STORED", "SANDBOX", "BACKUP", "AGE"];
    out.result(rows.length === 0 ? "No volumes." : table(heading, rows), { data: all });
    return 0;
  },
};

const get: Part = {
  name: "get",
  summary: "Show everything about a volume",
  usage: "<volume>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const one = await client.volumes.get(args.positionals[0] ?? "");
    out.result(fields(one), one);
    return 0;
  },
};

const update: Part = {
  name: "update",
  summary: "Change its name, or replace its labels",
  usage: "<volume> [--name N] [options]",
  words: [1, 1],
  options: {
    name: nameOption,
    "no-name": { type: "boolean", help: "Take its name away" },
    label: labelOption,
  },
  async run({ args, out, client }) {
    const [which = ""] = args.positionals;
    const unnamed = args.flag("no-name");
    const changes = { name: unnamed ? null : args.text("name"), labels: args.pairs("label") };
    if (unnamed && args.text("name") !== undefined)
      throw new UsageError("--name or --no-name, not both", "Pass one of them.");
    if (changes.name === undefined && changes.labels === undefined)
      throw new UsageError("volume update needs --name, --no-name or --label", "See the options with --help.");
    const after = await client.volumes.update(which, changes);
    out.result(`${which}: ${after.name === null ? "without a name" : `named ${after.name}`}`, after);
    return 0;
  },
};

const resize: Part = {
  name: "resize",
  summary: "Make it larger; it never shrinks",
  usage: "<volume> --size-mib N",
  words: [1, 1],
  options: { "size-mib": sizeOption },
  async run({ args, out, client }) {
    const [which = ""] = args.positionals;
    const after = await client.volumes.resize(which, sizeIn(args, "resize"));
    out.result(`${which}: ${volumeSizeOf(after.sizeMiB)}`, after);
    return 0;
  },
};

const attach: Part = {
  name: "attach",
  summary: "Plug it into a sandbox that runs or is stopped",
  usage: "<volume> <sandbox> <path> [--mode M]",
  words: [3, 3],
  options: {
    mode: {
      type: "string",
      value: "M",
      help: "rw, for one sandbox at a time, or snapshot: read-only, as it was last known to be consistent (rw)",
    },
  },
  async run({ args, out, client }) {
    const [which = "", sandbox = "", path = ""] = args.positionals;
    const mode = args.choice("mode", VolumeMode.options);
    out.progress(`Attaching ${which} to ${sandbox}...`);
    const after = await client.volumes.attach(which, { sandbox, path, mode });
    out.result(`${which}: ${after.mode} at ${after.path} of ${sandbox}`, after);
    return 0;
  },
};

const detach: Part = {
  name: "detach",
  summary: "Unplug it, and store what was written off the host",
  usage: "<volume> [<sandbox>] [--no-wait]",
  words: [1, 2],
  options: { "no-wait": noWaitOption },
  async run(context) {
    const { args, out, client } = context;
    const [which = ""] = args.positionals;
    const { id, volumeId } = await attachmentToEnd(context);
    out.progress(`Unplugging ${which}, and storing what was written to it...`);
    const after = await client.volumes.detach(volumeId, id, { wait: !args.flag("no-wait") });
    out.result(`${which}: ${after.state} from ${after.sandboxId}`, after);
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete it for good; its backups stay",
  usage: "<volume>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [which = ""] = args.positionals;
    await client.volumes.delete(which);
    out.result(`${which}: deleted`, { volume: which, deleted: true });
    return 0;
  },
};

export const volume = group({
  name: "volume",
  summary: "Make, attach, back up and delete volumes: disks that outlive sandboxes",
  details:
    "<volume> is an id or a name. rouse create --volume V:/PATH makes a sandbox with one. One sandbox at a time writes;\n" +
    "with mode snapshot others read what it was when it was last stopped, detached or backed up.",
  parts: [create, ls, get, update, resize, attach, detach, backup, backups, deleteBackup, restore, backupPolicy, rm],
});

/** The stay that `detach` is to end. */
async function attachmentToEnd({ args, client, sandbox }: Context): Promise<Attachment> {
  const [which = "", of] = args.positionals;
  if (of !== undefined && AttachmentId.safeParse(of).success) return await client.volumes.attachment(which, of);
  const { attachments } = await client.volumes.get(which);
  const holder = of === undefined || attachments.some((one) => one.sandboxId === of) ? of : (await sandbox(of)).id;
  const [found, ...others] = holder === undefined ? attachments : attachments.filter((a) => a.sandboxId === holder);
  if (found === undefined)
    throw new UsageError(`${which} is not attached${of === undefined ? "" : ` to ${of}`}`, "See: rouse volume ls");
  if (others.length === 0) return found;
  const names = [found, ...others].map((one) => `${one.id} (${one.sandboxId}, ${one.mode}, ${one.state})`);
  throw new UsageError(`${which} is attached ${names.length} times: ${names.join("; ")}`, "Say which, by its att- id.");
}

/** Who has it: the one that writes, and how many read. */
function holdersOf({ attachments }: Volume): string {
  const writer = attachments.find(({ mode }) => mode === "rw");
  const readers = attachments.filter(({ mode }) => mode === "snapshot").length;
  const words = [
    ...(writer === undefined ? [] : [writer.sandboxId + (writer.state === "active" ? "" : ` (${writer.state})`)]),
    ...(readers === 0 ? [] : [`${readers} reading`]),
  ];
  return words.join(", ") || "-";
}

function sizeIn(args: Args, verb: string): number {
  const size = args.whole("size-mib", volumeLimits.sizeMiBMin, volumeLimits.sizeMiBMax);
  if (size !== undefined) return size;
  throw new UsageError(`volume ${verb} needs --size-mib`, "Such as --size-mib 10240 for 10 GiB.");
}
