/** Events as people look at them: listed, read, delivered again. */
import type { HookEvent, HookEventList, HookEventListQuery, Receipt } from "../../sdk/contract/hook.ts";
import { page } from "../page.ts";
import { refuse, type Result } from "../result.ts";
import { iso, isoOrNull } from "../time.ts";
import { again, REQUESTS, stepsOf, toEvent, type EventRecord } from "./record.ts";
import type { InboxStore, ProgramAnswer } from "./store.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const notFound = refuse("hook_event_not_found", "There is no such event.");

export class Events {
  readonly #store: InboxStore;

  constructor(store: InboxStore) {
    this.#store = store;
  }

  list(query: HookEventListQuery): HookEventList | null {
    return page(
      query,
      /^(\d{1,15})\.(evt-[0-9a-z]{20})$/,
      (at, id) => this.#store.eventsBefore(at, id, query),
      () => true,
      (event) => this.#shown(event),
    );
  }

  get(id: string, withBody: boolean): Result<{ event: HookEvent; body: Bytes | null; blob: string | null }> {
    const event = this.#store.event(id);
    if (!event) return notFound;
    const body = withBody ? this.#store.bodyOf(id) : null;
    return { ok: true, event: this.#shown(event), body, blob: withBody ? event.blob : null };
  }

  replay(id: string): Result<{ event: HookEvent }> {
    const event = this.#store.event(id);
    if (!event) return notFound;
    if (event.state === "ignored") return refuse("conflict", "No filter let it pass, and its body was not kept.");
    if (event.hookId === REQUESTS && event.state === "delivered")
      return refuse("conflict", "The request was answered, and its body was not kept.");
    const now = Date.now();
    const replayed = again(event, now);
    // One that is being tried has what it needs; a second try beside it would only come twice.
    this.#store.saveEvent(event.begunAt === null ? replayed : { ...replayed, begunAt: event.begunAt });
    return { ok: true, event: this.#shown(replayed) };
  }

  replayDead(hookId: string): number {
    const dead = this.#store.deadOf(hookId);
    const now = Date.now();
    for (const event of dead) this.#store.saveEvent(again(event, now));
    return dead.length;
  }

  receipt(id: string): Result<{ receipt: Omit<Receipt, "response">; answer: ProgramAnswer | null }> {
    const event = this.#store.event(id);
    if (event?.hookId !== REQUESTS) return notFound;
    const { state, attempts } = event;
    const receipt = {
      ...{ id, kind: "receipt" as const, sandboxId: this.#store.whose?.sandboxId ?? "", state, attempts },
      ...{ receivedAt: iso(event.createdAt), endedAt: isoOrNull(event.endedAt), timeline: stepsOf(event) },
    };
    return { ok: true, receipt, answer: this.#store.answer(id, Date.now()) };
  }

  #shown(event: EventRecord): HookEvent {
    return toEvent(event, this.#store.whose?.sandboxId ?? "");
  }
}
