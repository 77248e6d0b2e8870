/** Commands: run to the end, streamed, or left in the background. */
import { ExecResult as ExecResultSchema, Process as ProcessSchema, guestLimits } from "../contract/guest.ts";
import type { ExecResult } from "../contract/guest.ts";
import { toBase64 } from "./bytes.ts";
import { OutputBuffer } from "./cursor.ts";
import { CommandError } from "./errors.ts";
import { execOutput } from "./output.ts";
import type { CommandEvent } from "./output.ts";
import { Process } from "./process.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { unexpectedAnswer } from "./transport.ts";
import type { RequestOptions } from "./transport.ts";

export type { ExecResult };

/** What a call may take longer than the command in it, milliseconds. */
const MARGIN_MS = 60_000;
/** Bytes of each stream that a result holds when output was streamed. */
const STREAMED_BYTES = 16 * 1_048_576;

/** Text is run by `bash -c`; a list is the program and its arguments. */
export type Command = string | readonly string[];

export interface CommandOptions {
  /** Working folder; `/workspace` unless given. */
  cwd?: string | undefined;
  /** Variables next to those of the sandbox. */
  env?: Record<string, string> | undefined;
  /** All of the command's input; none unless given. */
  stdin?: string | Uint8Array | undefined;
  /** Time limit of the command, milliseconds, at most 86 400 000; 60 000 unless given, a day where output is streamed. */
  timeoutMs?: number | undefined;
  /** Ends the command by SIGTERM. */
  signal?: AbortSignal | undefined;
  /** Runs the command only once however often it is sent; random unless given. */
  idempotencyKey?: string | undefined;
}

export interface ExecOptions extends CommandOptions {
  /** Called with output as it comes. */
  onStdout?: ((text: string) => void) | undefined;
  onStderr?: ((text: string) => void) | undefined;
  /** Throw {@link CommandError} for an exit code other than 0 and for a timeout. */
  check?: boolean | undefined;
}

export interface SpawnOptions {
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  /** `"pipe"` keeps stdin open for {@link Process.write}; other text or bytes are all of the input. */
  stdin?: "pipe" | (string & {}) | Uint8Array | undefined;
  /** Time limit, milliseconds; none unless given. */
  timeoutMs?: number | undefined;
  /** `base64` keeps output that is no text intact; see {@link Process.outputBytes}. */
  outputEncoding?: "utf8" | "base64" | undefined;
  /** How the call is made, as against how the process runs. */
  request?: RequestOptions | undefined;
}

export async function exec(remote: Remote, command: Command, options: ExecOptions): Promise<ExecResult> {
  const { onStdout, onStderr, check, ...rest } = options;
  const listening = onStdout !== undefined || onStderr !== undefined;
  const long = (rest.timeoutMs ?? 0) > guestLimits.execTimeoutMs;
  let result: ExecResult;
  if (listening || long) {
    result = await collect(execStream(remote, command, rest), onStdout, onStderr);
  } else if (rest.signal !== undefined) {
    // Only a streamed command has an id by which it can be ended early.
    result = await collect(execStream(remote, command, { timeoutMs: guestLimits.execTimeoutMs, ...rest }));
  } else {
    const { idempotencyKey, timeoutMs } = rest;
    const request = { idempotencyKey, timeoutMs: (timeoutMs ?? guestLimits.execTimeoutMs) + MARGIN_MS };
    const answer = await remote.post(":exec", { ...commandBody(command, rest), timeoutMs }, request);
    result = parseAnswer(ExecResultSchema, answer);
  }
  if (check && (result.exitCode !== 0 || result.timedOut)) throw new CommandError(result);
  return result;
}

export function execStream(
  remote: Remote,
  command: Command,
  options: CommandOptions,
): AsyncGenerator<CommandEvent, void, undefined> {
  const timeoutMs = options.timeoutMs ?? guestLimits.execTimeoutMsMax;
  const body = { ...commandBody(command, options), timeoutMs };
  const idempotencyKey = options.idempotencyKey ?? crypto.randomUUID();
  return execOutput(remote, body, { idempotencyKey, timeoutMs: timeoutMs + MARGIN_MS, signal: options.signal });
}

export async function spawn(remote: Remote, command: Command, options: SpawnOptions): Promise<Process> {
  const { stdin, request, outputEncoding, timeoutMs, ...rest } = options;
  const body = {
    ...commandBody(command, { ...rest, stdin: stdin === "pipe" ? undefined : stdin }),
    timeoutMs,
    outputEncoding,
    stdinMode: stdin === "pipe" ? "pipe" : undefined,
  };
  return new Process(remote, parseAnswer(ProcessSchema, await remote.post("/processes", body, request)));
}

/** The command as the wire has it. */
export function commandBody(
  command: Command,
  options: Pick<CommandOptions, "cwd" | "env" | "stdin">,
): Record<string, unknown> {
  const { cwd, env, stdin } = options;
  return {
    ...(typeof command === "string" ? { command } : { argv: [...command] }),
    cwd,
    env,
    ...(typeof stdin === "string" ? { stdin } : {}),
    ...(stdin instanceof Uint8Array ? { stdinBase64: toBase64(stdin) } : {}),
  };
}

async function collect(
  events: AsyncIterable<CommandEvent>,
  onStdout?: (text: string) => void,
  onStderr?: (text: string) => void,
): Promise<ExecResult> {
  const stdout = new OutputBuffer(STREAMED_BYTES);
  const stderr = new OutputBuffer(STREAMED_BYTES);
  let processId = "";
  let lost = false;
  for await (const event of events) {
    switch (event.type) {
      case "start":
        ({ processId } = event);
        break;
      case "stdout":
        stdout.add(event);
        onStdout?.(event.data);
        break;
      case "stderr":
        stderr.add(event);
        onStderr?.(event.data);
        break;
      case "truncated":
        // The wire does not say whose bytes they were.
        lost = true;
        break;
      case "exit":
        return {
          exitCode: event.exitCode,
          stdout: stdout.toString(),
          stderr: stderr.toString(),
          timedOut: event.timedOut,
          stdoutTruncated: lost || stdout.truncated,
          stderrTruncated: lost || stderr.truncated,
          durationMs: event.durationMs,
          processId,
        };
    }
  }
  throw unexpectedAnswer("the command's output has no exit");
}
