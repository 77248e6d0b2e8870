/** A server that is a program of the machine: MCP over its standard input and output, in a process group of its own. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { ReadBuffer, serializeMessage } from "@modelcontextprotocol/sdk/shared/stdio.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";

/** Time between asking a program to end and ending it, milliseconds. */
const STOP_MS = 2000;
/** One message of a server at most, bytes. */
const MESSAGE_MAX = 16 * 1_048_576;

export interface Program {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
}

export class ChildTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport["onmessage"];
  readonly #program: Program;
  readonly #wrote: (text: string) => void;
  readonly #buffer = new ReadBuffer({ maxBufferSize: MESSAGE_MAX });
  #child: ChildProcess | null = null;
  #isDelivering = false;
  /** How it ended, once it did. */
  end: string | null = null;

  /** @param wrote is given what it writes to its standard error, and lines that are no messages */
  constructor(program: Program, wrote: (text: string) => void) {
    this.#program = program;
    this.#wrote = wrote;
  }

  async start(): Promise<void> {
    const { command, cwd, env } = this.#program;
    const [file = "", ...args] = command;
    const child = spawn(file, args, { cwd, env, stdio: ["pipe", "pipe", "pipe"], detached: true });
    this.#child = child;
    child.on("error", (fault) => this.#over(fault.message));
    child.on("exit", (code, signal) => this.#over(signal ? `ended by ${signal}` : `ended with code ${code}`));
    // What it left behind goes with it.
    child.on("close", () => this.#kill("SIGKILL"));
    child.stdin.on("error", () => undefined);
    child.stdout.on("data", (chunk: Buffer) => this.#take(chunk));
    child.stderr.setEncoding("utf8").on("data", this.#wrote);
    await once(child, "spawn");
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { stdin } = this.#child ?? {};
    if (!stdin?.writable || this.end !== null) throw new Error("the server ended");
    if (!stdin.write(serializeMessage(message))) await Promise.race([once(stdin, "drain"), once(stdin, "close")]);
  }

  /** Its input ends, then it is asked to end, then it is ended. */
  async close(): Promise<void> {
    const child = this.#child;
    if (!child || this.end !== null) return;
    const exit = once(child, "exit").catch(() => undefined);
    child.stdin?.end();
    this.#kill("SIGTERM");
    const timer = setTimeout(() => this.#kill("SIGKILL"), STOP_MS);
    await exit;
    clearTimeout(timer);
  }

  #take(chunk: Buffer): void {
    try {
      this.#buffer.append(chunk);
    } catch (fault) {
      this.#wrote(`a message is larger than ${MESSAGE_MAX} bytes\n`);
      this.onerror?.(fault as Error);
      this.#kill("SIGKILL");
      return;
    }
    this.#deliver();
  }

  /** One message a turn: progress that comes with its answer must be heard before the answer ends the call. */
  #deliver(): void {
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    setImmediate(() => {
      this.#isDelivering = false;
      try {
        const message = this.#buffer.readMessage();
        if (message === null) return;
        this.onmessage?.(message);
      } catch (fault) {
        // Some programs greet on their standard output.
        this.#wrote("a line of its output is no message of MCP\n");
        this.onerror?.(fault as Error);
      }
      this.#deliver();
    });
  }

  #kill(signal: NodeJS.Signals): void {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // The group is empty.
    }
  }

  #over(how: string): void {
    if (this.end !== null) return;
    this.end = how;
    this.onclose?.();
  }
}
