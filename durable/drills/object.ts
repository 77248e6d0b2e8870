/** The drills of one sandbox: kills a part of what it runs on, and says what came back. */
import { DurableObject } from "cloudflare:workers";
import type { CreateDrill, Drill } from "../../sdk/contract/drill.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import type { Once } from "../account/api.ts";
import { refuse, type Result } from "../result.ts";
import { replayed } from "../sandbox/api.ts";
import type { DrillsApi } from "./api.ts";
import { newDrill, toDrill, type DrillRecord } from "./record.ts";
import { Runner } from "./runner.ts";
import { DrillsStore } from "./store.ts";

/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;

export class DrillsObject extends DurableObject<Env> implements DrillsApi {
  readonly #store: DrillsStore;
  readonly #runner: Runner;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new DrillsStore(ctx);
    this.#runner = new Runner(this.#store, env);
  }

  async begin(sandboxId: string, input: CreateDrill, { key, fingerprint }: Once): Promise<Result<{ drill: Drill }>> {
    await this.#open(sandboxId);
    const store = this.#store;
    const known = key === null ? null : store.keyed(key);
    if (known && known.fingerprint !== fingerprint)
      return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");
    if (known) return replayed(this.#shown(known.record));
    const running = store.running();
    if (running)
      return refuse("conflict", `The drill ${running.id} goes on; wait for its end.`, { drillId: running.id });
    const record = newDrill(`drl-${randomText(BASE36, 20)}`, input.kill, Date.now());
    store.add(record, key, fingerprint);
    this.#go();
    return this.#shown(record);
  }

  async list(sandboxId: string): Promise<Drill[]> {
    return this.#isOf(sandboxId) ? this.#store.drills().map((one) => toDrill(one, sandboxId)) : [];
  }

  async get(sandboxId: string, drill: string): Promise<Result<{ drill: Drill }>> {
    const record = this.#isOf(sandboxId) ? this.#store.drill(drill) : null;
    return record ? this.#shown(record) : refuse("not_found", "There is no such drill.");
  }

  async purge(sandboxId: string): Promise<void> {
    if (this.#isOf(sandboxId)) await this.#store.clear();
  }

  override async alarm(): Promise<void> {
    if (!this.#store.running()) return;
    await this.ctx.storage.setAlarm(Date.now() + SAFETY_MS);
    // Not waited for: an alarm that goes on keeps the next from going off.
    this.#go();
  }

  #shown(record: DrillRecord): { ok: true; drill: Drill } {
    return { ok: true, drill: toDrill(record, this.#store.whose?.sandboxId ?? "") };
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

  /** Take the steps that are due, if nobody does. */
  #go(): void {
    this.ctx.waitUntil(
      this.#runner.run().catch((fault: unknown) => {
        console.error(JSON.stringify({ level: "error", what: "drills", fault: String(fault) }));
      }),
    );
    // Who takes them now may be gone before they are done.
    if (this.#runner.isBusy) void this.ctx.storage.setAlarm(Date.now() + SAFETY_MS);
    else this.#store.arm();
  }
}
