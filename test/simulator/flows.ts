/**
 * What each flow asks of objects. The numbers come from reading the code that is named beside them; rows are as workerd
 * counted them for an account that limits nothing, with each `setAlarm` as one.
 */

export interface Flow {
  /** Requests to the sandbox's object, its alarms not among them. */
  readonly sandbox: number;
  /** Alarms of the sandbox's object, which are billed as requests. */
  readonly alarms: number;
  readonly account: number;
  readonly board: number;
  /** Of `usage` for each report. */
  readonly rowsWritten: number;
  /** Time that objects are at work, or wait for a host, seconds; of `usage` for each report. */
  readonly activeSeconds: number;
  readonly why: readonly string[];
}

export const flowNames = ["create", "wake", "pause", "warm", "renewal", "usage", "heartbeat"] as const;
export type FlowName = (typeof flowNames)[number];

/** `Engine.save` sets the timer of the step 5 s ahead; the step is long over when that alarm finds nothing due. */
const stepAlarm = "1 alarm: the check of the step, which finds nothing due (engine.ts save, timers.ts arm)";

export const flows: Readonly<Record<FlowName, Flow>> = {
  create: {
    sandbox: 1,
    alarms: 1,
    account: 4,
    board: 1,
    rowsWritten: 36 + 16,
    activeSeconds: 0.8,
    why: [
      "sandbox 1: create (routes/sandboxes.ts)",
      stepAlarm,
      "account 4: verifyKey, which such a change always asks anew (auth.ts askCaller); applySummary of starting, of the host that was chosen, and of running (engine.ts save, pushIndex). One more, admitRun, where the account limits runs",
      "board 1: readBoard (engine.ts #place)",
    ],
  },
  wake: {
    sandbox: 1,
    alarms: 1,
    account: 1,
    board: 0,
    rowsWritten: 15 + 5,
    activeSeconds: 0.35,
    why: [
      "sandbox 1: route, by the request that wakes (forward.ts askRoute)",
      stepAlarm,
      "account 1: applySummary of running; that it is resuming is not told (engine.ts save). One more, admitRun, where the account limits runs",
    ],
  },
  pause: {
    sandbox: 1,
    alarms: 1,
    account: 1,
    board: 0,
    rowsWritten: 17 + 4,
    activeSeconds: 0.4,
    why: [
      "sandbox 1: machineEvent, by the host that found it idle (routes/internal.ts)",
      stepAlarm,
      "account 1: applySummary of paused; that it is pausing is not told",
    ],
  },
  warm: {
    sandbox: 0,
    alarms: 0,
    account: 0,
    board: 0,
    rowsWritten: 0,
    activeSeconds: 0,
    why: ["0: the isolate holds a grant, and a verdict on the key (route-cache.ts, auth.ts)"],
  },
  renewal: {
    sandbox: 1,
    alarms: 0,
    account: 1,
    board: 0,
    rowsWritten: 0,
    activeSeconds: 0.01,
    why: [
      "sandbox 1: route, in an isolate that has no grant, or one that ends within 30 s of its 300 (route-cache.ts)",
      "account 1: verifyKey, in an isolate that did not see the key for 30 s (auth.ts GOOD_MS)",
    ],
  },
  usage: {
    sandbox: 0,
    alarms: 0,
    account: 1,
    board: 0,
    rowsWritten: 9,
    activeSeconds: 0.0005,
    why: [
      "account 1 per call of a host and account: recordUsage, of up to 500 reports (reporter.ts)",
      "rows per report: entries 3, booked 2, lines 2 (books.ts append); costs 1 and spent 3 more when it comes to a whole microdollar, as every other report of a sleeper does (purse.ts spend)",
    ],
  },
  heartbeat: {
    sandbox: 0,
    alarms: 0,
    account: 1 / 6,
    board: 1,
    rowsWritten: 1,
    activeSeconds: 0.0005,
    why: [
      "board 1: beat, which stores the whole board (board.ts persist)",
      "account 1 in 30 s: hostEpoch of the first account's object, at best; each isolate asks for itself (auth.ts authenticateHost)",
    ],
  },
};
