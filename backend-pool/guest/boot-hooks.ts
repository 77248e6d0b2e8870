/** Commands and requests that belong to a boot, a wake or a pause. */
import { readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import type { FreezeHook, HookResult, OnBoot, ThawHook } from "../../sdk/contract/boot.ts";
import { lastBoundary, OutputLog } from "./output.ts";
import type { Processes } from "./processes.ts";
import type { Exit } from "./restarts.ts";
import { lives, Supervised, type ProcessId, type Program } from "./supervised.ts";

const TAIL_BYTES = 8192;
/** More than the tails of both streams, as they may come in turns. */
const LOG_BYTES = 131_072;
const HOOK_SECONDS = 60;
const FREEZE_SECONDS = 10;

type Spoken = Pick<OnBoot, "command" | "cwd" | "env" | "user">;

/** What runs, and as whom. */
export function programOf(processes: Processes, { command, cwd, env, user }: Spoken): Program {
  const argv = typeof command === "string" ? ["/bin/bash", "-c", command] : command;
  const environment = processes.environment(env);
  const own = process.env["USER"] ?? "runtime";
  const names = Object.keys(environment).filter((name) => !["HOME", "USER", "LOGNAME", "SHELL", "PATH"].includes(name));
  const as =
    user === undefined || user === own
      ? argv
      : ["sudo", "-n", "-H", "-u", user, `--preserve-env=${names.join(",")}`, "--", ...argv];
  return { argv: as, cwd: processes.path(cwd), env: environment };
}

/** A command that runs once, whatever becomes of the agent meanwhile. */
export class Hook {
  result: HookResult;
  readonly #run: Supervised;
  readonly #folder: string;
  readonly #key: string;
  readonly #log: OutputLog;
  readonly ended: Promise<HookResult>;

  private constructor(folder: string, key: string, run: Supervised, log: OutputLog, result: HookResult, endMs: number) {
    this.#folder = folder;
    this.#key = key;
    this.#run = run;
    this.#log = log;
    this.result = result;
    let timedOut = false;
    const timer = setTimeout(
      () => {
        timedOut = true;
        run.signal("SIGKILL");
      },
      Math.max(0, endMs - Date.now()),
    );
    this.ended = run.ended.then((exit) => {
      clearTimeout(timer);
      log.end();
      const known = exit.code ?? (timedOut ? null : exitOf(this.#folder, this.#key).code);
      this.result = {
        ...this.result,
        ...{ endedAt: new Date().toISOString(), exitCode: known, timedOut },
        ...{ stdout: tail(this.#log, "stdout"), stderr: tail(this.#log, "stderr") },
      };
      return this.result;
    });
  }

  get process(): ProcessId | null {
    return this.#run.id;
  }

  static start(folder: string, key: string, given: OnBoot, processes: Processes, generation: number): Hook {
    rmSync(exitFile(folder, key), { force: true });
    const { argv, ...place } = programOf(processes, given);
    // How it ended is on the disk before it has, for an agent that is not its parent.
    const kept = '"$@"; code=$?; echo $code > "$0"; exit $code';
    const log = new OutputLog(LOG_BYTES);
    const program = { ...place, argv: ["/bin/sh", "-c", kept, exitFile(folder, key), ...argv] };
    const run = Supervised.start(folder, key, program, log);
    return new Hook(folder, key, run, log, begun(generation), endOf(new Date().toISOString(), given));
  }

  /** Go on with one of an agent before; null when it has ended. */
  static adopt(folder: string, key: string, given: OnBoot, id: ProcessId, result: HookResult): Hook | null {
    const log = new OutputLog(LOG_BYTES);
    const run = Supervised.adopt(folder, key, id, log, () => exitOf(folder, key));
    return run && new Hook(folder, key, run, log, result, endOf(result.startedAt, given));
  }

  /** What is known of one that ended while there was no agent. */
  static lost(folder: string, key: string, result: HookResult): HookResult {
    return { ...result, endedAt: new Date().toISOString(), exitCode: exitOf(folder, key).code };
  }
}

export function begun(generation: number): HookResult {
  const startedAt = new Date().toISOString();
  return { generation, startedAt, endedAt: null, exitCode: null, timedOut: false, stdout: "", stderr: "" };
}

export function hookLives(id: ProcessId | null): boolean {
  return id !== null && lives(id);
}

/** Unix milliseconds. */
function endOf(startedAt: string, { timeoutSeconds = HOOK_SECONDS }: Pick<OnBoot, "timeoutSeconds">): number {
  return Date.parse(startedAt) + timeoutSeconds * 1000;
}

function exitFile(folder: string, key: string): string {
  return join(folder, `${key}.exit`);
}

function exitOf(folder: string, key: string): Exit {
  try {
    const text = readFileSync(exitFile(folder, key), "utf8").trim();
    return { code: /^\d{1,3}$/.test(text) ? Number(text) : null, signal: null };
  } catch {
    return { code: null, signal: null };
  }
}

function tail(log: OutputLog, stream: "stdout" | "stderr"): string {
  const all = log.read(log.first, LOG_BYTES).filter((piece) => piece.stream === stream);
  const bytes = Buffer.concat(all.map(({ data }) => Buffer.from(data)));
  let from = Math.max(0, bytes.length - TAIL_BYTES);
  // Not in the middle of a character.
  while (from < bytes.length && from > 0 && ((bytes[from] ?? 0) & 0xc0) === 0x80) from++;
  const last = bytes.subarray(from);
  return last.subarray(0, lastBoundary(last)).toString();
}

/** Do what a service is to be told before a pause or after a wake. @returns null when that went well, or why not */
export async function speak(
  hook: FreezeHook | ThawHook,
  processes: Processes,
  service: Spoken,
  report: (text: string) => void,
): Promise<string | null> {
  const limitMs = (hook.timeoutSeconds ?? FREEZE_SECONDS) * 1000;
  const fault = await (
    hook.http
      ? asked(hook.http, processes.environment(service.env), limitMs)
      : commanded(processes, { ...service, command: hook.command ?? [] }, limitMs)
  ).catch((thrown: unknown) => (thrown instanceof Error ? thrown.message : String(thrown)));
  if (fault !== null) report(fault);
  return fault;
}

async function commanded(processes: Processes, given: Spoken, timeoutMs: number): Promise<string | null> {
  const { argv, cwd } = programOf(processes, given);
  const request = { argv, cwd, env: given.env, keepStdin: false, timeoutMs, outputEncoding: "utf8", headBytes: 1024 };
  const run = processes.start({ ...request, outputEncoding: "utf8" });
  await run.ended;
  if (run.exitCode === 0) return null;
  const said = run.log.head("stderr", 1024).data.toString().trim();
  const how = run.timedOut ? `no end within ${timeoutMs / 1000} s` : `exit ${run.exitCode}`;
  return said === "" ? how : `${how}: ${said}`;
}

type Http = NonNullable<FreezeHook["http"]>;

function asked(http: Http, env: Record<string, string>, timeoutMs: number): Promise<string | null> {
  const { method = "POST", path, port, body, headersEnv = {} } = http;
  const headers = Object.fromEntries(Object.entries(headersEnv).map(([name, from]) => [name, env[from] ?? ""]));
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    const req = request(
      { host: "127.0.0.1", port, method, path, headers: { ...length, ...headers }, agent: false, signal },
      (res) => {
        const status = res.statusCode ?? 0;
        let text = "";
        res.on("data", (chunk: Buffer) => (text = (text + chunk.toString()).slice(0, 1024)));
        res.on("error", (fault) => resolve(fault.message));
        res.on("end", () => resolve(status >= 200 && status < 300 ? null : `answered ${status}: ${text}`));
      },
    );
    req.on("error", (fault) => resolve(signal.aborted ? `no answer within ${timeoutMs / 1000} s` : fault.message));
    req.end(body);
  });
}
