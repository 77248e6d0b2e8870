/**
 * What runs inside a sandbox, on the wire: commands, processes, files, interpreter. The guest agent serves these
 * bodies; Worker and host pass them through. Paths are those of the API without `/v1/sandboxes/{id}`.
 */
import { z } from "zod";
import { guestLimits, signals, watchEvents } from "./guest-limits.ts";
import { Env } from "./sandbox.ts";

export * from "./guest-limits.ts";

const path = z
  .string()
  .min(1)
  .max(4096)
  .refine((p) => !p.includes("\0"), "a path has no NUL")
  .refine((p) => !p.split("/").includes(".."), 'a path has no ".." in it; name the place itself');

const timeoutMs = z.int().min(1).max(guestLimits.execTimeoutMsMax);

const command = {
  /** Run by `bash -c`. */
  command: z.string().min(1).optional(),
  /** Run as it is. */
  argv: z.array(z.string()).min(1).optional(),
  cwd: path.optional(),
  env: Env.optional(),
  stdin: z.string().optional(),
  stdinBase64: z.base64().optional(),
  timeoutMs: timeoutMs.optional(),
};

const oneCommand = {
  check: (body: { command?: string | undefined; argv?: string[] | undefined }) =>
    (body.command === undefined) !== (body.argv === undefined),
  fault: { message: "exactly one of command and argv", path: ["command"] as (string | number)[] },
};

export const ExecRequest = z
  .strictObject({ ...command, stream: z.boolean().optional() })
  .refine(oneCommand.check, oneCommand.fault)
  .meta({ id: "ExecRequest" });
export type ExecRequest = z.infer<typeof ExecRequest>;

export const ExecResult = z
  .object({
    /** null when the command never started; the negative signal number when a signal ended it. */
    exitCode: z.int().nullable(),
    stdout: z.string(),
    stderr: z.string(),
    timedOut: z.boolean(),
    stdoutTruncated: z.boolean(),
    stderrTruncated: z.boolean(),
    durationMs: z.number(),
    processId: z.string(),
    /** An Idempotency-Key was seen before. */
    replayed: z.boolean().optional(),
  })
  .meta({ id: "ExecResult" });
export type ExecResult = z.infer<typeof ExecResult>;

const columns = z.int().min(1).max(guestLimits.terminalSizeMax);

/** A window in characters. */
export const ResizeTerminal = z.strictObject({ cols: columns, rows: columns }).meta({ id: "ResizeTerminal" });

export const SpawnRequest = z
  .strictObject({
    ...command,
    /** It gets a terminal, 80 columns by 24 rows unless given, that is its stdin, stdout and stderr. */
    pty: z.strictObject({ cols: columns.optional(), rows: columns.optional() }).optional(),
    /** `pipe` keeps stdin open for `:write`. */
    stdinMode: z.literal("pipe").optional(),
    outputEncoding: z.enum(["utf8", "base64"]).optional(),
  })
  .refine(oneCommand.check, oneCommand.fault)
  .meta({ id: "SpawnRequest" });
export type SpawnRequest = z.infer<typeof SpawnRequest>;

export const ProcessState = z.enum(["running", "exited", "killed", "timed_out", "unknown"]);

