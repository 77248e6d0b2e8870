/** One running system for kill points: edge, host agent, a post office each way between them, and what they leave behind. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Rouse } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { freePort, launch, type System } from "../../backend-pool/local/launcher.ts";
import { controlSecret } from "../../sdk/contract/host-secrets.ts";
import { Machine, hostPaths, type SleepDepth } from "../../sdk/contract/host.ts";
import { Books } from "./books.ts";
import { endAll } from "./exit-guard.ts";
import { machineProcesses, type MachineProcess } from "./machine-processes.ts";
import { Proxy } from "./proxy.ts";
import type { SmallDisk } from "./small-disk.ts";
import type { Witness } from "./witness.ts";

export type Driver = "qemu" | "fake";

const CLOCK = new URL("shifted-clock.ts", import.meta.url).href;
/** Longest that any call of a user takes, milliseconds. */
const CALL_MS = 90_000;

export class World {
  readonly driver: Driver;
  readonly stateDir: string;
  /** Messages of the edge to the host agent. */
  readonly toHost: Proxy;
  /** Messages of the host agent to the edge. */
  readonly toEdge: Proxy;
  readonly own: System;
  /** Retries as every user's client does. */
  readonly patient: Rouse;
  /** Sees each answer as it is. */
  readonly direct: Rouse;
  readonly books: Books;
  /** Where its state is, when that can be made full. */
  readonly disk: SmallDisk | null;
  /** Sandboxes that came through their point whole, for the next ones: making a real machine takes its time. */
  readonly standing: Witness[] = [];
  hostUp = true;
  edgeUp = true;

  private constructor(
    driver: Driver,
    stateDir: string,
    disk: SmallDisk | null,
    proxies: { toHost: Proxy; toEdge: Proxy },
    own: System,
  ) {
    this.driver = driver;
    this.disk = disk;
    this.stateDir = stateDir;
    this.toHost = proxies.toHost;
    this.toEdge = proxies.toEdge;
    this.own = own;
    const options = { apiKey: own.apiKey, baseUrl: own.url, timeoutMs: CALL_MS };
    this.patient = new Rouse(options);
    this.direct = new Rouse({ ...options, maxRetries: 0 });
    this.books = new Books(this.patient, join(stateDir, "usage.sqlite"), this.toEdge.delivered);
  }

  static async open(driver: Driver, stateDir: string, disk: SmallDisk | null): Promise<World> {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    const [edgePort, hostPort] = [await freePort(), await freePort()];
    const toHost = await Proxy.open(() => `http://127.0.0.1:${hostPort}`);
    const toEdge = await Proxy.open(() => `http://127.0.0.1:${edgePort}`);
    const own = await launch({
      homeDir: defaultHome(),
      stateDir,
      edgePort,
      hostPort,
      env: {
        ROUSE_DRIVER: driver,
        ROUSE_HOST_URL: toHost.url,
        ROUSE_EDGE_URL: toEdge.url,
        // With every heartbeat.
        ROUSE_USAGE_SECONDS: "0",
        // The golden image would fill a small disk.
        ROUSE_ARCHIVE_SECONDS: disk ? "off" : "1",
        ROUSE_FAULTS_CLOCK: join(stateDir, "clock"),
        NODE_OPTIONS: `--import=${CLOCK}`,
      },
    });
    return new World(driver, stateDir, disk, { toHost, toEdge }, own);
  }

