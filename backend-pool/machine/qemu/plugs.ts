/** Volumes as devices of a QEMU process: given at its start, plugged in and out while it runs. */
import { z } from "zod";
import { RouseFailure } from "../../../sdk/contract/errors.ts";
import type { VolumeMode } from "../../../sdk/contract/volume.ts";
import type { Vm } from "./vm.ts";

/** A volume's disk, and its place. */
export interface Plug {
  readonly slot: number;
  readonly mode: VolumeMode;
  readonly disk: string;
  /** `raw` unless given. */
  readonly format?: "raw" | "qcow2";
}

/** A guest takes its time to find a disk, and to let go of one; milliseconds. */
const MOUNT_LIMIT_MS = 30_000;
const UNPLUG_LIMIT_MS = 30_000;
const GROW_LIMIT_MS = 120_000;
const EBUSY = 16;

/** Of the device of a place, and of its block device. */
export const volumeName = (slot: number): string => `volume${slot}`;

/** The block device of a volume. Named, as a backup of it is asked for by this name. */
export function volumeNode({ slot, mode, disk, format = "raw" }: Plug): Record<string, unknown> {
  const readOnly = mode === "snapshot";
  return {
    ...{ driver: format, "node-name": volumeName(slot), "read-only": readOnly },
    ...(readOnly ? {} : { discard: "unmap", "detect-zeroes": "unmap" }),
    file: { driver: "file", filename: disk },
  };
}

function volumeDevice(slot: number): Record<string, string> {
  const name = volumeName(slot);
  return { driver: "virtio-blk-pci", id: name, drive: name, bus: `slot${slot}`, serial: `rouse-volume-${slot}` };
}

/** Arguments of a process whose state knows the volumes. */
export function plugArguments(plugs: readonly Plug[]): string[] {
  return plugs.flatMap((plug) => [
    ...["-blockdev", JSON.stringify(volumeNode(plug))],
    ...["-device", JSON.stringify(volumeDevice(plug.slot))],
  ]);
}

/**
 * Plug a volume into a running machine, and mount it. What is done of that already is not done again.
 * @param mount as the mode says unless given; `ro` of a disk that is writable: its journal is replayed first
 */
export async function plugIn(vm: Vm, plug: Plug, path: string, mount?: "ro"): Promise<void> {
  const { slot, mode } = plug;
  const again = (fault: Error) => {
    if (!/duplicate|already|in use/i.test(fault.message)) throw fault;
  };
  await vm.qmp.execute("blockdev-add", volumeNode(plug)).catch(again);
  await vm.qmp.execute("device_add", volumeDevice(slot)).catch(again);
  const errno = await vm.wire.mount(slot, mount ?? (mode === "rw" ? "rw" : "ro"), path, MOUNT_LIMIT_MS);
  if (errno !== 0) throw failed(`The guest could not mount the volume at ${path}: error ${errno}.`, { path, errno });
}

/** Places of a process that have a volume. */
export async function pluggedSlots(vm: Vm): Promise<ReadonlySet<number>> {
  const devices = z
    .array(z.object({ name: z.string() }))
    .parse(await vm.qmp.execute("qom-list", { path: "/machine/peripheral" }));
  return new Set(devices.flatMap(({ name }) => (/^volume\d$/.test(name) ? [Number(name.slice(-1))] : [])));
}

/** Unmount a volume, and take it out. @throws RouseFailure `volume_busy`, `volume_failed`; it is mounted then as before */
export async function plugOut(vm: Vm, slot: number): Promise<void> {
  const errno = await vm.wire.unmount(slot, MOUNT_LIMIT_MS);
  if (errno === EBUSY) throw new RouseFailure("volume_busy", "A program in the sandbox uses the volume.");
  if (errno !== 0) throw failed(`The guest could not unmount the volume: error ${errno}.`, { errno });
  const name = volumeName(slot);
  const gone = vm.qmp
    .nextEvent((event, data) => event === "DEVICE_DELETED" && data["device"] === name, UNPLUG_LIMIT_MS)
    .then(
      () => true,
      () => false,
    );
  const asked = await vm.qmp.execute("device_del", { id: name }).then(
    () => true,
    (fault: Error) => {
      if (/not found/i.test(fault.message)) return false;
      throw fault;
    },
  );
  if (asked && !(await gone)) throw failed("The guest does not let go of the disk.", {});
  await vm.qmp.execute("blockdev-del", { "node-name": name }).catch((fault: Error) => {
    if (!/find|not found/i.test(fault.message)) throw fault;
  });
}

/** Make a disk larger while its machine runs, and its file system with it. */
export async function growPlugged(vm: Vm, slot: number, sizeMiB: number): Promise<void> {
  await vm.qmp.execute("block_resize", { "node-name": volumeName(slot), size: sizeMiB * 1_048_576 });
  const status = await vm.wire.grow(slot, GROW_LIMIT_MS);
  if (status !== 0) throw failed(`The guest could not grow the file system: status ${status}.`, { status });
}

function failed(message: string, details: Record<string, unknown>): RouseFailure {
  return new RouseFailure("volume_failed", message, { details });
}
