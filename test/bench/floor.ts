/**
 * The floor: the same machine files driven by bare QEMU commands and nothing else of the project. What Rouse adds is
 * what it takes above this, measured in the same run.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFile, rm, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";

export interface FloorMachine {
  /** Folder with `ram`, `disk.qcow2` and `device-state` of a sleeper whose port 8080 serves. */
  readonly dir: string;
  readonly kernel: string;
  readonly initrd: string;
  readonly accelerator: string;
  readonly vcpu: number;
  readonly memoryMiB: number;
  /** Ports that volumes are plugged into. */
  readonly slots: number;
  /** Without a file: the way QEMU is used where states are saved whole (`savevm`). */
  readonly anonymousRam?: boolean;
}

const AGENT_PORT = 10_800;

export class Floor {
  readonly #machine: FloorMachine;
  #child: ChildProcess | null = null;
  #qmp: Socket | null = null;
  #wire: Socket | null = null;
  readonly #answers: ((answer: Record<string, unknown>) => void)[] = [];
  #port = 0;
  /** The guest said that its boot script is done. */
  #up = Promise.withResolvers<void>();

  constructor(machine: FloorMachine) {
    this.#machine = machine;
  }

  /** A process that waits for a state, with the port forwarded. Milliseconds. */
  start(): Promise<number> {
    return timed(async () => {
      await this.#spawn(["-incoming", "defer"]);
      this.#port = await this.#forward(8080);
    });
  }

  /** Load and run on, until the first byte of an HTTP answer. Milliseconds. */
  wake(): Promise<number> {
    return timed(async () => {
      await this.load();
      await this.#command("cont");
      await this.firstByte();
    });
  }

