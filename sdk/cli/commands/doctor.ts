import { stat } from "node:fs/promises";
import type { Host } from "../../src/index.ts";
import { RouseError, VERSION } from "../../src/index.ts";
import { localKeyPath } from "../../src/credentials.ts";
import { API_VERSION, Me } from "../../contract/account.ts";
import { defaults } from "../../contract/sandbox.ts";
import type { Command, Context } from "../command.ts";
import { keySources } from "../key-sources.ts";
import { exitCodes } from "../output.ts";
import { painted, paintOfState } from "../style.ts";

interface Check {
  name: string;
  status: "ok" | "warn" | "fail";
  message: string;
  fix?: string;
}

const NODE_LEAST = 20;
/** Clocks further apart make times in answers misleading, seconds. */
const CLOCK_SECONDS = 5;
/** Disk that a new sandbox is sure to need, MiB. */
const ROOM_DISK_MIB = 1024;
const CALL = { maxRetries: 0, timeoutMs: 10_000 } as const;

export const doctor: Command = {
  name: "doctor",
  summary: "Check that everything needed is there, and say what to do where it is not",
  usage: "",
  words: [0, 0],
  options: {},
  async run(context) {
    const checks: Check[] = [];
    for await (const check of examine(context)) {
      checks.push(check);
      if (context.out.json) continue;
      const status = painted(check.status.padEnd(4), paintOfState(check.status), context.out.look);
      context.out.result(`${status}  ${check.name}: ${check.message}`, null);
      if (check.fix !== undefined) context.out.result(`      -> ${check.fix}`, null);
    }
    const ok = checks.every(({ status }) => status !== "fail");
    if (context.out.json) context.out.result("", { ok, checks });
    return ok ? exitCodes.ok : exitCodes.failure;
  },
};

/** The checks in their order; those that need an earlier one end with it. */
async function* examine({ client }: Context): AsyncGenerator<Check, void, undefined> {
  yield nodeCheck();
  let baseUrl: string;
  try {
    const credentials = await client.transport.credentials();
    ({ baseUrl } = credentials);
    yield { name: "key", status: "ok", message: `found, from ${keySources[credentials.source]}` };
    if (credentials.source === "local") yield* keyFileCheck();
  } catch (error) {
    yield failed("key", error);
    return;
  }
  const sentAt = Date.now();
  let answer: { me: unknown; date: string | null };
  try {
    answer = await client.transport.send({ method: "GET", path: "/v1/me", ...CALL }, async (response) => ({
      me: await response.json(),
      date: response.headers.get("date"),
    }));
  } catch (error) {
    const reached = error instanceof RouseError && error.status > 0;
    yield reached ? { name: "api", status: "ok", message: `${baseUrl} answers` } : failed("api", error);
    if (reached) yield failed("account", error);
    return;
  }
  const me = Me.safeParse(answer.me);
  if (!me.success) {
    yield {
      name: "api",
      status: "fail",
      message: `${baseUrl} answers, but not as Rouse does`,
      fix: "Set ROUSE_API_URL to a Rouse server.",
    };
    return;
  }
  yield { name: "api", status: "ok", message: `${baseUrl} answers` };
  yield versionCheck(me.data.apiVersion);
  yield { name: "account", status: "ok", message: `the key is accepted, account ${me.data.orgName}` };
  yield clockCheck(answer.date, sentAt, Date.now());
  try {
    yield* hostChecks(await client.hosts(CALL));
  } catch (error) {
    // Hosts are the operator's to see.
    yield error instanceof RouseError && error.code === "forbidden"
      ? { name: "hosts", status: "ok", message: "are shown to the operator's account only" }
      : failed("hosts", error);
  }
}

/** Within a version before 1.0 the second number says what goes together. */
function versionCheck(api: string): Check {
  const [server, mine] = [api, API_VERSION].map((text) => text.split(".").slice(0, 2).map(Number));
  const order = (server?.[0] ?? 0) - (mine?.[0] ?? 0) || (server?.[1] ?? 0) - (mine?.[1] ?? 0);
  const message = `rouse ${VERSION} speaks API ${API_VERSION}, the server ${api}`;
  if (order === 0) return { name: "version", status: "ok", message };
  const fix =
    order > 0 ? "Install a newer rouse." : "Ask whoever runs the server to update it, or install an older rouse.";
  return { name: "version", status: "warn", message, fix };
}

