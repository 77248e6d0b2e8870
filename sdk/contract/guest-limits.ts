/** Limits and fixed places of what runs inside a sandbox. No zod: the guest agent, a single file, imports it. */

export const guestLimits = {
  /** Bytes of one stream in a plain exec answer, for timeouts up to 60 s and above. */
  execBytesShort: 65_536,
  execBytesLong: 1_048_576,
  /** Default and longest time limit of a command, milliseconds. */
  execTimeoutMs: 60_000,
  execTimeoutMsMax: 86_400_000,
  /** Output kept of each process, bytes; older bytes are dropped. */
  outputBytes: 1_048_576,
  /** Running commands and processes at once. */
  processes: 1024,
  /** Ended processes that are remembered. */
  endedProcesses: 16,
  /** Bytes of one PUT of file content and of one upload chunk. */
  chunkBytes: 1_048_576,
  /** Seconds of one slice of a followed output, after which `continue` ends it. */
  followSeconds: 110,
  /** Columns and rows of a terminal: the most, and those of one whose opener says nothing. */
  terminalSizeMax: 2000,
  terminalCols: 80,
  terminalRows: 24,
  /** Forwarded connections of one WebSocket at once, and bytes of its client's data that may be on their way. */
  forwarded: 64,
  forwardWindow: 1_048_576,
  /** File watches at once, folders of one at most, and how long one goes on unless said, at most: milliseconds. */
  watches: 8,
  watchedMax: 65_536,
  watchMs: 3_600_000,
  watchMsMax: 86_400_000,
  /** Timers of a machine at once, and days that one is ahead at most. */
  timers: 64,
  timerDays: 366,
} as const;

/** Of a terminal's window, in characters. */
export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

/** How a host closes a terminal's socket when the machine goes to sleep or ends: one can come back to it. */
export const RESTING_CLOSE = { code: 4001, reason: "the machine rests" } as const;

/** Name of a timer. */
export const timerName = /^[a-z0-9-]{1,64}$/;

/** Port the guest agent listens on; not reachable as a sandbox port. */
export const AGENT_PORT = 10_800;
/** What a machine is called by `PUT /services` while an image's state is made of it; no sandbox has that id. */
export const GOLDEN_ID = "golden";

/** What a file watch can tell; `access` only where it is asked for. */
export const watchEvents = ["create", "write", "remove", "rename", "chmod", "access"] as const;

/** Home and working folder of the guest user. */
export const WORKSPACE = "/workspace";

/** Signals that a process can be sent. */
export const signals = ["SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;
