/** What a drill asks of the host that a machine is on. */
import { isErrorCode, type ErrorCode } from "../../sdk/contract/error-codes.ts";
import { ErrorBody } from "../../sdk/contract/errors.ts";
import { drillPaths, KillTaken, type KillMachine, type KillPart } from "../../sdk/contract/host-drill.ts";
import { controlSecret } from "../../sdk/contract/host-secrets.ts";
import type { Where } from "./record.ts";

/** Time for an answer, milliseconds. */
const LIMIT_MS = 15_000;

export type Asked =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string };

export class DrilledHost {
  readonly #env: Env;
  readonly #where: Where;

  constructor(env: Env, where: Where) {
    this.#env = env;
    this.#where = where;
  }

  killMachine(sandboxId: string, order: KillMachine): Promise<Asked> {
    return this.#ask("POST", drillPaths.machine(sandboxId), order);
  }

  killPart(order: KillPart): Promise<Asked> {
    return this.#ask("POST", drillPaths.parts, order);
  }

  /** The drill that its agent was started again after; undefined where it does not answer. */
  async survived(): Promise<string | null | undefined> {
    const asked = await this.#ask("GET", drillPaths.parts, null);
    const taken = KillTaken.safeParse(asked.ok ? asked.value : null);
    return taken.success ? taken.data.survived : undefined;
  }

  async #ask(method: string, path: string, body: object | null): Promise<Asked> {
    const { hostId, hostUrl } = this.#where;
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), LIMIT_MS);
    try {
      const authorization = `Bearer ${await controlSecret(this.#env.ROUSE_HOST_SECRET, hostId)}`;
      const response = await fetch(hostUrl + path, {
        ...{ method, signal: abort.signal },
        headers: { authorization, ...(body ? { "content-type": "application/json" } : {}) },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      const value: unknown = await response.json();
      if (response.ok) return { ok: true, value };
      const parsed = ErrorBody.safeParse(value);
      const { code, message } = parsed.success ? parsed.data.error : { code: "", message: "" };
      return { ok: false, code: isErrorCode(code) ? code : "host_unavailable", message };
    } catch {
      return { ok: false, code: "host_unavailable", message: "The host does not answer." };
    } finally {
      clearTimeout(timer);
    }
  }
}
