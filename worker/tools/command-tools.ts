/**
 * Tools that run commands. Each begins a process and reads its output until it ends, the time to wait is over, or the
 * answer is full; what is not read by then is read on with `process_output`, also after a sleep.
 */
import { z } from "zod";
import {
  ExecRequest,
  guestLimits,
  OutputPage,
  Process,
  ProcessState,
  signals,
  SpawnRequest,
} from "../../sdk/contract/guest.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { WhichSandbox } from "./fields.ts";
import { at, query, tool, type Api, type Tool } from "./tool.ts";

const WAIT_SECONDS = 30;
const WAIT_SECONDS_MAX = 120;
const OUTPUT_BYTES = 32_768;
const OUTPUT_BYTES_MAX = 262_144;
/** How long the guest agent holds a question for output, milliseconds. */
const HOLD_MS = 8000;
/** Between two looks at a program that writes all the time, milliseconds. */
const PAUSES_MS = [50, 200, 500, 1000] as const;

const exec = ExecRequest.shape;
const WhichProcess = z.string().min(1).max(128).describe("processId of exec or process_list");
const reading = {
  waitSeconds: z
    .number()
    .min(0)
    .max(WAIT_SECONDS_MAX)
    .optional()
    .describe(
      `Answer after so many seconds even if it still runs; ${WAIT_SECONDS} unless given. It runs on: read on with process_output`,
    ),
  maxOutputBytes: z
    .int()
    .min(256)
    .max(OUTPUT_BYTES_MAX)
    .optional()
    .describe(
      `Most output in this answer; ${OUTPUT_BYTES} unless given. The rest is read with process_output from nextCursor on`,
    ),
};

const Output = z.object({
  processId: z.string(),
  state: ProcessState,
  exitCode: z.int().nullable().describe("null while it runs, or when it never started; negative: ended by that signal"),
  stdout: z.string(),
  stderr: z.string(),
  nextCursor: z.int().describe("Where process_output reads on"),
  complete: z.boolean().describe("It has ended and all that it wrote has been read"),
  lostBytes: z.int().describe("Bytes before this output that are no longer kept"),
});

interface Limits {
  readonly waitSeconds?: number | undefined;
  readonly maxOutputBytes?: number | undefined;
}

