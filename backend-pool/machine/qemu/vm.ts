/** One QEMU process: started or taken up again, loaded, saved, run on, ended. Knows nothing of sandboxes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { z } from "zod";
import { boundToParent } from "../../process.ts";
import { endLeftMirrors } from "./mirrors.ts";
import { connectUnix, Qmp, QmpError } from "./qmp.ts";
import { Wire } from "./wire.ts";

const CpuThreads = z.array(z.object({ "thread-id": z.int() }));

/** Where a process keeps what is needed to take it up again. */
export interface VmPaths {
  readonly qmp: string;
  readonly wire: string;
  /** Unix socket through which device state moves. */
  readonly state: string;
  readonly pid: string;
  readonly log: string;
}

/** In the place of a process's number until that is known. */
const STARTING = "starting";
/** Device state is about 0.5 MB; a minute is for a host that is very busy. */
const MOVE_LIMIT_MS = 60_000;
/** Programs that stand still go on by themselves after 500 ms. */
const STILL_LIMIT_MS = 400;

export class Vm {
  readonly qmp: Qmp;
  readonly wire: Wire;
  readonly pid: number;
  readonly #paths: VmPaths;
  readonly #forwards = new Map<number, number>();
  #cpuThreads: number[] | null = null;
  /** Guest state is in this process: it was booted or loaded. */
  loaded: boolean;

  /** An earlier host agent started it. */
  #attached = false;

  private constructor(qmp: Qmp, wire: Wire, pid: number, paths: VmPaths, loaded: boolean) {
    this.qmp = qmp;
    this.wire = wire;
    this.pid = pid;
    this.#paths = paths;
    this.loaded = loaded;
    qmp.on("close", () => wire.close());
  }

