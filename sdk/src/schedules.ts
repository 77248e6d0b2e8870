/** Schedules of a sandbox: what runs in it at its times, and what came of each run. */
import {
  DeletedSchedule as DeletedScheduleSchema,
  Schedule as ScheduleSchema,
  ScheduleList,
  ScheduleRun as ScheduleRunSchema,
  ScheduleRunList,
} from "../contract/schedule.ts";
import type {
  CreateSchedule,
  DeletedSchedule,
  Schedule,
  ScheduleRun,
  ScheduleRunListQuery,
  UpdateSchedule,
} from "../contract/schedule.ts";
import { invalidArgument } from "./errors.ts";
import { Page } from "./page.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { timeText } from "./time-text.ts";
import type { RequestOptions } from "./transport.ts";

/** Which runs to list; all conditions must hold. */
export interface ScheduleRunFilter extends Omit<ScheduleRunListQuery, "cursor"> {
  /** Runs per page, 1 to 100. */
  limit?: number | undefined;
}

/** A schedule to make. */
export interface ScheduleInput extends Omit<CreateSchedule, "at"> {
  /** When it runs, once, in the place of `cron`; at most 366 days ahead. Text needs an offset. */
  at?: string | Date | undefined;
}

/** What to change; the rest stays. */
export interface ScheduleChanges extends Omit<UpdateSchedule, "at"> {
  /** When it runs, once, in the place of `cron`. */
  at?: string | Date | undefined;
}

/**
 * What runs in the sandbox at its times: a command, a request to a program in it, or nothing but a wake. It sleeps until
 * then. A schedule is named by its id or name.
 *
 * @example
 * await sandbox.schedules.create({
 *   name: "report",
 *   cron: "0 9 * * mon-fri",
 *   zone: "Europe/Berlin",
 *   action: { kind: "command", command: "python3 report.py", timeoutSeconds: 600 },
 * });
 */
export class Schedules {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * @throws InvalidRequestError `invalid_request` names what is wrong, each field of an expression too
   * @throws ConflictError `name_taken`, `quota_exceeded`
   */
  async create({ at, ...input }: ScheduleInput, options: RequestOptions = {}): Promise<Schedule> {
    const body = { ...input, at: timeText(at) };
    return parseAnswer(ScheduleSchema, await this.#remote.post("/schedules", body, options));
  }

  /** The oldest first. */
  async list(options: RequestOptions = {}): Promise<Schedule[]> {
    return parseAnswer(ScheduleList, await this.#remote.get("/schedules", options)).data;
  }

  /** With its next times and its newest run. @throws NotFoundError `schedule_not_found` */
  async get(schedule: string, options: RequestOptions = {}): Promise<Schedule> {
    return parseAnswer(ScheduleSchema, await this.#remote.get(pathOf(schedule), options));
  }

  /** Change it, or with `enabled` turn it off and on. A run that has begun ends as it began. */
  async update(schedule: string, { at, ...changes }: ScheduleChanges, options: RequestOptions = {}): Promise<Schedule> {
    const body = { ...changes, at: timeText(at) };
    return parseAnswer(ScheduleSchema, await this.#remote.post(pathOf(schedule, ":update"), body, options));
  }

  /** Delete it with its runs. A command that has begun goes on in the machine. */
  async delete(schedule: string, options: RequestOptions = {}): Promise<DeletedSchedule> {
    return parseAnswer(DeletedScheduleSchema, await this.#remote.delete(pathOf(schedule), options));
  }

  /** Run it now, also while it is off. `skipped` while another run of it goes on. Answers at once; see {@link getRun}. */
  async run(schedule: string, options: RequestOptions = {}): Promise<ScheduleRun> {
    return parseAnswer(ScheduleRunSchema, await this.#remote.post(pathOf(schedule, ":run"), {}, options));
  }

  /** The runs that match, newest first, page by page: the last 100, for 30 days. */
  async runs(
    schedule: string,
    filter: ScheduleRunFilter = {},
    options: RequestOptions = {},
  ): Promise<Page<ScheduleRun>> {
    return await this.#page(pathOf(schedule, "/runs"), filter, undefined, options);
  }

  /** A run with its output. @throws NotFoundError `schedule_run_not_found` */
  async getRun(schedule: string, run: string, options: RequestOptions = {}): Promise<ScheduleRun> {
    if (!run.startsWith("run-")) throw invalidArgument(`${JSON.stringify(run)} is not the id of a run.`);
    const path = pathOf(schedule, `/runs/${encodeURIComponent(run)}`);
    return parseAnswer(ScheduleRunSchema, await this.#remote.get(path, options));
  }

  async #page(
    path: string,
    filter: ScheduleRunFilter,
    cursor: string | undefined,
    options: RequestOptions,
  ): Promise<Page<ScheduleRun>> {
    const answer = await this.#remote.get(path, { query: { ...filter, cursor }, ...options });
    const { data, nextCursor } = parseAnswer(ScheduleRunList, answer);
    return new Page(data, nextCursor === null ? null : () => this.#page(path, filter, nextCursor, options));
  }
}

function pathOf(schedule: string, rest = ""): string {
  if (schedule === "" || schedule === "." || schedule === "..")
    throw invalidArgument("That is no id or name of a schedule.");
  return `/schedules/${encodeURIComponent(schedule)}${rest}`;
}
