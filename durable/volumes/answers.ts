/** Changes with an Idempotency-Key: each is made once, and a repeated one gets the first one's answer. */
import type { Once } from "../account/api.ts";
import { refuse, type Result } from "../result.ts";
import { replayed } from "../sandbox/api.ts";
import { DAY_MS } from "./record.ts";
import type { VolumeStore } from "./store.ts";

/** How long answers are remembered, milliseconds. */
const KEPT_MS = DAY_MS;

export class Answers {
  readonly #store: VolumeStore;
  readonly #underWay = new Map<string, Promise<Result<object>>>();

  constructor(store: VolumeStore) {
    this.#store = store;
  }

  async once<A extends Result<object>>({ key, fingerprint }: Once, act: () => Promise<A>): Promise<A> {
    if (key === null) return act();
    const known = this.#known(key);
    if (known) {
      if (known.fingerprint !== fingerprint)
        return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.") as A;
      if (known.answer !== null) return replayed(JSON.parse(known.answer) as A);
      // The same key stands for the same kind of change. One that broke off is made again: what it makes has its ids.
      const first = this.#underWay.get(key) as Promise<A> | undefined;
      if (first) return replayed(await first);
    }
    this.#remember(key, fingerprint, null);
    const work = act();
    this.#underWay.set(key, work);
    try {
      const answer = await work;
      if (answer.ok) this.#remember(key, fingerprint, JSON.stringify(answer));
      else this.#store.sql.exec("DELETE FROM answers WHERE key = ?", key);
      return answer;
    } finally {
      this.#underWay.delete(key);
    }
  }

  #known(key: string): { fingerprint: string; answer: string | null } | undefined {
    if (this.#store.isEmpty) return undefined;
    const [row] = this.#store.sql
      .exec<{ fingerprint: string; answer: string | null }>(
        "SELECT fingerprint, answer FROM answers WHERE key = ? AND at >= ?",
        ...[key, Date.now() - KEPT_MS],
      )
      .toArray();
    return row;
  }

  #remember(key: string, fingerprint: string, answer: string | null): void {
    this.#store.open();
    const now = Date.now();
    this.#store.sql.exec("DELETE FROM answers WHERE at < ?", now - KEPT_MS);
    this.#store.sql.exec(
      "INSERT OR REPLACE INTO answers (key, fingerprint, answer, at) VALUES (?, ?, ?, ?)",
      ...[key, fingerprint, answer, now],
    );
  }
}
