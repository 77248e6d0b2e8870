/** What machines used: how hosts report it, and how an account reads it. */
import { z } from "zod";
import { AccountName, AccountPlan } from "./account.ts";
import { Generation } from "./names.ts";
import { SandboxId } from "./names.ts";
import type { Amounts } from "./pricing.ts";

/** A whole number that may be past 2^53, as decimal digits. */
const Amount = z.string().regex(/^\d{1,30}$/, "a whole number, in digits");

/** Amounts of one generation of a machine so far; a later report holds all of an earlier one. Volumes and what is kept apart from machines are counted by the edge. */
export const UsageReport = z.object({
  account: AccountName,
  id: SandboxId,
  generation: Generation,
  /** Grows with every report of the generation. */
  sequence: z.int().min(1),
  /** CPU-nanoseconds. */
  cpu: Amount,
  /** MiB-milliseconds. */
  memory: Amount,
  /** Byte-milliseconds. */
  stored: Amount,
});
export type UsageReport = z.infer<typeof UsageReport>;

/** Reports of one call. */
export const USAGE_BATCH = 500;

/** `POST <edge>/internal/usage`, host secret. At least once, any order. */
export const UsageReports = z.object({ reports: z.array(UsageReport).max(USAGE_BATCH) });

/** Amounts as they travel and are stored: whole numbers past 2^53 are digits there. */
export interface AmountDigits {
  readonly cpu: string;
  readonly memory: string;
  readonly stored: string;
}

/** @param digits with `volume` and `backup` of a line of the books, without them of a machine */
export function fromDigits({
  cpu,
  memory,
  stored,
  volume = "0",
  backup = "0",
}: AmountDigits & { readonly volume?: string; readonly backup?: string }): Amounts {
  return {
    cpu: BigInt(cpu),
    memory: BigInt(memory),
    stored: BigInt(stored),
    volume: BigInt(volume),
    backup: BigInt(backup),
  };
}

export function toDigits({ cpu, memory, stored }: Amounts): AmountDigits {
  return { cpu: String(cpu), memory: String(memory), stored: String(stored) };
}

export const Month = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, "a month such as 2026-11");

/** Query of `GET /v1/usage`. */
export const UsageQuery = z.strictObject({
  /** The month under way (UTC) unless said; `all` for every month. */
  month: z.union([Month, z.literal("all")]).optional(),
  /** Add totals by sandbox, by month, or by the value of a label. */
  by: z.union([z.enum(["sandbox", "month"]), z.string().regex(/^label:.{1,63}$/, "label:<key>")]).optional(),
  /** `csv`: the lines as text/csv. */
  format: z.enum(["json", "csv"]).optional(),
});
export type UsageQuery = z.infer<typeof UsageQuery>;

/** One sandbox, volume, snapshot or backup of a volume in one month. Money in microdollars; amounts as digits, in the units of a report. */
export const UsageLine = z
  .object({
    month: Month,
    kind: z.enum(["sandbox", "volume", "snapshot", "backup"]),
    /** Its id, whatever it is. A snapshot's copies of volumes are backups here. */
    sandboxId: z.string(),
    name: z.string().nullable(),
    labels: z.record(z.string(), z.string()),
    plan: AccountPlan,
    cpu: Amount,
    memory: Amount,
    stored: Amount,
    /** MiB-milliseconds of a volume's full size; told within an hour. */
    volume: Amount,
    /** Byte-milliseconds of what a backup alone stores; told within an hour. */
    backup: Amount,
    cpuMicros: z.int(),
    memoryMicros: z.int(),
    storedMicros: z.int(),
    /** Of the plan `flat`. */
    flatMicros: z.int(),
    volumeMicros: z.int(),
    backupMicros: z.int(),
    totalMicros: z.int(),
  })
  .meta({ id: "UsageLine" });
export type UsageLine = z.infer<typeof UsageLine>;

/** Sum of lines with something in common; `key` is null for those without the label. What is no sandbox counts in money alone. */
export const UsageGroup = z
  .object({ key: z.string().nullable(), totalMicros: z.int(), sandboxes: z.int() })
  .meta({ id: "UsageGroup" });
export type UsageGroup = z.infer<typeof UsageGroup>;

/** Microdollars that may be past 2^53, as text. */
const MicrosText = z.string().regex(/^-?\d{1,30}$/);

/** What was used at the rates each sandbox was made under, and the account's credit. */
export const Usage = z
  .object({
    month: z.union([Month, z.literal("all")]),
    lines: z.array(UsageLine),
    totalMicros: z.int(),
    groups: z.array(UsageGroup).optional(),
    orgId: z.string(),
    unit: z.literal("microdollars"),
    credited: MicrosText,
    /** In the account's whole life. */
    spent: MicrosText,
    held: MicrosText,
    expired: MicrosText,
    /** Credit that is neither spent nor held; 0 on a plan without credit. */
    available: MicrosText,
    takenBack: MicrosText,
    trial: z.null(),
    resources: z.array(z.never()),
  })
  .meta({ id: "Usage" });
export type Usage = z.infer<typeof Usage>;

/** Lines as CSV, with a heading; money in microdollars, labels as `key=value` with spaces between. */
export function usageCsv(lines: readonly UsageLine[]): string {
  const fields = [
    "cpu",
    "memory",
    "stored",
    "cpuMicros",
    "memoryMicros",
    "storedMicros",
    "flatMicros",
    "totalMicros",
    "kind",
    "volume",
    "volumeMicros",
    "backup",
    "backupMicros",
  ] as const;
  const heading = ["month", "sandboxId", "name", "labels", "plan", ...fields].join(",");
  const rows = lines.map((line) => {
    const labels = Object.entries(line.labels).map(([key, value]) => `${key}=${value}`);
    const texts = [line.month, line.sandboxId, line.name ?? "", labels.join(" "), line.plan].map(csvField);
    return [...texts, ...fields.map((field) => line[field])].join(",");
  });
  return `${[heading, ...rows].join("\n")}\n`;
}

/** Quoted where it must be, and never a formula to a spreadsheet. */
function csvField(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
