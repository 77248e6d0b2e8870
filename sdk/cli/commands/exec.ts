import type { CommandEvent, Process, Sandbox, SpawnOptions } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { exitCodes } from "../output.ts";
import type { Output } from "../output.ts";

export const exec: Command = {
  name: "exec",
  summary: "Run a command and exit with its code",
  usage: "<name> [options] -- <command...>",
  details:
    "One word after -- is a shell line; several are the program and its arguments. Exits with the command's code, 124\n" +
    "when its time is up, 128 + n when signal n ended it. Ctrl-C sends SIGTERM to the command.",
  words: [1, 1],
  takesRest: true,
  options: {
    cwd: { type: "string", value: "PATH", help: "Working folder (/workspace)" },
    env: { type: "string", value: "K[=V]", multiple: true, help: "Variable; K alone takes this shell's value" },
    timeout: { type: "string", value: "SEC", help: "Time limit (none)" },
    stdin: { type: "boolean", short: "i", help: "Pass this program's input to the command" },
  },
  async run({ args, out, sandbox }) {
    const words = args.rest ?? [];
    if (words.length === 0) throw new UsageError("exec needs a command after --", "Such as: rouse exec demo -- ls -l");
    const seconds = args.number("timeout");
    if (seconds === 0) throw new UsageError("--timeout is 0", "Leave it out for no limit.");
    const command = words.length === 1 ? (words[0] ?? "") : words;
    const options = {
      cwd: args.text("cwd"),
      env: args.pairs("env", process.env),
      timeoutMs: seconds === undefined ? undefined : Math.ceil(seconds * 1000),
    };
    const target = await sandbox(args.positionals[0] ?? "");
    const interrupt = new Interrupt(target);
    try {
      if (!args.flag("stdin")) return await show(target.execStream(command, options), interrupt, out);
      return await withStdin(target, command, options, interrupt, out);
    } finally {
      interrupt.release();
    }
  },
};

/** Ctrl-C ends the command first; pressed again, or before there is one, it ends this program. */
class Interrupt {
  readonly #sandbox: Sandbox;
  readonly #onSignal = (): void => this.#interrupt();
  #processId: string | null = null;
  #sent = false;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
    process.on("SIGINT", this.#onSignal);
  }

  started(processId: string): void {
    this.#processId = processId;
  }

  release(): void {
    process.off("SIGINT", this.#onSignal);
  }

  #interrupt(): void {
    if (this.#processId === null || this.#sent) process.exit(exitCodes.signal + 2);
    this.#sent = true;
    void this.#sandbox.processes.kill(this.#processId, "SIGTERM").catch(() => undefined);
  }
}

async function withStdin(
  sandbox: Sandbox,
  command: string | readonly string[],
  options: Pick<SpawnOptions, "cwd" | "env" | "timeoutMs">,
  interrupt: Interrupt,
  out: Output,
): Promise<number> {
  const child = await sandbox.spawn(command, { ...options, stdin: "pipe", outputEncoding: "base64" });
  interrupt.started(child.id);
  const ended = new AbortController();
  // A command may end without reading all of its input, which is no fault of the input.
  const pump = passStdin(child, ended.signal).catch((error: unknown) => {
    if (!ended.signal.aborted) out.note(`rouse: the input could not be passed on: ${String(error)}`);
  });
  try {
    return await show(child.output(), interrupt, out, child.id);
  } finally {
    ended.abort();
    process.stdin.destroy();
    await pump;
  }
}

async function passStdin(child: Process, signal: AbortSignal): Promise<void> {
  for await (const chunk of process.stdin) await child.write(chunk as Uint8Array, { signal });
  await child.write("", { eof: true, signal });
}

async function show(
  events: AsyncIterable<CommandEvent>,
  interrupt: Interrupt,
  out: Output,
  spawnedId = "",
): Promise<number> {
  const collected = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  let processId = spawnedId;
  let lost = 0;
  for await (const event of events) {
    switch (event.type) {
      case "start":
        ({ processId } = event);
        interrupt.started(processId);
        break;
      case "stdout":
      case "stderr": {
        const bytes = event.base64 === undefined ? Buffer.from(event.data) : Buffer.from(event.base64, "base64");
        if (out.json) collected[event.type].push(bytes);
        else await out.pass(event.type, bytes);
        break;
      }
      case "truncated":
        lost += event.droppedBytes;
        out.note(`rouse: ${event.droppedBytes} bytes of output were lost`);
        break;
      case "exit": {
        const { exitCode, state, timedOut, durationMs } = event;
        if (out.json) {
          const stdout = Buffer.concat(collected.stdout).toString();
          const stderr = Buffer.concat(collected.stderr).toString();
          out.result("", { exitCode, state, stdout, stderr, timedOut, droppedBytes: lost, durationMs, processId });
        }
        if (timedOut) return exitCodes.timedOut;
        if (exitCode === null) {
          out.note("rouse: the command did not start, or nobody saw it end");
          return exitCodes.failure;
        }
        return exitCode < 0 ? exitCodes.signal - exitCode : exitCode;
      }
    }
  }
  return exitCodes.failure;
}
