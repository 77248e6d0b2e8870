/** KVM or software emulation: only a kernel that really booted decides. */
import { access, constants } from "node:fs/promises";
import { run } from "../../process.ts";
import { CPU_MODEL, MACHINE_TYPE, type Accelerator } from "./command.ts";

/** A kernel boots in well under a second where KVM works; one that hangs is no use either. */
const PROBE_LIMIT_MS = 15_000;

/** `/dev/kvm` may exist and still not run a kernel, so boot one, with a time limit; fall back to emulation. */
export async function chooseAccelerator(kernel: string, initrd: string, forced?: string): Promise<Accelerator> {
  if (forced === "tcg") return { kind: "tcg", reason: "software emulation, as configured" };
  const usable = await access("/dev/kvm", constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
  if (!usable) {
    return {
      kind: "tcg",
      reason: "software emulation: /dev/kvm is missing or not open to this user; for development only",
    };
  }
  const fault = await probe("kvm", kernel, initrd);
  return fault === null
    ? { kind: "kvm", reason: "KVM: a guest kernel booted" }
    : {
        kind: "tcg",
        reason: `software emulation: /dev/kvm is there, but a kernel did not boot (${fault}); for development only`,
      };
}

/** Boot the kernel with a mark on its command line; null when the mark came back. */
export async function probe(
  accel: "kvm" | "tcg",
  kernel: string,
  initrd: string,
  limitMs = PROBE_LIMIT_MS,
): Promise<string | null> {
  const args = [
    ...["-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-serial", "stdio"],
    ...["-M", `${MACHINE_TYPE},usb=off,sata=off`, "-accel", accel, "-cpu", CPU_MODEL, "-m", "256"],
    ...["-kernel", kernel, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 rouse.probe=1"],
  ];
  let said: string | undefined;
  const onErrorLine = (line: string) => (said ??= line);
  try {
    const { stdout } = await run("qemu-system-x86_64", args, { timeoutMs: limitMs, onErrorLine });
    return stdout.includes("rouse-probe-ok") ? null : (said ?? "no sign of the kernel");
  } catch (fault) {
    // The first complaint says most; what follows are registers.
    return said ?? (fault instanceof Error ? fault.message : String(fault)).slice(0, 200);
  }
}
