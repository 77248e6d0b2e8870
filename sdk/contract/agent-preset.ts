/**
 * Agent presets: all that is particular about an agent runtime, as data. The host makes an image of one with the agent
 * already running in it; the SDK makes a sandbox of that, with the keys, the services and the trigger it names.
 */
import { z } from "zod";
import { bootLimits, OnBoot, Service, ServiceName, stopSignals } from "./boot.ts";
import { NetworkInput } from "./network-settings.ts";
import { defaults, limits } from "./sandbox.ts";
import { BROKERED_ENV_VALUE, secretProviderNames, type SecretProviderName } from "./secret-providers.ts";
import { Env, EnvName } from "./variables.ts";

export const presetLimits = {
  commandsMax: 32,
  filesMax: 16,
  fileBytes: 65_536,
  packagesMax: 32,
  imageMiBMin: 3072,
  imageMiBMax: 16_384,
  messageBytes: 262_144,
} as const;

/** Where programs of an image's own recipe are, and what is made for one sandbox alone. */
export const PRESET_FOLDER = "/opt/agent";
export const AGENT_FOLDER = "/workspace/.rouse-agent";
/** The key that deliveries to the sandbox's trigger are signed with; nothing is let through before it is there. */
export const DELIVERY_SECRET_FILE = `${AGENT_FOLDER}/delivery-secret`;
/** The program that turns a delivery into what the runtime takes, and where it listens. */
export const TRIGGER_PROGRAM = "/usr/lib/rouse/agent-trigger.ts";
/** Loaded by runtimes on Node (`node --import`): what the machine trusts changes with its host, after they began. */
export const TRUST_MODULE = "/usr/lib/rouse/agent-trust.ts";
export const TRIGGER_PORT = 10_810;
/** Variable in which it finds what to make of a delivery (`PresetTrigger`). */
export const TRIGGER_VARIABLE = "ROUSE_AGENT_TRIGGER";

const line = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine((text) => !/[\0\n\r]/.test(text), "one line, no NUL");
const text = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine((value) => !value.includes("\0"), "no NUL");
const AbsolutePath = line(1024).refine(
  (path) => path.startsWith("/") && !path.split("/").includes(".."),
  "an absolute path without ..",
);
const HttpPath = line(1024).regex(/^\/[\x21-\x7e]*$/, "a path begins with /");
const Port = z
  .int()
  .min(1)
  .max(65_535)
  .refine((port) => port < 10_800 || port > TRIGGER_PORT, "not a port that the machine itself uses");
const Command = z.union([
  text(8192),
  z
    .array(z.string().refine((arg) => !arg.includes("\0")))
    .min(1)
    .max(64),
]);
/** A package that a package manager takes, with its version where it has one; never an option. */
const Package = line(214).regex(/^[A-Za-z0-9@][A-Za-z0-9@/._+~:=<>[\],-]*$/, "a package, such as openclaw@2026.9.6");

export const PresetId = z
  .string()
  .regex(/^[a-z]([a-z0-9-]{0,22}[a-z0-9])?$/, "1-24 of a-z 0-9 -, first a letter")
  .meta({ id: "PresetId" });

/** What an image of its own is made of, on top of the default image. Built by root of the host's operator, once. */
export const PresetRecipe = z.strictObject({
  apt: z
    .array(line(128).regex(/^[a-z0-9][a-z0-9.+-]*$/, "a Debian package"))
    .max(presetLimits.packagesMax)
    .optional(),
  /** Installed below `/opt/agent` by the host's npm, without their scripts. */
  npm: z.array(Package).max(presetLimits.packagesMax).optional(),
  /** Installed by the image's pip, for everybody. */
  pip: z.array(Package).max(presetLimits.packagesMax).optional(),
  files: z
    .array(
      z.strictObject({
        path: AbsolutePath,
        content: z.string().max(presetLimits.fileBytes),
        mode: z
          .string()
          .regex(/^[0-7]{3}$/, "three octal digits")
          .optional(),
        /** root unless given. Folders that are missing become theirs as well. */
        owner: z.enum(["root", "runtime"]).optional(),
      }),
    )
    .max(presetLimits.filesMax)
    .optional(),
  /** Run as root inside the image, in order, with the host's network. */
  commands: z.array(text(8192)).max(presetLimits.commandsMax).optional(),
  /**
   * Run by the agent's user after that, with the preset's `env` and without a network, on the host's own CPUs: what takes
   * a runtime long at its first start is in the image then.
   */
  firstRun: z.array(text(8192)).max(presetLimits.commandsMax).optional(),
  sizeMiB: z.int().min(presetLimits.imageMiBMin).max(presetLimits.imageMiBMax),
  /**
   * The state that new sandboxes begin with. `running`: with the agent up. `prepared`: what a first start makes is there,
   * and the agent is started in each sandbox; for runtimes that keep secrets of their own in memory.
   */
  golden: z.enum(["running", "prepared"]),
  /** Run by the agent's user before that state is saved: takes away what no two sandboxes may share. */
  seal: z.array(text(8192)).max(presetLimits.commandsMax).optional(),
});
export type PresetRecipe = z.infer<typeof PresetRecipe>;

