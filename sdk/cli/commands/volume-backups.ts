/** Verbs of `rouse volume` for backups. */
import { volumeLimits } from "../../contract/volume.ts";
import { UsageError } from "../args.ts";
import type { OptionSpec } from "../args.ts";
import type { Part } from "../group.ts";
import { ago, sizeOf, table } from "../output.ts";
import { labelOption, nameOption, noWaitOption, sizeOption, volumeIdOf } from "../volumes.ts";

const LISTED_STATES = ["pending", "ready", "failed", "deleting"] as const;
const daysOption: OptionSpec = {
  type: "string",
  value: "DAYS",
  help: `Days that a backup is kept, at most ${volumeLimits.backupDaysMax} (${volumeLimits.backupDaysDefault})`,
};

export const backup: Part = {
  name: "backup",
  summary: "Copy it as it is now; print the id once it is stored",
  usage: "<volume> [options]",
  words: [1, 1],
  options: { name: nameOption, label: labelOption, "retention-days": daysOption, "no-wait": noWaitOption },
  async run({ args, out, client }) {
    const [which = ""] = args.positionals;
    const input = {
      name: args.text("name"),
      labels: args.pairs("label"),
      retentionDays: args.whole("retention-days", 1, volumeLimits.backupDaysMax),
      wait: !args.flag("no-wait"),
    };
    out.progress(`Backing up ${which}...`);
    const made = await client.volumes.backup(which, input);
    out.result(made.id, made);
    out.note(`A volume from it: rouse volume restore ${made.id}`);
    return 0;
  },
};

export const backups: Part = {
  name: "backups",
  summary: "List backups, of one volume or of all",
  usage: "[<volume>] [--state S]",
  words: [0, 1],
  options: { state: { type: "string", value: "S", help: "Only those in this state" } },
  async run({ args, out, client }) {
    const [which] = args.positionals;
    const state = args.choice("state", LISTED_STATES);
    const volumeId = which === undefined ? undefined : await volumeIdOf(client, which);
    const page = await client.volumes.backups({ volumeId, state, limit: volumeLimits.listMax });
    const all = await page.toArray();
    const now = Date.now();
    const rows = all.map((one) => [
      one.id,
      one.name ?? "-",
      one.volumeId,
      one.trigger,
      one.state,
      one.state === "ready" ? sizeOf(one.storedBytes) : "-",
      ago(one.createdAt, now),
      one.expiresAt?.slice(0, 10) ?? "-",
    ]);
    const heading = ["BACKUP", "NAME", "VOLUME", "TRIGGER", "STATE", "STORED", "AGE", "KEPT UNTIL"];
    out.result(rows.length === 0 ? "No backups." : table(heading, rows), { data: all });
    return 0;
  },
};

export const deleteBackup: Part = {
  name: "backup-rm",
  summary: "Delete a backup; volumes made from it stay",
  usage: "<backup>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [id = ""] = args.positionals;
    await client.volumes.deleteBackup(id);
    out.result(`${id}: deleted`, { id, deleted: true });
    return 0;
  },
};

export const restore: Part = {
  name: "restore",
  summary: "Make a volume that begins as a backup; print its id",
  usage: "<backup> [--name N] [options]",
  words: [1, 1],
  options: { name: nameOption, "size-mib": sizeOption, label: labelOption },
  async run({ args, out, client }) {
    const [id = ""] = args.positionals;
    const made = await client.volumes.restore(id, {
      name: args.text("name"),
      sizeMiB: args.whole("size-mib", volumeLimits.sizeMiBMin, volumeLimits.sizeMiBMax),
      labels: args.pairs("label"),
    });
    out.result(made.id, made);
    return 0;
  },
};

export const backupPolicy: Part = {
  name: "backup-policy",
  summary: "Daily backups, and how long they are kept",
  usage: "<volume> [--daily on|off] [options]",
  words: [1, 1],
  options: {
    daily: { type: "string", value: "on|off", help: "A backup each day (on)" },
    "retention-days": daysOption,
  },
  async run({ args, out, client }) {
    const [which = ""] = args.positionals;
    const daily = args.choice("daily", ["on", "off"]);
    const retentionDays = args.whole("retention-days", 1, volumeLimits.backupDaysMax);
    if (daily === undefined && retentionDays === undefined)
      throw new UsageError(
        "backup-policy needs --daily or --retention-days",
        "See what holds: rouse volume get VOLUME",
      );
    const policy = { daily: daily === undefined ? undefined : daily === "on", retentionDays };
    const after = await client.volumes.setBackupPolicy(which, policy);
    const { backups: now } = after;
    out.result(`${which}: ${now.daily ? "a backup a day" : "no daily backups"}, kept ${now.retentionDays} days`, after);
    return 0;
  },
};
