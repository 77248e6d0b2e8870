/** The terminals of a sandbox. */
import { Process as ProcessSchema } from "../contract/guest.ts";
import { z } from "zod";
import { commandBody } from "./exec.ts";
import type { Command } from "./exec.ts";
import { signalProcess } from "./output.ts";
import type { Signal } from "./process.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { Terminal } from "./terminal.ts";
import type { AttachOptions, TerminalInfo } from "./terminal.ts";
import type { RequestOptions } from "./transport.ts";

const SHELL = ["/bin/bash", "-l"];
const ProcessList = z.object({ data: z.array(ProcessSchema) });

export interface OpenTerminalOptions {
  /** What runs in it; a login shell unless given. */
  command?: Command | undefined;
  /** Working folder; `/workspace` unless given. */
  cwd?: string | undefined;
  /** Variables next to those of the sandbox. `TERM` is `xterm-256color` unless given. */
  env?: Record<string, string> | undefined;
  /** Size of the window in characters; 80 by 24 unless given. */
  cols?: number | undefined;
  rows?: number | undefined;
  /** How the call is made, as against how the terminal runs. */
  request?: RequestOptions | undefined;
}

export class Terminals {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * Open a terminal and look at it, waking the sandbox.
   * @throws ConflictError `process_limit`
   *
   * @example
   * using terminal = await sandbox.terminal.open({ command: "python3", cols: 100, rows: 30 });
   * await terminal.write("6 * 7\r");
   */
  async open(options: OpenTerminalOptions = {}): Promise<Terminal> {
    const { command = SHELL, cols, rows, request, cwd, env } = options;
    const body = { ...commandBody(command, { cwd, env }), pty: { cols, rows } };
    const { id } = parseAnswer(ProcessSchema, await this.#remote.post("/processes", body, request));
    return await new Terminal(this.#remote, id, { cols, rows, cursor: 0 }).begin();
  }

  /**
   * Look at a terminal that is there, waking the sandbox: from `cursor` on, or with all that is kept of its output. With
   * `cols` and `rows` its window gets that size. Several may look at one.
   * @throws NotFoundError `process_not_found`
   */
  attach(id: string, options: AttachOptions = {}): Promise<Terminal> {
    return new Terminal(this.#remote, id, options).begin();
  }

  /** Those that are there, and of the last 16 processes that ended those that had a terminal. */
  async list(options: RequestOptions = {}): Promise<TerminalInfo[]> {
    const { data } = parseAnswer(ProcessList, await this.#remote.get("/processes", options));
    return data.filter(({ pty }) => pty);
  }

  /** @throws NotFoundError `process_not_found` */
  async get(id: string, options: RequestOptions = {}): Promise<TerminalInfo> {
    return parseAnswer(ProcessSchema, await this.#remote.get(`/processes/${encodeURIComponent(id)}`, options));
  }

  /** Send a signal to what runs in one: SIGHUP, which ends a shell with what it runs, unless given. */
  async kill(id: string, signal: Signal = "SIGHUP", options: RequestOptions = {}): Promise<void> {
    await signalProcess(this.#remote, id, signal, options);
  }
}
