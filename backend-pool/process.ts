/** Running other programs: argument lists only, never a shell line. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export interface RunOptions {
  readonly cwd?: string;
  readonly input?: string | Buffer;
  readonly encoding?: "utf8" | "buffer";
  readonly timeoutMs?: number;
  /** Called with each line of stderr as it comes. */
  readonly onErrorLine?: (line: string) => void;
}

export interface RunResult {
  readonly stdout: string;
  readonly raw: Buffer;
}

/**
 * Run a program to its end.
 * @throws Error with the end of its stderr when it fails, is missing, or outlasts `timeoutMs`
 */
export function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: options.cwd, stdio: ["pipe", "pipe", "pipe"] });
    const out: Buffer[] = [];
    let err = "";
    const timer =
      options.timeoutMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), options.timeoutMs);
    child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => {
      err = (err + chunk.toString()).slice(-4000);
    });
    if (options.onErrorLine) createInterface({ input: child.stderr }).on("line", options.onErrorLine);
    child.on("error", (fault: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      reject(fault.code === "ENOENT" ? new Error(`${program} is not installed`, { cause: fault }) : fault);
    });
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      const raw = Buffer.concat(out);
      if (code === 0) resolve({ raw, stdout: options.encoding === "buffer" ? "" : raw.toString() });
      else {
        const how =
          signal === "SIGKILL" && options.timeoutMs !== undefined
            ? "did not end in time"
            : `ended with ${signal ?? code}`;
        reject(new Error(`${program} ${how}: ${err.trim().slice(-1500)}`));
      }
    });
    child.stdin.on("error", () => undefined); // a program may end without reading its input
    child.stdin.end(options.input);
  });
}

/** The command, as one whose process gets that signal when the process that starts it ends, however it does. */
export function boundToParent(signal: "TERM" | "KILL", command: readonly string[]): [string, ...string[]] {
  return ["setpriv", "--pdeathsig", signal, "--", ...command];
}
