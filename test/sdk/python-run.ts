/**
 * Programs of the Python SDK, each run twice: as it is written, with asyncio, and without `await` by the synchronous
 * half, made by the same rules that make that half.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { synchronous } from "../support/python-sync.ts";
import { TEST_KEY } from "./wire-server.ts";

export const PYTHON =
  process.env["ROUSE_TEST_PYTHON"] ?? (existsSync("/usr/bin/python3") ? "/usr/bin/python3" : "python3");
const RECENT = "import sys; sys.exit(sys.version_info < (3, 10))";
/** Why no Python of the SDK runs here, if so. */
export const NO_PYTHON =
  spawnSync(PYTHON, ["-c", RECENT]).status === 0 ? null : `${PYTHON} is not there, or is before Python 3.10`;
export const PYTHON_FOLDER = fileURLToPath(new URL("../../sdk/python/", import.meta.url));

export const halves = ["async", "sync"] as const;
export type Half = (typeof halves)[number];

const HEAD = `
import asyncio, dataclasses, datetime, io, json, os, sys
import rouse as package
from rouse import *
from rouse import AsyncRouse, AsyncSandbox

async def failure(call):
    try:
        await call()
    except Exception as error:
        facts = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        return {**facts, "class": type(error).__name__, "text": str(error)}
    return None

async def main(url, key):
    rouse = AsyncRouse(base_url=url, api_key=key, **OPTIONS)
`;
const TAIL = `
def plain(value):
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    return value.hex() if isinstance(value, bytes) else repr(value)
`;

export interface ProgramOptions {
  /** Of the API; {@link TEST_KEY} unless given. */
  key?: string;
  /** Keyword arguments of the client, as Python. */
  client?: string;
  env?: Record<string, string>;
  python?: string;
}

/** Runs one program after another: most of what a Python costs is its start. */
const WORKER = `
import gc, io, json, sys, traceback
for line in sys.stdin:
    task = json.loads(line)
    sys.stderr = io.StringIO()
    scope = {"__name__": "program"}
    try:
        exec(compile(task["text"], "program", "exec"), scope)
        answer = {"result": json.loads(json.dumps(scope["run"](*task["words"]), default=scope["plain"]))}
    except BaseException:
        answer = {"fault": traceback.format_exc()}
    scope.clear()
    gc.collect()
    answer["err"] = sys.stderr.getvalue()
    print(json.dumps(answer), flush=True)
`;
/** What is not awaited, or closed by the collector of garbage alone, is a fault of the SDK. */
const FAULT = /was never awaited|Traceback|Event loop is closed/;

interface Worker {
  readonly child: ChildProcess;
  readonly lines: AsyncIterator<string>;
}
const workers = new Map<Half, Worker>();

/** Run the body of `main`, which has `rouse`, against a server; answers what it returns, as JSON. */
export async function python(half: Half, url: string, body: string, options: ProgramOptions = {}): Promise<unknown> {
  const words = [url, options.key ?? TEST_KEY];
  const indented = body.replace(/^/gm, "    ");
  const program = `${HEAD.replace("**OPTIONS", options.client ?? "")}${indented}\n${TAIL}`;
  const text =
    half === "async"
      ? `${program}\ndef run(*words):\n    return asyncio.run(main(*words))\n`
      : `${synchronous(program, "test")}\nrun = main\n`;
  if (options.env) {
    const print = "print(json.dumps(run(*sys.argv[1:]), default=plain))\n";
    return JSON.parse(await pythonText(text + print, words, options)) as unknown;
  }
  const worker = workers.get(half) ?? startWorker();
  workers.set(half, worker);
  worker.child.stdin?.write(`${JSON.stringify({ text, words })}\n`);
  const { value, done } = await worker.lines.next();
  if (done === true) throw new Error("python ended");
  const answer = JSON.parse(value) as { result?: unknown; fault?: string; err: string };
  if (answer.fault !== undefined || FAULT.test(answer.err)) throw new Error(`${answer.fault ?? ""}${answer.err}`);
  return answer.result;
}

function startWorker(): Worker {
  const env = { ...process.env, PYTHONPATH: PYTHON_FOLDER, PYTHONDONTWRITEBYTECODE: "1" };
  const child = spawn(PYTHON, ["-W", "error::DeprecationWarning", "-c", WORKER], {
    env,
    stdio: ["pipe", "pipe", "inherit"],
  });
  return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
}

/** For the end of a test file. */
export function stopPython(): void {
  for (const { child } of workers.values()) child.kill();
  workers.clear();
}

/** Run a whole program; answers what it prints. */
export async function pythonText(
  text: string,
  words: readonly string[],
  options: ProgramOptions = {},
): Promise<string> {
  const env = { ...process.env, PYTHONPATH: PYTHON_FOLDER, PYTHONDONTWRITEBYTECODE: "1", ...options.env };
  const child = spawn(options.python ?? PYTHON, ["-W", "error::DeprecationWarning", "-c", text, ...words], { env });
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (out += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (err += chunk));
  child.stdin.on("error", () => undefined);
  child.stdin.end();
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`python ended with ${code}: ${err}`);
  if (FAULT.test(err)) throw new Error(err);
  return out;
}
