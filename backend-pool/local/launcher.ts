/** The whole system on one machine: edge and host agent as processes, started in order, restarted when they die. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { boundToParent } from "../process.ts";
import { markOf } from "../process-mark.ts";
import { openHome, writeHostSecrets, type Home } from "./home.ts";

const program = (name: string) => fileURLToPath(new URL(name, import.meta.url));

export interface LaunchOptions {
  /** Secrets, images and, unless said, state. */
  readonly homeDir: string;
  /** Machines, journal and the objects' storage. */
  readonly stateDir: string;
  /** 0: a free one. */
  readonly edgePort: number;
  /** 0: a free one. Further hosts take the ports after it. */
  readonly hostPort: number;
  /** Host agents side by side on this machine; 1 unless said. */
  readonly hosts?: number;
  /** Where the hosts after the first have images of their own; `homeDir` unless said. */
  readonly otherHomeDir?: string;
  /** More settings of the host agent (`config.ts`). */
  readonly env?: Record<string, string>;
  /** Restart a process that dies. */
  readonly supervise?: boolean;
  /** What runs the edge; `ROUSE_EDGE`, or else `miniflare`, unless said. */
  readonly edge?: EdgeKind;
  /** Its abort ends all of it in order, half started as well. */
  readonly signal?: AbortSignal;
}

export const edgeKinds = ["miniflare", "workerd"] as const;
export type EdgeKind = (typeof edgeKinds)[number];

/** @throws Error for a kind that there is not */
export function edgeKind(given: string | undefined): EdgeKind {
  const kind = edgeKinds.find((one) => one === (given ?? "miniflare"));
  if (!kind) throw new Error(`there is no edge by "${given}"; there are ${edgeKinds.join(", ")}`);
  return kind;
}

/** The edge as a process; nobody but this machine's people reaches it. */
export function edgePart(kind: EdgeKind, env: Record<string, string>, stateDir: string, supervise: boolean): Part {
  const file = program(kind === "workerd" ? "workerd-edge.ts" : "edge-main.ts");
  const trials = process.env["ROUSE_TRIALS"] ?? "open";
  const own = { ROUSE_TRIALS: trials, ...env, ROUSE_EDGE_DIR: join(stateDir, "edge") };
  return new Part("edge", file, own, join(stateDir, "edge.log"), supervise, join(stateDir, "edge.pid"));
}

export interface System {
  readonly home: Home;
  readonly url: string;
  readonly hostUrl: string;
  readonly accelerator: string;
  readonly apiKey: string;
  /** For tests: the processes, to be killed, and how to start them again. */
  readonly edge: Part;
  readonly host: Part;
  /** All host agents, the one above first. */
  readonly hosts: readonly Part[];
  /** Pause what runs, then end both. */
  stop(): Promise<void>;
}

/** workerd waits for the last of its connections, and whoever listens for changes has one open without end. */
const EDGE_STOP_MS = 3000;

/** One process of the system. */
export class Part {
  readonly name: string;
  readonly #file: string;
  readonly #env: Record<string, string>;
  readonly #logFile: string;
  #child: ChildProcess | null = null;
  #wanted = false;
  readonly #supervise: boolean;
  readonly #pidFile: string | null;

