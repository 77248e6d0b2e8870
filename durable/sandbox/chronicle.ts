/** What a sandbox tells of itself: what keeps it awake, who had it wake, and its events. */
import type { Resume } from "../../sdk/contract/boot.ts";
import type { RouseEvent } from "../../sdk/contract/event.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import type { Why } from "../../sdk/contract/timeline.ts";
import type { EventNote, Result } from "./api.ts";
import { awakeBecause } from "./awake.ts";
import { resume } from "./boot.ts";
import type { Engine } from "./engine.ts";
import { stateOf } from "./events.ts";
import type { Draft } from "../events/draft.ts";
import { wakesAt } from "./record.ts";
import type { Found } from "./routing.ts";
import { isoOrNull } from "../time.ts";

/** Entries of the timeline in an answer. */
const TIMELINE_SHOWN = 50;

export class Chronicle {
  readonly #engine: Engine;
  readonly #find: (id: string | null) => Found;

  constructor(engine: Engine, find: (id: string | null) => Found) {
    this.#engine = engine;
    this.#find = find;
  }

  async why(id: string | null): Promise<Result<{ why: Omit<Why, "chargedMicros"> & { id: string } }>> {
    const found = this.#find(id);
    if (!found.ok) return found;
    const machine = await this.#engine.hosting.machineOf(found.record);
    const again = this.#find(found.record.id);
    if (!again.ok) return again;
    const { record } = again;
    const { state, generation } = record.life;
    const { timeline } = this.#engine;
    const [newest, ...older] = timeline.newest(TIMELINE_SHOWN);
    const why = {
      ...{ id: record.id, state, generation },
      since: newest?.at ?? null,
      awake: awakeBecause(record, machine, Date.now()),
      hostAnswered: machine !== null,
      wakesAt: isoOrNull(wakesAt(record)),
      lastRun: timeline.lastRun(),
      runsToday: timeline.runsToday(Date.now()),
      timeline: newest ? [newest, ...older] : [],
    };
    return { ok: true, why };
  }

  /** Whether there is something to go on with. */
  async resume(env: Env, id: string | null): Promise<Result<{ resume: Resume }>> {
    const found = this.#find(id);
    if (!found.ok) return found;
    const { record } = found;
    const bootedAt = this.#engine.timeline.runOf(record.life.generation)?.at ?? null;
    return { ok: true, resume: await resume(env, record, { report: this.#engine.boots.report(record.id), bootedAt }) };
  }

  async events(
    id: string | null,
    after: number,
    limit: number,
    waitMs: number,
  ): Promise<Result<{ events: RouseEvent[] }>> {
    const { events, store } = this.#engine;
    // What was deleted, or had the name before, is over, and told of all the same.
    const subject = id ?? this.#engine.record()?.id ?? "";
    const found = this.#find(id);
    if (!found.ok && (!store || labelOfId(subject) === null || events.last(subject) === 0)) return found;
    await this.#engine.until(() => events.last(subject) > after, waitMs);
    return { ok: true, events: events.after(subject, after, limit, Date.now()) };
  }

  note(id: string, { type, data, key }: EventNote): void {
    const record = this.#engine.record();
    if (record?.id !== id) return;
    const draft = { type, data: { ...stateOf(record), ...data }, key } as Draft;
    this.#engine.save(record, [], [], [draft]);
  }
}
