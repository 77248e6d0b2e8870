/** Making the sandbox of a name, once per Idempotency-Key, when no host holds an earlier one. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import type { CreateSandbox, SandboxState } from "../../sdk/contract/sandbox.ts";
import { refuse, replayed, type Change, type SandboxAnswer } from "./api.ts";
import type { Origin } from "../snapshots/record.ts";
import type { Answers } from "./answers.ts";
import type { Engine } from "./engine.ts";
import type { Errand } from "./errands.ts";
import { createdEvent } from "./events.ts";
import { begunFrom, newRecord, toDeleted, type CreateTerms, type SandboxRecord } from "./record.ts";
import type { SandboxStore } from "./store.ts";

/** What is needed of the object that the sandbox is made in. */
interface Made {
  settle(id: string, goal: SandboxState, holdMs: number): Promise<SandboxAnswer>;
  revive(record: SandboxRecord, terms: Pick<Change, "holdMs" | "cause">): Promise<SandboxAnswer>;
}

type CreateChange = Omit<Change, "id">;

export class Creation {
  readonly #engine: Engine;
  readonly #answers: Answers;
  readonly #object: Made;

  constructor(engine: Engine, answers: Answers, object: Made) {
    this.#engine = engine;
    this.#answers = answers;
    this.#object = object;
  }

  async create(input: CreateSandbox, terms: CreateTerms, change: CreateChange): Promise<SandboxAnswer> {
    const store = this.#engine.openStore();
    const key = change.idempotencyKey;
    const found = await this.#engine.copies.origin(this.#engine.identity().account, input);
    for (;;) {
      const record = store.record();
      const known = key === null ? null : store.answer(key);
      if (known && known.fingerprint !== change.fingerprint)
        return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");
      if (known && known.sandboxId === record?.id && record.life.state !== "deleted") {
        // Not done when last heard of: a creation that failed is tried again.
        const again =
          known.answer === null
            ? this.#object.revive(record, change)
            : this.#object.settle(record.id, "running", change.holdMs);
        return replayed(await again);
      }
      if (known?.answer) return replayed(JSON.parse(known.answer) as SandboxAnswer);
      if (record && record.life.state !== "deleted") {
        if (!input.getOrCreate) {
          return refuse("name_taken", `The name is held by ${record.id}.`, { sandboxId: record.id });
        }
        const answer = await this.#object.revive(record, change);
        // Deleted while it was being woken: the name is free again.
        if (!answer.ok && answer.failure.code === "sandbox_gone") continue;
        return answer.ok ? { ok: true, sandbox: { ...answer.sandbox, reused: true } } : answer;
      }
      if (record?.life.purgePending) {
        // The name is wanted: what could have been taken back goes now.
        this.#engine.commit(record.id, { type: "delete" });
        // Two machines must never run under one name, so the old one's end comes first.
        await this.#engine.drive();
        const left = store.record();
        if (left?.id === record.id && left.life.purgePending)
          return { ok: false, failure: left.life.failure ?? hostUnavailable };
        continue;
      }
      if (!found.ok) return found;
      const answer = await this.#make(store, input, terms, change, found.origin);
      // Another took the name while the volumes were asked for.
      if (answer !== null) return answer;
    }
  }

  /** null: the name is not free any more. */
  async #make(
    store: SandboxStore,
    input: CreateSandbox,
    terms: CreateTerms,
    change: CreateChange,
    origin: Origin | null,
  ): Promise<SandboxAnswer | null> {
    const { account, label } = this.#engine.identity();
    const before = store.record();
    const id = newSandboxId(label);
    const claimed = await this.#engine.volumes.claim({ id, account }, input.volumes ?? [], origin);
    if (!claimed.ok) return claimed;
    const last = store.record();
    const isFree = last === null || (last.life.state === "deleted" && !last.life.purgePending);
    if (last?.id !== before?.id || !isFree) {
      await this.#engine.volumes.giveBack({ id, account });
      return null;
    }
    const version = (last?.accessVersion ?? 0) + 1;
    const plain = newRecord(input, { id, account, label }, terms, version, Date.now());
    const { diskMiB, network } = input;
    const begun = begunFrom(plain, { origin, fork: terms.fork, diskMiB, network }, Date.now());
    const record = { ...begun, volumes: claimed.volumes };
    const key = change.idempotencyKey;
    const source = terms.fork?.of;
    store.transaction(() => {
      if (last) store.savePast(toDeleted(last));
      store.removeTraces();
      if (key !== null) this.#answers.remember(store, key, change.fingerprint, record.id, null);
      this.#engine.events.forgetBefore(record.createdAt);
      const events = [createdEvent(record, { snapshotId: origin?.id ?? null, forkOf: source ?? null })];
      this.#engine.save(record, [], [], events);
      this.#engine.timeline.begin(record.createdAt, record.life.generation, change.cause);
      if (source) this.#engine.errand(forkNote(source, record));
    });
    this.#engine.volumes.note(record);
    if (source) this.#engine.background(this.#engine.runErrands("note"));
    const answer = await this.#object.settle(record.id, "running", change.holdMs);
    if (key !== null && answer.ok) this.#answers.remember(store, key, change.fingerprint, record.id, answer);
    // What left nothing behind may be tried again under the same key.
    if (key !== null && store.record()?.life.state === "deleted") store.removeAnswer(key);
    return answer;
  }
}

function forkNote(source: string, { id, name }: SandboxRecord): Errand {
  const note = { type: "fork.created", data: { forkId: id, forkName: name }, key: `fork ${id}` } as const;
  return { kind: "note", sandboxId: source, note };
}

const hostUnavailable: Failure = { code: "host_unavailable", message: "The host does not answer.", retryAfterMs: 1000 };