export const Process = z
  .object({
    id: z.string(),
    kind: z.literal("process"),
    state: ProcessState,
    exitCode: z.int().nullable(),
    command: z.string(),
    cwd: z.string(),
    pty: z.boolean(),
    stdinOpen: z.boolean(),
    stdinOffset: z.int(),
    outputEncoding: z.enum(["utf8", "base64"]),
    startedAt: z.iso.datetime(),
    endedAt: z.iso.datetime().nullable(),
    timeoutMs: z.int().nullable(),
    /** Bytes written so far, stdout and stderr together, and the first of them still kept. */
    outputBytes: z.int(),
    firstOffset: z.int(),
    /** An Idempotency-Key was seen before. */
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Process" });
export type Process = z.infer<typeof Process>;

/** One line of a stream (`application/x-ndjson`); `offset` counts raw bytes of stdout and stderr together. */
export const OutputEvent = z
  .discriminatedUnion("type", [
    z.object({ type: z.literal("start"), processId: z.string() }),
    z.object({ type: z.literal("stdout"), data: z.string(), offset: z.int(), base64: z.string().optional() }),
    z.object({ type: z.literal("stderr"), data: z.string(), offset: z.int(), base64: z.string().optional() }),
    z.object({ type: z.literal("truncated"), droppedBytes: z.int(), resumeAt: z.int() }),
    z.object({ type: z.literal("continue"), processId: z.string(), cursor: z.int() }),
    z.object({
      type: z.literal("exit"),
      exitCode: z.int().nullable(),
      state: ProcessState,
      timedOut: z.boolean(),
      durationMs: z.number(),
    }),
    z.object({
      type: z.literal("error"),
      error: z.object({
        code: z.string(),
        message: z.string(),
        status: z.int().optional(),
        requestId: z.string().optional(),
      }),
    }),
  ])
  .meta({ id: "OutputEvent" });
export type OutputEvent = z.infer<typeof OutputEvent>;

export const OutputQuery = z.strictObject({
  cursor: z.coerce.number().int().min(0).optional(),
  follow: z.enum(["true", "false"]).optional(),
  maxBytes: z.coerce.number().int().min(1).max(guestLimits.outputBytes).optional(),
  waitMs: z.coerce.number().int().min(0).max(8000).optional(),
});

/** Answer of `GET .../output` without `follow`. */
export const OutputPage = z
  .object({
    chunks: z.array(
      z.object({
        stream: z.enum(["stdout", "stderr"]),
        text: z.string(),
        offset: z.int(),
        base64: z.string().optional(),
      }),
    ),
    nextCursor: z.int(),
    truncated: z.boolean(),
    process: z.object({ state: ProcessState, exitCode: z.int().nullable() }).nullable(),
  })
  .meta({ id: "OutputPage" });

export const WriteStdin = z
  .strictObject({ base64: z.base64(), offset: z.int().min(0), eof: z.boolean().optional() })
  .meta({ id: "WriteStdin" });

export const SignalProcess = z.strictObject({ signal: z.enum(signals) }).meta({ id: "SignalProcess" });

const fromQuery = (most: number) => z.coerce.number().int().min(1).max(most);

/** `GET .../terminal`, which upgrades to a WebSocket: a new terminal, or with `processId` another look at one. */
export const TerminalQuery = z.strictObject({
  cols: fromQuery(guestLimits.terminalSizeMax).optional(),
  rows: fromQuery(guestLimits.terminalSizeMax).optional(),
  /** Run by `bash -c`; a login shell unless given. */
  command: z.string().min(1).optional(),
  cwd: path.optional(),
  processId: z.string().min(1).max(128).optional(),
  /** Offset of the first byte of output to send; all that is kept unless given. */
  cursor: z.coerce.number().int().min(0).optional(),
  /** Who looks, so that input is counted over several sockets. */
  client: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,64}$/, "1-64 of a-z A-Z 0-9 -")
    .optional(),
});

/** Text messages of a terminal's server; its output is binary. */
export const TerminalMessage = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("ready"),
    processId: z.string(),
    /** Offset of the first byte of output that follows. */
    cursor: z.int(),
    /** Bytes of this client's input that were taken so far; for clients that name themselves. */
    input: z.int().optional(),
  }),
  z.object({ type: z.literal("input"), offset: z.int() }),
  z.object({ type: z.literal("truncated"), droppedBytes: z.int(), resumeAt: z.int() }),
  z.object({ type: z.literal("exit"), exitCode: z.int().nullable(), state: ProcessState.optional() }),
  z.object({
    type: z.literal("error"),
    error: z.object({
      code: z.string(),
      status: z.int().optional(),
      message: z.string(),
      hint: z.string().optional(),
      details: z.record(z.string(), z.unknown()).optional(),
      requestId: z.string().optional(),
    }),
  }),
]);
export type TerminalMessage = z.infer<typeof TerminalMessage>;

const mode = z.string().regex(/^[0-7]{3}$/, "three octal digits");

export const ContentQuery = z.strictObject({ path, mode: mode.optional() });
export const StatQuery = z.strictObject({ path });
export const FileListQuery = z.strictObject({
  path: path.optional(),
  depth: z.coerce.number().int().min(1).max(64).optional(),
  glob: z.string().max(1024).optional(),
  hidden: z.enum(["true", "false"]).optional(),
  limit: z.coerce.number().int().min(1).max(10_000).optional(),
});

export const FileEntry = z
  .object({
    name: z.string(),
    path: z.string(),
    type: z.enum(["file", "directory", "symlink", "other"]),
    size: z.int(),
    /** Four octal digits. */
    mode: z.string(),
    modifiedAt: z.iso.datetime(),
    uid: z.int().optional(),
    gid: z.int().optional(),
    owner: z.string().optional(),
    group: z.string().optional(),
    symlinkTarget: z.string().optional(),
  })
  .meta({ id: "FileEntry" });
export type FileEntry = z.infer<typeof FileEntry>;

/** A missing path answers 200 with `exists: false`. */
export const FileStat = z.union([
  FileEntry.extend({ exists: z.literal(true) }),
  z.object({ exists: z.literal(false), path: z.string() }),
]);
export type FileStat = z.infer<typeof FileStat>;

/** Answer of a content PUT and of an upload's commit: what is on the guest's disk, synced. */
export const FileWritten = z
  .object({ path: z.string(), size: z.int(), sha256: z.string() })
  .meta({ id: "FileWritten" });
