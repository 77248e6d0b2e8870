/**
 * `npm run simulate [-- --hosts N] [--names N] [--seed TEXT] [--quick] [--json]`: a fleet of hosts and its sandboxes on a
 * virtual clock, driven by the code that decides in production: `placeOn`, the table of lives, leases, host calls. The
 * seed fixes every number but times. Exit code 1 when something that must hold did not, 2 for flags that can't be.
 */
import { parseArgs } from "node:util";
import { report, type Timings } from "./report.ts";
import { simulate, type SimulationOptions } from "./simulation.ts";
import { placementMicros, reduceRate } from "./throughput.ts";

const FULL = { hosts: 10_000, names: 1_000_000 } as const;
const QUICK = { hosts: 500, names: 50_000 } as const;
const REDUCED_EVENTS = 2_000_000;

export type Flags = { readonly options: SimulationOptions; readonly json: boolean } | { readonly fault: string };

export function parseFlags(args: readonly string[]): Flags {
  let values;
  try {
    ({ values } = parseArgs({
      args: [...args],
      options: {
        hosts: { type: "string" },
        names: { type: "string" },
        seed: { type: "string", default: "7" },
        quick: { type: "boolean", default: false },
        json: { type: "boolean", default: false },
      },
    }));
  } catch (fault) {
    return { fault: fault instanceof Error ? fault.message : String(fault) };
  }
  const { seed, json } = values;
  const usual = values.quick ? QUICK : FULL;
  const hosts = values.hosts === undefined ? usual.hosts : Number(values.hosts);
  if (!Number.isInteger(hosts) || hosts < 100 || hosts > 100_000)
    return { fault: `--hosts is a whole number from 100 to 100000, not ${values.hosts}` };
  const names = values.names === undefined ? Math.min(usual.names, hosts * 100) : Number(values.names);
  if (!Number.isInteger(names) || names < hosts * 20 || names > hosts * 200)
    return { fault: `--names is a whole number from 20 to 200 for each host, not ${values.names}` };
  return { options: { hosts, names, seed }, json };
}

async function main(): Promise<number> {
  const flags = parseFlags(process.argv.slice(2));
  if ("fault" in flags) {
    console.error(flags.fault);
    return 2;
  }
  const { options, json } = flags;
  const from = performance.now();
  const elapsed = () => (performance.now() - from) / 1000;
  let heap = 0;
  const simulation = await simulate(options, (phase) => {
    heap = Math.max(heap, process.memoryUsage().heapUsed);
    console.error(`${elapsed().toFixed(0).padStart(5)} s  ${phase}`);
  });
  const timings: Timings = {
    seconds: elapsed(),
    cpuSeconds: process.cpuUsage().user / 1e6,
    reduceEventsPerSecond: reduceRate(REDUCED_EVENTS),
    placementMicros: Object.fromEntries(
      [...new Set([10, 100, 1000, options.hosts])].map((hosts) => [hosts, placementMicros(hosts)]),
    ),
    heapMiB: heap / 1_048_576,
  };
  console.log(report(simulation, timings).join("\n"));
  for (const violation of simulation.violations) console.error(`BROKEN  ${violation}`);
  if (json) console.log(JSON.stringify({ ...simulation, timings }));
  return simulation.violations.length > 0 ? 1 : 0;
}

if (import.meta.main) process.exitCode = await main();
