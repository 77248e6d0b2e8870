/** The few calls the host itself makes to a guest agent. */
import { request } from "node:http";
import { Frozen, GuestBoot, ServiceLogs, type TellServices } from "../../sdk/contract/boot.ts";
import { ExecResult, GuestFacts } from "../../sdk/contract/guest.ts";
import { GuestTimers, type GuestTimer } from "../../sdk/contract/guest-timer.ts";
import type { Endpoint } from "./driver.ts";

/** @throws when the agent does not answer in time, or not with facts */
export async function agentFacts(at: Endpoint, limitMs = 10_000): Promise<GuestFacts> {
  return GuestFacts.parse(JSON.parse(await call(at, "GET", "/facts", undefined, limitMs)));
}

/** Longest list of timers. What a guest answers without end is none. */
const TIMERS_BYTES = 65_536;
const TIMERS_LIMIT_MS = 15_000;

/** When a program in the machine must run next; null: none must. */
export async function agentTimer(at: Endpoint, signal: AbortSignal): Promise<GuestTimer | null> {
  const answer = await bytesOf(at, "GET", "/timers", undefined, TIMERS_LIMIT_MS, signal, TIMERS_BYTES);
  const { data } = GuestTimers.parse(JSON.parse(answer.toString()));
  return data.toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))[0] ?? null;
}

/** What processes are given from now on. */
export async function configureAgent(at: Endpoint, env: Record<string, string>, limitMs = 30_000): Promise<void> {
  await call(at, "PUT", "/configure", { env }, limitMs);
}

/** Longest word of what came of a start: both streams of two commands, and services. */
const BOOT_BYTES = 262_144;
const BOOT_LIMIT_MS = 10_000;

/** Put other programs in the agent's place, and let PID 1 start them. @param archive a tar by gzip @throws AgentRefusal */
export async function renewAgent(at: Endpoint, archive: Buffer, limitMs: number): Promise<void> {
  await call(at, "POST", "/renew", archive, limitMs);
}

/** What the machine is to do at its start. @throws AgentRefusal */
export async function tellServices(at: Endpoint, what: TellServices, signal: AbortSignal): Promise<void> {
  await bytesOf(at, "PUT", "/services", what, BOOT_LIMIT_MS, signal, BOOT_BYTES);
}

/**
 * What came of it.
 * @param how `after`, `waitMs`: once there is something newer than that version, or the time is up. `probe`: services
 *   that are late are looked at first
 */
export async function agentBoot(
  at: Endpoint,
  { after = 0, waitMs = 0, probe = false }: { after?: number; waitMs?: number; probe?: boolean },
  signal: AbortSignal,
): Promise<GuestBoot> {
  const path = `/services?after=${after}&waitMs=${waitMs}&probe=${probe}`;
  const answer = await bytesOf(at, "GET", path, undefined, waitMs + BOOT_LIMIT_MS, signal, BOOT_BYTES);
  return GuestBoot.parse(JSON.parse(answer.toString()));
}

/** The last that a service wrote. */
export async function serviceOutput(at: Endpoint, name: string, signal: AbortSignal): Promise<string> {
  const answer = await bytesOf(at, "GET", `/services/${name}/logs`, undefined, BOOT_LIMIT_MS, signal, BOOT_BYTES);
  const { chunks } = ServiceLogs.parse(JSON.parse(answer.toString()));
  return chunks.map(({ text }) => text).join("");
}

export async function freezeServices(at: Endpoint, limitMs: number): Promise<Frozen> {
  return Frozen.parse(JSON.parse(await call(at, "POST", "/services:freeze", {}, limitMs)));
}

export async function thawServices(at: Endpoint, limitMs: number): Promise<void> {
  await call(at, "POST", "/services:thaw", {}, limitMs);
}

/** The agent answered, and will not. */
export class AgentRefusal extends Error {
  override readonly name = "AgentRefusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Let the agent take the paths of first requests, so that clones of its machine find them warm. */
export async function warmUpAgent(at: Endpoint, limitMs: number): Promise<void> {
  await call(at, "POST", "/warm-up", {}, limitMs);
}

/** Run a program to its end. */
export async function agentExec(
  at: Endpoint,
  command: { argv: readonly string[]; stdin: string; timeoutMs: number },
  signal: AbortSignal,
): Promise<ExecResult> {
  return ExecResult.parse(JSON.parse(await call(at, "POST", "/exec", command, command.timeoutMs + 5000, signal)));
}

/** Content of a file. @throws when it has more than `maxBytes` */
export function agentFile(
  at: Endpoint,
  path: string,
  maxBytes: number,
  limitMs: number,
  signal: AbortSignal,
): Promise<Buffer> {
  return bytesOf(at, "GET", `/files/content?path=${encodeURIComponent(path)}`, undefined, limitMs, signal, maxBytes);
}

/** Wait for the first answer of an agent that boots: its facts. */
export async function agentAnswers(at: Endpoint, limitMs: number): Promise<GuestFacts> {
  const end = performance.now() + limitMs;
  for (;;) {
    try {
      return await agentFacts(at, 5000);
    } catch (fault) {
      if (performance.now() > end) throw new Error("the guest agent does not answer", { cause: fault });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Answers of the agent itself are short; what a guest sends without end must not fill the host. */
const ANSWER_BYTES = 16_777_216;

async function call(
  at: Endpoint,
  method: string,
  path: string,
  body: unknown,
  limitMs: number,
  signal?: AbortSignal,
): Promise<string> {
  return (await bytesOf(at, method, path, body, limitMs, signal)).toString();
}

function bytesOf(
  at: Endpoint,
  method: string,
  path: string,
  body: unknown,
  limitMs: number,
  signal?: AbortSignal,
  maxBytes = ANSWER_BYTES,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const text = body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const type = Buffer.isBuffer(body) ? "application/gzip" : "application/json";
    const headers = text === undefined ? {} : { "content-type": type, "content-length": Buffer.byteLength(text) };
    const limit = AbortSignal.timeout(limitMs);
    const end = signal ? AbortSignal.any([signal, limit]) : limit;
    const req = request({ ...at, method, path, headers, agent: false, signal: end }, (res) => {
      const chunks: Buffer[] = [];
      let size = 0;
      res.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size > maxBytes) res.destroy(new Error(`${method} ${path}: more than ${maxBytes} bytes`));
        else chunks.push(chunk);
      });
      res.on("error", reject);
      res.on("end", () => {
        const answer = Buffer.concat(chunks);
        if (res.statusCode === 200 || res.statusCode === 204) resolve(answer);
        else {
          const text = `${method} ${path}: ${res.statusCode} ${answer.toString().slice(0, 300)}`;
          reject(new AgentRefusal(res.statusCode ?? 0, text));
        }
      });
    });
    req.on("error", reject);
    req.end(text);
  });
}
