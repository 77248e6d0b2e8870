/** Changes with an Idempotency-Key: each is made once, and a repeated one gets the first one's answer. */
import type { SandboxState } from "../../sdk/contract/sandbox.ts";
import { refuse, replayed, type Change, type Result, type SandboxAnswer } from "./api.ts";
import { ANSWERS_KEPT_MS, type Engine } from "./engine.ts";
import { isTransitional } from "./lifecycle.ts";
import type { SandboxRecord } from "./record.ts";
import type { Found } from "./routing.ts";
import type { SandboxStore } from "./store.ts";

/** Stands for the answer of a change that was begun and is not done. */
const GOES_ON = "goes on";

/** What is needed of the object whose changes they are. */
interface Changed {
  find(id: string | null): Found;
  settle(id: string, goal: SandboxState, holdMs: number): Promise<SandboxAnswer>;
}

export class Answers {
  readonly #engine: Engine;
  readonly #object: Changed;
  readonly #underWay = new Map<string, Promise<Result<object>>>();

  constructor(engine: Engine, object: Changed) {
    this.#engine = engine;
    this.#object = object;
  }

  find(id: string | null): Found {
    return this.#object.find(id);
  }

  /** Run a change once per Idempotency-Key; a repeated one gets the first one's answer. */
  /** @param goal the state that the change leads to, where it goes on by itself once it was begun */
  async once<A extends Result<object>>(
    change: Change,
    act: (record: SandboxRecord) => Promise<A>,
    goal?: SandboxState,
  ): Promise<A> {
    const found = this.#object.find(change.id);
    if (!found.ok) return found as A;
    const { store, record } = found;
    const key = change.idempotencyKey;
    if (key === null) return act(record);
    const known = store.answer(key);
    if (known) {
      if (known.fingerprint !== change.fingerprint)
        return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.") as A;
      // It was begun and no host answered then; it goes on by itself, so that it must not be begun again.
      if (known.answer === GOES_ON && goal)
        return replayed(await this.#object.settle(record.id, goal, change.holdMs)) as Result<object> as A;
      if (known.answer !== null && known.answer !== GOES_ON) return replayed(JSON.parse(known.answer) as A);
      // The same key stands for the same kind of change.
      const first = this.#underWay.get(key) as Promise<A> | undefined;
      if (first) return replayed(await first);
    }
    this.remember(store, key, change.fingerprint, record.id, null);
    const work = act(record);
    this.#underWay.set(key, work);
    try {
      const answer = await work;
      if (answer.ok) this.remember(store, key, change.fingerprint, record.id, answer);
      else if (goal && store.record()?.id === record.id && isTransitional(store.record()?.life.state ?? "deleted"))
        this.remember(store, key, change.fingerprint, record.id, GOES_ON);
      else store.removeAnswer(key);
      return answer;
    } finally {
      this.#underWay.delete(key);
    }
  }

  remember(
    store: SandboxStore,
    key: string,
    fingerprint: string,
    sandboxId: string,
    answer: Result<object> | typeof GOES_ON | null,
  ): void {
    const now = Date.now();
    const text = typeof answer === "string" ? answer : answer && JSON.stringify(answer);
    store.saveAnswer(key, { fingerprint, sandboxId, answer: text, createdAt: now });
    this.#engine.timers.atLatest("answers", now + ANSWERS_KEPT_MS);
    this.#engine.timers.arm();
  }
}
