/** What a sandbox starts with, as it is set, kept and shown. Pure. */
import { bootLimits, isTooLarge, type GuestBoot, type MachineBoot, type Resume } from "../../sdk/contract/boot.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { CreateSandbox, Sandbox, UpdateSandbox } from "../../sdk/contract/sandbox.ts";
import type { Draft } from "../events/draft.ts";
import { stateOf } from "./events.ts";
import type { Life, RunKind } from "./life.ts";
import type { SandboxRecord } from "./record.ts";

type Given = Pick<UpdateSandbox, "onBoot" | "onWake" | "services">;

/** null: it never had any, and its machine is told nothing. */
export function bootOf({ onBoot, onWake, services }: Pick<CreateSandbox, keyof Given>): MachineBoot | null {
  if (!onBoot && !onWake && !services?.length) return null;
  return { onBoot: onBoot ?? null, onWake: onWake ?? null, services: services ?? [] };
}

/** With other settings, or what is wrong with them. */
export function bootWith(before: MachineBoot | null, given: Given): MachineBoot | null | Failure {
  const { onBoot, onWake, services } = given;
  if (onBoot === undefined && onWake === undefined && services === undefined) return before;
  const old = before ?? { onBoot: null, onWake: null, services: [] };
  const boot = {
    onBoot: onBoot === undefined ? old.onBoot : onBoot,
    onWake: onWake === undefined ? old.onWake : onWake,
    services: services ?? old.services,
  };
  if (!isTooLarge(boot)) return boot;
  const message = `commands and services hold at most ${bootLimits.settingsBytesMax} bytes together`;
  const issues = [{ path: "services", message }];
  return { code: "invalid_request", message: `The settings are not valid: ${message}`, details: { issues } };
}

/** Values of variables are written only. */
export function shownBoot(boot: MachineBoot | null): Required<Pick<Sandbox, keyof Given>> {
  const { onBoot, onWake, services } = boot ?? { onBoot: null, onWake: null, services: [] };
  return { onBoot: onBoot && shown(onBoot), onWake: onWake && shown(onWake), services: services.map(shown) };
}

function shown<T extends { readonly env?: Record<string, string> | undefined }>({ env = {}, ...rest }: T) {
  return { ...rest, envNames: Object.keys(env) };
}

/** Which events a word of a host is. Each has a key: once for a command, and once for a service in a run. */
export function bootEvents(record: SandboxRecord, generation: number, report: GuestBoot): Draft[] {
  const drafts: Draft[] = [];
  const data = stateOf(record);
  for (const hook of ["onBoot", "onWake"] as const) {
    const result = report[hook];
    if (!result || result.endedAt === null || result.exitCode === 0) continue;
    const { exitCode, timedOut } = result;
    const key = `${hook} ${result.generation}`;
    drafts.push({ type: "sandbox.boot_failed", data: { ...data, hook, exitCode, timedOut }, key });
  }
  for (const { name: service, state, late, lastExit, restarts } of report.services) {
    const ended = lastExit !== null && lastExit.exitCode !== 0 && (state === "waiting" || state === "failed");
    if (!ended && !late) continue;
    const exitCode = lastExit?.exitCode ?? null;
    const reason = ended ? "ended" : "not_ready";
    const key = `service ${generation} ${service}`;
    drafts.push({ type: "sandbox.service_failed", data: { ...data, service, reason, exitCode, restarts }, key });
  }
  return drafts;
}

const kinds: Record<RunKind, "created" | "restored" | "booted"> = {
  create: "created",
  wake: "restored",
  boot: "booted",
};

/** What there is to go on with. */
export function resumeOf(
  { boot, life }: Pick<SandboxRecord, "boot" | "life">,
  {
    report,
    bootedAt,
    checkpoint,
    queue,
  }: Pick<Resume, "bootedAt" | "checkpoint" | "queue"> & { report: GuestBoot | null },
): Resume {
  return {
    bootKind: hasRun(life) ? kinds[life.run] : null,
    generation: life.generation,
    memoryRestored: life.memoryRestored,
    bootedAt,
    onBoot: report?.onBoot ?? null,
    onWake: report?.onWake ?? null,
    services: servicesOf(boot, life, report),
    checkpoint,
    queue,
    unfinished: checkpoint !== null || (queue !== null && queue.waiting + queue.leased > 0),
  };
}

function hasRun({ generation, readyAt, state }: Life): boolean {
  return readyAt !== null || generation > 1 || state === "running";
}

function servicesOf(boot: MachineBoot | null, { state }: Life, report: GuestBoot | null): Resume["services"] {
  const known = new Map(report?.services.map((one) => [one.name, one]));
  // A sandbox that was made of another's RAM runs services that nobody told it of.
  const names = new Set([...(boot?.services ?? []).map(({ name }) => name), ...known.keys()]);
  return [...names].map((name) => {
    const spec = boot?.services.find((one) => one.name === name);
    const last = known.get(name) ?? {
      ...{ name, state: "pending" as const, pid: null, port: spec?.port ?? spec?.ready?.port ?? null, restarts: 0 },
      ...{ startedAt: null, readyAt: null, late: false, lastExit: null },
    };
    return state === "stopped" ? { ...last, state: "stopped" as const, pid: null, readyAt: null } : last;
  });
}
