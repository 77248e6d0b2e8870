/** What the edge may ask of the object that holds a sandbox's schedules. */
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

export interface SchedulesApi {
  /** @returns `name_taken`, `quota_exceeded`, `invalid_request` for an `at` that is over or too far ahead */
  create(sandboxId: string, input: CreateSchedule, once: Once): Promise<Result<{ readonly schedule: Schedule }>>;
  list(sandboxId: string): Promise<Schedule[]>;
  /** @param schedule its id or name */
  get(sandboxId: string, schedule: string): Promise<Result<{ readonly schedule: Schedule }>>;
  update(
    sandboxId: string,
    schedule: string,
    input: UpdateSchedule,
    once: Once,
  ): Promise<Result<{ readonly schedule: Schedule }>>;
  /** With its runs. A command that has begun goes on in the machine. */
  remove(sandboxId: string, schedule: string, once: Once): Promise<Result<{ readonly schedule: DeletedSchedule }>>;
  /** Run it now, also while it is off; `skipped` while another run of it goes on. */
  runNow(sandboxId: string, schedule: string, once: Once): Promise<Result<{ readonly run: ScheduleRun }>>;
  /** The newest first. null when the cursor is not one of ours. */
  runs(
    sandboxId: string,
    schedule: string,
    query: ScheduleRunListQuery,
  ): Promise<Result<{ readonly page: ScheduleRunList | null }>>;
  run(
    sandboxId: string,
    schedule: string,
    run: string,
    withOutput: boolean,
  ): Promise<Result<{ readonly run: ScheduleRun }>>;

  /**
   * The sandbox is deleted for good: its schedules go. Repeatable; thrown failures are tried again by the caller. Those
   * of another sandbox, which has the name by now, are left alone.
   */
  purge(sandboxId: string): Promise<void>;
}

export function schedulesObject(
  namespace: DurableObjectNamespace<never>,
  account: string,
  label: string,
): SchedulesApi {
  return namespace.getByName(`${account}/${label}`) as unknown as SchedulesApi;
}
