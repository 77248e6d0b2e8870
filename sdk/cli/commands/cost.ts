import { readFile } from "node:fs/promises";
import { amountsOf, defaultRates, dollars, meters, Plan, priceOf, Rates, type Meter } from "../../contract/pricing.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { table } from "../output.ts";

/** What each number of the plan is when it is not given. */
const DEFAULTS = { users: 1, awakeHours: 0, cpu: 0, memoryGib: 2, storedGb: 0, volumeGib: 0, monthHours: 720 } as const;
const MICROS = 1_000_000;

const flags: Record<keyof typeof DEFAULTS, [flag: string, help: string]> = {
  users: ["users", "Machines, one for each user"],
  awakeHours: ["awake-hours", "Hours in the month that each is awake"],
  cpu: ["cpu", "Virtual CPUs that are busy while it is awake, on average"],
  memoryGib: ["memory-gib", `Memory of each, GiB; ${DEFAULTS.memoryGib} unless given`],
  storedGb: ["stored-gb", "What each stores while it sleeps, GB of 10^9 bytes"],
  volumeGib: ["volume-gib", "A volume for each, GiB"],
  monthHours: ["month-hours", `Hours of the month; ${DEFAULTS.monthHours} unless given`],
};

export const cost: Command = {
  name: "cost",
  summary: "Work out what a month would cost",
  usage: "[--users N] [--awake-hours H] ...",
  words: [0, 0],
  options: {
    ...Object.fromEntries(
      Object.values(flags).map(([flag, help]) => [flag, { type: "string", value: "N", help } as const]),
    ),
    rates: { type: "string", value: "FILE", help: "Other rates, as JSON" },
  },
  async run({ args, out }) {
    const faults: string[] = [];
    const numbers = Object.entries(flags).map(([field, [flag]]) => {
      const text = args.text(flag);
      const number = text === undefined ? DEFAULTS[field as keyof typeof DEFAULTS] : Number(text);
      if (text?.trim() === "" || Number.isNaN(number)) faults.push(`--${flag}: not a number`);
      return [field, number] as const;
    });
    const plan = Plan.safeParse(Object.fromEntries(numbers));
    for (const { path, message } of plan.error?.issues ?? []) {
      const flag = flags[path[0] as keyof typeof flags][0];
      if (!faults.some((fault) => fault.startsWith(`--${flag}:`))) faults.push(`--${flag}: ${message}`);
    }
    if (plan.success && plan.data.awakeHours > plan.data.monthHours)
      faults.push("--awake-hours: more than the month has");
    if (faults.length > 0 || !plan.success) throw new UsageError(faults.join("; "), "See the options with --help.");
    const file = args.text("rates");
    const rates = file === undefined ? defaultRates : await ratesFrom(file);
    const amounts = amountsOf(plan.data);
    const lines = meters
      .filter((meter) => amounts[meter] > 0n)
      .map((meter) => ({ meter, how: howOf(meter, plan.data, rates), micros: priceOf(meter, amounts[meter], rates) }));
    const total = lines.reduce((sum, { micros }) => sum + micros, 0n);
    const rows = lines.map(({ meter, how, micros }) => [TITLES[meter], how, dollars(micros)]);
    out.result(table(["", "", "MONTH"], [...rows, ["Total", "", dollars(total)]]), {
      plan: plan.data,
      rates,
      lines: lines.map(({ meter, how, micros }) => ({ meter, how, micros: Number(micros), dollars: dollars(micros) })),
      totalMicros: Number(total),
      total: dollars(total),
    });
    return 0;
  },
};

const TITLES: Record<Meter, string> = {
  cpu: "CPU",
  memory: "Memory",
  stored: "Asleep",
  volume: "Volume",
  backup: "Backup",
};

function howOf(meter: Meter, plan: Plan, rates: Rates): string {
  const users = `${count(plan.users)} x`;
  const asleep = plan.monthHours - plan.awakeHours;
  switch (meter) {
    case "cpu":
      return `${users} ${plan.awakeHours} h x ${plan.cpu} vCPU x $${rates.cpuPerVcpuHour / MICROS}`;
    case "memory":
      return `${users} ${plan.awakeHours} h x ${plan.memoryGib} GiB x $${rates.memoryPerGibHour / MICROS}`;
    case "stored":
      return `${users} ${plan.storedGb} GB x $${rates.storedPerGbMonth / MICROS} x ${asleep} h / 720 h`;
    case "volume":
      return `${users} ${plan.monthHours} h x ${plan.volumeGib} GiB x $${rates.volumePerGibHour / MICROS}`;
    case "backup":
      return `$${rates.backupPerGbMonth / MICROS} per GB`;
  }
}

function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @throws UsageError with every fault of the file */
async function ratesFrom(file: string): Promise<Rates> {
  const hint = `A file like ${JSON.stringify(defaultRates)}, in microdollars.`;
  const text = await readFile(file, "utf8").catch(() => {
    throw new UsageError(`${file} can't be read`, hint);
  });
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new UsageError(`${file} is not JSON`, hint);
  }
  const rates = Rates.safeParse(json);
  if (rates.success) return rates.data;
  const faults = rates.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new UsageError(`${file}: ${faults.join("; ")}`, hint);
}
