/** What is counted and timed while a scenario runs. */
export class Tally {
  /** Tries to create, each a choice of a host. */
  creations = 0;
  /** Choices that found no host with room on the board. */
  boardRefusals = 0;
  /** Choices whose host turned out to be full. */
  staleChoices = 0;
  /** Creations that were sent to a host that was lost, and the board did not know yet. */
  stranded = 0;
  /** Wakes and boots that a host had no room for. */
  wakeRefusals = 0;
  /** Names that met such a refusal. */
  readonly refusedNames = new Set<number>();
  readonly refusingHosts = new Set<number>();
  /** Somebody lost patience. */
  givenUp = 0;
  idlePauses = 0;
  leaseEnds = 0;
  /** Steps that a new request or the time drove, and found no host. */
  triesByAsking = 0;
  triesByTimer = 0;
  /** Alarms that only saw that a call was still under way. */
  watchAlarms = 0;
  /** Machines that ran on hosts as these were lost. */
  lostRuns = 0;
  /** Times that an object gave up what a host had of it. */
  hostLost = 0;
  /** Requests to a machine that should run, on a host that is away. */
  unanswered = 0;
  /** Milliseconds from the first request, or creation, until the machine runs. */
  readonly waits: number[] = [];
  readonly refusedWaits: number[] = [];
  /** Requests that found their machine running. */
  warm = 0;
}

/** The value below which `share` of the numbers lie; 0 of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).toSorted();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

export interface Spread {
  readonly mean: number;
  readonly max: number;
  readonly standardDeviation: number;
  readonly maxOverMean: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  const max = values.reduce((most, value) => Math.max(most, value), 0);
  return { mean, max, standardDeviation: Math.sqrt(variance), maxOverMean: max / mean };
}
