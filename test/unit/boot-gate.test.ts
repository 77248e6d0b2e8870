/** Which requests wait for what a machine starts with. */
import { describe, expect, it } from "vitest";
import { gateOf } from "../../backend-pool/machine/boot-gate.ts";
import type { GuestBoot, HookResult, ServiceStatus } from "../../sdk/contract/boot.ts";

const at = "2026-12-01T00:00:00.000Z";
const service = (name: string, port: number | null, more: Partial<ServiceStatus> = {}): ServiceStatus => ({
  ...{ name, port, state: "ready", pid: 1, restarts: 0, startedAt: at, readyAt: at, late: false, lastExit: null },
  ...more,
});
const hook = (exitCode: number | null, endedAt: string | null = at): HookResult => ({
  ...{ generation: 1, startedAt: at, endedAt, exitCode, timedOut: false, stdout: "", stderr: "" },
});
const report = (services: ServiceStatus[], more: Partial<GuestBoot> = {}): GuestBoot => ({
  ...{ bootId: "b", version: 1, generation: 1, onBoot: null, onWake: null, waitsFor: null, services },
  ...more,
});
const starting = { state: "starting", readyAt: null } as const;
const late = { ...starting, late: true } as const;

describe("requests to a port", () => {
  it("go on where nothing is to be waited for", () => {
    expect(gateOf(report([]), 80)).toEqual({ is: "open", always: true });
    expect(gateOf(report([service("web", 80), service("work", null)], { onBoot: hook(0) }), 80).is).toBe("open");
    // It was ready; that it starts again now is for whoever asks it.
    expect(gateOf(report([service("web", 80, { state: "waiting" })]), 80)).toEqual({ is: "open", always: true });
    // A service that does not say where it listens is not waited for.
    expect(gateOf(report([service("work", null, { state: "failed", readyAt: null })]), 80).is).toBe("open");
  });

  it.for([
    report([], { waitsFor: "onBoot" }),
    report([], { waitsFor: "onWake", onBoot: hook(0) }),
    report([service("web", 80), service("db", 5432, starting)]),
    report([service("web", 80, { state: "pending", readyAt: null })]),
    // It came to its end, and comes again within its time.
    report([service("web", 80, { state: "waiting", readyAt: null })]),
    report([service("web", 80, late), service("db", 5432, starting)]),
  ])("wait: %#", (given) => {
    expect(gateOf(given, 80)).toEqual({ is: "shut" });
  });

  it("fail with the command that failed", () => {
    const failed = gateOf(report([service("web", 80, starting)], { onBoot: hook(3) }), 80);
    expect(failed).toMatchObject({ is: "failed", failure: { code: "boot_failed", details: { exitCode: 3 } } });
    const killed = gateOf(report([], { onBoot: hook(null) }), 80);
    expect(killed).toMatchObject({ is: "failed", failure: { code: "boot_failed" } });
    // A failed command after a wake holds up nothing.
    expect(gateOf(report([], { onWake: hook(1) }), 80).is).toBe("open");
  });

  it("fail with the service that is late or gone, where theirs is not one that is ready", () => {
    const gone = { state: "failed", readyAt: null, lastExit: { at, exitCode: 7, signal: null } } as const;
    const all = report([service("web", 80), service("db", 5432, late), service("mail", 25, gone)]);
    expect(gateOf(all, 80)).toEqual({ is: "open", always: false });
    expect(gateOf(all, 5432)).toMatchObject({ failure: { code: "service_not_ready", details: { service: "db" } } });
    expect(gateOf(all, 25)).toMatchObject({ failure: { code: "service_failed", details: { service: "mail" } } });
    expect(gateOf(all, 9999)).toMatchObject({ failure: { code: "service_not_ready", details: { service: "db" } } });
  });
});
