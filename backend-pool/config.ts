/** Settings of a host agent, from the environment; all faults are reported together. */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { HostSecrets, parseHostKey } from "../sdk/contract/host-secrets.ts";
import { OperatorHosts } from "./egress/hosts.ts";

const seconds = z.coerce.number().min(0);

const Environment = z.object({
  /** Where this host agent listens. */
  ROUSE_LISTEN: z
    .string()
    .regex(/^[^:]+:\d+$/, "host:port")
    .default("127.0.0.1:8788"),
  /** How the edge reaches it. Default: http at the listening address. */
  ROUSE_HOST_URL: z.url().optional(),
  ROUSE_EDGE_URL: z.url().default("http://127.0.0.1:8787"),
  /** Folder of everything that lasts: images, machines, journal. */
  ROUSE_HOME: z.string().optional(),
  /** Folder of this host's machines and journal. Default: `state` in ROUSE_HOME. */
  ROUSE_STATE: z.string().optional(),
  /** JSON file, mode 0600 (`HostSecrets`), as `rouse host add` prints it. Secrets never stand in the environment or in argv. */
  ROUSE_SECRETS_FILE: z.string(),
  ROUSE_DRIVER: z.enum(["qemu", "fake"]).default("qemu"),
  /** `tcg` forbids KVM. */
  ROUSE_ACCELERATOR: z.enum(["auto", "tcg"]).default("auto"),
  ROUSE_RESIDENT_SECONDS: seconds.default(300),
  ROUSE_PRESTARTED_SECONDS: seconds.default(600),
  /** How long a sleeper has slept when its state is taken off the host; `off`: never. */
  ROUSE_ARCHIVE_SECONDS: z.union([z.literal("off"), seconds]).default(3),
  /** After a sleeper has no process any more: seconds until only what is sealed of it is kept, and then until nothing is. */
  ROUSE_COMPACT_AFTER_SECONDS: seconds.default(900),
  ROUSE_COLD_AFTER_SECONDS: seconds.default(604_800),
  /** What uploads of states may take together, MiB a second; 0 for no bound. */
  ROUSE_UPLOAD_MIB_PER_SECOND: z.coerce.number().min(0).default(0),
  /** Memory that all running machines may have together, MiB. Default: as long as the kernel has some to give. */
  ROUSE_MEMORY_MIB: z.coerce.number().int().min(256).optional(),
  /** Clones kept ready for each shape. */
  ROUSE_SPARES: z.coerce.number().int().min(0).max(64).default(2),
  /** Agents whose images this host makes and offers: ids of presets, or paths of presets of one's own, by commas. */
  ROUSE_AGENTS: z.string().default(""),
  /** Which drills it takes part in: `own`, those that end machines; `all`, those that end this agent and the edge, too. */
  ROUSE_DRILLS: z.enum(["own", "all"]).default("own"),
  /** Where the process of an edge beside this agent is noted (`process-mark.ts`). */
  ROUSE_EDGE_PID_FILE: z.string().optional(),
  /** How often usage is told to the edge; a change of a machine's state is told sooner. */
  ROUSE_USAGE_SECONDS: seconds.default(60),
  /** Names that machines reach although they are private, and where they lead (`egress/hosts.ts`). */
  ROUSE_EGRESS_HOSTS: z.string().optional(),
  /** Certificate and key (PEM, mode 0600) of the authority that machines trust; hosts of a pool share one. Default: one of its own. */
  ROUSE_EGRESS_CA: z.string().optional(),
  /** PEM file of authorities that this host trusts out there, beside the usual ones, where it puts secrets in. */
  ROUSE_EGRESS_UPSTREAM_CA: z.string().optional(),
  /** Nameservers for machines, by commas: addresses, with or without port. Default: those of this host. */
  ROUSE_EGRESS_DNS: z.string().optional(),
});

export interface EgressSettings {
  readonly hosts: OperatorHosts;
  readonly authorityFile: string;
  readonly upstreamCaFile: string | null;
  /** null: those of this host. */
  readonly nameservers: readonly string[] | null;
}

