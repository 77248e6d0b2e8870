/** What resources cost, and what amounts of them come to: whole numbers throughout, rounded once per line. Pure. */
import { z } from "zod";

const micros = z.int().min(0).max(1_000_000_000_000);

/** Prices in microdollars. A resource keeps the rates of the day it was made. */
export const Rates = z
  .strictObject({
    /** From when on new resources get them. */
    from: z.iso.datetime(),
    /** Per hour of one virtual CPU at work; time it waits costs nothing. */
    cpuPerVcpuHour: micros,
    /** Per GiB (2^30) and hour of a running machine. */
    memoryPerGibHour: micros,
    /** Per GB (10^9) and 30 days of what a sleeping machine, or a snapshot, alone stores. */
    storedPerGbMonth: micros,
    /** Per GiB (2^30) and hour of a volume's full size, from its creation. */
    volumePerGibHour: micros,
    /** Per GB (10^9) and 30 days of what a backup of a volume alone stores. */
    backupPerGbMonth: micros.default(12_000),
  })
  .meta({ id: "Rates" });
export type Rates = z.infer<typeof Rates>;

/** Rates as they changed, in the setting `ROUSE_RATES` of the edge. */
export const RatesHistory = z.array(Rates);

/** The rates of an installation that sets none. */
export const defaultRates: Rates = {
  from: "2026-01-01T00:00:00.000Z",
  cpuPerVcpuHour: 25_000,
  memoryPerGibHour: 7500,
  storedPerGbMonth: 80_000,
  volumePerGibHour: 153,
  backupPerGbMonth: 12_000,
};

/** What is measured, in units small enough that every reading is a whole number. */
export const meters = ["cpu", "memory", "stored", "volume", "backup"] as const;
export type Meter = (typeof meters)[number];

/** CPU-nanoseconds; MiB-milliseconds of `memory` and `volume`; byte-milliseconds of `stored` and `backup`. */
export type Amounts = Readonly<Record<Meter, bigint>>;

export const NOTHING: Amounts = { cpu: 0n, memory: 0n, stored: 0n, volume: 0n, backup: 0n };

export function isNothing(amounts: Amounts): boolean {
  return meters.every((meter) => amounts[meter] === 0n);
}

const HOUR_NS = 3_600_000_000_000n;
const GIB_HOUR = 1024n * 3_600_000n;
const GB_MONTH = 1_000_000_000n * 2_592_000_000n;

/** Units of a meter that its rate is for. */
const unitsPerRate: Amounts = {
  cpu: HOUR_NS,
  memory: GIB_HOUR,
  stored: GB_MONTH,
  volume: GIB_HOUR,
  backup: GB_MONTH,
};

function rateOf(rates: Rates, meter: Meter): bigint {
  const of = {
    cpu: rates.cpuPerVcpuHour,
    memory: rates.memoryPerGibHour,
    stored: rates.storedPerGbMonth,
    volume: rates.volumePerGibHour,
    backup: rates.backupPerGbMonth,
  };
  return BigInt(of[meter]);
}

/** Microdollars of one line, rounded half up. */
export function priceOf(meter: Meter, amount: bigint, rates: Rates): bigint {
  const divisor = unitsPerRate[meter];
  return (2n * amount * rateOf(rates, meter) + divisor) / (2n * divisor);
}

/** Microdollars of all meters, each a line of its own. */
export function totalOf(amounts: Amounts, rates: Rates): bigint {
  return meters.reduce((sum, meter) => sum + priceOf(meter, amounts[meter], rates), 0n);
}

export function add(left: Amounts, right: Amounts): Amounts {
  return meterwise((meter) => left[meter] + right[meter]);
}

export function subtract(left: Amounts, right: Amounts): Amounts {
  return meterwise((meter) => left[meter] - right[meter]);
}

function meterwise(amount: (meter: Meter) => bigint): Amounts {
  return {
    cpu: amount("cpu"),
    memory: amount("memory"),
    stored: amount("stored"),
    volume: amount("volume"),
    backup: amount("backup"),
  };
}

/** The rates that hold at a time: the newest that had begun. The first ones hold before it as well. */
export function ratesAt(history: readonly [Rates, ...Rates[]], at: number): Rates {
  const begun = history.filter(({ from }) => Date.parse(from) <= at);
  return begun.toSorted((a, b) => Date.parse(b.from) - Date.parse(a.from))[0] ?? history[0];
}

/** `1234567` -> `$1.23`; cents rounded half away from zero. */
export function dollars(amount: bigint): string {
  const absolute = amount < 0n ? -amount : amount;
  const cents = (absolute + 5000n) / 10_000n;
  const whole = (cents / 100n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  return `${amount < 0n ? "-" : ""}$${whole}.${(cents % 100n).toString().padStart(2, "0")}`;
}

/** What a month is planned to look like. */
export const Plan = z.strictObject({
  users: z.number().int().min(1).max(1_000_000_000),
  /** Hours in the month that each machine is awake. */
  awakeHours: z.number().min(0),
  /** Virtual CPUs that are busy, on average, while it is awake. */
  cpu: z.number().min(0).max(1024),
  memoryGib: z.number().min(0).max(65_536),
  /** What each stores alone while it sleeps. */
  storedGb: z.number().min(0).max(1_000_000),
  volumeGib: z.number().min(0).max(1_000_000),
  /** A 30-day month has 720. */
  monthHours: z.number().min(1).max(744),
});
export type Plan = z.infer<typeof Plan>;

/** What the machines of a plan use in the month; the volume counts all of it, as it is there all the time. */
export function amountsOf(plan: Plan): Amounts {
  const users = BigInt(plan.users);
  const awakeMs = exact(plan.awakeHours * 3_600_000);
  const asleepMs = exact((plan.monthHours - plan.awakeHours) * 3_600_000);
  return {
    cpu: users * exact(plan.cpu * 1e6) * awakeMs,
    memory: users * exact(plan.memoryGib * 1024) * awakeMs,
    stored: users * exact(plan.storedGb * 1e9) * asleepMs,
    volume: users * exact(plan.volumeGib * 1024) * exact(plan.monthHours * 3_600_000),
    backup: 0n,
  };
}

/** A decimal as people write it, times a power of ten, is a whole number but for what floating point adds. */
function exact(value: number): bigint {
  return BigInt(Math.round(value));
}
