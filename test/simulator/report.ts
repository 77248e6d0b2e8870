/** A simulation as people read it. */
import { prices, type Bill } from "./bill.ts";
import { flowNames, flows } from "./flows.ts";
import { RUSH_SECONDS, type RackResult, type RushResult } from "./scenario.ts";
import type { Simulation } from "./simulation.ts";
import type { Spread } from "./tally.ts";

/** What the clock on the wall says, which differs from run to run. */
export interface Timings {
  readonly seconds: number;
  /** Of all threads. */
  readonly cpuSeconds: number;
  readonly reduceEventsPerSecond: number;
  readonly placementMicros: Readonly<Record<number, number>>;
  readonly heapMiB: number;
}

export function report(simulation: Simulation, timings: Timings): string[] {
  const { options, rush, creation, storm, cut, down, drain, sizes } = simulation;
  return [
    `${count(options.hosts)} hosts, ${count(options.names)} names, seed ${options.seed}`,
    "",
    `${RUSH_SECONDS} seconds of creations on an empty fleet (people wait for room for two minutes)`,
    row("", "choices per name", "hosts used", "given up", "wait p50", "p99"),
    ...rushRows(rush),
    "",
    `All names in ${Math.round(creation.built.minutes)} minutes`,
    row("", "names on a host", "sd", "max", "max/mean", "ran at once", "sd", "fullest"),
    spreadRow("random", creation.random.names, creation.random.busiest),
    spreadRow("as built", creation.built.names, creation.built.busiest),
    `A host has room for ${creation.built.places} that run; ever full were ${count(creation.random.hostsEverFull)} (random) and ${count(creation.built.hostsEverFull)} (as built).`,
    `Sent to a host that was full: ${count(creation.random.staleChoices)} (random), ${count(creation.built.staleChoices)} (as built). No host with room on the board: ${count(creation.random.boardRefusals)}, ${count(creation.built.boardRefusals)}.`,
    `Until it runs, as built: p50 ${seconds(creation.built.waitMs.p50)}, p99 ${seconds(creation.built.waitMs.p99)}, longest ${seconds(creation.built.waitMs.max)}.`,
    "",
    `Morning: ${count(storm.asked)} names wanted within ten minutes`,
    `Refused ${count(storm.refusals)} times, ${count(storm.refusedNames)} names on ${count(storm.refusingHosts)} hosts; served in the end: ${count(storm.served)}.`,
    `Until served: p50 ${seconds(storm.waitMs.p50)}, p99 ${seconds(storm.waitMs.p99)}, longest ${seconds(storm.waitMs.max)}; of the refused p50 ${seconds(storm.refusedWaitMs.p50)}, p99 ${seconds(storm.refusedWaitMs.p99)}.`,
    "",
    ...rackRows("cut off for half an hour", cut),
    ...rackRows("without power for half an hour", down),
    "",
    `Drain of ${count(drain.hosts)} hosts: ${count(drain.creations)} machines made meanwhile, none there; names there ${count(drain.namesBefore)} before, ${count(drain.namesAfter)} after.`,
    "",
    "Requests to objects",
    row("", "sandbox", "alarms", "account", "board", "rows written"),
    ...flowNames.map((name) => {
      const flow = flows[name];
      return row(name, flow.sandbox, flow.alarms, round(flow.account), flow.board, flow.rowsWritten);
    }),
    "",
    `Bytes per name: record ${sizes.recordBytes}, all rows ${sizes.rowBytes}, its database ${count(sizes.objectBytes)}, the account's index ${sizes.indexBytes}, each ledger entry ${sizes.entryBytes}; a host on the board ${sizes.boardEntryBytes}.`,
    `Reports of a sleeper in an hour: ${sizes.sleeperReportsPerHour}.`,
    ...simulation.bills.flatMap(({ base, usage, usageEveryMinute }) => [
      "",
      `A month with ${count(base.names)} names on ${count(base.hosts)} hosts, dollars`,
      row("", "Workers", "requests", "duration", "rows read", "written", "storage", "all"),
      billRow("all but usage", base),
      billRow("usage, as built", usage),
      billRow("usage, if every minute", usageEveryMinute),
    ]),
    `(per million: Workers ${money(prices.workersRequest)}, object requests ${money(prices.objectRequest)}, GB-s ${money(prices.gbSecond)}, rows read ${money(prices.rowRead)}, written ${money(prices.rowWritten)})`,
    "",
    `${count(simulation.events)} events, ${simulation.hoursSimulated.toFixed(1)} hours of fleets in ${timings.seconds.toFixed(0)} s (${timings.cpuSeconds.toFixed(0)} s of CPU); heap ${count(timings.heapMiB)} MiB`,
    `The table alone: ${count(timings.reduceEventsPerSecond)} events/s. One choice: ${Object.entries(
      timings.placementMicros,
    )
      .map(([hosts, micros]) => `${micros.toFixed(1)} us among ${count(Number(hosts))} hosts`)
      .join(", ")}.`,
  ];
}

function rushRows(rush: Readonly<Record<string, RushResult>>): string[] {
  return Object.entries(rush).map(([name, result]) =>
    row(
      name === "built" ? "as built" : name,
      result.choicesPerName.toFixed(2),
      count(result.hostsUsed),
      count(result.givenUp),
      seconds(result.waitMs.p50),
      seconds(result.waitMs.p99),
    ),
  );
}

function spreadRow(name: string, names: Spread, busiest: Spread): string {
  return row(
    name,
    names.mean.toFixed(1),
    names.standardDeviation.toFixed(2),
    names.max,
    names.maxOverMean.toFixed(2),
    busiest.mean.toFixed(1),
    busiest.standardDeviation.toFixed(2),
    busiest.max,
  );
}

function rackRows(what: string, rack: RackResult): string[] {
  return [
    `Rack of ${rack.hosts} hosts ${what}: ${count(rack.running)} machines ran there, ${count(rack.running - rack.notRecovered)} were served again.`,
    `  ${count(rack.unanswered)} requests found no host; given up ${count(rack.hostLost)} times; steps that met no host: ${count(rack.triesByAsking)} by asking, ${count(rack.triesByTimer)} by the table's backoff; ${count(rack.watchAlarms)} alarms only watched a call.`,
    `  ${count(rack.stranded)} creations were sent there before the board knew; refused for room afterwards: ${count(rack.wakeRefusals)} times; longest wait ${rack.maxWaitMinutes.toFixed(1)} min.`,
  ];
}

function billRow(name: string, { dollars, total }: Bill): string {
  const { workers, requests, duration, rowsRead, rowsWritten, storage } = dollars;
  return row(name, ...[workers, requests, duration, rowsRead, rowsWritten, storage, total].map((part) => count(part)));
}

function row(first: string, ...cells: readonly (string | number)[]): string {
  return `  ${first.padEnd(24)}${cells.map((cell) => String(cell).padStart(17)).join("")}`.trimEnd();
}

function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function round(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

function seconds(ms: number): string {
  return ms < 60_000 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 60_000).toFixed(1)} min`;
}

function money(perUnit: number): string {
  return `$${(perUnit * 1e6).toFixed(3)}`;
}