  /** `kill -9`. Machines without virtualisation are the host agent's children, and end with it. */
  async killHost(): Promise<void> {
    this.hostUp = false;
    await this.own.host.kill();
    if (this.driver === "fake") for (const { pid } of this.#guests()) kill(pid, "SIGKILL");
  }

  async startHost(): Promise<void> {
    if (!this.hostUp) await this.own.host.start();
    this.hostUp = true;
  }

  async killEdge(): Promise<void> {
    this.edgeUp = false;
    await this.own.edge.kill();
  }

  async startEdge(): Promise<void> {
    if (!this.edgeUp) await this.own.edge.start();
    this.edgeUp = true;
  }

  /** The host agent stands still for a while. */
  async hangHost(ms: number): Promise<void> {
    const { pid } = this.own.host;
    if (pid === undefined) throw new Error("the host agent does not run");
    kill(pid, "SIGSTOP");
    try {
      await delay(ms);
    } finally {
      kill(pid, "SIGCONT");
    }
  }

  /** The host agent's wall clock is off from now on. */
  async shiftHostClock(ms: number): Promise<void> {
    await writeFile(join(this.stateDir, "clock"), String(ms));
    const { pid } = this.own.host;
    if (this.hostUp && pid !== undefined) kill(pid, "SIGUSR2");
  }

  /** Everything up, and nothing in the way of messages any more. */
  async heal(): Promise<void> {
    this.disk?.free();
    await this.shiftHostClock(0);
    await Promise.all([this.toHost.heal(), this.toEdge.heal()]);
    await this.startEdge();
    await this.startHost();
  }

  async close(): Promise<void> {
    this.toHost.close();
    this.toEdge.close();
    // In order it would put to sleep what runs, which nobody needs any more.
    await Promise.all([this.own.host.kill(), this.own.edge.kill()]);
    endAll("ROUSE_STATE", this.stateDir, this.stateDir);
  }

  /** Processes that are a machine, of any sandbox: more than one for the same means two of it run. */
  async machines(): Promise<MachineProcess[]> {
    if (this.driver === "qemu") return machineProcesses(this.stateDir);
    return this.#guests()
      .filter(({ args }) => args.some((arg) => arg.endsWith("guest/main.ts")))
      .map(({ pid, id }) => ({ pid, id, known: true }));
  }

  async machinesOf(id: string): Promise<number[]> {
    return (await this.machines()).filter((one) => one.id === id).map(({ pid }) => pid);
  }

  /** Folders of machines, half made ones too. */
  folders(): Promise<string[]> {
    return readdir(join(this.stateDir, "machines")).catch(() => []);
  }

  /** What the host says of a machine; null when it has none. */
  async hostView(id: string): Promise<Machine | null> {
    const answer = await this.#control("GET", hostPaths.machine(id));
    return answer.status === 404 ? null : Machine.parse(await answer.json());
  }

  /** Send a sleeper to a depth. */
  async settle(id: string, depth: SleepDepth): Promise<void> {
    await this.#control("POST", hostPaths.act(id, "settle"), { depth });
  }

  /** Remove what a fault of the product left of a machine. */
  async purge(id: string): Promise<void> {
    await this.#control("DELETE", hostPaths.machine(id)).catch(() => undefined);
    for (const pid of await this.machinesOf(id)) kill(pid, "SIGKILL");
    if (id !== "") await rm(join(this.stateDir, "machines", id), { recursive: true, force: true });
  }

  async #control(method: string, path: string, body?: object): Promise<Response> {
    return fetch(this.toHost.url + path, {
      method,
      headers: {
        authorization: `Bearer ${await controlSecret(this.own.home.secrets.hostSecret, "local")}`,
        "content-type": "application/json",
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(10_000),
    });
  }

  /** What runs in machines without virtualisation: it has the machine's folder as its home. */
  #guests(): { pid: number; id: string; args: string[] }[] {
    const start = `HOME=${join(this.stateDir, "machines")}/`;
    return readdirSync("/proc").flatMap((entry) => {
      if (!/^\d+$/.test(entry)) return [];
      const home = proc(entry, "environ").find((one) => one.startsWith(start));
      const args = proc(entry, "cmdline");
      if (home === undefined || args.length === 0) return [];
      return [{ pid: Number(entry), id: home.slice(start.length).split("/")[0] ?? "", args }];
    });
  }
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended meanwhile.
  }
}

/** TCP ports on which a process listens. */
export function listeningPorts(pid: number): number[] {
  const sockets = new Set<string>();
  try {
    for (const fd of readdirSync(`/proc/${pid}/fd`)) {
      const found = /^socket:\[(\d+)\]$/.exec(link(`/proc/${pid}/fd/${fd}`));
      if (found?.[1]) sockets.add(found[1]);
    }
  } catch {
    return []; // It ended meanwhile.
  }
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/net/${table}`, "utf8")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      // State 0A listens; the tenth field is the socket's inode.
      .filter((fields) => fields[3] === "0A" && sockets.has(fields[9] ?? ""))
      .map((fields) => Number.parseInt(fields[1]?.split(":")[1] ?? "0", 16)),
  );
}

function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

function proc(pid: string, file: "cmdline" | "environ"): string[] {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8").split("\0").filter(Boolean);
  } catch {
    return []; // It ended meanwhile, or belongs to another user.
  }
}
