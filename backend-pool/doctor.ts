/**
 * `run.sh backend-pool/doctor.ts [--json]`: whether this machine can be a host, and what to do where it can't. Reads the
 * same settings as the host agent and changes nothing. Exit code 1 when something must be mended.
 */
import { access, constants, stat } from "node:fs/promises";
import { parseArgs } from "node:util";
import { loadConfig, type Config } from "./config.ts";
import { exists } from "./paths.ts";
import { run } from "./process.ts";
import { capacity } from "./report/capacity.ts";
import { qemuVersion } from "./machine/qemu/driver.ts";

interface Check {
  readonly name: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  readonly fix?: string;
}

/** Less than that is too little for a single machine of the default shape. */
const MEMORY_LEAST_MIB = 3072;
const DISK_LEAST_MIB = 10_240;
/** Clocks further apart make times in answers misleading, seconds. */
const CLOCK_SECONDS = 5;

const { values: flags } = parseArgs({ options: { json: { type: "boolean", default: false } } });
const checks: Check[] = [];
for await (const check of examine()) {
  checks.push(check);
  if (flags.json) continue;
  console.log(`${check.status.padEnd(4)}  ${check.name}: ${check.message}`);
  if (check.fix !== undefined) console.log(`      -> ${check.fix}`);
}
const ok = checks.every(({ status }) => status !== "fail");
if (flags.json) console.log(JSON.stringify({ ok, checks }));
process.exit(ok ? 0 : 1);

/** The checks in their order; those that need an earlier one end with it. */
async function* examine(): AsyncGenerator<Check, void, undefined> {
  yield* programChecks();
  yield await kvmCheck();
  let config: Config;
  try {
    config = loadConfig();
  } catch (fault) {
    yield { name: "settings", status: "fail", message: text(fault), fix: "See docs/deployment.md." };
    return;
  }
  yield { name: "settings", status: "ok", message: `host ${config.hostId}, edge ${config.edgeUrl}` };
  yield await secretsCheck();
  yield* roomChecks(config);
  yield* edgeChecks(config);
  yield await selfCheck(config);
}

async function* programChecks(): AsyncGenerator<Check, void, undefined> {
  try {
    yield { name: "qemu", status: "ok", message: `version ${await qemuVersion()}` };
  } catch (fault) {
    yield { name: "qemu", status: "fail", message: text(fault), fix: "Install qemu-system-x86 and qemu-utils." };
  }
  for (const [program, pkg] of [
    ["qemu-img", "qemu-utils"],
    ["mmdebstrap", "mmdebstrap"],
    ["mkfs.ext4", "e2fsprogs"],
  ] as const) {
    const found = await run("sh", ["-c", `command -v ${program}`]).catch(() => null);
    if (!found) yield { name: program, status: "fail", message: "is not installed", fix: `Install ${pkg}.` };
  }
}

async function kvmCheck(): Promise<Check> {
  const name = "kvm";
  if (!(await exists("/dev/kvm")))
    return {
      name,
      status: "warn",
      message: "/dev/kvm is missing: machines run in software emulation, which is slow and no security boundary",
      fix: "Use a machine with hardware virtualisation for production.",
    };
  try {
    await access("/dev/kvm", constants.R_OK | constants.W_OK);
  } catch {
    return { name, status: "warn", message: "/dev/kvm is closed to this user", fix: "Add the user to the group kvm." };
  }
  return { name, status: "ok", message: "/dev/kvm is open; the host agent boots a kernel with it before it is used" };
}

async function secretsCheck(): Promise<Check> {
  const file = process.env["ROUSE_SECRETS_FILE"] ?? "";
  const { mode } = await stat(file);
  if ((mode & 0o077) === 0) return { name: "secrets", status: "ok", message: `${file}, for its owner alone` };
  return { name: "secrets", status: "fail", message: `others can read ${file}`, fix: `Run: chmod 600 ${file}` };
}

async function* roomChecks({ stateDir }: Config): AsyncGenerator<Check, void, undefined> {
  const dir = (await exists(stateDir)) ? stateDir : "/";
  const { memoryMiB, freeMemoryMiB, freeDiskMiB, vcpus } = await capacity(dir);
  yield {
    name: "memory",
    status: freeMemoryMiB >= MEMORY_LEAST_MIB ? "ok" : "warn",
    message: `${freeMemoryMiB} of ${memoryMiB} MiB free, ${vcpus} CPUs`,
    ...(freeMemoryMiB >= MEMORY_LEAST_MIB ? {} : { fix: "There is hardly room for one machine." }),
  };
  yield {
    name: "disk",
    status: freeDiskMiB >= DISK_LEAST_MIB ? "ok" : "warn",
    message: `${freeDiskMiB} MiB free below ${dir}`,
    ...(freeDiskMiB >= DISK_LEAST_MIB ? {} : { fix: "Images need about 4 GiB, each machine its memory once." }),
  };
}

async function* edgeChecks({ edgeUrl, hostKey, hostId }: Config): AsyncGenerator<Check, void, undefined> {
  let answer: Response;
  const sentAt = Date.now();
  try {
    answer = await fetch(`${edgeUrl}/healthz`, { signal: AbortSignal.timeout(10_000) });
  } catch (fault) {
    yield {
      name: "edge",
      status: "fail",
      message: `${edgeUrl} does not answer: ${text(fault)}`,
      fix: "Set ROUSE_EDGE_URL.",
    };
    return;
  }
  yield { name: "edge", status: answer.ok ? "ok" : "fail", message: `${edgeUrl} answers ${answer.status}` };
  const date = Date.parse(answer.headers.get("date") ?? "");
  const apart = Math.max(0, sentAt - (date + 1000), date - Date.now()) / 1000;
  if (!Number.isNaN(date))
    yield apart <= CLOCK_SECONDS
      ? { name: "clock", status: "ok", message: "agrees with the edge's" }
      : {
          name: "clock",
          status: "warn",
          message: `is ${Math.round(apart)} s apart from the edge's`,
          fix: "Run chrony.",
        };
  // An empty report is refused for its form only after the key was accepted.
  const beat = await fetch(`${edgeUrl}/internal/hosts/${hostId}/heartbeat`, {
    method: "POST",
    headers: { authorization: `Bearer ${hostKey}`, "content-type": "application/json" },
    body: "{}",
    signal: AbortSignal.timeout(10_000),
  }).catch(() => null);
  yield beat?.status === 400
    ? { name: "host key", status: "ok", message: "is accepted" }
    : {
        name: "host key",
        status: "fail",
        message: beat === null ? "could not be tried" : `is refused (${beat.status})`,
        fix: `Make it anew: rouse host add ${hostId}`,
      };
}

/** Whether the edge would find this host where it says it is. */
async function selfCheck({ hostUrl, listen }: Config): Promise<Check> {
  const url = hostUrl ?? `http://${listen.host}:${listen.port}`;
  const answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(10_000) }).catch(() => null);
  if (answer?.ok) return { name: "reachable", status: "ok", message: `${url} answers` };
  return {
    name: "reachable",
    status: "warn",
    message: `${url} does not answer ${answer ? `as a host agent (${answer.status})` : ""}`.trim(),
    fix: "Start the host agent, or mend ROUSE_HOST_URL and its TLS proxy.",
  };
}

function text(fault: unknown): string {
  return fault instanceof Error ? fault.message : String(fault);
}
