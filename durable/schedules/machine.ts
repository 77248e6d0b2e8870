/** The way from a schedule to the machine: the same as the edge's, and as an inbox's. */
import type { ErrorCode, Failure } from "../../sdk/contract/error-codes.ts";
import { CAUSE_REQUEST_MAX, type Cause } from "../../sdk/contract/timeline.ts";
import { sandboxObject, type SandboxApi } from "../sandbox/api.ts";
import { errorIn, HOST_FAULTS, readMisdirected, sendToMachine, type MachineRequest } from "../sandbox/request.ts";
import type { Whose } from "./store.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Longest wait for a wake, milliseconds. */
const WAKE_MS = 30_000;

export interface Sent {
  readonly status: number;
  /** The beginning of the answer, and how long it is. */
  readonly begin: Bytes;
  readonly total: number;
}

export type Reached<T> = (
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly failure: Pick<Failure, "retryAfterMs"> & { readonly code: ErrorCode | "timeout" } }
) & {
  readonly woken: boolean;
  readonly wakeMs: number | null;
};

export interface Terms {
  readonly cause: Cause;
  /** Without it an answer is null where the sandbox does not run. */
  readonly wake: boolean;
  /** Time for the whole answer, milliseconds. */
  readonly limitMs: number;
  /** Bytes of the answer that are kept; what is beyond is read, and dropped. */
  readonly most: number;
}

export class Machine {
  readonly #env: Env;
  readonly #whose: Whose;

  constructor(env: Env, whose: Whose) {
    this.#env = env;
    this.#whose = whose;
  }

  get sandbox(): SandboxApi {
    const { account, label } = this.#whose;
    return sandboxObject(this.#env.SANDBOX, account, label);
  }

  /** Only wake it. */
  async wake(cause: Cause): Promise<Reached<null>> {
    const way = await this.#route(cause, true, false);
    const { woken, wakeMs } = way;
    return way.ok ? { ok: true, value: null, woken, wakeMs } : { ok: false, failure: way.failure, woken, wakeMs };
  }

  /** @param request to `/port/<port>/...`, or to `/agent/...`, whose refusals are failures */
  async send(request: MachineRequest, terms: Terms): Promise<Reached<Sent | null>> {
    let woken = false;
    let wakeMs: number | null = null;
    let broken = null as { readonly hostId: string; readonly generation: number } | null;
    const fail = (code: ErrorCode | "timeout", retryAfterMs?: number): Reached<never> => ({
      ...{ ok: false, failure: { code, retryAfterMs }, woken, wakeMs },
    });
    for (const verify of [false, true]) {
      const way = await this.#route(terms.cause, terms.wake, verify);
      if (way.woken) [woken, wakeMs] = [true, way.wakeMs];
      if (!way.ok) return fail(way.failure.code, way.failure.retryAfterMs);
      const { grant, facts } = way.value;
      if (!grant) return terms.wake ? fail("host_unavailable") : { ...{ ok: true, value: null, woken, wakeMs } };
      // Its host still has that very run: it is the program that closed the connection.
      if (broken?.hostId === grant.hostId && broken.generation === facts.generation) return fail("upstream_closed");
      const abort = new AbortController();
      const timer = setTimeout(() => abort.abort(), terms.limitMs);
      try {
        let response = await sendToMachine(this.#env, facts.id, grant, { ...request, signal: abort.signal });
        if (response.status === 421) {
          const own = await readMisdirected(response);
          if (!own) continue;
          response = own;
        }
        const { status } = response;
        const { begin, total } = await readBegin(response, terms.most);
        const isAgent = request.path.startsWith("/agent/");
        const failure = status >= (isAgent ? 400 : 500) ? failureIn(begin, isAgent) : null;
        if (failure) return fail(failure.code, failure.retryAfterMs);
        return { ok: true, value: { status, begin, total }, woken, wakeMs };
      } catch {
        if (abort.signal.aborted) return fail("timeout");
        broken = { hostId: grant.hostId, generation: facts.generation };
      } finally {
        clearTimeout(timer);
      }
    }
    return fail(broken ? "upstream_closed" : "sandbox_waking");
  }

  /** Somebody put it to sleep, or it is just falling asleep. */
  async isAsleepOnPurpose(): Promise<boolean> {
    const answer = await this.sandbox.get({ id: this.#whose.sandboxId });
    if (!answer.ok) return false;
    const { state, stopReason } = answer.sandbox;
    return state === "pausing" || (state === "paused" && stopReason === "requested");
  }

  /** Keep it awake for so many seconds from now; 0 lets go. @returns whether it is held */
  async hold(name: string, seconds: number): Promise<boolean> {
    const change = { id: this.#whose.sandboxId, holdMs: 0, idempotencyKey: null, fingerprint: "", cause: null };
    return (await this.sandbox.hold(name, seconds, change)).ok;
  }

  async #route(cause: Cause, wake: boolean, verify: boolean): Promise<Reached<Way>> {
    const startedAt = Date.now();
    const routed = await this.sandbox.route({
      ...{ id: this.#whose.sandboxId, wake, waitMs: WAKE_MS, verify, cause: wake ? cause : null, subject: null },
    });
    if (!routed.ok) return { ok: false, failure: routed.failure, woken: false, wakeMs: null };
    const { woken, ...value } = routed;
    return { ok: true, value, woken, wakeMs: woken ? Math.max(0, Date.now() - startedAt) : null };
  }
}

type Way = Omit<Extract<Awaited<ReturnType<SandboxApi["route"]>>, { ok: true }>, "ok" | "woken">;

/** Why the sandbox wakes, as its timeline shows it. */
export function causeOf(scheduleId: string, name: string | null, runId: string, port: number | null): Cause {
  const request = (name ?? scheduleId).slice(0, CAUSE_REQUEST_MAX);
  return { kind: "schedule", keyId: null, request, port, requestId: runId };
}

/** The failure that an answer is; null for what a program itself says. */
function failureIn(bytes: Bytes, isAgent: boolean): Pick<Failure, "code" | "retryAfterMs"> | null {
  const error = errorIn(bytes);
  if (isAgent) return error ?? { code: "guest_failed" };
  return error && HOST_FAULTS.has(error.code) ? error : null;
}

/** The beginning of a body, and how long it is. What is beyond is read as well, so that who sends it goes on. */
async function readBegin(response: Response, most: number): Promise<{ begin: Bytes; total: number }> {
  const chunks: Uint8Array[] = [];
  let kept = 0;
  let total = 0;
  if (response.body)
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      total += chunk.byteLength;
      const part = chunk.subarray(0, most - kept);
      if (part.byteLength > 0) chunks.push(part);
      kept += part.byteLength;
    }
  const begin = new Uint8Array(kept);
  let at = 0;
  for (const chunk of chunks) {
    begin.set(chunk, at);
    at += chunk.byteLength;
  }
  return { begin, total };
}