async function read(
  api: Api,
  path: string,
  processId: string,
  from: number,
  limits: Limits,
): Promise<z.infer<typeof Output>> {
  const { waitSeconds = WAIT_SECONDS, maxOutputBytes = OUTPUT_BYTES } = limits;
  const endsAt = Date.now() + waitSeconds * 1000;
  const bytes = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  let left = maxOutputBytes;
  let cursor = from;
  let lostBytes = 0;
  for (let round = 0; ; round += 1) {
    const waitMs = Math.max(0, Math.min(HOLD_MS, endsAt - Date.now()));
    const page = await api.json(OutputPage, "GET", `${path}/output${query({ cursor, waitMs, maxBytes: left })}`);
    if (page.truncated) lostBytes += Math.max(0, (page.chunks[0]?.offset ?? page.nextCursor) - cursor);
    for (const chunk of page.chunks) {
      const part = chunk.base64 === undefined ? new TextEncoder().encode(chunk.text) : bytesOf(chunk.base64);
      bytes[chunk.stream].push(part);
      left -= part.length;
    }
    cursor = page.nextCursor;
    const { state, exitCode } = page.process ?? { state: "unknown" as const, exitCode: null };
    const ended = state !== "running";
    const complete = ended && page.chunks.length === 0;
    if (complete || left <= 0 || (!ended && Date.now() >= endsAt)) {
      const [stdout, stderr] = [textOf(bytes.stdout), textOf(bytes.stderr)];
      return { processId, state, exitCode, stdout, stderr, nextCursor: cursor, complete, lostBytes };
    }
    if (!ended) await later(PAUSES_MS[Math.min(round, PAUSES_MS.length - 1)] ?? 1000);
  }
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

function textOf(parts: readonly Uint8Array[]): string {
  const decoder = new TextDecoder();
  return parts.map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode();
}

const ProcessFacts = Process.pick({
  id: true,
  state: true,
  exitCode: true,
  command: true,
  cwd: true,
  startedAt: true,
  endedAt: true,
  outputBytes: true,
  stdinOpen: true,
}).strip();

export const commandTools: readonly Tool[] = [
  tool({
    name: "exec",
    title: "Run a command",
    description:
      "Run a shell command in a sandbox, which wakes if it sleeps. A command that exits with another code than 0 is an answer, not an " +
      "error. A long one goes on after waitSeconds: its processId and nextCursor continue it with process_output. Servers: start " +
      "them with waitSeconds 1, then port_expose.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      command: exec.command.describe("Run by bash -c; this or argv"),
      argv: exec.argv.describe("Run as it is, without a shell; this or command"),
      cwd: exec.cwd.describe("Folder; /workspace unless given"),
      env: exec.env.describe("More variables"),
      stdin: exec.stdin.describe("Its input; none unless given"),
      keepStdinOpen: z.boolean().optional().describe("Let process_write send more input"),
      timeoutSeconds: z
        .number()
        .min(0.001)
        .max(guestLimits.execTimeoutMsMax / 1000)
        .optional()
        .describe("It is ended after so long; no limit unless given"),
      ...reading,
    }),
    output: Output,
    readOnly: false,
    destructive: true,
    open: true,
    async act(api, { sandbox, waitSeconds, maxOutputBytes, timeoutSeconds, keepStdinOpen, ...command }) {
      if ((command.command === undefined) === (command.argv === undefined))
        throw new RouseFailure("invalid_request", "Give exactly one of command and argv.", {
          details: { issues: [{ path: "command", message: "exactly one of command and argv" }] },
        });
      const body = SpawnRequest.parse({
        ...command,
        ...(keepStdinOpen ? { stdinMode: "pipe" } : {}),
        ...(timeoutSeconds === undefined ? {} : { timeoutMs: Math.ceil(timeoutSeconds * 1000) }),
      });
      const { id } = await api.json(Process, "POST", at(sandbox, "/processes"), body);
      return read(api, at(sandbox, `/processes/${encodeURIComponent(id)}`), id, 0, { waitSeconds, maxOutputBytes });
    },
  }),
  tool({
    name: "process_output",
    title: "Read on what a command writes",
    description:
      "Go on with a command that was begun by exec: output from a cursor on, waiting for more while it runs. The last MiB of a process is kept.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      processId: WhichProcess,
      cursor: z.int().min(0).optional().describe("nextCursor of the answer before; 0, the beginning, unless given"),
      ...reading,
    }),
    output: Output,
    readOnly: true,
    act: (api, { sandbox, processId, cursor = 0, ...limits }) =>
      read(api, at(sandbox, `/processes/${encodeURIComponent(processId)}`), processId, cursor, limits),
  }),
  tool({
    name: "process_list",
    title: "List processes",
    description: "Commands that run in a sandbox and those that ended last.",
    input: z.strictObject({ sandbox: WhichSandbox }),
    output: z.object({ processes: z.array(ProcessFacts) }),
    readOnly: true,
    async act(api, { sandbox }) {
      const { data } = await api.json(z.object({ data: z.array(Process) }), "GET", at(sandbox, "/processes"));
      return { processes: data.map((one) => ProcessFacts.parse(one)) };
    },
  }),
  tool({
    name: "process_write",
    title: "Write to a command's input",
    description: "Send text to the stdin of a process that exec began with keepStdinOpen.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      processId: WhichProcess,
      text: z.string().max(65_536).describe("With a newline at its end where the program reads lines"),
      end: z.boolean().optional().describe("Nothing more follows"),
    }),
    output: z.object({ writtenBytes: z.int() }),
    readOnly: false,
    open: true,
    async act(api, { sandbox, processId, text, end = false }) {
      const path = at(sandbox, `/processes/${encodeURIComponent(processId)}`);
      const { stdinOffset: offset } = await api.json(Process, "GET", path);
      const bytes = new TextEncoder().encode(text);
      const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
      const after = await api.json(z.object({ offset: z.int() }), "POST", `${path}:write`, {
        base64,
        offset,
        ...(end ? { eof: true } : {}),
      });
      return { writtenBytes: after.offset - offset };
    },
  }),
  tool({
    name: "process_signal",
    title: "Signal a process",
    description:
      "Send a signal to a process and all that it started: SIGINT and SIGTERM ask it to end, SIGKILL ends it.",
    input: z.strictObject({ sandbox: WhichSandbox, processId: WhichProcess, signal: z.enum(signals) }),
    output: ProcessFacts,
    readOnly: false,
    destructive: true,
    act: (api, { sandbox, processId, signal }) =>
      api.json(Process, "POST", at(sandbox, `/processes/${encodeURIComponent(processId)}:signal`), { signal }),
  }),
];
