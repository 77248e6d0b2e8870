/** Real machines: QEMU guests whose RAM is a file, so that a pause moves only the state of devices. */
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { RouseFailure } from "../../../sdk/contract/errors.ts";
import { AGENT_PORT } from "../../../sdk/contract/guest-limits.ts";
import type { Shape, SleepDepth } from "../../../sdk/contract/host.ts";
import type { Image } from "../../images/build.ts";
import { isSnapshotId, isVolumeCopyId } from "../../../sdk/contract/names.ts";
import { allocatedBytes, exists } from "../../paths.ts";
import { run } from "../../process.ts";
import { agentAnswers } from "../agent-client.ts";
import { ASIDE_LIMIT_MS, within } from "../aside.ts";
import type { Actual, CaptureOrder, Driver, Endpoint, Identity, Listening, Sleepers, Woken } from "../driver.ts";
import type { Stats } from "../stats.ts";
import { compatibilityOf, qemuArguments, SLOTS, type Accelerator } from "./command.ts";
import { Copies } from "./copies.ts";
import { DEVICE_STATE, DISK, Golden, RAM, vmPaths, type GoldenOptions, type Offer } from "./golden.ts";
import { growPlugged, plugArguments, pluggedSlots, plugIn, plugOut, type Plug } from "./plugs.ts";
import { MADE, readMade, writeMade, type Made } from "./made.ts";
import { SleepFiles } from "./sleep-files.ts";
import { VolumeFiles, type HostVolume } from "./volume-files.ts";
import { isFrozen, signalQemu, Vm, type VmPaths } from "./vm.ts";

export interface QemuOptions extends GoldenOptions {
  /** Holds a folder per machine. */
  readonly machinesDir: string;
}

const SYNC_LIMIT_MS = 10_000;
const WAKE_LIMIT_MS = 30_000;
const BOOT_LIMIT_MS = 180_000;
const POWER_OFF_LIMIT_MS = 15_000;

export class QemuDriver implements Driver {
  readonly accelerator: "kvm" | "tcg";
  readonly acceleratorReason: string;
  readonly qemuVersion: string;
  readonly compatibility: string;
  readonly agent: Driver["agent"];
  readonly sleepers: Sleepers;
  readonly #options: QemuOptions;
  readonly #chosen: Accelerator;
  readonly #golden: Golden;
  readonly #copies: Copies;
  readonly #volumes: VolumeFiles;
  readonly #vms = new Map<string, Vm>();
  readonly #made = new Map<string, Made>();
  /** Guest ports that were used in a machine's runs: forwarded again at once when it wakes. */
  readonly #ports = new Map<string, Set<number>>();
  readonly #expected = new WeakSet<Vm>();
  readonly #endedListeners: ((id: string) => void)[] = [];

