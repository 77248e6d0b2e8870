/** Waiting until a sandbox is what its caller needs. */
import type { Sandbox as SandboxInfo } from "../contract/sandbox.ts";
import { ConflictError, ConnectionError, ServiceUnavailableError } from "./errors.ts";
import { Poll } from "./poll.ts";
import type { CallExtras } from "./remote.ts";
import type { Sandbox } from "./sandbox.ts";
import { sleep } from "./scope.ts";

/** Seconds that a change may take before the server answers with the state so far. */
export const SETTLE_SECONDS = 60;
/** Longest single wait on the server, seconds. */
const LONG_WAIT_SECONDS = 60;
/** Seconds a creation may take: the first of a new size also makes its golden image. */
const START_SECONDS = 300;

/** States in which something is at rest, or about to be. */
const AT_REST: ReadonlySet<string> = new Set(["pausing", "paused", "stopping", "stopped"]);

/** See {@link Sandbox.waitFor}; `read` asks for the sandbox. */
export async function untilState(
  state: "running" | "paused" | "stopped",
  {
    timeoutSeconds = SETTLE_SECONDS,
    signal,
  }: { timeoutSeconds?: number | undefined; signal?: AbortSignal | undefined },
  read: (extras: CallExtras) => Promise<SandboxInfo>,
): Promise<void> {
  const endsAt = performance.now() + timeoutSeconds * 1000;
  for (;;) {
    const askedAt = performance.now();
    const left = Math.ceil((endsAt - askedAt) / 1000);
    const query = { waitFor: state, timeoutSeconds: Math.max(1, Math.min(LONG_WAIT_SECONDS, left)) };
    const info = await read({ query, signal });
    if (info.state === state) return;
    if (info.state === "stopped" || info.state === "deleted") {
      const why = info.lastError ?? info.stopReason;
      throw new ConflictError({
        code: "conflict",
        status: 409,
        message: `${called(info)} is ${info.state}, not ${state}${why === null ? "" : `: ${why}`}.`,
        details: { state: info.state, stopReason: info.stopReason },
      });
    }
    if (performance.now() >= endsAt) {
      throw new ConnectionError({
        code: "timeout",
        message: `${called(info)} is ${info.state}, and not ${state} after ${timeoutSeconds} s.`,
        hint: "Pass a larger timeoutSeconds.",
        retryable: true,
      });
    }
    // A server that answers at once must not be asked without a pause.
    if (performance.now() - askedAt < 250) await sleep(250, signal);
  }
}

/** The same sandbox, just made, once it runs. @throws ServiceUnavailableError `start_failed`, with the host's reason */
export async function started(sandbox: Sandbox, signal: AbortSignal | undefined): Promise<Sandbox> {
  if (sandbox.state === "running") return sandbox;
  try {
    return await sandbox.waitFor("running", { timeoutSeconds: START_SECONDS, signal });
  } catch (cause) {
    if (!(cause instanceof ConflictError)) throw cause;
    throw new ServiceUnavailableError({
      code: "start_failed",
      status: 502,
      message: `The sandbox did not start: ${cause.message}`,
      hint: "Look at the host agent's log.",
      details: { sandboxId: sandbox.id, ...cause.details },
      cause,
    });
  }
}

/** See {@link Sandbox.waitUntilDurable}. */
export async function untilDurable(
  sandbox: Sandbox,
  { timeoutMs, signal }: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined },
): Promise<void> {
  const poll = new Poll({
    timeoutMs,
    signal,
    late: () => ({
      message: `${called(sandbox.info)} is ${sandbox.info.durability?.state ?? sandbox.state}, and not durable yet.`,
      hint: "Pass a larger timeoutMs; a server that stores nothing off its hosts never gets there.",
      details: { sandboxId: sandbox.id, durability: sandbox.info.durability ?? null },
    }),
  });
  for (;;) {
    const { state, info } = await poll.ask((options) => sandbox.refresh(options));
    if (info.durability?.state === "durable" || info.durability?.state === "cold") return;
    if (!AT_REST.has(state)) {
      throw new ConflictError({
        code: "conflict",
        status: 409,
        message: `${called(info)} is ${state}; only what it sleeps with can be durable.`,
        hint: "Pause it first.",
        details: { sandboxId: sandbox.id, state },
      });
    }
    await poll.rest();
  }
}

function called({ name, id }: SandboxInfo): string {
  return name === null ? `Sandbox ${id}` : `Sandbox ${JSON.stringify(name)}`;
}
