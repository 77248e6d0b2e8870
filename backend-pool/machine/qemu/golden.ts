/**
 * Golden states: each shape boots once, and its RAM, devices and disk are kept with the guest agent and the
 * interpreter running. A new machine is a clone of them. A few clones are kept ready ("spares"), so that creating
 * one is a rename.
 */
import { randomBytes } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, rm, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AGENT_PORT } from "../../../sdk/contract/guest-limits.ts";
import { RouseFailure } from "../../../sdk/contract/errors.ts";
import type { Shape } from "../../../sdk/contract/host.ts";
import { removeLeftovers } from "../../images/leftovers.ts";
import { inTurn } from "../../images/turn.ts";
import { contentKey } from "../../images/recipe.ts";
import type { Readying } from "../../images/agents/image.ts";
import type { Image } from "../../images/build.ts";
import { closedOutside } from "../../egress/closed.ts";
import { Tunnels, type Tunnel } from "../../egress/tunnel.ts";
import { exists } from "../../paths.ts";
import { run } from "../../process.ts";
import type { Progress } from "../../progress.ts";
import { agentFacts, warmUpAgent } from "../agent-client.ts";
import type { Endpoint } from "../driver.ts";
import { qemuArguments, SLOTS, SLOTS_BEFORE, type Accelerator } from "./command.ts";
import { makeReady } from "./readying.ts";
import { Vm, type VmPaths } from "./vm.ts";

export const RAM = "ram";
export const DISK = "disk.qcow2";
export const DEVICE_STATE = "device-state";
/** In a machine's folder: the folder of the golden state that it is the difference to. */
export const GOLDEN = "golden";
/** What is known of it (`GoldenState`). */
export const FACTS = "golden.json";

/** A golden state of this host. */
export interface GoldenState {
  /** Made up when it was made (`GoldenId`): two hosts that boot the same image get different bytes. */
  readonly id: string;
  readonly dir: string;
  readonly shape: Shape;
  readonly image: Image;
  readonly slots: number;
}

/** As it is written; one of an earlier version does not say how many slots it has. */
type Noted = Omit<GoldenState, "dir" | "slots"> & { readonly slots?: number };

/** Emulated boot of the default shape takes about a minute, the interpreter's preload included. */
const BOOT_LIMIT_MS = 600_000;

const REFILL_AFTER_MS = 1500;

/** An image that machines are made of, and what has to run in it before they are. */
export interface Offer {
  readonly image: Image;
  readonly readying?: Readying;
}

export interface GoldenOptions {
  /** Holds images and golden states; machines refer to both for as long as they exist. */
  readonly imagesDir: string;
  readonly runDir: string;
  readonly spares: number;
  readonly progress: Progress;
  /** The certificates that this host signs with (`Outside`): machines begin with trust in them. None: none. */
  readonly caPem?: (() => string) | undefined;
}

export class Golden {
  readonly #options: GoldenOptions;
  readonly #offers = new Map<string, Offer>();
  readonly #accelerator: Accelerator;
  readonly #compatibility: string;
  readonly #making = new Map<string, Promise<string>>();
  readonly #refilling = new Map<string, Promise<void>>();
  readonly #states = new Map<string, GoldenState>();
  /** Folders of states that machines are made of, and of their images. */
  readonly #used = new Set<string>();
  #closed = false;

  /** @param compatibility only processes that say the same load what is made here */
  constructor(image: Image, accelerator: Accelerator, compatibility: string, options: GoldenOptions) {
    this.#compatibility = compatibility;
    this.offer({ image });
    this.#accelerator = accelerator;
    this.#options = options;
  }

