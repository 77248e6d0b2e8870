/** The schedules of one sandbox: wakes it when they are due, runs what they say, and keeps what came of it. */
import { DurableObject } from "cloudflare:workers";
import type {
  CreateSchedule,
  DeletedSchedule,
  Schedule,
  ScheduleRun,
  ScheduleRunList,
  ScheduleRunListQuery,
  UpdateSchedule,
} from "../../sdk/contract/schedule.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";
import type { SchedulesApi } from "./api.ts";
import { Runner } from "./runner.ts";
import { scheduleNotFound, Schedules } from "./schedules.ts";
import { SchedulesStore } from "./store.ts";

/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;

export class SchedulesObject extends DurableObject<Env> implements SchedulesApi {
  readonly #store: SchedulesStore;
  readonly #schedules: Schedules;
  readonly #runner: Runner;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new SchedulesStore(ctx);
    this.#schedules = new Schedules(this.#store);
    this.#runner = new Runner(this.#store, env);
  }

  async create(sandboxId: string, input: CreateSchedule, once: Once): Promise<Result<{ schedule: Schedule }>> {
    await this.#open(sandboxId);
    return this.#schedules.create(input, once);
  }

  async list(sandboxId: string): Promise<Schedule[]> {
    return this.#isOf(sandboxId) ? this.#schedules.list() : [];
  }

  async get(sandboxId: string, schedule: string): Promise<Result<{ schedule: Schedule }>> {
    return this.#isOf(sandboxId) ? this.#schedules.get(schedule) : scheduleNotFound;
  }

  async update(
    sandboxId: string,
    schedule: string,
    input: UpdateSchedule,
    once: Once,
  ): Promise<Result<{ schedule: Schedule }>> {
    return this.#isOf(sandboxId) ? this.#schedules.update(schedule, input, once) : scheduleNotFound;
  }

  async remove(sandboxId: string, schedule: string, once: Once): Promise<Result<{ schedule: DeletedSchedule }>> {
    return this.#isOf(sandboxId) ? this.#schedules.remove(schedule, once) : scheduleNotFound;
  }

  async runNow(sandboxId: string, schedule: string, once: Once): Promise<Result<{ run: ScheduleRun }>> {
    if (!this.#isOf(sandboxId)) return scheduleNotFound;
    const begun = await this.#schedules.runNow(schedule, once);
    this.#go();
    return begun;
  }

  async runs(
    sandboxId: string,
    schedule: string,
    query: ScheduleRunListQuery,
  ): Promise<Result<{ page: ScheduleRunList | null }>> {
    return this.#isOf(sandboxId) ? this.#schedules.runs(schedule, query) : scheduleNotFound;
  }

  async run(
    sandboxId: string,
    schedule: string,
    run: string,
    withOutput: boolean,
  ): Promise<Result<{ run: ScheduleRun }>> {
    return this.#isOf(sandboxId) ? this.#schedules.run(schedule, run, withOutput) : scheduleNotFound;
  }

  async purge(sandboxId: string): Promise<void> {
    if (this.#isOf(sandboxId)) await this.#store.clear();
  }

  override async alarm(): Promise<void> {
    const store = this.#store;
    if (!store.whose) return;
    const now = Date.now();
    await this.ctx.storage.setAlarm(now + SAFETY_MS);
    store.sweep(now);
    await this.#schedules.fire();
    // Not waited for: an alarm that goes on keeps the next from going off.
    this.#go();
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
        console.error(JSON.stringify({ level: "error", what: "schedules", fault: String(fault) }));
      }),
    );
    this.#store.arm();
  }
}