  /** Load and run on, no request. */
  async load(): Promise<void> {
    const { dir } = this.#machine;
    const at = join(dir, "in.sock");
    await rm(at, { force: true });
    await this.#command("migrate-incoming", { uri: `unix:${at}` });
    const socket = connect(at);
    await once(socket, "connect");
    // A state that does not load ends the process, and the next command says so.
    socket.on("error", () => undefined);
    socket.end(await readFile(join(dir, "device-state")));
    while ((await this.#command("query-status"))["status"] === "inmigrate") await tick();
  }

  async cont(): Promise<void> {
    await this.#command("cont");
  }

  /** Stop and save. Milliseconds. */
  pause(): Promise<number> {
    return timed(async () => {
      const { dir } = this.#machine;
      const at = join(dir, "out.sock");
      await rm(at, { force: true });
      const server = createServer();
      server.listen(at);
      await once(server, "listening");
      const saved = once(server, "connection").then(async ([socket]) => {
        const chunks: Buffer[] = [];
        for await (const chunk of socket as Socket) chunks.push(chunk as Buffer);
        await writeFile(join(dir, "device-state"), Buffer.concat(chunks));
      });
      await this.#command("stop");
      await this.#command("migrate", { uri: `unix:${at}` });
      while ((await this.#command("query-migrate"))["status"] !== "completed") await tick();
      await saved;
      server.close();
    });
  }

  /** Run a resident sleeper on, until the first byte. Milliseconds. */
  wakeResident(): Promise<number> {
    return timed(async () => {
      await this.#command("cont");
      await this.firstByte();
    });
  }

  /** From a process start on the disk alone until the guest agent answers. Milliseconds. */
  boot(): Promise<number> {
    return timed(async () => {
      await rm(join(this.#machine.dir, "ram"), { force: true });
      await this.#spawn([]);
      // A connection that comes before the guest's network is up would be tried again only after seconds.
      await this.#up.promise;
      this.#port = await this.#forward(AGENT_PORT);
      // Attempts without a pause would take the guest's CPUs from its boot.
      await this.firstByte("/facts", 50);
    });
  }

  /** A process for a state in its own disk (`savevm`), with the port forwarded. Milliseconds. */
  startStopped(): Promise<number> {
    return timed(async () => {
      await this.#spawn(["-S"]);
      this.#port = await this.#forward(8080);
    });
  }

  /** Have everything of the next state saved, RAM included, wherever that is. */
  async saveWhole(): Promise<void> {
    await this.#command("migrate-set-capabilities", {
      capabilities: [{ capability: "x-ignore-shared", state: false }],
    });
  }

  async stop(): Promise<void> {
    await this.#command("stop");
  }

  /** A command of QEMU's monitor. @throws Error with what it answers: these say nothing when they work */
  async monitor(line: string): Promise<void> {
    const { text } = await this.#command("human-monitor-command", { "command-line": line });
    if (text) throw new Error(`${line}: ${String(text).trim()}`);
  }

  async firstByte(path = "/", retryMs = 1): Promise<void> {
    for (;;) {
      const done = await new Promise<boolean>((resolve) => {
        const req = get({ host: "127.0.0.1", port: this.#port, path, agent: false }, (res) => {
          res.once("data", () => resolve(true));
          res.once("end", () => resolve(true));
        });
        req.setTimeout(60_000, () => req.destroy());
        req.on("error", () => resolve(false));
      });
      if (done) return;
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  }

  async end(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    const gone = once(child, "exit");
    // Its answer may be lost with the connection.
    void this.#command("quit").catch(() => ({}));
    await gone;
    this.#answers.length = 0;
    this.#qmp?.destroy();
    this.#wire?.destroy();
    this.#child = null;
  }

  async #spawn(more: string[]): Promise<void> {
    const { dir, kernel, initrd, accelerator, vcpu, memoryMiB, slots, anonymousRam = false } = this.#machine;
    const at = (name: string) => join(dir, name);
    await Promise.all([rm(at("q.sock"), { force: true }), rm(at("w.sock"), { force: true })]);
    const size = `id=ram,size=${memoryMiB}M`;
    const ram = anonymousRam
      ? `memory-backend-ram,${size}`
      : `memory-backend-file,${size},mem-path=${at("ram")},share=on`;
    const accel = accelerator === "kvm" ? "kvm" : `tcg,thread=multi,tb-size=${Math.max(128, memoryMiB >> 2)}`;
    const args = [
      ...["-name", "rouse", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot"],
      ...["-M", "pc-q35-7.2,vmport=off,smbus=off,sata=off,usb=off,graphics=off"],
      ...["-accel", accel, "-cpu", "Nehalem", "-m", String(memoryMiB), "-smp", String(vcpu)],
      ...["-object", ram, "-machine", "memory-backend=ram"],
      ...["-kernel", kernel, "-initrd", initrd, "-append", "console=ttyS0 quiet reboot=t panic=-1"],
      ...["-chardev", "ringbuf,id=console,size=65536", "-serial", "chardev:console"],
      ...[
        "-drive",
        `id=disk,file=${at("disk.qcow2")},format=qcow2,if=none,cache=writeback,discard=unmap,detect-zeroes=unmap`,
      ],
      ...[
        "-device",
        "virtio-blk-pci,drive=disk",
        "-netdev",
        "user,id=net,restrict=on",
        "-device",
        "virtio-net-pci,netdev=net,romfile=",
      ],
      ...[
        "-device",
        "virtio-serial-pci,max_ports=2",
        "-chardev",
        `socket,id=wire,path=${at("w.sock")},server=on,wait=off`,
      ],
      ...["-device", "virtserialport,chardev=wire,name=rouse.wire"],
      ...["-device", "vmgenid,guid=auto", "-device", "virtio-balloon-pci,free-page-reporting=on"],
      ...Array.from({ length: slots }, (_, n) => ["-device", `pcie-root-port,id=slot${n + 1},chassis=${n + 1}`]).flat(),
      ...["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"],
      ...["-qmp", `unix:${at("q.sock")},server=on,wait=off`, ...more],
    ];
    this.#child = spawn("qemu-system-x86_64", args, { stdio: "ignore" });
    this.#qmp = await open(at("q.sock"));
    this.#wire = await open(at("w.sock"));
    this.#up = Promise.withResolvers();
    this.#wire.on("data", (data: Buffer) => data.includes("up\n") && this.#up.resolve());
    const lines = createInterface({ input: this.#qmp });
    lines.on("error", () => undefined); // a process that quits resets the connection
    lines.on("line", (line) => {
      const message = JSON.parse(line) as Record<string, unknown>;
      if ("return" in message || "error" in message) this.#answers.shift()?.(message);
    });
    this.#qmp.on("close", () => {
      for (const answer of this.#answers.splice(0)) answer({ error: "QEMU ended" });
    });
    await this.#command("qmp_capabilities");
    await this.#command("migrate-set-capabilities", { capabilities: [{ capability: "x-ignore-shared", state: true }] });
  }

  async #forward(port: number): Promise<number> {
    await this.#command("human-monitor-command", { "command-line": `hostfwd_add net tcp:127.0.0.1:0-:${port}` });
    const { text } = await this.#command("human-monitor-command", { "command-line": "info usernet" });
    const found = new RegExp(`HOST_FORWARD\\]\\s+\\d+\\s+\\S+\\s+(\\d+)\\s+\\S+\\s+${port}\\s`).exec(String(text));
    return Number(found?.[1]);
  }

  async #command(execute: string, args: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    if (!this.#qmp || this.#qmp.destroyed) throw new Error(`${execute}: QEMU ended`);
    const answer = new Promise<Record<string, unknown>>((resolve) => this.#answers.push(resolve));
    this.#qmp.write(`${JSON.stringify({ execute, arguments: args })}\n`);
    const { return: value, error } = await answer;
    if (error !== undefined) throw new Error(`${execute}: ${JSON.stringify(error)}`);
    return typeof value === "string" ? { text: value } : (value as Record<string, unknown>);
  }
}

/** Milliseconds that work took. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

async function open(path: string): Promise<Socket> {
  for (;;) {
    const socket = connect(path);
    const there = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true));
      socket.on("error", () => resolve(false));
    });
    if (there) return socket;
    await tick();
  }
}

const tick = () => new Promise((resolve) => setTimeout(resolve, 1));