  constructor(image: Image, accelerator: Accelerator, qemuVersion: string, options: QemuOptions) {
    this.#options = options;
    this.#chosen = accelerator;
    this.accelerator = accelerator.kind;
    this.acceleratorReason = accelerator.reason;
    this.qemuVersion = qemuVersion;
    this.agent = image.agent ?? null;
    this.compatibility = compatibilityOf(accelerator, qemuVersion);
    this.#golden = new Golden(image, accelerator, this.compatibility, options);
    this.#volumes = new VolumeFiles((id) => this.#dir(id));
    this.#copies = new Copies(options.machinesDir, this.#golden, this.#volumes, image.ramCopy ?? null);
    const files = new SleepFiles((id) => this.#dir(id), this.#golden, this.compatibility);
    this.sleepers = { files, volumes: this.#volumes, golden: this.#golden };
  }

  get images(): readonly string[] {
    return this.#golden.images;
  }

  /** Machines can be made of that image as well. */
  offer(offer: Offer): void {
    this.#golden.offer(offer);
  }

  /** No more machines can be made of it. */
  withdraw(image: string): void {
    this.#golden.withdraw(image);
  }

  async prepare(shape: Shape): Promise<void> {
    this.#golden.refill(await this.#golden.of(shape));
    await this.#golden.settled();
  }

  async create(id: string, shape: Shape): Promise<void> {
    const image = this.#golden.imageOf(shape);
    const dir = this.#dir(id);
    if (await exists(join(dir, MADE))) return;
    await rm(dir, { recursive: true, force: true });
    await this.#golden.clone(shape, dir);
    // Written last: a folder without it is half made, and the next try makes it anew.
    await writeMade(dir, { shape, image, slots: SLOTS });
  }

  async wake(id: string, identity: Identity): Promise<Woken> {
    const made = await this.#find(id);
    const state = join(made.dir, DEVICE_STATE);
    if (!(await exists(state))) {
      throw new RouseFailure("wake_failed", "There is no saved RAM to wake.", { details: { memoryLost: true } });
    }
    // A resident process that has just died has not told yet; its state is as good as ever, until `cont`.
    let vm = this.#vms.get(id);
    if (vm && !vm.isAlive) {
      this.#expected.add(vm);
      vm = undefined;
    }
    try {
      vm ??= await this.#start(id, made, true);
      await Promise.all([this.#forwardAll(id, vm), vm.loaded ? undefined : vm.load(state)]);
    } catch (fault) {
      // Nothing ran: the saved RAM is as it was, and the next try starts from a new process.
      if (vm) await this.#end(id, vm);
      throw new RouseFailure("wake_failed", `The saved state could not be loaded: ${text(fault)}`, { cause: fault });
    }
    // From here on the RAM file changes: the saved device state no longer fits it.
    await rm(state);
    const ready = vm.wire.wake(identity, WAKE_LIMIT_MS).catch((fault: unknown) => {
      throw new RouseFailure("wake_failed", `The guest did not take up its new run: ${text(fault)}`, { cause: fault });
    });
    // Whoever needs it waits for it; here its failure may come before anybody does.
    ready.catch(() => undefined);
    try {
      await vm.run();
    } catch (fault) {
      await vm.save(state).catch(() => undefined);
      throw new RouseFailure("wake_failed", `The virtual CPUs did not run on: ${text(fault)}`, { cause: fault });
    }
    return { ready };
  }

  async boot(id: string, identity: Identity): Promise<void> {
    const made = await this.#find(id);
    const old = this.#vms.get(id);
    if (old) await this.#end(id, old);
    await Promise.all([rm(join(made.dir, DEVICE_STATE), { force: true }), rm(join(made.dir, RAM), { force: true })]);
    await this.#unplugged(id, false);
    const vm = await this.#start(id, made, false).catch((fault: unknown) => {
      throw new RouseFailure("start_failed", `QEMU did not start: ${text(fault)}`, { cause: fault });
    });
    try {
      await vm.wire.up(BOOT_LIMIT_MS);
      await vm.wire.wake(identity, WAKE_LIMIT_MS);
      await this.#forwardAll(id, vm);
      await agentAnswers(await this.endpoint(id, AGENT_PORT), BOOT_LIMIT_MS);
    } catch (fault) {
      const said = (await vm.console()).trim().slice(-500);
      await this.#end(id, vm);
      throw new RouseFailure("start_failed", `The machine did not boot: ${text(fault)}. Its console: ${said}`, {
        cause: fault,
      });
    }
  }

  async pause(id: string, aside?: Promise<unknown>): Promise<void> {
    const made = await this.#find(id);
    const state = join(made.dir, DEVICE_STATE);
    if (await exists(state)) return;
    const vm = this.#running(id);
    // So that a later boot from disk alone would lose little. A guest that is stuck must still be able to sleep.
    await vm.wire.sync(SYNC_LIMIT_MS).catch(() => undefined);
    await within(aside, ASIDE_LIMIT_MS);
    try {
      await vm.save(state);
    } catch (fault) {
      throw new RouseFailure("pause_failed", `The state could not be saved: ${text(fault)}`, { cause: fault });
    }
  }

  async capture(id: string, order: CaptureOrder, identity: Identity): Promise<number | null> {
    return this.#copies.capture(await this.#find(id), this.#vms.get(id), await this.#volumes.of(id), order, identity);
  }

  async createFrom(capture: string, id: string): Promise<void> {
    const [dir, paths] = [this.#dir(id), this.#vmPaths(id)];
    // It is run next. One whose RAM knows volumes is started when they are there.
    const canStart = (await this.#volumes.of(capture)).length === 0;
    const start = async () =>
      canStart && this.#start(id, { ...(await readMade(this.#dir(capture), paths)), dir }, true);
    await this.#copies.createFrom(capture, id, start).catch(async (fault: unknown) => {
      const vm = this.#vms.get(id);
      if (vm) await this.#end(id, vm);
      throw fault;
    });
  }

  captures(): Promise<readonly string[]> {
    return this.#copies.list();
  }

  async dropCapture(capture: string): Promise<void> {
    const volumes = await this.#volumes.of(capture);
    for (const id of [capture, ...volumes.map((volume) => volume.id)]) this.sleepers.files.forget(id);
    await this.#copies.drop(capture);
  }

  async settle(id: string, depth: SleepDepth): Promise<void> {
    const made = await this.#find(id);
    if (!(await exists(join(made.dir, DEVICE_STATE)))) return;
    let vm = this.#vms.get(id);
    if (depth === "resident") return;
    if (vm?.loaded) {
      await this.#end(id, vm);
      vm = undefined;
    }
    if (depth === "local" && vm) await this.#end(id, vm);
    if (depth === "prestarted" && !vm) await this.#forwardAll(id, await this.#start(id, made, true));
  }

  async stop(id: string): Promise<void> {
    const made = await this.#find(id);
    const vm = this.#vms.get(id);
    let inOrder = false;
    if (vm && !(await exists(join(made.dir, DEVICE_STATE)))) {
      this.#expected.add(vm);
      await vm.wire.off(SYNC_LIMIT_MS).catch(() => undefined);
      inOrder = await vm.ended(POWER_OFF_LIMIT_MS);
    }
    if (vm) await this.#end(id, vm);
    await this.#unplugged(id, inOrder);
    await this.sleepers.files.change(id, { hasMemory: false });
    await Promise.all([rm(join(made.dir, DEVICE_STATE), { force: true }), rm(join(made.dir, RAM), { force: true })]);
  }

  async halt(id: string): Promise<void> {
    const vm = this.#vms.get(id);
    if (vm) this.#expected.add(vm);
    await signalQemu(this.#vmPaths(id), "SIGKILL");
    if (vm) await this.#end(id, vm);
    if (!(await exists(join(this.#dir(id), DEVICE_STATE)))) await this.#unplugged(id, false);
  }

  async plugVolume(id: string, volume: string): Promise<void> {
    const vm = this.#running(id);
    const found = await this.#volume(id, volume);
    // Before the machine has the disk: RAM that knows a disk loads only in a process that has it.
    await this.#volumes.change(id, volume, { plugged: true, clean: false });
    try {
      await plugIn(vm, this.#plug(found), found.path);
    } catch (fault) {
      await plugOut(vm, found.slot)
        .then(() => this.#volumes.change(id, volume, { plugged: false }))
        .catch(() => undefined);
      throw fault;
    }
  }

  async mountDisk(id: string, slot: number, disk: string, path: string): Promise<void> {
    await plugIn(this.#running(id), { slot, mode: "rw", disk, format: "qcow2" }, path, "ro");
  }

  async unplugVolume(id: string, volume: string): Promise<void> {
    const vm = this.#running(id);
    const { slot, mode } = await this.#volume(id, volume);
    await plugOut(vm, slot);
    await this.#volumes.change(id, volume, { plugged: false, clean: mode === "rw" });
  }

  async growVolume(id: string, volume: string, sizeMiB: number): Promise<void> {
    const { slot } = await this.#volume(id, volume);
    await growPlugged(this.#running(id), slot, sizeMiB);
    await this.#volumes.change(id, volume, { sizeMiB });
  }

  async copyVolume(id: string, volume: string, to: string): Promise<boolean> {
    const { slot, plugged, clean } = await this.#volume(id, volume);
    const vm = this.#vms.get(id);
    const runs = plugged && vm !== undefined && !(await exists(join(this.#dir(id), DEVICE_STATE)));
    if (!runs) {
      await this.#volumes.copy(volume, to);
      return clean;
    }
    return this.#copies.copyVolume(vm, slot, to);
  }

  async thaw(id: string, identity: Identity): Promise<Actual> {
    await signalQemu(this.#vmPaths(id), "SIGCONT");
    // One that this host agent holds all along learns what time it is; `adopt` tells the others.
    await this.#vms
      .get(id)
      ?.wire.wake(identity, WAKE_LIMIT_MS)
      .catch(() => undefined);
    return this.adopt(id, identity);
  }

  async destroy(id: string): Promise<void> {
    const dir = this.#dir(id);
    const paths = this.#vmPaths(id);
    const vm = this.#vms.get(id);
    if (vm) this.#expected.add(vm);
    await signalQemu(paths, "SIGKILL");
    if (vm) await this.#end(id, vm);
    await Promise.all(Object.values(paths).map((path: string) => rm(path, { force: true })));
    // A sealing that is being given up may still put something there.
    const all = { recursive: true, force: true, maxRetries: 5 };
    await Promise.all([dir, `${dir}.part`].map((path) => rm(path, all)));
    this.sleepers.files.forget(id);
    this.#made.delete(id);
    this.#ports.delete(id);
  }

  async inspect(id: string): Promise<Actual> {
    const made = await this.#find(id).catch(() => null);
    if (!made) return { exists: false, running: false, memory: "none", depth: null };
    const vm = this.#vms.get(id);
    const note = await this.sleepers.files.note(id);
    if (note?.shed && !vm) {
      const depth = note.hasMemory ? await this.sleepers.files.depth(id) : null;
      return { exists: true, running: false, memory: note.hasMemory ? "saved" : "none", depth };
    }
    const saved = await exists(join(made.dir, DEVICE_STATE));
    if (!saved && (await isFrozen(made.paths)))
      return { exists: true, running: false, frozen: true, memory: "live", depth: null };
    const running = vm !== undefined && vm.loaded && !saved && (await vm.status().catch(() => "gone")) === "running";
    return {
      exists: true,
      running,
      memory: running ? "live" : saved ? "saved" : "none",
      depth: !saved ? null : vm === undefined ? "local" : vm.loaded ? "resident" : "prestarted",
    };
  }

  async adopt(id: string, identity: Identity): Promise<Actual> {
    const made = await this.#find(id).catch(() => null);
    if (made && !this.#vms.has(id)) {
      const saved = await exists(join(made.dir, DEVICE_STATE));
      // Whether it may run on is not for this host to say; one that sleeps does not run however it is woken.
      if (!saved && (await isFrozen(made.paths))) return this.inspect(id);
      if (saved) await signalQemu(made.paths, "SIGCONT");
      const vm = await Vm.attach(made.paths);
      if (vm) {
        this.#watch(id, vm);
        const status = await vm.status();
        // A state that is whole while the virtual CPUs run is the one of an earlier sleep, and no longer fits.
        if (saved && status === "running") await rm(join(made.dir, DEVICE_STATE));
        const isAwake = status === "running" || (!saved && status !== "inmigrate");
        // Stopped and not saved: the host agent died in the middle of a pause or a wake, and nothing is lost by going on.
        await this.#reconcile(id, vm);
        if (isAwake && status !== "running") await vm.run();
        if (isAwake) await vm.wire.wake(identity, WAKE_LIMIT_MS).catch(() => undefined);
      }
    }
    return this.inspect(id);
  }

  async list(): Promise<readonly string[]> {
    await mkdir(this.#options.machinesDir, { recursive: true, mode: 0o700 });
    const names = await readdir(this.#options.machinesDir);
    // A clone that was cut off, of a machine that may be gone by now.
    const halves = names.filter((name) => name.endsWith(".part"));
    await Promise.all(
      halves.map((name) => rm(join(this.#options.machinesDir, name), { recursive: true, force: true })),
    );
    // Copies that are no machines are in the same place (`capture`).
    return names.filter((name) => !name.endsWith(".part") && !isSnapshotId(name) && !isVolumeCopyId(name));
  }

  async endpoint(id: string, guestPort: number): Promise<Endpoint> {
    const vm = this.#running(id);
    let ports = this.#ports.get(id);
    if (!ports) this.#ports.set(id, (ports = new Set()));
    ports.add(guestPort);
    return { host: "127.0.0.1", port: await vm.forward(guestPort) };
  }

  listening(id: string, guestPort: number): Promise<Listening> {
    return this.#running(id).wire.listening(guestPort);
  }

  async stats(id: string): Promise<Stats> {
    const note = await this.sleepers.files.note(id);
    const storedBytes = note?.step === "stored" ? note.ownedBytes : allocatedBytes(this.#dir(id));
    return { cpuNs: (await this.#vms.get(id)?.cpuNs()) ?? null, storedBytes: await storedBytes };
  }

  cpuTicks(id: string): Promise<number> {
    return this.#running(id).wire.cpuTicks();
  }

  onEnded(listener: (id: string) => void): void {
    this.#endedListeners.push(listener);
  }

  async close(): Promise<void> {
    await this.#golden.close();
    for (const vm of this.#vms.values()) {
      this.#expected.add(vm);
      vm.detach();
    }
    this.#vms.clear();
  }

  #running(id: string): Vm {
    const vm = this.#vms.get(id);
    if (!vm) throw new RouseFailure("not_running", "The machine does not run on this host.");
    return vm;
  }

  #dir(id: string): string {
    return join(this.#options.machinesDir, id);
  }

  #vmPaths(id: string): VmPaths {
    return vmPaths(this.#options.runDir, this.#dir(id));
  }

  async #find(id: string): Promise<Made> {
    const known = this.#made.get(id);
    if (known) return known;
    const dir = this.#dir(id);
    const made = await readMade(dir, this.#vmPaths(id)).catch((fault: unknown) => {
      throw new RouseFailure("not_found", "The machine is not on this host.", { cause: fault });
    });
    this.#made.set(id, made);
    return made;
  }

  async #start(id: string, made: Made, incoming: boolean): Promise<Vm> {
    // A sleeping state loads with the kernel it was made with; a boot takes the newest initramfs, and so the newest agent.
    const image = incoming ? made.image : this.#golden.newest(made.image);
    const files = {
      ...made.paths,
      ram: join(made.dir, RAM),
      disk: join(made.dir, DISK),
      kernel: image.kernel,
      initrd: image.initrd,
    };
    const plugs = (await this.#volumes.of(id)).filter(({ plugged }) => plugged).map((volume) => this.#plug(volume));
    const args = [...qemuArguments(made.shape, this.#chosen, files, incoming, made.slots), ...plugArguments(plugs)];
    const vm = await Vm.start(args, made.paths);
    this.#watch(id, vm);
    return vm;
  }

  #plug({ id, slot, mode }: HostVolume): Plug {
    return { slot, mode, disk: this.#volumes.disk(id) };
  }

  async #volume(id: string, volume: string): Promise<HostVolume> {
    const found = (await this.#volumes.of(id)).find((one) => one.id === volume);
    if (!found) throw new RouseFailure("attachment_not_found", "The machine does not have that volume.");
    return found;
  }

  /** No RAM knows the machine's volumes any more. */
  async #unplugged(id: string, clean: boolean): Promise<void> {
    const volumes = await this.#volumes.of(id);
    if (!volumes.some(({ plugged }) => plugged)) return;
    const after = (volume: HostVolume) => (volume.plugged ? { ...volume, plugged: false, clean } : volume);
    await this.#volumes.note(id, volumes.map(after));
  }

  /** A host agent that died while it plugged a volume in or out does not know what became of that. */
  async #reconcile(id: string, vm: Vm): Promise<void> {
    const volumes = await this.#volumes.of(id);
    if (volumes.length === 0) return;
    const there = await pluggedSlots(vm);
    if (volumes.some(({ slot, plugged }) => plugged !== there.has(slot)))
      await this.#volumes.note(
        id,
        volumes.map((volume) => ({ ...volume, plugged: there.has(volume.slot) })),
      );
  }

  #watch(id: string, vm: Vm): void {
    this.#vms.set(id, vm);
    vm.qmp.on("close", () => {
      if (this.#vms.get(id) === vm) this.#vms.delete(id);
      if (!this.#expected.has(vm)) for (const listener of this.#endedListeners) listener(id);
    });
  }

  async #end(id: string, vm: Vm): Promise<void> {
    this.#expected.add(vm);
    await vm.quit();
    if (this.#vms.get(id) === vm) this.#vms.delete(id);
  }

  async #forwardAll(id: string, vm: Vm): Promise<void> {
    await vm.forwardAll([...new Set([AGENT_PORT, ...(this.#ports.get(id) ?? [])])]);
  }
}

/** `QEMU emulator version 10.0.2 (...)` -> `10.0.2`. */
export async function qemuVersion(): Promise<string> {
  const { stdout } = await run("qemu-system-x86_64", ["--version"]);
  return /version (\S+)/.exec(stdout)?.[1] ?? "unknown";
}

function text(fault: unknown): string {
  return fault instanceof Error ? fault.message : String(fault);
}
