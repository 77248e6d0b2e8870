/**
 * What a sandbox does when it starts: commands after a boot and after a wake, services that are up before the first
 * request comes in, and `GET /v1/sandboxes/{id}:resume`, which says what came of it.
 */
import { z } from "zod";
import { GATEWAY_SERVICE } from "./mcp.ts";
import { Generation } from "./names.ts";
import { Env } from "./variables.ts";

export const bootLimits = {
  servicesMax: 16,
  /** Time that a command has, seconds. */
  hookSeconds: 60,
  hookSecondsMax: 600,
  /** Time that a service has to get ready, seconds. */
  readySeconds: 120,
  readySecondsMax: 600,
  /** Between the signal that stops a service and its end by force, seconds. */
  stopSeconds: 10,
  stopSecondsMax: 60,
  /** Time of a freeze or thaw hook, seconds. */
  freezeSeconds: 10,
  freezeSecondsMax: 30,
  /** Of each stream of a command, its last bytes are kept. */
  tailBytes: 8192,
  /** Bytes of all that is said of commands and services, as JSON. */
  settingsBytesMax: 32_768,
} as const;

/** Those of the caller, and the gateway of MCP servers. */
const toldMax = bootLimits.servicesMax + 1;

const text = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine((value) => !value.includes("\0"), "no NUL");

/** Text for `bash -c`, or a program and its arguments. */
const Command = z.union([
  text(8192),
  z
    .array(z.string().refine((arg) => !arg.includes("\0"), "no NUL"))
    .min(1)
    .max(64),
]);

const command = {
  command: Command,
  /** `/workspace` unless given; a relative one is below that. */
  cwd: text(4096).optional(),
  /** Besides the sandbox's own. */
  env: Env.optional(),
  /** A user of the machine; `runtime`, who is not root, unless given. */
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, "a user name of the machine")
    .optional(),
};
const timeoutSeconds = z.int().min(1).max(bootLimits.hookSecondsMax).optional();

/** Runs once after each boot from disk, the first included, before services start. `timeoutSeconds`: 60 unless given. */
export const OnBoot = z.strictObject({ ...command, timeoutSeconds }).meta({ id: "OnBoot" });
export type OnBoot = z.infer<typeof OnBoot>;

/** Runs once after each wake from RAM, beside requests; with `blocking` those to ports wait for it. */
export const OnWake = z
  .strictObject({ ...command, timeoutSeconds, blocking: z.boolean().optional() })
  .meta({ id: "OnWake" });
export type OnWake = z.infer<typeof OnWake>;

const Port = z.int().min(1).max(65_535);

const HttpHook = z.strictObject({
  method: z.enum(["GET", "POST", "PUT", "DELETE"]).optional(),
  /** Asked of the loopback; any 2xx is well. */
  path: text(2048).refine((path) => path.startsWith("/"), "a path begins with /"),
  port: Port,
  body: z.string().max(8192).optional(),
  /** Header names, and the variables of the service that hold their values. */
  headersEnv: z.record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/, "a header name"), text(128)).optional(),
});

const hook = {
  command: Command.optional(),
  http: HttpHook.optional(),
  /** 10 unless given. */
  timeoutSeconds: z.int().min(1).max(bootLimits.freezeSecondsMax).optional(),
};
const eitherOr = {
  check: (value: { command?: unknown; http?: unknown }) => (value.command === undefined) !== (value.http === undefined),
  fault: { message: "exactly one of command and http", path: ["command"] as (string | number)[] },
};
/** Before a pause. `required`: a pause does not come about when it fails; without it the pause goes on. */
const FreezeHook = z
  .strictObject({ ...hook, required: z.boolean().optional() })
  .refine(eitherOr.check, eitherOr.fault)
  .meta({ id: "FreezeHook" });
export type FreezeHook = z.infer<typeof FreezeHook>;
/** After a wake, or after a pause that did not come about. */
const ThawHook = z.strictObject(hook).refine(eitherOr.check, eitherOr.fault).meta({ id: "ThawHook" });
export type ThawHook = z.infer<typeof ThawHook>;

export const stopSignals = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL"] as const;
export const ServiceName = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/, "1-32 of a-z 0-9 -");

/** A program that is kept running. It stays in the foreground. */
export const Service = z
  .strictObject({
    name: ServiceName,
    ...command,
    /** Where it listens: with this alone it is ready once it does. */
    port: Port.optional(),
    /** When it is ready: once something listens on the port, or with `path` answers 2xx or 3xx there. */
    ready: z
      .strictObject({
        path: text(2048)
          .refine((path) => path.startsWith("/"), "a path begins with /")
          .optional(),
        port: Port,
        /** 120 unless given. */
        timeoutSeconds: z.int().min(1).max(bootLimits.readySecondsMax).optional(),
      })
      .optional(),
    /** Whether it is started again after it ended, 1 to 60 seconds later; `always` unless given. */
    restart: z.enum(["always", "on-failure", "never"]).optional(),
    /** SIGTERM unless given; it goes to the program and all that it started. */
    stopSignal: z.enum(stopSignals).optional(),
    /** 10 unless given. */
    stopSeconds: z.int().min(0).max(bootLimits.stopSecondsMax).optional(),
    freeze: FreezeHook.optional(),
    thaw: ThawHook.optional(),
  })
  .meta({ id: "Service" });
export type Service = z.infer<typeof Service>;

/** Started in this order; the next one once the one before is ready, has ended, or is late. */
export const Services = z
  .array(Service)
  .max(bootLimits.servicesMax)
  .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, "each name once")
  .refine((all) => all.every(({ name }) => name !== GATEWAY_SERVICE), `${GATEWAY_SERVICE} is the name of our own`);