/** How a message gets to the agent. */
export const PresetTrigger = z.strictObject({
  port: Port.optional(),
  path: HttpPath,
  method: z.enum(["POST", "PUT"]).optional(),
  /** A file of the sandbox whose content is its bearer token; none: no token. */
  tokenFile: AbsolutePath.optional(),
  headers: z.record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/, "a header name"), line(1024)).optional(),
  /**
   * JSON that is sent, in which `{{message}}` stands for the message and `{{id}}` for the event's id. Without one the
   * program gets deliveries as they are, signed (Standard Webhooks).
   */
  body: z.record(z.string(), z.json()).optional(),
  /** Time for one try, 1 to 300. */
  timeoutSeconds: z.int().min(1).max(300).optional(),
});
export type PresetTrigger = z.infer<typeof PresetTrigger>;

const PresetProvider = z.strictObject({
  /** Variable in which the runtime looks for the key. It holds no key: the host puts that into requests. */
  env: EnvName,
  baseUrlEnv: EnvName.optional(),
  /** What it runs with when this is the only key, as the runtime writes it. */
  model: line(128).optional(),
});

const fields = {
  id: PresetId,
  title: line(64),
  /** Pinned. */
  version: line(64),
  source: z.strictObject({
    registry: z.enum(["npm", "pypi", "own"]),
    package: Package.optional(),
    homepage: z.url({ protocol: /^https$/ }).optional(),
  }),
  /** None: the default image, in which `install` runs at the first boot. */
  recipe: PresetRecipe.optional(),
  /** Without a recipe: run by the agent's user before it is started, at each boot from disk; it must find out by itself whether it is done. */
  install: OnBoot.omit({ user: true }).optional(),
  /** Run in each new sandbox, and after each boot from disk, before anything is let in: makes tokens and keys of its own. */
  identity: OnBoot.omit({ user: true, env: true }).optional(),
  /** `runtime`, who is not root, unless given. */
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, "a user name of the machine")
    .refine((user) => user !== "root", "not root: what an agent runs must not own its machine")
    .optional(),
  start: Command,
  env: Env.optional(),
  port: Port,
  health: z.strictObject({ path: HttpPath }),
  ready: z.strictObject({ path: HttpPath, timeoutSeconds: z.int().min(1).max(bootLimits.readySecondsMax).optional() }),
  stop: z
    .strictObject({
      signal: z.enum(stopSignals).optional(),
      seconds: z.int().min(0).max(bootLimits.stopSecondsMax).optional(),
    })
    .optional(),
  freeze: Service.shape.freeze,
  thaw: Service.shape.thaw,
  /** What it keeps, and what of that can be made again. */
  state: z.strictObject({
    folders: z.array(AbsolutePath).min(1).max(16),
    caches: z.array(AbsolutePath).max(16).optional(),
  }),
  providers: z.partialRecord(z.enum(secretProviderNames), PresetProvider),
  /** Variable in which `identity` finds the model that was asked for. */
  modelEnv: EnvName.optional(),
  network: NetworkInput.optional(),
  /** How `rouse agent trigger` and webhooks reach it; none: it takes no messages this way. */
  trigger: PresetTrigger.optional(),
  minMemoryMiB: z.int().min(limits.memoryMiBMin).max(limits.memoryMiBMax),
  memoryMiB: z.int().min(limits.memoryMiBMin).max(limits.memoryMiBMax).optional(),
  diskMiB: z.int().min(limits.diskMiBMin).max(limits.diskMiBMax).optional(),
  vcpu: z.int().min(1).max(limits.vcpuMax).optional(),
  idlePauseSeconds: z.int().min(limits.idlePauseSecondsMin).max(limits.idlePauseSecondsMax).optional(),
  /** Whether it was run for real, killed and woken; what was not is said in `note`. */
  proved: z.boolean(),
  note: line(500).optional(),
};