  /**
   * Start a process. With `-incoming` in the arguments it waits for a state.
   * @param bound it ends when this process does; without, it outlives it
   */
  static async start(args: readonly string[], paths: VmPaths, { bound = false } = {}): Promise<Vm> {
    // Whoever finds this mark looks for the process itself: its number may never have been written.
    const marked = writeFile(paths.pid, STARTING, { mode: 0o600 });
    await Promise.all([marked, rm(paths.qmp, { force: true }), rm(paths.wire, { force: true })]);
    const log = openSync(paths.log, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC, 0o600);
    const command = ["qemu-system-x86_64", ...args];
    const [program, ...rest] = bound ? boundToParent("KILL", command) : command;
    const child = spawn(program ?? "", rest, { detached: true, stdio: ["ignore", log, log] });
    closeSync(log);
    child.unref();
    const failed = new Promise<never>((_, reject) => {
      child.once("error", reject);
      child.once("exit", async (code, signal) => {
        const text = await readFile(paths.log, "utf8").catch(() => "");
        reject(new QmpError(`QEMU ended at once (${signal ?? code}): ${text.trim().slice(-600)}`));
      });
    });
    failed.catch(() => undefined);
    const pid = child.pid ?? 0;
    await writeFile(paths.pid, String(pid), { mode: 0o600 });
    return Promise.race([Vm.#connect(paths, pid, !args.includes("-incoming")), failed]);
  }

  /** Take up a process that an earlier host agent started; null when it is gone. */
  static async attach(paths: VmPaths): Promise<Vm | null> {
    const pid = await pidOf(paths);
    if (pid === 0) return null;
    await writeFile(paths.pid, String(pid), { mode: 0o600 });
    try {
      const vm = await Vm.#connect(paths, pid, true, 3000);
      await endLeftMirrors(vm.qmp);
      const status = await vm.status();
      vm.#attached = true;
      vm.loaded = status !== "inmigrate";
      return vm;
    } catch {
      // It does not answer: it can't be used again, and must not run on unseen.
      process.kill(pid, "SIGKILL");
      return null;
    }
  }

  static async #connect(paths: VmPaths, pid: number, loaded: boolean, limitMs = 10_000): Promise<Vm> {
    const [qmp, wire] = await Promise.all([Qmp.open(paths.qmp, limitMs), Wire.open(paths.wire, limitMs)]);
    await qmp.execute("migrate-set-capabilities", {
      capabilities: ["x-ignore-shared", "events"].map((capability) => ({ capability, state: true })),
    });
    return new Vm(qmp, wire, pid, paths, loaded);
  }

  /** Whether its process is there, and not only dying: its end is told a moment later. Costs next to nothing. */
  get isAlive(): boolean {
    try {
      const text = readFileSync(`/proc/${this.pid}/stat`, "utf8");
      return !["Z", "X"].includes(text.slice(text.lastIndexOf(")") + 2)[0] ?? "X");
    } catch {
      return false;
    }
  }

  async status(): Promise<string> {
    const answer = await this.qmp.execute("query-status");
    return typeof answer === "object" && answer !== null && "status" in answer ? String(answer.status) : "unknown";
  }

  /** Load a device state into a process that waits for one. */
  async load(file: string): Promise<void> {
    const state = await readFile(file);
    await rm(this.#paths.state, { force: true });
    const loaded = this.#moved();
    loaded.catch(() => undefined);
    await this.qmp.execute("migrate-incoming", { uri: `unix:${this.#paths.state}` });
    const socket = await connectUnix(this.#paths.state, 5000);
    socket.end(state);
    await loaded;
    socket.destroy();
    await rm(this.#paths.state, { force: true });
    this.loaded = true;
  }

  /**
   * Stop the virtual CPUs and write the device state to `file` (whole, or not at all). The process stays.
   * @throws QmpError; the virtual CPUs then run on
   */
  async save(file: string): Promise<void> {
    const part = `${file}.part`;
    try {
      await this.still();
      await this.stop();
      const state = await this.deviceState();
      const handle = await open(part, "w", 0o600);
      await handle.writeFile(state);
      await handle.close();
      await rename(part, file);
    } catch (fault) {
      await this.run().catch(() => undefined);
      throw fault;
    }
  }

  /** Programs begin to stand still. A guest that is stuck must still be able to sleep. */
  async still(): Promise<void> {
    await this.wire.still(STILL_LIMIT_MS).catch(() => undefined);
  }

  /** After it the guest's RAM and disks are what they are. */
  async stop(): Promise<void> {
    await this.qmp.execute("stop");
  }

  /** The state of devices, while the virtual CPUs stand still. */
  async deviceState(): Promise<Buffer> {
    await rm(this.#paths.state, { force: true });
    const server = createServer();
    server.listen(this.#paths.state);
    await once(server, "listening");
    try {
      const received = (async () => {
        const [socket] = await once(server, "connection");
        const chunks: Buffer[] = [];
        for await (const chunk of socket) chunks.push(chunk as Buffer);
        return Buffer.concat(chunks);
      })();
      received.catch(() => undefined);
      const moved = this.#moved();
      moved.catch(() => undefined);
      await this.qmp.execute("migrate", { uri: `unix:${this.#paths.state}` });
      await moved;
      return await received;
    } finally {
      server.close();
      await rm(this.#paths.state, { force: true });
    }
  }

  async run(): Promise<void> {
    await this.qmp.execute("cont");
  }

  /** CPU-nanoseconds that the virtual CPUs took since the process began; null when it is gone. */
  async cpuNs(): Promise<bigint | null> {
    try {
      this.#cpuThreads ??= CpuThreads.parse(await this.qmp.execute("query-cpus-fast")).map((cpu) => cpu["thread-id"]);
      const times = await Promise.all(this.#cpuThreads.map((thread) => threadNs(this.pid, thread)));
      return times.reduce((sum, time) => sum + time, 0n);
    } catch {
      return null;
    }
  }

  /** A port on 127.0.0.1 that reaches the guest's port. */
  async forward(guestPort: number): Promise<number> {
    if (!this.#forwards.has(guestPort)) await this.forwardAll([guestPort]);
    const port = this.#forwards.get(guestPort);
    if (port === undefined) throw new QmpError(`port ${guestPort} was not forwarded`);
    return port;
  }

  /** Forward several at once: the commands go out together, so it takes as long as one. */
  async forwardAll(guestPorts: readonly number[]): Promise<void> {
    // A process that was taken up again has the forwards of its earlier life.
    if (this.#attached && this.#forwards.size === 0) this.#learnForwards(await this.qmp.human("info usernet"));
    const missing = guestPorts.filter((port) => !this.#forwards.has(port));
    if (missing.length === 0) return;
    // Port 0: the kernel picks a free one, and "info usernet" tells which.
    const add = (port: number) => this.qmp.human(`hostfwd_add net tcp:127.0.0.1:0-:${port}`);
    const added = missing.map(add);
    // QEMU runs commands in the order they come, so the listing shows what the ones before it did.
    const [listing] = await Promise.all([this.qmp.human("info usernet"), ...added]);
    this.#learnForwards(listing);
  }

  #learnForwards(usernet: string): void {
    for (const line of usernet.split("\n")) {
      const found = /TCP\[HOST_FORWARD\]\s+\d+\s+\S+\s+(\d+)\s+\S+\s+(\d+)/.exec(line);
      if (found) this.#forwards.set(Number(found[2]), Number(found[1]));
    }
  }

  /** What the guest printed on its console last. */
  async console(): Promise<string> {
    const text = await this.qmp.execute("ringbuf-read", { device: "console", size: 65_536 }).catch(() => "");
    return typeof text === "string" ? text : "";
  }

  /** End the process in order: disks are flushed and closed. Killed when that takes longer than the limit. */
  async quit(limitMs = 10_000): Promise<void> {
    if (this.qmp.closed) return;
    const gone = once(this.qmp, "close");
    const timer = setTimeout(() => this.kill(), limitMs);
    await this.qmp.execute("quit", {}, limitMs).catch(() => undefined);
    if (!this.qmp.closed) await gone;
    clearTimeout(timer);
    await this.#exited();
  }

  /** Wait until the guest powered itself off. */
  async ended(limitMs: number): Promise<boolean> {
    if (!this.qmp.closed) {
      const timer = AbortSignal.timeout(limitMs);
      await once(this.qmp, "close", { signal: timer }).catch(() => undefined);
    }
    if (this.qmp.closed) await this.#exited();
    return this.qmp.closed;
  }

  kill(): void {
    try {
      process.kill(this.pid, "SIGKILL");
    } catch {
      // it is gone already
    }
  }

  /** Let go; the process runs on, and what waits for it here fails. */
  detach(): void {
    this.qmp.close();
    this.wire.close();
  }

  /** QMP closes a moment before the process is gone, and until then it holds the locks of its disk. */
  async #exited(): Promise<void> {
    for (let tries = 0; tries < 2000; tries++) {
      if (!(await isQemu(this.pid, this.#paths.qmp))) return;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    this.kill();
  }

  #moved(): Promise<void> {
    let failure = false;
    return this.qmp
      .nextEvent((name, data) => {
        failure = name === "MIGRATION" && data["status"] === "failed";
        return failure || (name === "MIGRATION" && data["status"] === "completed");
      }, MOVE_LIMIT_MS)
      .then(() => {
        if (failure) throw new QmpError("the device state could not be moved");
      });
  }
}

/** Send a signal to the process of those paths, whoever started it; nothing when there is none. */
export async function signalQemu(paths: VmPaths, signal: NodeJS.Signals): Promise<void> {
  const pid = await pidOf(paths);
  try {
    if (pid !== 0) process.kill(pid, signal);
  } catch {
    // it ended meanwhile
  }
}

/** Whether the process of those paths is stopped from outside. */
export async function isFrozen(paths: VmPaths): Promise<boolean> {
  const pid = await pidOf(paths);
  if (pid === 0) return false;
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return text.slice(text.lastIndexOf(")") + 2, text.lastIndexOf(")") + 3) === "T";
}

/** The number of the running process of those paths; 0 when there is none. */
async function pidOf(paths: VmPaths): Promise<number> {
  const noted = await readFile(paths.pid, "utf8").catch(() => "0");
  const pid = noted === STARTING ? await findQemu(paths.qmp) : Number(noted);
  return pid > 0 && (await isQemu(pid, paths.qmp)) ? pid : 0;
}

/** Whether the process is the QEMU of that socket: a pid alone may belong to somebody else by now. */
async function isQemu(pid: number, qmpPath: string): Promise<boolean> {
  const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return command.includes(qmpPath);
}

/** The QEMU of that socket among all processes; 0 when there is none. */
async function findQemu(qmpPath: string): Promise<number> {
  for (const name of await readdir("/proc"))
    if (/^\d+$/.test(name) && (await isQemu(Number(name), qmpPath))) return Number(name);
  return 0;
}

/** The first number of a thread's `schedstat` is the time it ran, in nanoseconds. */
async function threadNs(pid: number, thread: number): Promise<bigint> {
  const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8");
  return BigInt(text.split(" ")[0] ?? "0");
}
