import { describe, it } from "vitest";
import { compatibilityOf, qemuArguments } from "../../backend-pool/machine/qemu/command.ts";
import { shapeOf } from "../../backend-pool/shape.ts";

const files = { ram: "/s/a,b/ram", disk: "/s/a,b/disk", qmp: "/r/q", wire: "/r/w", kernel: "/i/k", initrd: "/i/i" };

describe("QEMU's arguments", () => {
  const args = qemuArguments(shapeOf({}), { kind: "tcg", reason: "" }, files, false);

  it("leave the guest no way out and QEMU no way to start programs", ({ expect }) => {
    expect(args).toContain("user,id=net,restrict=on");
    expect(args[args.indexOf("-sandbox") + 1]).toContain("spawn=deny");
  });

  it("fix machine and CPU, so that a state loads in every later run", ({ expect }) => {
    expect(args[args.indexOf("-M") + 1]).toMatch(/^pc-q35-7\.2,/);
    expect(args[args.indexOf("-cpu") + 1]).toBe("Nehalem");
    const kvm = qemuArguments(shapeOf({}), { kind: "kvm", reason: "" }, files, false);
    expect(kvm[kvm.indexOf("-cpu") + 1]).toBe("Nehalem");
  });

  it("make hosts of one kind, but for versions of QEMU that refuse states of earlier ones", ({ expect }) => {
    const kind = (version: string) => compatibilityOf({ kind: "tcg", reason: "" }, version);
    expect(kind("7.2.22")).toBe(kind("10.0.13"));
    expect(kind("11.1.3")).not.toBe(kind("10.0.13"));
    expect(kind("unknown")).toBe(kind("10.0.13"));
  });

  it("differ between a boot and a wake only in waiting for a state", ({ expect }) => {
    expect(qemuArguments(shapeOf({}), { kind: "tcg", reason: "" }, files, true)).toEqual([
      ...args,
      "-incoming",
      "defer",
    ]);
  });

  it("have as many places for volumes as the machine was made with", ({ expect }) => {
    const places = (of: string[]) => of.filter((one) => one.startsWith("pcie-root-port,"));
    expect(places(args)).toHaveLength(4);
    const earlier = places(qemuArguments(shapeOf({}), { kind: "tcg", reason: "" }, files, true, 2));
    expect(earlier).toEqual(["pcie-root-port,id=slot1,chassis=1", "pcie-root-port,id=slot2,chassis=2"]);
  });

  it("double a comma of a path, which would begin another option", ({ expect }) => {
    expect(args.join(" ")).toContain("mem-path=/s/a,,b/ram,share=on");
  });
});