function nodeCheck(): Check {
  const { node } = process.versions;
  const good = Number(node.split(".")[0]) >= NODE_LEAST;
  return {
    name: "node",
    status: good ? "ok" : "fail",
    message: `version ${node}`,
    ...(good ? {} : { fix: `Install Node.js ${NODE_LEAST} or later.` }),
  };
}

async function* keyFileCheck(): AsyncGenerator<Check, void, undefined> {
  const path = await localKeyPath();
  if (path === null || process.platform === "win32") return;
  const { mode } = await stat(path);
  if ((mode & 0o077) === 0) return;
  yield {
    name: "key file",
    status: "warn",
    message: `others on this machine can read ${path}`,
    fix: `Run: chmod 600 ${path}`,
  };
}

function clockCheck(date: string | null, sentAt: number, answeredAt: number): Check {
  const server = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(server)) return { name: "clock", status: "warn", message: "the server's answer has no date" };
  // The header counts whole seconds.
  const behind = Math.max(0, sentAt - (server + 1000), server - answeredAt) / 1000;
  return behind <= CLOCK_SECONDS
    ? { name: "clock", status: "ok", message: "agrees with the server's" }
    : {
        name: "clock",
        status: "warn",
        message: `is ${Math.round(behind)} s apart from the server's`,
        fix: "Synchronise both clocks, for example with chrony.",
      };
}

function* hostChecks(hosts: readonly Host[]): Generator<Check, void, undefined> {
  const live = hosts.filter((host) => host.live);
  if (live.length === 0) {
    yield {
      name: "hosts",
      status: "fail",
      message: hosts.length === 0 ? "none has registered" : `none of ${hosts.length} answers`,
      fix: "Start a host agent; on one machine `npm start` does.",
    };
    return;
  }
  const away = hosts.length - live.length;
  yield {
    name: "hosts",
    status: away === 0 ? "ok" : "warn",
    message: `${live.length} of ${hosts.length} answer; ${sum(live, "running")} sandboxes run, ${sum(live, "paused")} sleep`,
    ...(away === 0 ? {} : { fix: "Start the host agents that are away, or look at their logs." }),
  };
  yield roomCheck(live);
  for (const host of live) yield acceleratorCheck(host);
  const images = [...new Set(live.flatMap((host) => host.images))].toSorted();
  const hasDefault = images.includes(defaults.image);
  yield {
    name: "images",
    status: hasDefault ? "ok" : "warn",
    message: images.length === 0 ? "none" : images.join(", "),
    ...(hasDefault ? {} : { fix: `No host has the image ${defaults.image}; \`npm start\` builds it.` }),
  };
}

/** Whether a sandbox of the usual size finds a host. */
function roomCheck(live: readonly Host[]): Check {
  const takes = live.filter((host) => !host.draining);
  const fits = takes.filter((host) => host.freeMemoryMiB >= defaults.memoryMiB && host.freeDiskMiB >= ROOM_DISK_MIB);
  const most = Math.max(0, ...takes.map((host) => host.freeMemoryMiB));
  if (fits.length > 0)
    return {
      name: "room",
      status: "ok",
      message: `for sandboxes of up to ${most} MiB on ${fits.length} of ${live.length} hosts`,
    };
  return {
    name: "room",
    status: "warn",
    message:
      takes.length === 0
        ? "no host takes new sandboxes: each is being drained"
        : `no host has ${defaults.memoryMiB} MiB of memory and ${ROOM_DISK_MIB} MiB of disk free`,
    fix:
      takes.length === 0
        ? "rouse host undrain HOST, or add a host."
        : "Pause or delete sandboxes, ask for less memory, or add a host.",
  };
}

function acceleratorCheck(host: Host): Check {
  const name = `accelerator of ${host.hostId}`;
  switch (host.accelerator) {
    case "kvm":
      return { name, status: "ok", message: `kvm, ${host.acceleratorReason}` };
    case "tcg":
      return {
        name,
        status: "warn",
        message: `tcg, ${host.acceleratorReason}. Software emulation: everything works, many times slower, and it is no security boundary`,
        fix: "For production use a host with /dev/kvm.",
      };
    case "fake":
      return {
        name,
        status: "warn",
        message: "fake: there are no machines behind it",
        fix: "Start the host agent with its qemu driver.",
      };
  }
}

function sum(hosts: readonly Host[], field: "running" | "paused"): number {
  return hosts.reduce((total, host) => total + host[field], 0);
}

function failed(name: string, error: unknown): Check {
  const message = error instanceof Error ? error.message : String(error);
  const hint = error instanceof RouseError ? error.hint : undefined;
  return { name, status: "fail", message, ...(hint === undefined ? {} : { fix: hint }) };
}
