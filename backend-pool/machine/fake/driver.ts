/**
 * Machines without virtualisation, for fast tests: the real guest agent as a plain process of this host, stopped by
 * SIGSTOP to sleep. It isolates nothing: commands run as the user who started the host agent.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { RouseFailure } from "../../../sdk/contract/errors.ts";
import { AGENT_PORT } from "../../../sdk/contract/guest-limits.ts";
import type { Shape, SleepDepth } from "../../../sdk/contract/host.ts";
import { allocatedBytes } from "../../paths.ts";
import { ASIDE_LIMIT_MS, within } from "../aside.ts";
import type { Actual, Driver, Endpoint, Identity, Listening, Woken } from "../driver.ts";
import type { Stats } from "../stats.ts";

const agentProgram = fileURLToPath(new URL("../../guest/main.ts", import.meta.url));

/** Ports of this host on which a machine's programs find their way out. */
export interface FakeWays {
  readonly proxy: number;
  readonly resolver: number;
}

interface Running {
  readonly agent: ChildProcess;
  readonly port: number;
  readonly ways: FakeWays;
  asleep: boolean;
}

export class FakeDriver implements Driver {
  readonly accelerator = "fake";
  readonly acceleratorReason = "no virtualisation: processes of this host, for tests only";
  readonly qemuVersion = null;
  readonly images = ["default"];
  readonly compatibility = "fake";
  readonly agent = null;
  readonly sleepers = null;
  readonly #dir: string;
  readonly #machines = new Map<string, Running>();
  readonly #endedListeners: ((id: string) => void)[] = [];

  constructor(machinesDir: string) {
    this.#dir = machinesDir;
  }