export type FileWritten = z.infer<typeof FileWritten>;

export const Mkdir = z.strictObject({ path, parents: z.boolean().optional(), mode: mode.optional() });
export const Remove = z.strictObject({ path, recursive: z.boolean().optional() });
export const Rename = z.strictObject({ from: path, to: path, overwrite: z.boolean().optional() });
export const Chmod = z.strictObject({ path, mode });

const globs = z.array(z.string().min(1).max(1024)).max(64);

export const CreateWatch = z
  .strictObject({
    /** A file or folder. */
    path,
    /** With everything below it, also what is made later. */
    recursive: z.boolean().optional(),
    /** All but `access` unless given. */
    events: z.array(z.enum(watchEvents)).min(1).optional(),
    /** Patterns of paths below the folder; one without a slash is of names. */
    include: globs.optional(),
    exclude: globs.optional(),
    /** How long events are collected, milliseconds; 100 unless given. */
    batchMs: z.int().min(10).max(10_000).optional(),
    /** An hour unless given; 0: until it is stopped. */
    timeoutMs: z.int().min(0).max(guestLimits.watchMsMax).optional(),
    /** Folders that are watched at most. */
    maxWatches: z.int().min(1).max(guestLimits.watchedMax).optional(),
    /** Its id; one that is there with the same settings is answered. */
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "1-64 of a-z 0-9 -, not starting with -")
      .optional(),
  })
  .meta({ id: "CreateWatch" });
export type CreateWatch = z.infer<typeof CreateWatch>;

export const FileWatch = z
  .object({
    id: z.string(),
    path: z.string(),
    /** Where reading begins. */
    cursor: z.int(),
    processId: z.string(),
    state: z.enum(["running", "ended"]),
    /** Unix milliseconds. */
    startedAt: z.number(),
  })
  .meta({ id: "FileWatch" });
export type FileWatch = z.infer<typeof FileWatch>;

export const FileEvent = z
  .object({
    type: z.enum(watchEvents),
    path: z.string(),
    isDir: z.boolean(),
    /** Of a rename. */
    oldPath: z.string().optional(),
    /** How many of the same were joined. */
    count: z.int().optional(),
  })
  .meta({ id: "FileEvent" });
export type FileEvent = z.infer<typeof FileEvent>;

const cursor = z.int();

/** One line of a followed watch; `cursor` is where to go on behind it. */
export const WatchLine = z
  .discriminatedUnion("k", [
    z.object({ k: z.literal("events"), events: z.array(FileEvent), cursor }),
    /** Events that nobody has: by the kernel's count, which is not known, or for their rate. */
    z.object({ k: z.literal("overflow"), dropped: z.int().nullable(), reason: z.enum(["kernel", "rate"]), cursor }),
    /** No more folders are watched than these. */
    z.object({ k: z.literal("limit"), watches: z.int(), cursor }),
    /** What is kept no more. */
    z.object({ k: z.literal("lost"), bytes: z.int(), cursor }),
    z.object({ k: z.literal("continue"), cursor }),
    /** The machine sleeps: go on from here when it is awake. */
    z.object({ k: z.literal("paused"), cursor }),
    z.object({ k: z.literal("end"), reason: z.enum(["stopped", "timeout", "root-removed"]), cursor }),
    z.object({ k: z.literal("failure"), code: z.string(), message: z.string(), cursor }),
  ])
  .meta({ id: "WatchLine" });
export type WatchLine = z.infer<typeof WatchLine>;

export const WatchQuery = z.strictObject({
  cursor: z.coerce.number().int().min(0).optional(),
  follow: z.enum(["true", "false"]).optional(),
  waitMs: z.coerce.number().int().min(0).max(8000).optional(),
});

/** Answer of `GET .../events` without `follow`. */
export const WatchEvents = z
  .object({
    events: z.array(FileEvent),
    /** Lines that are no events. */
    notices: z.array(WatchLine),
    nextCursor: z.int(),
    lostBytes: z.int(),
    ended: z.boolean(),
  })
  .meta({ id: "WatchEvents" });

export const BeginUpload = z
  .strictObject({
    path,
    size: z.int().min(0),
    sha256: z.string().regex(/^[0-9a-f]{64}$/, "64 hex digits"),
    mode: mode.optional(),
  })
  .meta({ id: "BeginUpload" });
export const Upload = z
  .object({ uploadId: z.string(), chunkBytes: z.int(), mode: z.string().optional(), replayed: z.boolean().optional() })
  .meta({ id: "Upload" });
export type Upload = z.infer<typeof Upload>;
export const ChunkQuery = z.strictObject({ offset: z.coerce.number().int().min(0) });

