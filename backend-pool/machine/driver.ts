/** What carries machines. `qemu/` runs real ones; `fake/` runs the guest agent as a plain process, for fast tests. */
import type { Shape, SleepDepth } from "../../sdk/contract/host.ts";
import type { Golden } from "./qemu/golden.ts";
import type { SleepFiles } from "./qemu/sleep-files.ts";
import type { VolumeFiles } from "./qemu/volume-files.ts";
import type { Stats } from "./stats.ts";

/** What a run of a machine is told about itself before anything else happens in it. */
export interface Identity {
  readonly hostname: string;
  /**
   * Of a machine's first run, which needs an identity of its own even if its source had the same name: made from an
   * image, or copied from a machine, whose connections then end.
   */
  readonly origin?: "new" | "copy" | undefined;
}

/** A machine whose virtual CPUs run. */
export interface Woken {
  /**
   * Resolves when clock, random numbers and identity are right: no user traffic before. Fails when the guest did not
   * take them, and the machine should sleep again.
   */
  readonly ready: Promise<void>;
}

/** What is really there, as against what a journal believes. */
export interface Actual {
  /** The machine's files are on this host. */
  readonly exists: boolean;
  /** Its virtual CPUs run. */
  readonly running: boolean;
  /** It would run, but its process is stopped from outside (`warden.sh`) until `thaw`. */
  readonly frozen?: boolean;
  /** RAM that can be woken: `live` in a running machine, `saved` in a sleeping one. */
  readonly memory: "live" | "saved" | "none";
  readonly depth: SleepDepth | null;
}

/** Where the files of sleepers are, and the golden states that they are the difference to. */
export interface Sleepers {
  readonly files: SleepFiles;
  readonly volumes: VolumeFiles;
  readonly golden: Golden;
}

/** What is copied, and under which names. */
export interface CaptureOrder {
  readonly capture: string;
  readonly diskOnly: boolean;
  /** Volumes of the machine, and where their copies of the same instant go. */
  readonly volumes: readonly { readonly attachment: string; readonly backup: string }[];
}

/** A TCP address on this host that reaches a guest port. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** Where a guest program listens: where the kernel's way in reaches it, only elsewhere (`::1`), or nowhere. */
export type Listening = "reachable" | "elsewhere" | "no";

/**
 * Every method is idempotent: called again after a crash, it measures what is there and does the rest. Calls for one
 * machine are made one at a time by the caller.
 */
export interface Driver {
  readonly accelerator: "kvm" | "tcg" | "fake";
  /** Why that accelerator, in a sentence for people. */
  readonly acceleratorReason: string;
  readonly qemuVersion: string | null;
  readonly images: readonly string[];
  /** Hosts with the same key can wake each other's states. */
  readonly compatibility: string;
  /** The guest agent of machines that boot now, and its programs as a tar by gzip; null: they are no matter of the driver. */
  readonly agent: { readonly version: string; readonly archive: string } | null;
  /** null: machines of this driver can't be sealed. */
  readonly sleepers: Sleepers | null;

  /** Make the golden state of a shape, so that `create` never boots. */
  prepare(shape: Shape): Promise<void>;
  /** Files of a new machine, asleep with the golden RAM. */
  create(id: string, shape: Shape): Promise<void>;
  /**
   * Run a sleeping machine on from its RAM.
   * @throws RouseFailure `wake_failed`; `details.memoryLost` when RAM can't be loaded any more
   */
  wake(id: string, identity: Identity): Promise<Woken>;
  /** Run a machine from its disk alone; returns when the guest agent answers. Gives up any saved RAM. */
  boot(id: string, identity: Identity): Promise<void>;
  /**
   * Save RAM, devices and disks of one instant. The process stays (`resident`).
   * @param aside something that the guest is asked meanwhile: it runs on for a moment (`ASIDE_LIMIT_MS`) if that is late
   * @throws RouseFailure `pause_failed`; the machine then runs on
   */
  pause(id: string, aside?: Promise<unknown>): Promise<void>;
  /**
   * Copy RAM, devices and disk (or the disk alone) of one instant to a place of its own. A running machine stands still
   * for so many milliseconds and goes on; null: it slept.
   * @throws RouseFailure `snapshot_failed`; the machine is as it was
   */
  capture(id: string, what: CaptureOrder, identity: Identity): Promise<number | null>;
  /** Files of a new machine, asleep, as a copy of a captured one. */
  createFrom(capture: string, id: string): Promise<void>;
  /** Copies that are on this host. */
  captures(): Promise<readonly string[]>;
  dropCapture(capture: string): Promise<void>;
  /**
   * Plug a volume that is noted of a running machine into it, and mount it.
   * @throws RouseFailure `volume_failed`; the machine runs without it
   */
  plugVolume(id: string, volume: string): Promise<void>;
  /**
   * Plug another machine's disk (qcow2) into a running one, in a place that no volume has, and mount it read-only. Its
   * journal is replayed into that file.
   * @throws RouseFailure `volume_failed`
   */
  mountDisk(id: string, slot: number, disk: string, path: string): Promise<void>;
  /** @throws RouseFailure `volume_busy`, `volume_failed`; it stays plugged in */
  unplugVolume(id: string, volume: string): Promise<void>;
  /** Make a volume's disk larger, and its file system with it, while its machine runs. */
  growVolume(id: string, volume: string, sizeMiB: number): Promise<void>;
  /** Copy a volume's disk of one instant. Answers whether it mounts read-only as it is. */
  copyVolume(id: string, volume: string, to: string): Promise<boolean>;
  /** Make a sleeping machine sleep deeper (or get a process ready for it). */
  settle(id: string, depth: SleepDepth): Promise<void>;
  /** Flush disks and end the machine; its disk stays, its RAM does not. */
  stop(id: string): Promise<void>;
  /** End the machine this instant, without a word to its guest; its disk stays. */
  halt(id: string): Promise<void>;
  /** Let a frozen machine run on. */
  thaw(id: string, identity: Identity): Promise<Actual>;
  /** Remove the machine and all its files, whatever its state. */
  destroy(id: string): Promise<void>;
  inspect(id: string): Promise<Actual>;
  /** Machines whose files are on this host. */
  list(): Promise<readonly string[]>;
  /** Take up a machine that outlived an earlier host agent; one that runs is told again who it is and what time it is. */
  adopt(id: string, identity: Identity): Promise<Actual>;

  endpoint(id: string, guestPort: number): Promise<Endpoint>;
  listening(id: string, guestPort: number): Promise<Listening>;
  /** What the machine takes of this host. */
  stats(id: string): Promise<Stats>;
  /** Busy time of all guest CPUs since boot, in units of 1/100 s. */
  cpuTicks(id: string): Promise<number>;
  /** Called when a machine ends that nobody asked to end. */
  onEnded(listener: (id: string) => void): void;
  /** Let go of everything; machines stay as they are. */
  close(): Promise<void>;
}