  async prepare(_shape: Shape): Promise<void> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
  }

  async create(id: string, shape: Shape): Promise<void> {
    if (!this.images.includes(shape.image))
      throw new RouseFailure("invalid_image", `There is no image "${shape.image}".`);
    if (this.#machines.has(id)) return;
    await mkdir(this.#disk(id), { recursive: true, mode: 0o700 });
    const machine = await this.#start(id);
    await this.#sleep(id, machine);
  }

  async wake(id: string, _identity: Identity): Promise<Woken> {
    const machine = this.#machines.get(id);
    if (!machine)
      throw new RouseFailure("wake_failed", "There is no saved RAM to wake.", { details: { memoryLost: true } });
    await signalAll(this.#disk(id), "SIGCONT");
    machine.asleep = false;
    return { ready: Promise.resolve() };
  }

  async boot(id: string, identity: Identity): Promise<void> {
    await this.#kill(id);
    await rm(this.#run(id), { recursive: true, force: true });
    await this.#start(id);
    await this.wake(id, identity);
  }

  async pause(id: string, aside?: Promise<unknown>): Promise<void> {
    await within(aside, ASIDE_LIMIT_MS);
    await this.#sleep(id, this.#get(id));
  }

  async capture(): Promise<number | null> {
    throw new RouseFailure("unavailable", "Processes of this host can't be copied.");
  }

  async plugVolume(): Promise<void> {
    throw new RouseFailure("unavailable", "Processes of this host have no volumes.");
  }

  async mountDisk(): Promise<void> {
    await this.plugVolume();
  }

  async unplugVolume(): Promise<void> {
    await this.plugVolume();
  }

  async growVolume(): Promise<void> {
    await this.plugVolume();
  }

  async copyVolume(): Promise<boolean> {
    await this.plugVolume();
    return false;
  }

  async createFrom(): Promise<void> {
    await this.capture();
  }

  async captures(): Promise<readonly string[]> {
    return [];
  }

  async dropCapture(): Promise<void> {
    // There is none.
  }

  async settle(_id: string, _depth: SleepDepth): Promise<void> {
    // A stopped process has one depth.
  }

  async stop(id: string): Promise<void> {
    await this.#kill(id);
  }

  async halt(id: string): Promise<void> {
    await this.#kill(id);
  }

  thaw(id: string, _identity: Identity): Promise<Actual> {
    return this.inspect(id);
  }

  async destroy(id: string): Promise<void> {
    await this.#kill(id);
    await rm(join(this.#dir, id), { recursive: true, force: true });
  }

  async inspect(id: string): Promise<Actual> {
    const exists = await stat(this.#disk(id)).then(
      () => true,
      () => false,
    );
    const machine = this.#machines.get(id);
    return {
      exists,
      running: machine !== undefined && !machine.asleep,
      memory: machine === undefined ? "none" : machine.asleep ? "saved" : "live",
      depth: machine?.asleep ? "resident" : null,
    };
  }

  adopt(id: string, _identity: Identity): Promise<Actual> {
    return this.inspect(id);
  }

  async list(): Promise<readonly string[]> {
    return readdir(this.#dir).catch(() => []);
  }

  async endpoint(id: string, guestPort: number): Promise<Endpoint> {
    return { host: "127.0.0.1", port: guestPort === AGENT_PORT ? this.#get(id).port : guestPort };
  }

  /** As it is told by its guest agent. */
  ways(id: string): FakeWays {
    return this.#get(id).ways;
  }

  listening(_id: string, guestPort: number): Promise<Listening> {
    return new Promise((resolve) => {
      const socket = connect(guestPort, "127.0.0.1");
      socket.once("connect", () => {
        socket.destroy();
        resolve("reachable");
      });
      socket.once("error", () => resolve("no"));
    });
  }

  async stats(id: string): Promise<Stats> {
    const cpuNs = this.#machines.has(id) ? BigInt(await this.cpuTicks(id)) * 10_000_000n : null;
    return { cpuNs, storedBytes: await allocatedBytes(this.#disk(id)) };
  }

  async cpuTicks(id: string): Promise<number> {
    let ticks = 0;
    for (const pid of await processesOf(this.#disk(id))) {
      const fields = (await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")).split(") ")[1]?.split(" ");
      // Its own user and system time, and that of its children that ended.
      for (const field of fields?.slice(11, 15) ?? []) ticks += Number(field);
    }
    return ticks;
  }

  onEnded(listener: (id: string) => void): void {
    this.#endedListeners.push(listener);
  }

  async close(): Promise<void> {
    for (const id of [...this.#machines.keys()]) await this.#kill(id);
  }

  #disk(id: string): string {
    return join(this.#dir, id, "disk");
  }

  #run(id: string): string {
    return join(this.#dir, id, "run");
  }

  #get(id: string): Running {
    const machine = this.#machines.get(id);
    if (!machine) throw new RouseFailure("not_running", "The machine does not run on this host.");
    return machine;
  }

  async #start(id: string): Promise<Running> {
    const flags = ["--listen", "127.0.0.1:0", "--home", this.#disk(id), "--version-id", "fake"];
    flags.push("--state", this.#run(id), "--timers", join(this.#dir, id, "timers.json"));
    flags.push("--proxy", "127.0.0.1:0", "--resolver", "127.0.0.1:0", "--names", join(this.#dir, id, "names"));
    const agent = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", agentProgram, ...flags], {
      env: { ...process.env, HOME: this.#disk(id) },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(createInterface({ input: agent.stdout }), "line")) as [string];
    const { listening, ...ways } = JSON.parse(line) as FakeWays & { listening: number };
    const machine: Running = { agent, port: listening, ways, asleep: false };
    this.#machines.set(id, machine);
    agent.once("exit", () => {
      if (this.#machines.get(id) !== machine) return;
      this.#machines.delete(id);
      for (const listener of this.#endedListeners) listener(id);
    });
    return machine;
  }

  async #sleep(id: string, machine: Running): Promise<void> {
    await signalAll(this.#disk(id), "SIGSTOP");
    machine.asleep = true;
  }

  async #kill(id: string): Promise<void> {
    const machine = this.#machines.get(id);
    if (!machine) return;
    this.#machines.delete(id);
    const gone = once(machine.agent, "exit");
    await signalAll(this.#disk(id), "SIGKILL");
    if (machine.agent.exitCode === null && machine.agent.signalCode === null) await gone;
  }
}

async function signalAll(home: string, signal: NodeJS.Signals): Promise<void> {
  for (const pid of await processesOf(home)) {
    try {
      process.kill(pid, signal);
    } catch {
      // it ended meanwhile
    }
  }
}

/** The agent and everything it started: all have the machine's folder as their home, also when their parent is gone. */
async function processesOf(home: string): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const mine = await Promise.all(
    pids.map((pid) =>
      readFile(`/proc/${pid}/environ`, "utf8").then(
        (environment) => environment.split("\0").includes(`HOME=${home}`),
        () => false,
      ),
    ),
  );
  return pids.filter((_, i) => mine[i]).map(Number);
}