/** What a machine is told: all of it, each time. */
export const MachineBoot = z.object({
  onBoot: OnBoot.nullable(),
  onWake: OnWake.nullable(),
  services: z.array(Service).max(toldMax),
});
export type MachineBoot = z.infer<typeof MachineBoot>;

/** Whether that is too much to keep. */
export function isTooLarge(settings: object): boolean {
  return new TextEncoder().encode(JSON.stringify(settings)).length > bootLimits.settingsBytesMax;
}

/** How a sandbox shows it: values of variables are written only. */
const shown = { env: true } as const;
const envNames = { envNames: z.array(z.string()) };
export const ShownOnBoot = OnBoot.omit(shown).extend(envNames).meta({ id: "ShownOnBoot" });
export const ShownOnWake = OnWake.omit(shown).extend(envNames).meta({ id: "ShownOnWake" });
export const ShownService = Service.omit(shown).extend(envNames).meta({ id: "ShownService" });

/** Why a machine is told: it began anew, it woke, or only its settings changed. */
export const tellKinds = ["boot", "wake", "configure"] as const;
export type TellKind = (typeof tellKinds)[number];

/** `PUT /services` of the guest agent. The same machine and generation again begin nothing again. */
export interface TellServices {
  readonly id: string;
  readonly generation: number;
  readonly kind: TellKind;
  /** None: what it was told last. */
  readonly boot?: MachineBoot;
}

const Time = z.iso.datetime();

/** What came of a command. */
export const HookResult = z
  .object({
    generation: Generation,
    startedAt: Time,
    /** null: it runs. */
    endedAt: Time.nullable(),
    /** null while it runs, when a signal ended it, and when it is not known. */
    exitCode: z.int().nullable(),
    timedOut: z.boolean(),
    /** The last bytes of each stream. */
    stdout: z.string().max(bootLimits.tailBytes),
    stderr: z.string().max(bootLimits.tailBytes),
  })
  .meta({ id: "HookResult" });
export type HookResult = z.infer<typeof HookResult>;

export const serviceStates = ["pending", "starting", "ready", "waiting", "ended", "failed", "stopped"] as const;

export const ServiceStatus = z
  .object({
    name: ServiceName,
    /**
     * `pending`: something comes first. `starting`: it runs and is not ready. `waiting`: it ended and is started again
     * soon. `ended`, `failed`: it is not started again. `stopped`: the machine is off.
     */
    state: z.enum(serviceStates),
    pid: z.int().nullable(),
    /** Where it listens. */
    port: z.int().nullable(),
    /** How often it was started again since the machine began. */
    restarts: z.int(),
    startedAt: Time.nullable(),
    /** When it was ready first since the machine began. */
    readyAt: Time.nullable(),
    /** It was not ready in its time. */
    late: z.boolean(),
    lastExit: z
      .object({
        at: Time,
        /** null: by a signal, or not known. */
        exitCode: z.int().nullable(),
        signal: z.string().max(16).nullable(),
      })
      .nullable(),
  })
  .meta({ id: "ServiceStatus" });
export type ServiceStatus = z.infer<typeof ServiceStatus>;

/** `GET /services` of the guest agent: what became of it in the life of this RAM. */
export const GuestBoot = z.object({
  bootId: z.string().max(64),
  /** Grows with each change. */
  version: z.int(),
  generation: Generation,
  onBoot: HookResult.nullable(),
  onWake: HookResult.nullable(),
  /** The command that requests to ports wait for. */
  waitsFor: z.enum(["onBoot", "onWake"]).nullable(),
  services: z.array(ServiceStatus).max(toldMax),
});
export type GuestBoot = z.infer<typeof GuestBoot>;

/** Answer of the guest agent's `POST /services:freeze`. */
export const Frozen = z.object({
  results: z
    .array(z.object({ service: ServiceName, ok: z.boolean(), required: z.boolean(), message: z.string().max(2048) }))
    .max(toldMax),
});
export type Frozen = z.infer<typeof Frozen>;

/** `GET /v1/sandboxes/{id}/services/{service}/logs`: the last that it wrote, 64 KiB at most. */
export const ServiceLogs = z
  .object({
    name: ServiceName,
    chunks: z.array(z.object({ stream: z.enum(["stdout", "stderr"]), text: z.string() })),
    /** It wrote more than is kept. */
    truncated: z.boolean(),
  })
  .meta({ id: "ServiceLogs" });
export type ServiceLogs = z.infer<typeof ServiceLogs>;

export const bootKinds = ["created", "restored", "booted"] as const;

/** `GET /v1/sandboxes/{id}:resume`: whether there is something to go on with. Asking wakes nothing. */
export const Resume = z
  .object({
    /** How the newest run began: from an image or snapshot, from RAM, or from disk; null before the first. */
    bootKind: z.enum(bootKinds).nullable(),
    generation: z.int(),
    /** false: what was in RAM is gone. */
    memoryRestored: z.boolean().nullable(),
    /** When that run began. */
    bootedAt: Time.nullable(),
    onBoot: HookResult.nullable(),
    onWake: HookResult.nullable(),
    /** As last known. */
    services: z.array(ServiceStatus),
    /** The newest checkpoint that a program in it saved; null for none. */
    checkpoint: z.object({ name: z.string(), version: z.int(), step: z.int().nullable(), savedAt: Time }).nullable(),
    /** Tasks of its queues; null where it has none. */
    queue: z.object({ waiting: z.int(), leased: z.int(), dead: z.int() }).nullable(),
    /** There are tasks to do, or a checkpoint to go on from. */
    unfinished: z.boolean(),
  })
  .meta({ id: "Resume" });
export type Resume = z.infer<typeof Resume>;
