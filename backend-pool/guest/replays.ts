/** Idempotency keys: a repeated call gets what the first one began, so that nothing runs twice. */
import { hash } from "node:crypto";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { Call } from "./http.ts";

export class Replays<T> {
  readonly #limit: number;
  readonly #known = new Map<string, { fingerprint: string; value: T }>();

  /** `limit`: keys that are remembered; the oldest goes first. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * What the call's key began before, or what `begin` begins now.
   * @throws RouseFailure `idempotency_key_reused` when the key came with another body
   */
  once(call: Call, body: object, begin: () => T): { value: T; replayed: boolean; forget: () => void } {
    const key = call.req.headers["idempotency-key"];
    if (typeof key !== "string" || key === "") return { value: begin(), replayed: false, forget: () => undefined };
    const fingerprint = hash("sha256", `${call.path}\n${JSON.stringify(body)}`, "base64");
    const known = this.#known.get(key);
    if (known && known.fingerprint !== fingerprint) {
      throw new RouseFailure("idempotency_key_reused", "This Idempotency-Key belongs to another request.");
    }
    const forget = () => void this.#known.delete(key);
    if (known) return { value: known.value, replayed: true, forget };
    const value = begin();
    this.#known.set(key, { fingerprint, value });
    const oldest = this.#known.keys().next().value;
    if (this.#known.size > this.#limit && oldest !== undefined) this.#known.delete(oldest);
    return { value, replayed: false, forget };
  }
}
