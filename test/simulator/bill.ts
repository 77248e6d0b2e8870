/** A month on Cloudflare by its public prices: arithmetic over flows, sizes and a pattern of use. */
import { HEARTBEAT_MS } from "./board.ts";
import { flows } from "./flows.ts";
import type { Sizes } from "./sizes.ts";

/** Dollars, as published when this was written, without what a plan includes. They may change. */
export const prices = {
  workersRequest: 0.3 / 1e6,
  objectRequest: 0.15 / 1e6,
  gbSecond: 12.5 / 1e6,
  rowRead: 0.001 / 1e6,
  rowWritten: 1 / 1e6,
  gbMonth: 0.2,
} as const;

/** What a name does in a month. */
export const pattern = {
  creations: 0.1,
  wakes: 20,
  /** Requests beside those that wake. */
  warmRequests: 200,
  /** Of the warm ones, those that meet an isolate which has to ask. */
  renewals: 0.1,
  awakeMinutesPerWake: 10,
  namesPerHost: 100,
} as const;

const MONTH_SECONDS = 30 * 86_400;
const OBJECT_GB = 0.128;
/** About as many are read for a creation, wake, pause or report, in all objects together, as workerd counted. */
const ROWS_READ = 40;

export interface Bill {
  readonly names: number;
  readonly hosts: number;
  readonly workersRequests: number;
  readonly objectRequests: number;
  readonly gbSeconds: number;
  readonly rowsRead: number;
  readonly rowsWritten: number;
  readonly storedGb: number;
  readonly dollars: Readonly<
    Record<"workers" | "requests" | "duration" | "rowsRead" | "rowsWritten" | "storage", number>
  >;
  readonly total: number;
}

/** Without the reports of usage, whose cost is `usageBill`. */
export function bill(names: number, sizes: Sizes): Bill {
  const hosts = names / pattern.namesPerHost;
  const times = {
    create: names * pattern.creations,
    wake: names * pattern.wakes,
    pause: names * (pattern.wakes + pattern.creations),
    warm: names * pattern.warmRequests * (1 - pattern.renewals),
    renewal: names * pattern.warmRequests * pattern.renewals,
    heartbeat: (hosts * MONTH_SECONDS * 1000) / HEARTBEAT_MS,
  } as const;
  const sum = (of: (flow: (typeof flows)["create"]) => number) =>
    (Object.keys(times) as (keyof typeof times)[]).reduce((total, name) => total + times[name] * of(flows[name]), 0);
  return priced(names, hosts, {
    workersRequests: sum(() => 1),
    objectRequests: sum((flow) => flow.sandbox + flow.alarms + flow.account + flow.board),
    gbSeconds: sum((flow) => flow.activeSeconds) * OBJECT_GB,
    rowsRead: (times.create + times.wake + times.pause) * ROWS_READ,
    rowsWritten: sum((flow) => flow.rowsWritten),
    storedGb: (names * (sizes.objectBytes + sizes.indexBytes)) / 1e9,
  });
}

/** Reports of usage alone. @param reportsPerName in a month */
export function usageBill(names: number, sizes: Sizes, reportsPerName: number): Bill {
  const hosts = names / pattern.namesPerHost;
  const reports = names * reportsPerName;
  const calls = reports / pattern.namesPerHost;
  return priced(names, hosts, {
    workersRequests: calls,
    objectRequests: calls * flows.usage.account,
    gbSeconds: reports * flows.usage.activeSeconds * OBJECT_GB,
    rowsRead: reports * ROWS_READ,
    rowsWritten: reports * flows.usage.rowsWritten,
    storedGb: (reports * sizes.entryBytes) / 1e9,
  });
}

/** Reports of a name in a month: as sleepers are told of, and if they were told of as often as what runs. */
export function reportsPerName(sizes: Sizes): { readonly asBuilt: number; readonly everyMinute: number } {
  const hours = MONTH_SECONDS / 3600;
  const awakeMinutes = pattern.wakes * pattern.awakeMinutesPerWake;
  const ends = 2 * pattern.wakes;
  return {
    asBuilt: sizes.sleeperReportsPerHour * (hours - awakeMinutes / 60) + awakeMinutes + ends,
    everyMinute: 60 * hours + ends,
  };
}

function priced(names: number, hosts: number, used: Omit<Bill, "names" | "hosts" | "dollars" | "total">): Bill {
  const dollars = {
    workers: used.workersRequests * prices.workersRequest,
    requests: used.objectRequests * prices.objectRequest,
    duration: used.gbSeconds * prices.gbSecond,
    rowsRead: used.rowsRead * prices.rowRead,
    rowsWritten: used.rowsWritten * prices.rowWritten,
    storage: used.storedGb * prices.gbMonth,
  };
  return { names, hosts, ...used, dollars, total: Object.values(dollars).reduce((sum, part) => sum + part, 0) };
}
