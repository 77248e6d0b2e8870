import { labelOfId } from "../../contract/names.ts";
import { SnapshotMode, snapshotLimits } from "../../contract/snapshot.ts";
import { UsageError } from "../args.ts";
import type { OptionSpec } from "../args.ts";
import { group, type Part } from "../group.ts";
import { ago, fields, sizeOf, table } from "../output.ts";

const LISTED_STATES = ["capturing", "ready", "failed", "deleting"] as const;
const nameOption: OptionSpec = { type: "string", value: "N", help: "What it is called; with ls: only those called so" };

const create: Part = {
  name: "create",
  summary: "Take one of a sandbox and print its id, once it is stored off its host",
  usage: "<name> [--name N] [--mode M] [--label K=V] [--retention DAYS]",
  words: [1, 1],
  options: {
    name: nameOption,
    mode: {
      type: "string",
      value: "M",
      help: "memory (RAM, processes and disk), or disk, which may start with other vCPUs and memory (memory)",
    },
    label: { type: "string", value: "K=V", multiple: true, help: "Label" },
    retention: {
      type: "string",
      value: "DAYS",
      help: `Days that it is kept, at most ${snapshotLimits.retentionDaysMax} (${snapshotLimits.retentionDaysDefault})`,
    },
  },
  async run({ args, out, client }) {
    const [which = ""] = args.positionals;
    const input = {
      name: args.text("name"),
      mode: args.choice("mode", SnapshotMode.options),
      labels: args.pairs("label"),
      retentionDays: args.whole("retention", 1, snapshotLimits.retentionDaysMax),
    };
    out.progress(`Taking a snapshot of ${which}, and storing it off its host...`);
    const made = await client.snapshots.create(which, input);
    out.result(made.id, made);
    const still = made.frozenMs === null ? "" : `${which} stood still for ${Math.ceil(made.frozenMs)} ms. `;
    out.note(`${still}Start from it: rouse create --snapshot ${made.id}`);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List snapshots",
  usage: "[--sandbox NAME] [--name N] [--state S]",
  words: [0, 0],
  options: {
    sandbox: { type: "string", value: "NAME", help: "Only of this sandbox; by its id also when it is deleted" },
    name: nameOption,
    state: { type: "string", value: "S", help: `Only in this state: ${LISTED_STATES.join(", ")}` },
  },
  async run({ args, out, client, sandbox }) {
    const name = args.text("name");
    const state = args.choice("state", LISTED_STATES);
    const of = args.text("sandbox");
    const sandboxId = of === undefined || labelOfId(of) !== null ? of : (await sandbox(of)).id;
    const page = await client.snapshots.list({ sandboxId, name, state, limit: snapshotLimits.listMax });
    const all = await page.toArray();
    const now = Date.now();
    const rows = all.map((one) => [
      one.id,
      one.name ?? "-",
      one.sourceSandboxId,
      one.mode,
      one.state,
      one.state === "ready" ? sizeOf(one.storedBytes) : "-",
      ago(one.createdAt, now),
      one.expiresAt?.slice(0, 10) ?? "-",
    ]);
    const heading = ["SNAPSHOT", "NAME", "SANDBOX", "MODE", "STATE", "SIZE", "AGE", "KEPT UNTIL"];
    out.result(rows.length === 0 ? "No snapshots." : table(heading, rows), { data: all });
    return 0;
  },
};

const get: Part = {
  name: "get",
  summary: "Show everything about a snapshot",
  usage: "<id>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const one = await client.snapshots.get(args.positionals[0] ?? "");
    out.result(fields(one), one);
    return 0;
  },
};

const extend: Part = {
  name: "extend",
  summary: "Keep it for so many days from now",
  usage: "<id> <days>",
  words: [2, 2],
  options: {},
  async run({ args, out, client }) {
    const [id = "", days = ""] = args.positionals;
    const most = snapshotLimits.retentionDaysMax;
    if (!/^[1-9]\d{0,2}$/.test(days) || Number(days) > most) {
      throw new UsageError(
        `${JSON.stringify(days)} is not a number of days from 1 to ${most}`,
        "Such as: rouse snapshot extend ID 30",
      );
    }
    const after = await client.snapshots.extend(id, Number(days));
    out.result(`${id}: kept until ${after.expiresAt ?? "it is deleted"}`, after);
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete it; sandboxes made from it stay",
  usage: "<id>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [id = ""] = args.positionals;
    await client.snapshots.delete(id);
    out.result(`${id}: deleted`, { id, deleted: true });
    return 0;
  },
};

export const snapshot = group({
  name: "snapshot",
  summary: "Take, list, keep and delete snapshots of sandboxes",
  details:
    "rouse snapshot NAME is short for rouse snapshot create NAME, for a sandbox that is not called like a verb.\n" +
    "One that runs stands still for a moment and goes on; one that sleeps sleeps on. Snapshots outlive their sandbox.",
  parts: [create, ls, get, extend, rm],
  unnamed: "create",
});