  get images(): readonly string[] {
    return [...this.#offers.keys()];
  }

  /** From now on machines can be made of that image. */
  offer(offer: Offer): void {
    this.#offers.set(offer.image.name, offer);
  }

  /** No more machines are made of that image. */
  withdraw(image: string): void {
    this.#offers.delete(image);
  }

  /** @throws RouseFailure `invalid_image` */
  imageOf(shape: Shape): Image {
    return this.#offerOf(shape).image;
  }

  /** The same image with the newest initramfs, where this host still has it. */
  newest(image: Image): Image {
    const now = this.#offers.get(image.name)?.image;
    return now?.key === image.key ? now : image;
  }

  /** Folder of the golden state of a shape; made now if it is not there. Concurrent callers share one boot. */
  async of(shape: Shape): Promise<string> {
    const name = `${shape.vcpu}x${shape.memoryMiB}x${shape.diskMiB}-${this.#key(shape)}`;
    const dir = join(this.#options.imagesDir, "golden", name);
    if (await exists(join(dir, DEVICE_STATE))) {
      await this.#use(dir, shape);
      return dir;
    }
    const running = this.#making.get(dir);
    if (running) return running;
    const { readying } = this.#offerOf(shape);
    const time = readying ? "and its services; minutes in emulation" : "about a minute in emulation";
    const what = `booting the shape ${shape.vcpu} vCPU, ${shape.memoryMiB} MiB of "${shape.image}" once (${this.#accelerator.kind}, ${time})`;
    const making = this.#options.progress
      .step(what, (part) => this.#makeInTurn(dir, shape, part))
      .finally(() => this.#making.delete(dir));
    this.#making.set(dir, making);
    return making;
  }

  /** What is known of the golden state in that folder. */
  async state(dir: string): Promise<GoldenState> {
    const known = this.#states.get(dir);
    if (known) return known;
    // This file is the host's own.
    const { slots = SLOTS_BEFORE, ...facts } = JSON.parse(await readFile(join(dir, FACTS), "utf8")) as Noted;
    const state = { ...facts, slots, dir };
    this.#states.set(dir, state);
    return state;
  }

  /** The golden state of that id; null when this host does not have it. */
  async find(id: string): Promise<GoldenState | null> {
    for (const state of this.#states.values()) if (state.id === id && (await exists(state.dir))) return state;
    const folder = join(this.#options.imagesDir, "golden");
    for (const name of await readdir(folder).catch(() => [])) {
      const state = await this.state(join(folder, name)).catch(() => null);
      if (state?.id === id) return state;
    }
    return null;
  }

  /** Put a clone of a shape's golden state at `target`, which must not exist. */
  async clone(shape: Shape, target: string): Promise<void> {
    await this.cloneOf(await this.of(shape), target);
  }

  /** Put a clone of the golden state in that folder at `target`, which must not exist. */
  async cloneOf(golden: string, target: string): Promise<void> {
    const spare = await this.#takeSpare(golden, target);
    if (!spare) {
      await cloneInto(golden, `${target}.part`);
      await rename(`${target}.part`, target);
    }
    this.refill(golden);
  }

  /** Put a ready clone of the golden state in that folder at `target`; false when there is none. */
  async takeSpare(golden: string, target: string): Promise<boolean> {
    const taken = await this.#takeSpare(golden, target);
    // Not at once: whoever takes one is about to run a machine of it, and that has the first claim on the processors.
    if (taken) setTimeout(() => this.refill(golden), REFILL_AFTER_MS).unref();
    return taken;
  }

  /** Bring the number of ready clones of a golden state up, in the background. */
  refill(golden: string): void {
    if (this.#closed || this.#options.spares === 0 || this.#refilling.has(golden)) return;
    const work = this.#refill(golden)
      .catch(() => undefined) // the disk may be full; creating then clones by itself and says so
      .finally(() => this.#refilling.delete(golden));
    this.#refilling.set(golden, work);
  }

  /** Say of what machines are made of here that it is in use (`unused.ts`). */
  async noteUsed(at = new Date()): Promise<void> {
    for (const folder of this.#used) await utimes(folder, at, at).catch(() => this.#used.delete(folder));
  }

  async #use(dir: string, shape: Shape): Promise<void> {
    if (this.#used.has(dir)) return;
    const { disk, kernel } = this.imageOf(shape);
    for (const folder of [dir, dirname(disk), dirname(kernel)]) this.#used.add(folder);
    await this.noteUsed();
  }

  /** Resolves when nothing is being prepared any more. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#refilling.values(), ...this.#making.values()]);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.settled();
  }

  #offerOf(shape: Shape): Offer {
    const offer = this.#offers.get(shape.image);
    if (offer) return offer;
    throw new RouseFailure(
      "invalid_image",
      `There is no image "${shape.image}" on this host; it has: ${this.images.join(", ")}.`,
    );
  }

  #key(shape: Shape): string {
    // A state loads only where all of this is the same.
    return contentKey(this.imageOf(shape).bootKey, shape, this.#compatibility, "arguments 3");
  }

  #spareDir(golden: string): string {
    return `${golden}.spares`;
  }

  async #takeSpare(golden: string, target: string): Promise<boolean> {
    const spares = await readdir(this.#spareDir(golden)).catch(() => []);
    for (const spare of spares.filter((name) => !name.includes(".part"))) {
      // Two takers of one spare: rename lets exactly one have it.
      const taken = await rename(join(this.#spareDir(golden), spare), target).then(
        () => true,
        () => false,
      );
      if (taken) return true;
    }
    return false;
  }

  async #refill(golden: string): Promise<void> {
    const dir = this.#spareDir(golden);
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await removeLeftovers(dir);
    for (;;) {
      const ready = (await readdir(dir)).filter((name) => !name.includes(".part"));
      if (this.#closed || ready.length >= this.#options.spares) return;
      const name = randomBytes(6).toString("hex");
      // Other host agents of this machine may fill the same folder.
      const part = join(dir, `${name}.part-${process.pid}`);
      await cloneInto(golden, part);
      await rename(part, join(dir, name));
    }
  }

  /** A way out that leads nowhere: programs that ask for a name at their start are told so at once. */
  #refuseAll(agent: Endpoint): Tunnel {
    const { caPem = () => "" } = this.#options;
    return new Tunnels({ ...closedOutside, caPem }).begin({
      machine: { id: "golden", account: "golden", generation: 0 },
      ready: Promise.resolve(),
      endpoint: () => Promise.resolve(agent),
      touch: () => undefined,
    });
  }

  /** Other host agents of this machine want the same one. */
  async #makeInTurn(dir: string, shape: Shape, under: (part: string) => void): Promise<string> {
    await inTurn(this.#options.imagesDir, dir, under, async () => {
      if (!(await exists(join(dir, DEVICE_STATE)))) await this.#make(dir, shape);
    });
    return dir;
  }

  async #make(dir: string, shape: Shape): Promise<void> {
    const part = `${dir}.part-${process.pid}`;
    await rm(part, { recursive: true, force: true });
    await mkdir(part, { recursive: true, mode: 0o700 });
    const { image, readying } = this.#offerOf(shape);
    const base = ["-b", image.disk, "-F", "raw"];
    await run("qemu-img", ["create", "-q", "-f", "qcow2", ...base, join(part, DISK), `${shape.diskMiB}M`]);
    const paths = vmPaths(
      this.#options.runDir,
      `golden-${process.pid}-${shape.image}-${shape.vcpu}-${shape.memoryMiB}-${shape.diskMiB}`,
    );
    const files = {
      ...paths,
      ram: join(part, RAM),
      disk: join(part, DISK),
      kernel: image.kernel,
      initrd: image.initrd,
    };
    const vm = await Vm.start(qemuArguments(shape, this.#accelerator, files, false), paths, { bound: true });
    let tunnel: Tunnel | undefined;
    try {
      await vm.wire.up(BOOT_LIMIT_MS);
      const agent = { host: "127.0.0.1", port: await vm.forward(AGENT_PORT) };
      tunnel = this.#refuseAll(agent);
      const end = performance.now() + BOOT_LIMIT_MS;
      while (!(await agentFacts(agent).catch(() => null))?.interpreterReady) {
        if (performance.now() > end) throw new Error("the interpreter did not start");
        // To answer takes time of a guest that is emulated and has not compiled its code yet.
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
      await warmUpAgent(agent, BOOT_LIMIT_MS);
      if (readying) await makeReady(agent, readying);
      tunnel.cut();
      for (let i = 0; i < 3; i++) await vm.wire.cpuTicks();
      await vm.wire.sync(60_000);
      const facts = { id: randomBytes(16).toString("hex"), shape, image, slots: SLOTS };
      await writeFile(join(part, FACTS), JSON.stringify(facts), { mode: 0o600 });
      await vm.save(join(part, DEVICE_STATE));
      await vm.quit();
    } catch (fault) {
      tunnel?.cut();
      const said = (await vm.console()).trim().slice(-800);
      await vm.quit(2000);
      await rm(part, { recursive: true, force: true });
      throw new Error(
        `the golden machine did not start: ${fault instanceof Error ? fault.message : String(fault)}; its console: ${said}`,
        { cause: fault },
      );
    }
    await rename(part, dir);
  }
}

/** Unix sockets have short paths, so they live in a folder of their own, under a short name. */
export function vmPaths(runDir: string, name: string): VmPaths {
  const short = contentKey(name).slice(0, 12);
  const at = (kind: string) => join(runDir, `${short}.${kind}`);
  return { qmp: at("qmp"), wire: at("wire"), state: at("state"), pid: at("pid"), log: at("log") };
}

async function cloneInto(golden: string, target: string): Promise<void> {
  await rm(target, { recursive: true, force: true });
  await mkdir(target, { recursive: true, mode: 0o700 });
  await Promise.all([
    run("cp", ["--sparse=always", "--reflink=auto", join(golden, RAM), join(target, RAM)]),
    copyFile(join(golden, DEVICE_STATE), join(target, DEVICE_STATE)),
    run("qemu-img", ["create", "-q", "-f", "qcow2", "-b", join(golden, DISK), "-F", "qcow2", join(target, DISK)]),
  ]);
  await writeFile(join(target, GOLDEN), golden, { mode: 0o600 });
}
