/**
 * API keys, sessions and links that are over: what they let in ends, and no more of it is taken while an edge may still
 * believe in them.
 */
import { RouseFailure } from "../../sdk/contract/errors.ts";

/** Longer than any edge remembers a verdict on a key, milliseconds. */
const REMEMBERED_MS = 120_000;
/** Longest time of a timer. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export class Revocations {
  readonly #over = new Map<string, number>();
  readonly #open = new Map<string, Set<() => void>>();

  /** End the connections of keys, now and for a while. */
  revoke(keyIds: readonly string[]): void {
    const now = performance.now();
    for (const [keyId, until] of this.#over) if (until < now) this.#over.delete(keyId);
    for (const keyId of keyIds) {
      this.#over.set(keyId, now + REMEMBERED_MS);
      for (const cut of this.#open.get(keyId) ?? []) cut();
      this.#open.delete(keyId);
    }
  }

  /**
   * A request comes in by a key; answers what is to be called at its end.
   * @param endsInMs when the key is over by itself, which ends the request; null: never
   * @throws RouseFailure `unauthorized`
   */
  enter(keyId: string | undefined, endsInMs: number | null, cut: () => void): () => void {
    if (keyId === undefined) return () => undefined;
    if ((this.#over.get(keyId) ?? 0) > performance.now())
      throw new RouseFailure("unauthorized", "The credential was revoked.");
    let open = this.#open.get(keyId);
    if (!open) this.#open.set(keyId, (open = new Set()));
    open.add(cut);
    // Longer than a timer can wait is longer than any connection lasts.
    const timer = endsInMs === null || endsInMs > TIMER_MAX_MS ? undefined : setTimeout(cut, Math.max(0, endsInMs));
    return () => {
      clearTimeout(timer);
      open.delete(cut);
      if (open.size === 0 && this.#open.get(keyId) === open) this.#open.delete(keyId);
    };
  }
}
