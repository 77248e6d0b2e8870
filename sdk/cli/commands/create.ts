import { OnLeaseEnd, limits } from "../../contract/sandbox.ts";
import { findBaseUrl } from "../../src/credentials.ts";
import { RouseError } from "../../src/index.ts";
import type { CreateInput } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Args } from "../args.ts";
import type { Command, Context } from "../command.ts";
import { logIn } from "../device-login.ts";
import { microsOf } from "../money.ts";
import { serviceOf } from "../service-option.ts";
import { mountOf, mountsOf } from "../volumes.ts";

/** Most that the contract takes, microdollars. */
const TOTAL_COST_MAX = 1_000_000_000_000n;

export const create: Command = {
  name: "create",
  summary: "Make a sandbox and print its id",
  usage: "[--name N] [--get-or-create] [options]",
  details:
    "Prints only the id. With --get-or-create the sandbox that holds the name is woken or restarted, and the other\n" +
    "options count only when there is none yet.\n" +
    "With --trial, where no key is found, a link is shown on stderr first; whoever opens it can begin a trial account,\n" +
    "whose key is saved as rouse login does. Where there is a key, --trial changes nothing.",
  words: [0, 0],
  options: {
    name: { type: "string", value: "N", help: "Name, unique in the account" },
    "get-or-create": { type: "boolean", help: "Take the sandbox that holds the name, if there is one" },
    "idle-pause": {
      type: "string",
      value: "SEC",
      help: "Pause after so many seconds without activity, 0 for never (60)",
    },
    lease: { type: "string", value: "SEC", help: "End each run after so many seconds, busy or not; 0 for never (0)" },
    "on-lease-end": {
      type: "string",
      value: "WHAT",
      help: "What happens then: stop (the disk is kept), pause, delete (stop)",
    },
    label: { type: "string", value: "K=V", multiple: true, help: "Label" },
    env: {
      type: "string",
      value: "K[=V]",
      multiple: true,
      help: "Variable for its processes; K alone takes this shell's value",
    },
    vcpu: { type: "string", value: "N", help: "Virtual CPUs (2)" },
    memory: { type: "string", value: "MIB", help: "Memory in MiB (2048)" },
    disk: { type: "string", value: "MIB", help: "Disk in MiB (8192)" },
    image: { type: "string", value: "NAME", help: "Image (default)" },
    snapshot: { type: "string", value: "ID", help: "Start from a snapshot instead of an image" },
    volume: {
      type: "string",
      value: "V:/PATH",
      multiple: true,
      help: "Volume, by id or name, and where it appears; V:/PATH:snapshot only reads it, as it was last stored",
    },
    "keep-pauses": {
      type: "string",
      value: "N",
      help: `States before the last that rouse rollback can go back to, at most ${limits.keepPausesMax} (0)`,
    },
    "localhost-port": {
      type: "string",
      value: "PORT",
      multiple: true,
      help: "Port of a program that takes requests for localhost only, as development servers do",
    },
    service: {
      type: "string",
      value: "N[:PORT]=CMD",
      multiple: true,
      help: "Program that it starts with and that is kept running; with PORT the first request waits until it listens",
    },
    "on-boot": { type: "string", value: "CMD", help: "Command that runs after each boot from disk, before services" },
    "on-wake": { type: "string", value: "CMD", help: "Command that runs after each wake from RAM, beside requests" },
    "no-internet": { type: "boolean", help: "It reaches nothing outside but what is allowed" },
    allow: {
      type: "string",
      value: "X",
      multiple: true,
      help: "Host name, *.name or range that it may reach all the same",
    },
    deny: { type: "string", value: "X", multiple: true, help: "Host name, *.name or range that it may not reach" },
    secret: { type: "string", value: "NAME", multiple: true, help: "Secret of the account that it has" },
    public: { type: "boolean", help: "Let everybody reach its URL" },
    "no-auto-wake": { type: "boolean", help: "Requests do not wake it" },
    "max-total-cost": {
      type: "string",
      value: "USD",
      help: "What it may cost in its whole life; past it, it sleeps and wakes no more (no limit)",
    },
    trial: { type: "boolean", help: "Log in first where no key is found, to a trial account if need be" },
    "no-browser": { type: "boolean", help: "With --trial: only print the link" },
    paid: { type: "boolean", help: "Accepted and ignored" },
  },
  async run(context) {
    const { args, out, client } = context;
    const getOrCreate = args.flag("get-or-create");
    const name = args.text("name");
    if (getOrCreate && name === undefined) throw new UsageError("--get-or-create needs --name", "Pass --name N.");
    if (args.text("image") !== undefined && args.text("snapshot") !== undefined)
      throw new UsageError("--image or --snapshot, not both", "A snapshot brings its own disk.");
    const localhostPorts = args.all("localhost-port").map((port) => {
      if (!/^[1-9]\d{0,4}$/.test(port))
        throw new UsageError("--localhost-port is a port", "Such as: --localhost-port 5173");
      return Number(port);
    });
    const services = args.all("service").map(serviceOf);
    const [onBoot, onWake] = [args.text("on-boot"), args.text("on-wake")];
    const mounts = args.all("volume").map(mountOf);
    if (mounts.length > 0 && args.text("snapshot") !== undefined)
      throw new UsageError("--volume or --snapshot, not both", "Attach it then: rouse volume attach V NAME /PATH");
    const onLeaseEnd = OnLeaseEnd.optional().safeParse(args.text("on-lease-end"));
    if (!onLeaseEnd.success)
      throw new UsageError("--on-lease-end is stop, pause or delete", "See the options with --help.");
    const input = {
      idlePauseSeconds: args.number("idle-pause"),
      leaseSeconds: args.number("lease"),
      onLeaseEnd: onLeaseEnd.data,
      labels: args.pairs("label"),
      env: args.pairs("env", process.env),
      vcpu: args.number("vcpu"),
      memoryMiB: args.number("memory"),
      diskMiB: args.number("disk"),
      image: args.text("image"),
      snapshot: args.text("snapshot"),
      keepPauses: args.whole("keep-pauses", 0, limits.keepPausesMax),
      localhostPorts: localhostPorts.length > 0 ? localhostPorts : undefined,
      services: services.length > 0 ? services : undefined,
      onBoot: onBoot === undefined ? undefined : { command: onBoot },
      onWake: onWake === undefined ? undefined : { command: onWake },
      network: networkIn(args),
      secrets: args.all("secret").length > 0 ? args.all("secret") : undefined,
      access: args.flag("public") ? ("public" as const) : undefined,
      autoWake: args.flag("no-auto-wake") ? false : undefined,
      maxTotalCostMicros: microsOf("--max-total-cost", args.text("max-total-cost"), TOTAL_COST_MAX),
    };
    if (args.flag("trial")) await logInWithoutKey(context);
    const volumes = mounts.length === 0 ? undefined : await mountsOf(client, mounts);
    out.progress(name === undefined ? "Starting a sandbox..." : `Starting ${name}...`);
    const sandbox =
      getOrCreate && name !== undefined
        ? await client.sandboxes.getOrCreate(name, { ...input, volumes })
        : await client.sandboxes.create({ ...input, volumes, name });
    out.result(sandbox.id, sandbox.info);
    return 0;
  },
};

/** undefined: what may be reached is as it is unless said, or as of the snapshot. */
function networkIn(args: Args): CreateInput["network"] {
  const [isOff, allow, deny] = [args.flag("no-internet"), args.all("allow"), args.all("deny")];
  if (!isOff && allow.length === 0 && deny.length === 0) return undefined;
  return { internet: !isOff, ...(allow.length > 0 ? { allow } : {}), ...(deny.length > 0 ? { deny } : {}) };
}

async function logInWithoutKey({ args, out, client }: Context): Promise<void> {
  try {
    await client.transport.credentials();
  } catch (error) {
    // A key that is given and malformed is not replaced: it would still count before the login.
    if (!(error instanceof RouseError) || error.code !== "missing_api_key" || process.env["ROUSE_API_KEY"]) throw error;
    await logIn(out, { baseUrl: await findBaseUrl(), trial: true, browser: !args.flag("no-browser") });
  }
}