export interface Config extends HostSecrets {
  readonly listen: { readonly host: string; readonly port: number };
  readonly hostUrl: string | null;
  readonly edgeUrl: string;
  readonly hostId: string;
  readonly imagesDir: string;
  readonly stateDir: string;
  readonly driver: "qemu" | "fake";
  readonly accelerator: "auto" | "tcg";
  readonly residentSeconds: number;
  readonly prestartedSeconds: number;
  /** null: states stay on this host. */
  readonly archiveSeconds: number | null;
  readonly compactAfterSeconds: number;
  readonly coldAfterSeconds: number;
  readonly uploadBytesPerSecond: number;
  readonly spares: number;
  readonly memoryMiB: number | null;
  /** Ids and paths of presets. */
  readonly agents: readonly string[];
  readonly usageSeconds: number;
  readonly drills: "own" | "all";
  readonly edgePidFile: string | null;
  readonly egress: EgressSettings;
}

/** The folder that holds everything lasting when nothing else is said. */
export function defaultHome(env: NodeJS.ProcessEnv = process.env): string {
  return env["ROUSE_HOME"] ?? join(env["XDG_DATA_HOME"] ?? join(homedir(), ".local/share"), "rouse");
}

/** @throws Error naming every setting that is wrong */
export function loadConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const parsed = Environment.safeParse(env);
  if (!parsed.success) throw new Error(`The host agent's settings are not valid:\n${z.prettifyError(parsed.error)}`);
  const set = parsed.data;
  const secrets = HostSecrets.parse(JSON.parse(readFileSync(set.ROUSE_SECRETS_FILE, "utf8")));
  const home = set.ROUSE_HOME ?? defaultHome(env);
  const [host, port] = set.ROUSE_LISTEN.split(":");
  return {
    listen: { host: host ?? "127.0.0.1", port: Number(port) },
    hostUrl: set.ROUSE_HOST_URL ?? null,
    edgeUrl: set.ROUSE_EDGE_URL.replace(/\/$/, ""),
    // The key says whose it is.
    hostId: parseHostKey(secrets.hostKey)?.hostId ?? "",
    imagesDir: join(home, "images"),
    stateDir: set.ROUSE_STATE ?? join(home, "state"),
    driver: set.ROUSE_DRIVER,
    accelerator: set.ROUSE_ACCELERATOR,
    residentSeconds: set.ROUSE_RESIDENT_SECONDS,
    prestartedSeconds: set.ROUSE_PRESTARTED_SECONDS,
    archiveSeconds: set.ROUSE_ARCHIVE_SECONDS === "off" ? null : set.ROUSE_ARCHIVE_SECONDS,
    compactAfterSeconds: set.ROUSE_COMPACT_AFTER_SECONDS,
    coldAfterSeconds: set.ROUSE_COLD_AFTER_SECONDS,
    uploadBytesPerSecond: set.ROUSE_UPLOAD_MIB_PER_SECOND * 1_048_576,
    spares: set.ROUSE_SPARES,
    memoryMiB: set.ROUSE_MEMORY_MIB ?? null,
    agents: set.ROUSE_AGENTS.split(",")
      .map((one) => one.trim())
      .filter((one) => one !== ""),
    usageSeconds: set.ROUSE_USAGE_SECONDS,
    drills: set.ROUSE_DRILLS,
    edgePidFile: set.ROUSE_EDGE_PID_FILE ?? null,
    egress: {
      hosts: OperatorHosts.parse(set.ROUSE_EGRESS_HOSTS),
      authorityFile: set.ROUSE_EGRESS_CA ?? join(set.ROUSE_STATE ?? join(home, "state"), "egress-ca.pem"),
      upstreamCaFile: set.ROUSE_EGRESS_UPSTREAM_CA ?? null,
      nameservers: set.ROUSE_EGRESS_DNS?.split(",").map((one) => one.trim()) ?? null,
    },
    ...secrets,
  };
}
