/** The inbox of one sandbox: takes webhooks while it sleeps, stores them, and delivers them to a program in it. */
import { DurableObject } from "cloudflare:workers";
import type {
  CreateHook,
  DeletedHook,
  Hook,
  HookEvent,
  HookEventList,
  HookEventListQuery,
  NewHook,
  Receipt,
  RotateHook,
  UpdateHook,
} from "../../sdk/contract/hook.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";
import { backoffMs } from "../backoff.ts";
import { sandboxObject } from "../sandbox/api.ts";
import { DELETE_MAX } from "../vault/blob-store.ts";
import type { Accepted, Arrival, AsyncRequest, Door, InboxApi } from "./api.ts";
import { Bodies } from "./bodies.ts";
import { Delivery } from "./delivery.ts";
import { Events } from "./events.ts";
import { hookNotFound, Hooks } from "./hooks.ts";
import { Intake } from "./intake.ts";
import { DISABLED_MS, ended } from "./record.ts";
import { InboxStore, type ProgramAnswer } from "./store.ts";

/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;
/** Blobs that could not be deleted are tried again after this, milliseconds. */
const DROP_RETRY_MS = 300_000;
/** What the sandbox did not take note of is told again after this, milliseconds. */
const NOTE_RETRY_MS = 1000;

export class InboxObject extends DurableObject<Env> implements InboxApi {
  readonly #store: InboxStore;
  readonly #bodies: Bodies;
  readonly #hooks: Hooks;
  readonly #intake: Intake;
  readonly #events: Events;
  readonly #delivery: Delivery;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new InboxStore(ctx);
    this.#bodies = new Bodies(env);
    this.#hooks = new Hooks(this.#store, env);
    this.#intake = new Intake(this.#store);
    this.#events = new Events(this.#store);
    this.#delivery = new Delivery(this.#store, env, this.#hooks, this.#bodies);
  }

  async create(sandboxId: string, input: CreateHook, origin: string, once: Once): Promise<Result<{ hook: NewHook }>> {
    await this.#open(sandboxId);
    return this.#hooks.create(input, origin, once);
  }

  async list(sandboxId: string): Promise<Hook[]> {
    return this.#isOf(sandboxId) ? this.#store.hooks().map((record) => this.#hooks.shown(record)) : [];
  }

  async get(sandboxId: string, hook: string): Promise<Result<{ hook: Hook }>> {
    const record = this.#isOf(sandboxId) ? this.#store.hookCalled(hook) : null;
    return record ? { ok: true, hook: this.#hooks.shown(record) } : hookNotFound;
  }

  async update(sandboxId: string, hook: string, input: UpdateHook, once: Once): Promise<Result<{ hook: Hook }>> {
    if (!this.#isOf(sandboxId)) return hookNotFound;
    const updated = await this.#hooks.update(hook, input, once);
    // It may be turned on again.
    this.#deliver();
    return updated;
  }

  async rotate(
    sandboxId: string,
    hook: string,
    input: RotateHook,
    origin: string,
    once: Once,
  ): Promise<Result<{ hook: NewHook }>> {
    return this.#isOf(sandboxId) ? this.#hooks.rotate(hook, input, origin, once) : hookNotFound;
  }

  async remove(sandboxId: string, hook: string, once: Once): Promise<Result<{ hook: DeletedHook }>> {
    return this.#isOf(sandboxId) ? this.#hooks.remove(hook, once) : hookNotFound;
  }

  async door(tokenHash: string): Promise<Door | null> {
    return this.#hooks.door(tokenHash);
  }

  async reserve(
    hookId: string,
    providerId: string | null,
    bytes: number,
  ): Promise<Result<{ known: Accepted; key: null } | { known: null; key: string }>> {
    return this.#intake.reserve(hookId, providerId, bytes);
  }

  async receive(arrival: Arrival): Promise<Result<{ event: Accepted }>> {
    const received = await this.#intake.receive(arrival);
    this.#deliver();
    return received;
  }

  async answerOf(eventId: string, waitMs: number): Promise<ProgramAnswer | null> {
    const store = this.#store;
    const answer = () => store.answer(eventId, Date.now());
    await store.until(eventId, () => answer() !== null || store.event(eventId)?.state !== "waiting", waitMs);
    return answer();
  }

  async events(sandboxId: string, query: HookEventListQuery): Promise<HookEventList | null> {
    return this.#isOf(sandboxId) ? this.#events.list(query) : { data: [], nextCursor: null };
  }

  async event(
    sandboxId: string,
    id: string,
    withBody: boolean,
  ): Promise<Result<{ event: HookEvent; body: Uint8Array<ArrayBuffer> | null; blob: string | null }>> {
    return this.#events.get(this.#isOf(sandboxId) ? id : "", withBody);
  }

  async replay(sandboxId: string, id: string): Promise<Result<{ event: HookEvent }>> {
    const replayed = this.#events.replay(this.#isOf(sandboxId) ? id : "");
    this.#deliver();
    return replayed;
  }

  async replayDead(sandboxId: string, hook: string): Promise<Result<{ replayed: number }>> {
    const record = this.#isOf(sandboxId) ? this.#store.hookCalled(hook) : null;
    if (!record) return hookNotFound;
    const replayed = this.#events.replayDead(record.id);
    this.#deliver();
    return { ok: true, replayed };
  }

  async takeRequest(sandboxId: string, request: AsyncRequest): Promise<Result<{ event: Accepted }>> {
    await this.#open(sandboxId);
    const taken = await this.#intake.takeRequest(request);
    this.#deliver();
    return taken;
  }

  async receipt(
    sandboxId: string,
    id: string,
  ): Promise<Result<{ receipt: Omit<Receipt, "response">; answer: ProgramAnswer | null }>> {
    return this.#events.receipt(this.#isOf(sandboxId) ? id : "");
  }

  async purge(sandboxId: string): Promise<void> {
    if (!this.#isOf(sandboxId)) return;
    const store = this.#store;
    // From here on nothing comes in.
    for (const { id } of store.hooks()) store.removeHook(id);
    await this.#bodies.delete(store.blobs());
    if (this.#isOf(sandboxId)) await store.clear();
  }

  override async alarm(): Promise<void> {
    const store = this.#store;
    if (!store.whose) return;
    const now = Date.now();
    await this.ctx.storage.setAlarm(now + SAFETY_MS);
    store.sweep(now);
    for (const { id, disabledAt } of store.hooks()) {
      if (disabledAt === null || disabledAt + DISABLED_MS > now) continue;
      for (const event of store.waitingOf(id)) store.saveEvent(ended(event, "dead", now, "hook_disabled"));
    }
    await this.#drop(now);
    await this.#tell();
    // Not waited for: an alarm that goes on keeps the next from going off.
    this.#deliver();
    store.arm();
  }

  #isOf(sandboxId: string): boolean {
    return this.#store.whose?.sandboxId === sandboxId;
  }

  /** For that sandbox. What there is of an earlier one of the name goes. */
  async #open(sandboxId: string): Promise<void> {
    const { whose } = this.#store;
    if (whose && whose.sandboxId !== sandboxId) await this.purge(whose.sandboxId);
    const [account = "", label = ""] = (this.ctx.id.name ?? "").split("/");
    this.#store.open({ account, label, sandboxId });
  }

  /** Tell the sandbox what was given up. */
  async #tell(): Promise<void> {
    const { whose } = this.#store;
    const now = Date.now();
    for (const { key, note, attempts } of whose ? this.#store.notesDue(now) : []) {
      const told = sandboxObject(this.env.SANDBOX, whose?.account ?? "", whose?.label ?? "");
      const done = await told.note(whose?.sandboxId ?? "", note).then(
        () => true,
        () => false,
      );
      this.#store.noted(key, done ? null : now + backoffMs(NOTE_RETRY_MS, attempts));
    }
    this.#store.arm();
  }

  /** Begin to deliver what is due, if nobody does. */
  #deliver(): void {
    this.ctx.waitUntil(
      this.#delivery.run().catch((fault: unknown) => {
        console.error(JSON.stringify({ level: "error", what: "inbox", fault: String(fault) }));
      }),
    );
    this.#store.arm();
  }

  async #drop(now: number): Promise<void> {
    const keys = this.#store.dropsDue(now, DELETE_MAX);
    if (keys.length === 0) return;
    try {
      await this.#bodies.delete(keys);
      this.#store.dropped(keys);
    } catch (fault) {
      console.error(JSON.stringify({ level: "error", what: "blobs", fault: String(fault) }));
      for (const key of keys) this.#store.dropAt(key, Date.now() + DROP_RETRY_MS);
    }
  }
}
