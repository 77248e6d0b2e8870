/** QEMU's argument list. Pure: what a machine is made of must be the same in every run, or saved states don't load. */
import type { Shape } from "../../../sdk/contract/host.ts";

/** A versioned machine type: a state is kept for up to a year and loads in every later QEMU. */
export const MACHINE_TYPE = "pc-q35-7.2";

export interface Accelerator {
  readonly kind: "kvm" | "tcg";
  /** Why, in a sentence for people. */
  readonly reason: string;
}

/** One CPU model for the whole pool: `host` and `max` differ between machines and can't move. */
export const CPU_MODEL = "Nehalem";

/** From this on QEMU refuses virtual queues of states that earlier ones saved ("vring.num exceeds allocated max"). */
const STRICT_QEMU = 11;

/** Hosts that say the same of themselves load each other's states. */
export function compatibilityOf({ kind }: Accelerator, qemuVersion: string): string {
  const isStrict = Number.parseInt(qemuVersion, 10) >= STRICT_QEMU;
  return `${MACHINE_TYPE}/${CPU_MODEL}/${kind}${isStrict ? `/qemu-${STRICT_QEMU}` : ""}`;
}

/**
 * Translation buffer of software emulation, MiB: memory that no file backs, and that is taken as code is translated. When
 * it is full all is translated anew: a big program on V8 spends its time on that with 128.
 */
function tcgBufferMiB({ memoryMiB }: Shape): number {
  return Math.max(128, Math.min(1024, Math.floor(memoryMiB / 4)));
}

/** Where volumes are plugged in. Machines of golden states that were made before there were four have two. */
export const SLOTS = 4;
export const SLOTS_BEFORE = 2;

export interface MachineFiles {
  readonly ram: string;
  readonly disk: string;
  readonly qmp: string;
  readonly wire: string;
  readonly kernel: string;
  readonly initrd: string;
}

export function qemuArguments(
  shape: Shape,
  accelerator: Accelerator,
  files: MachineFiles,
  incoming: boolean,
  slots: number = SLOTS,
): string[] {
  const accel = accelerator.kind === "kvm" ? "kvm" : `tcg,thread=multi,tb-size=${tcgBufferMiB(shape)}`;
  return [
    ...["-name", "rouse", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot"],
    ...["-M", `${MACHINE_TYPE},vmport=off,smbus=off,sata=off,usb=off,graphics=off`],
    ...["-accel", accel, "-cpu", CPU_MODEL, "-m", String(shape.memoryMiB), "-smp", String(shape.vcpu)],
    ...["-object", `memory-backend-file,id=ram,size=${shape.memoryMiB}M,mem-path=${escape(files.ram)},share=on`],
    ...["-machine", "memory-backend=ram"],
    ...["-kernel", files.kernel, "-initrd", files.initrd],
    ...["-append", "console=ttyS0 quiet reboot=t panic=-1"],
    // The console goes to a ring in memory: a guest that prints without end fills nothing.
    ...["-chardev", "ringbuf,id=console,size=65536", "-serial", "chardev:console"],
    ...[
      "-drive",
      `id=disk,file=${escape(files.disk)},format=qcow2,if=none,cache=writeback,discard=unmap,detect-zeroes=unmap`,
    ],
    ...["-device", "virtio-blk-pci,drive=disk"],
    // No way out: the guest reaches nothing, the host reaches the ports it forwards.
    ...["-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,romfile="],
    ...["-device", "virtio-serial-pci,max_ports=2"],
    ...["-chardev", `socket,id=wire,path=${escape(files.wire)},server=on,wait=off`],
    ...["-device", "virtserialport,chardev=wire,name=rouse.wire"],
    ...["-device", "vmgenid,guid=auto", "-device", "virtio-balloon-pci,free-page-reporting=on"],
    ...Array.from({ length: slots }, (_, n) => ["-device", `pcie-root-port,id=slot${n + 1},chassis=${n + 1}`]).flat(),
    ...["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"],
    ...["-qmp", `unix:${escape(files.qmp)},server=on,wait=off`],
    ...(incoming ? ["-incoming", "defer"] : []),
  ];
}

/** QEMU's option lists double a comma that is part of a value. */
function escape(path: string): string {
  return path.replaceAll(",", ",,");
}