export const AgentPreset = z
  .strictObject(fields)
  .superRefine((preset, context) => {
    const issue = (path: string, message: string) => context.addIssue({ code: "custom", path: [path], message });
    if (preset.recipe !== undefined && preset.install !== undefined)
      issue("install", "recipe or install, not both: what a recipe installs is in the image");
    if (preset.install !== undefined && preset.identity !== undefined)
      issue("identity", "is for presets with a recipe; without one, install does it");
    if (preset.trigger?.body !== undefined && preset.recipe === undefined)
      issue("trigger", "a body needs a recipe: the default image has nothing that would make it");
    if (preset.trigger?.body === undefined && (preset.trigger?.tokenFile ?? preset.trigger?.headers) !== undefined)
      issue("trigger", "tokenFile and headers go with a body");
    if ((preset.memoryMiB ?? preset.minMemoryMiB) < preset.minMemoryMiB) issue("memoryMiB", "less than minMemoryMiB");
    if (preset.recipe !== undefined && preset.recipe.sizeMiB > diskOf(preset)) issue("diskMiB", "less than the image");
    if (!preset.proved && preset.note === undefined) issue("note", "says what was not proved");
  })
  .meta({ id: "AgentPreset" });
export type AgentPreset = z.infer<typeof AgentPreset>;

/** How the API shows one: without what only the operator's host does with it. */
export const ShownPreset = z
  .object({
    id: PresetId,
    kind: z.literal("agent_preset"),
    title: z.string(),
    version: z.string(),
    homepage: z.string().nullable(),
    image: z.string(),
    /** Whether a host that is up has the image. */
    available: z.boolean(),
    providers: z.array(z.string()),
    port: z.int(),
    takesMessages: z.boolean(),
    minMemoryMiB: z.int(),
    memoryMiB: z.int(),
    diskMiB: z.int(),
    proved: z.boolean(),
    note: z.string().nullable(),
  })
  .meta({ id: "AgentPreset" });
export type ShownPreset = z.infer<typeof ShownPreset>;
export const ShownPresetList = z.object({ data: z.array(ShownPreset) }).meta({ id: "AgentPresetList" });

export function imageOf(preset: Pick<AgentPreset, "id" | "recipe">): string {
  return preset.recipe === undefined ? defaults.image : `agent-${preset.id}`;
}

/** vCPU, memory and disk that it gets unless a caller says otherwise. */
export function sizeOf(preset: AgentPreset): { vcpu: number; memoryMiB: number; diskMiB: number } {
  return {
    vcpu: preset.vcpu ?? defaults.vcpu,
    memoryMiB: preset.memoryMiB ?? Math.max(defaults.memoryMiB, preset.minMemoryMiB),
    diskMiB: diskOf(preset),
  };
}

function diskOf(preset: Pick<AgentPreset, "diskMiB">): number {
  return preset.diskMiB ?? defaults.diskMiB;
}

export const AGENT_SERVICE = ServiceName.parse("agent");
const TRIGGER_SERVICE = ServiceName.parse("agent-trigger");

/**
 * Its services, the agent first. The same preset has the same ones everywhere: a sandbox is told what its image's state
 * runs already, and so nothing of it is started anew.
 */
export function servicesOf(preset: AgentPreset): Service[] {
  const { user, ready, stop, freeze, thaw, trigger } = preset;
  const agent: Service = {
    name: AGENT_SERVICE,
    command: preset.start,
    env: { ...preset.env, ...brokeredVariables(preset) },
    ...(user === undefined ? {} : { user }),
    port: preset.port,
    ready: { port: preset.port, path: ready.path, timeoutSeconds: ready.timeoutSeconds ?? bootLimits.readySeconds },
    ...(stop?.signal === undefined ? {} : { stopSignal: stop.signal }),
    ...(stop?.seconds === undefined ? {} : { stopSeconds: stop.seconds }),
    ...(freeze === undefined ? {} : { freeze }),
    ...(thaw === undefined ? {} : { thaw }),
  };
  if (trigger?.body === undefined) return [agent];
  const told = JSON.stringify({ ...trigger, port: trigger.port ?? preset.port });
  const carrier: Service = {
    name: TRIGGER_SERVICE,
    command: ["node", TRIGGER_PROGRAM],
    env: { [TRIGGER_VARIABLE]: told },
    ...(user === undefined ? {} : { user }),
    port: TRIGGER_PORT,
  };
  return [agent, carrier];
}

/** Where the inbox delivers a message, or null where it takes none. */
export function deliveryOf(preset: AgentPreset): { port: number; path: string; timeoutSeconds: number } | null {
  const { trigger } = preset;
  if (trigger === undefined) return null;
  const timeoutSeconds = trigger.timeoutSeconds ?? 60;
  if (trigger.body === undefined) return { port: trigger.port ?? preset.port, path: trigger.path, timeoutSeconds };
  return { port: TRIGGER_PORT, path: "/", timeoutSeconds };
}

export function providersOf(preset: AgentPreset): SecretProviderName[] {
  return secretProviderNames.filter((name) => preset.providers[name] !== undefined);
}

function brokeredVariables(preset: AgentPreset): Record<string, string> {
  return Object.fromEntries(
    Object.values(preset.providers).map((provider) => [provider.env, BROKERED_ENV_VALUE] as const),
  );
}