  /** @param pidFile where its process is noted */
  constructor(
    name: string,
    file: string,
    env: Record<string, string>,
    logFile: string,
    supervise: boolean,
    pidFile: string | null = null,
  ) {
    this.name = name;
    this.#file = file;
    this.#env = env;
    this.#logFile = logFile;
    this.#supervise = supervise;
    this.#pidFile = pidFile;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves with the first line the program prints: it is up. */
  async start(): Promise<Record<string, string>> {
    this.#wanted = true;
    const log = createWriteStream(this.#logFile, { flags: "a", mode: 0o600 });
    const node = [process.execPath, "--disable-warning=ExperimentalWarning", this.#file];
    // However this process ends, what it started ends in order; under Ctrl-C or `kill -9` alike.
    const [program, ...args] = boundToParent("TERM", node);
    const child = spawn(program, args, {
      env: { ...process.env, ...this.#env },
      stdio: ["ignore", "pipe", "pipe"],
      // A Ctrl-C in the terminal is the launcher's to handle, in order.
      detached: true,
    });
    this.#child = child;
    const mark = child.pid === undefined ? null : markOf(child.pid);
    if (this.#pidFile !== null && mark !== null) writeFileSync(this.#pidFile, mark, { mode: 0o600 });
    // A full disk must not end the system because its log can't grow.
    log.on("error", () => child.stderr.resume());
    child.stderr.pipe(log);
    // People watch the first start; after it the log file is the place.
    const show = (chunk: Buffer) => process.stderr.write(chunk.toString().replace(/^\{.*\}\n/gm, ""));
    child.stderr.on("data", show);
    child.once("exit", (code, signal) => this.#ended(child, signal ?? String(code)));
    const lines = createInterface({ input: child.stdout });
    const first = await Promise.race([
      once(lines, "line").then(([line]) => JSON.parse(String(line)) as Record<string, string>),
      once(child, "exit").then(() => null),
    ]);
    child.stderr.off("data", show);
    if (first === null) throw new Error(`${this.name} did not start; its log is ${this.#logFile}`);
    return first;
  }

  /** End in order, and wait for it. @param limitMs then it is killed; unless given it has all the time that it takes */
  async stop(limitMs?: number): Promise<void> {
    this.#wanted = false;
    const child = this.#child;
    const timer = limitMs === undefined ? undefined : setTimeout(() => child?.kill("SIGKILL"), limitMs);
    await this.#end("SIGTERM");
    clearTimeout(timer);
  }

  /** `kill -9`, and wait for its end. It stays down until `start`. */
  async kill(): Promise<void> {
    this.#wanted = false;
    await this.#end("SIGKILL");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill(signal);
    await gone;
    endGroup(child);
  }

  #ended(child: ChildProcess, how: string): void {
    endGroup(child);
    if (this.#child !== child || !this.#wanted || !this.#supervise) return;
    process.stderr.write(`${this.name} ended (${how}); starting it again\n`);
    setTimeout(
      () => void (this.#wanted && this.start().catch((fault: unknown) => process.stderr.write(`${String(fault)}\n`))),
      500,
    );
  }
}

/** What a process that died left behind, such as the workerd that holds the edge's port. Machines are in groups of their own. */
function endGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {
    // nothing is left
  }
}

export async function launch(options: LaunchOptions): Promise<System> {
  const home = await openHome(options.homeDir);
  await mkdir(options.stateDir, { recursive: true, mode: 0o700 });
  const edgePort = options.edgePort || (await freePort());
  const env = {
    ROUSE_HOME: home.dir,
    ROUSE_STATE: options.stateDir,
    ROUSE_EDGE_LISTEN: `127.0.0.1:${edgePort}`,
    ROUSE_EDGE_URL: `http://127.0.0.1:${edgePort}`,
    ...options.env,
  };
  const supervise = options.supervise ?? false;
  const edge = edgePart(options.edge ?? edgeKind(process.env["ROUSE_EDGE"]), env, options.stateDir, supervise);
  const hostPart = async (n: number): Promise<Part> => {
    const stateDir = n === 1 ? options.stateDir : join(options.stateDir, `host-${n}`);
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    const port = options.hostPort === 0 ? await freePort() : options.hostPort + n - 1;
    const own = {
      ...(n > 1 && options.otherHomeDir !== undefined ? { ROUSE_HOME: options.otherHomeDir } : {}),
      ROUSE_STATE: stateDir,
      ROUSE_LISTEN: `127.0.0.1:${port}`,
      ROUSE_EDGE_PID_FILE: join(options.stateDir, "edge.pid"),
      // What is started again when it dies may be killed for a try.
      ROUSE_DRILLS: options.env?.["ROUSE_DRILLS"] ?? process.env["ROUSE_DRILLS"] ?? (supervise ? "all" : "own"),
      ROUSE_SECRETS_FILE: await writeHostSecrets(home, n === 1 ? "local" : `local-${n}`, stateDir),
    };
    const name = n === 1 ? "host agent" : `host agent ${n}`;
    return new Part(name, program("../main.ts"), { ...env, ...own }, join(stateDir, "host.log"), supervise);
  };
  const host = await hostPart(1);
  const others = await Promise.all(Array.from({ length: (options.hosts ?? 1) - 1 }, (_, i) => hostPart(i + 2)));
  const hosts = [host, ...others];
  const stop = async () => {
    await Promise.all(hosts.map((part) => part.stop()));
    await edge.stop(EDGE_STOP_MS);
  };
  const { signal } = options;
  signal?.addEventListener("abort", () => void stop());
  try {
    signal?.throwIfAborted();
    // The host's first set-up takes minutes, the edge's start a second: side by side, and the host says when it is up.
    const [, about] = await Promise.all([edge.start(), host.start()]);
    // They find the image that the first one made.
    await Promise.all(others.map((other) => other.start()));
    await registered(`http://127.0.0.1:${edgePort}`, home.secrets.apiKey, hosts.length, signal);
    signal?.throwIfAborted();
    return {
      home,
      url: `http://localhost:${edgePort}`,
      hostUrl: about["url"] ?? "",
      accelerator: about["accelerator"] ?? "",
      apiKey: home.secrets.apiKey,
      edge,
      host,
      hosts,
      stop,
    };
  } catch (fault) {
    await stop();
    signal?.throwIfAborted();
    throw fault;
  }
}

/** Wait until the edge has heard of all hosts: before, it has nowhere to put a machine. */
async function registered(edgeUrl: string, apiKey: string, count: number, signal?: AbortSignal): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}` };
  for (let tries = 0; tries < 100 && !signal?.aborted; tries++) {
    const answer = await fetch(`${edgeUrl}/v1/hosts`, { headers }).catch(() => null);
    const list = (answer?.ok ? await answer.json() : null) as { data: { live: boolean }[] } | null;
    if ((list?.data.filter(({ live }) => live).length ?? 0) >= count) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