/** `sandbox`: the guest's user, who owns all that is reached here. */
const user = z.enum(["sandbox", "root"]).optional();
export const PackQuery = z.strictObject({
  path,
  /** Yes unless said. */
  gzip: z.enum(["true", "false"]).optional(),
  /** Patterns of names that are left out, as tar takes them; repeats. */
  exclude: z.array(z.string().min(1).max(1024)).max(256).optional(),
  user,
});
export const UnpackQuery = z.strictObject({ path, user });
/** `gzip` is no more than a word: the first bytes say it. */
export const BeginUnpack = z.strictObject({ path, gzip: z.boolean().optional(), user }).meta({ id: "BeginUnpack" });
/** An archive was unpacked below `path`; `size` is the archive's. */
export const Unpacked = z.object({ path: z.string(), size: z.int() }).meta({ id: "Unpacked" });
export type Unpacked = z.infer<typeof Unpacked>;

export const ContextId = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, "1-63 of a-z 0-9 -, not starting with -");

export const RunCode = z
  .strictObject({
    code: z.string(),
    language: z.literal("python", "only python is offered").optional(),
    context: ContextId.optional(),
    /** Longest time until the result, milliseconds, waits included; 0: no limit. */
    timeoutMs: z.int().min(0).max(guestLimits.execTimeoutMsMax).optional(),
    interruptOnDisconnect: z.boolean().optional(),
    stream: z.boolean().optional(),
  })
  .meta({ id: "RunCode" });
export type RunCode = z.infer<typeof RunCode>;

const CodeError = z.object({ name: z.string(), value: z.string(), traceback: z.string() });
const CodeResult = z.object({
  /** The value of the last expression, as against something displayed. */
  main: z.boolean(),
  /** Mime type to text, or base64 for binary types. */
  data: z.record(z.string(), z.unknown()),
  refs: z.record(z.string(), z.unknown()),
});

export const Execution = z
  .object({
    id: z.string(),
    contextId: z.string(),
    language: z.string(),
    executionCount: z.int().nullable(),
    status: z.enum(["ok", "error", "interrupted", "timeout", "lost"]),
    stdout: z.string(),
    stderr: z.string(),
    results: z.array(CodeResult),
    error: CodeError.nullable(),
    overflow: z.array(z.object({ stream: z.string(), path: z.string().nullable(), bytes: z.int(), dropped: z.int() })),
    durationMs: z.number(),
    contextStarted: z.boolean(),
    lostBytes: z.int(),
    /** An Idempotency-Key was seen before. */
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Execution" });
export type Execution = z.infer<typeof Execution>;

/** One line of a streamed run; `execution` ends it. */
export const RunEvent = z
  .discriminatedUnion("k", [
    z.object({ k: z.literal("start"), n: z.int() }),
    z.object({ k: z.literal("stdout"), text: z.string() }),
    z.object({ k: z.literal("stderr"), text: z.string() }),
    CodeResult.extend({ k: z.literal("result") }),
    CodeError.extend({ k: z.literal("error") }),
    z.object({ k: z.literal("end") }),
    z.object({ k: z.literal("execution"), execution: Execution }),
    z.object({
      k: z.literal("failure"),
      code: z.string(),
      message: z.string(),
      hint: z.string().nullable(),
      status: z.int().optional(),
      requestId: z.string().optional(),
    }),
  ])
  .meta({ id: "RunEvent" });
export type RunEvent = z.infer<typeof RunEvent>;

export const CreateContext = z
  .strictObject({
    id: ContextId.optional(),
    language: z.literal("python", "only python is offered").optional(),
    cwd: path.optional(),
    env: Env.optional(),
  })
  .meta({ id: "CreateContext" });
export const Context = z
  .object({
    id: z.string(),
    language: z.string(),
    processId: z.string(),
    cwd: z.string(),
    state: z.enum(["starting", "idle", "busy", "dead"]),
    /** Unix milliseconds. */
    startedAt: z.number(),
    /** An Idempotency-Key was seen before. */
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Context" });
export type Context = z.infer<typeof Context>;

/** `GET /facts` of the guest agent: what keeps the machine awake, as the guest sees it. */
export const GuestFacts = z.object({
  version: z.string(),
  bootId: z.string(),
  /** Commands and background processes that run now. */
  running: z.int(),
  /** Interpreter runs in flight. */
  runs: z.int(),
  /** TCP ports with a listener. */
  listening: z.array(z.int()),
  /** The default interpreter context runs and has its libraries in memory. */
  interpreterReady: z.boolean(),
  /** What would be lost with the agent, in words; agents that say nothing can't be replaced while they run. */
  holds: z.array(z.string()).optional(),
});
export type GuestFacts = z.infer<typeof GuestFacts>;

/** `PUT /configure` of the guest agent, host only: what processes are given from now on. */
export const GuestConfig = z.strictObject({ env: Env });
