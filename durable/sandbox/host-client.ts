/** Control calls to a host agent: bearer, time limits, answers parsed by the contract. */
import { isErrorCode, type Failure } from "../../sdk/contract/error-codes.ts";
import { ErrorBody } from "../../sdk/contract/errors.ts";
import { controlSecret } from "../../sdk/contract/host-secrets.ts";
import {
  Captured,
  DiffFound,
  hostHeaders,
  hostPaths,
  Machine,
  type CaptureMachine,
  type DiffStates,
  type MachineVerb,
  type VolumeVerb,
} from "../../sdk/contract/host.ts";

/** Longest time of each call, milliseconds. The first create or boot of a shape builds its golden image. */
const LIMIT_MS = {
  create: 180_000,
  boot: 180_000,
  wake: 60_000,
  capture: 120_000,
  // Its turn may take half of that.
  diff: 190_000,
  pause: 60_000,
  stop: 60_000,
  destroy: 60_000,
  get: 10_000,
  configure: 15_000,
  plug: 120_000,
  unplug: 90_000,
  grow: 150_000,
  copy: 120_000,
  revoke: 3000,
} as const;

/** `reached` is false when it is not known whether the host took the call. */
export type HostAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reached: boolean; readonly failure: Failure };

/** A host, and where it is reached. */
export interface HostAddress {
  readonly id: string;
  readonly url: string;
  /** As last heard (`HostSession`). */
  readonly session?: string | undefined;
}

export class HostClient {
  readonly #root: string;
  readonly #secrets = new Map<string, Promise<string>>();

  /** @param root of the secrets between edge and hosts */
  constructor(root: string) {
    this.#root = root;
  }

  create(host: HostAddress, id: string, body: object, signal: AbortSignal): Promise<HostAnswer<Machine>> {
    return this.#machine(host, "PUT", hostPaths.machine(id), body, LIMIT_MS.create, signal);
  }

  act(
    host: HostAddress,
    id: string,
    verb: Exclude<MachineVerb, "settle"> | VolumeVerb,
    body: object,
    signal?: AbortSignal,
  ): Promise<HostAnswer<Machine>> {
    return this.#machine(host, "POST", hostPaths.act(id, verb), body, LIMIT_MS[verb], signal);
  }

  async capture(host: HostAddress, id: string, body: CaptureMachine): Promise<HostAnswer<Captured>> {
    const { signal } = new AbortController();
    const answer = await this.#call(host, "POST", hostPaths.act(id, "capture"), body, LIMIT_MS.capture, signal);
    if (!answer.ok) return answer;
    const captured = Captured.safeParse(answer.value);
    if (captured.success) return { ok: true, value: captured.data };
    return unavailable("The host's answer is not what this edge understands.");
  }

  async diff(host: HostAddress, states: DiffStates): Promise<HostAnswer<DiffFound>> {
    const answer = await this.#call(host, "POST", hostPaths.diffs, states, LIMIT_MS.diff);
    if (!answer.ok) return answer;
    const found = DiffFound.safeParse(answer.value);
    if (found.success) return { ok: true, value: found.data };
    return unavailable("The host's answer is not what this edge understands.");
  }

  async dropCapture(host: HostAddress, capture: string): Promise<void> {
    const { signal } = new AbortController();
    await this.#call(host, "DELETE", hostPaths.capture(capture), undefined, LIMIT_MS.configure, signal);
  }

  get(host: HostAddress, id: string, signal?: AbortSignal): Promise<HostAnswer<Machine>> {
    return this.#machine(host, "GET", hostPaths.machine(id), undefined, LIMIT_MS.get, signal);
  }

  /** @param generation the newest there was: the host makes no machine of it, or of an older one, again */
  async destroy(host: HostAddress, id: string, generation: number, signal: AbortSignal): Promise<HostAnswer<null>> {
    const path = `${hostPaths.machine(id)}?generation=${generation}`;
    const answer = await this.#call(host, "DELETE", path, undefined, LIMIT_MS.destroy, signal);
    return answer.ok ? { ok: true, value: null } : answer;
  }

  /** Tell a host of keys that are over; its connections of theirs end before it answers. */
  async revoke(host: HostAddress, keyIds: readonly string[]): Promise<boolean> {
    const abort = new AbortController();
    return (await this.#call(host, "POST", hostPaths.revoke, { keyIds }, LIMIT_MS.revoke, abort.signal)).ok;
  }

  async #machine(
    host: HostAddress,
    method: string,
    path: string,
    body: object | undefined,
    limitMs: number,
    signal?: AbortSignal,
  ): Promise<HostAnswer<Machine>> {
    const answer = await this.#call(host, method, path, body, limitMs, signal);
    if (!answer.ok) return answer;
    const machine = Machine.safeParse(answer.value);
    if (machine.success) return { ok: true, value: machine.data };
    return unavailable("The host's answer is not what this edge understands.");
  }

  #secretOf(hostId: string): Promise<string> {
    let secret = this.#secrets.get(hostId);
    if (!secret) this.#secrets.set(hostId, (secret = controlSecret(this.#root, hostId)));
    return secret;
  }

  async #call(
    host: HostAddress,
    method: string,
    path: string,
    body: object | undefined,
    limitMs: number,
    signal?: AbortSignal,
  ): Promise<HostAnswer<unknown>> {
    // Not AbortSignal.timeout: its timer outlives the call, and keeps the object from hibernating.
    const abort = new AbortController();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      abort.abort();
    }, limitMs);
    const forward = () => abort.abort();
    signal?.addEventListener("abort", forward);
    try {
      if (signal?.aborted) abort.abort();
      const response = await fetch(host.url + path, {
        method,
        headers: {
          authorization: `Bearer ${await this.#secretOf(host.id)}`,
          [hostHeaders.requestId]: crypto.randomUUID(),
          ...(body ? { "content-type": "application/json" } : {}),
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
        signal: abort.signal,
      });
      const value: unknown = await response.json();
      if (response.ok) return { ok: true, value };
      const parsed = ErrorBody.safeParse(value);
      if (!parsed.success) return unavailable(`The host answered ${response.status}.`);
      const { code, message, details, retryAfterMs } = parsed.data.error;
      return {
        ok: false,
        reached: true,
        failure: { code: isErrorCode(code) ? code : "internal_error", message, details, retryAfterMs },
      };
    } catch {
      return unavailable(late ? `The host did not answer within ${limitMs / 1000} s.` : "The host does not answer.");
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", forward);
    }
  }
}

function unavailable(message: string): HostAnswer<never> {
  return { ok: false, reached: false, failure: { code: "host_unavailable", message, retryAfterMs: 1000 } };
}
