/** KVM or software emulation: only a kernel that really booted decides. */
import { access, constants, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { contentKey } from "../../images/recipe.ts";
import { run } from "../../process.ts";
import { CPU_MODEL, MACHINE_TYPE, type Accelerator } from "./command.ts";

/** A kernel boots in well under a second where KVM works; one that hangs is no use either. */
const PROBE_LIMIT_MS = 15_000;

export interface ProbeOptions {
  readonly kernel: string;
  readonly initrd: string;
  readonly qemuVersion: string;
  /** Keeps the verdict until this system boots again, or QEMU or the kernel change: a probe that hangs takes long. */
  readonly cacheDir: string;
  /** `tcg` forbids KVM. */
  readonly forced?: string | undefined;
}

/** `/dev/kvm` may exist and still not run a kernel, so boot one, with a time limit; fall back to emulation. */
export async function chooseAccelerator(options: ProbeOptions): Promise<Accelerator> {
  const { kernel, initrd, qemuVersion, cacheDir, forced } = options;
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
  const key = contentKey(await readFile("/proc/sys/kernel/random/boot_id"), qemuVersion, kernel);
  const file = join(cacheDir, "accelerator.json");
  const known = await readFile(file, "utf8").then(
    (text) => JSON.parse(text) as { key: string; fault: string | null },
    () => null,
  );
  const fault = known?.key === key ? known.fault : await probe("kvm", kernel, initrd);
  if (known?.key !== key) {
    await writeFile(`${file}.${process.pid}`, JSON.stringify({ key, fault }), { mode: 0o600 });
    await rename(`${file}.${process.pid}`, file);
  }
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
  const said: string[] = [];
  try {
    const onErrorLine = (line: string) => said.push(line);
    const { stdout } = await run("qemu-system-x86_64", args, { timeoutMs: limitMs, onErrorLine });
    return stdout.includes("rouse-probe-ok") ? null : "no sign of the kernel";
  } catch (fault) {
    // The complaint itself; warnings come before it, and registers after it.
    const complaint = said.find((line) => /error|fail|denied|could not/i.test(line) && !line.includes("warning"));
    return complaint ?? (fault instanceof Error ? fault.message : String(fault)).split("\n")[0] ?? "";
  }
}
