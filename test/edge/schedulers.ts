/** Sandboxes with schedules, for tests. */
import { env } from "cloudflare:workers";
import type { Schedule, ScheduleRun, ScheduleRunList } from "../../sdk/contract/schedule.ts";
import { ask, call, created, eventually, fake, heartbeat, paused, type Fault } from "./client.ts";
import { shift } from "./volumes.ts";
import { TestedObject } from "./tested-object.ts";

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;

export type Answer<T> = { status: number; body: T & { error: Fault } };

/** A sandbox with a schedule of a command, every hour, unless it says otherwise. */
export class TestSchedule extends TestedObject {
  readonly name: string;
  readonly id: string;
  schedule: Schedule;

  private constructor(name: string, id: string, schedule: Schedule) {
    super();
    this.name = name;
    this.id = id;
    this.schedule = schedule;
  }

  static async make(input: Record<string, unknown> = {}, asleep = false): Promise<TestSchedule> {
    const { name, id } = await (asleep ? paused() : created());
    const timing = "at" in input ? {} : { cron: "@hourly" };
    const wanted = { ...timing, action: { kind: "command", command: "date" }, ...input };
    const response = await call("POST", `/v1/sandboxes/${name}/schedules`, wanted);
    if (response.status !== 200) throw new Error(`schedule: ${response.status} ${await response.text()}`);
    return new TestSchedule(name, id, await response.json<Schedule>());
  }

  override get stub(): DurableObjectStub {
    return env.SCHEDULES.getByName(`default/${this.name}`);
  }

  url(rest = ""): string {
    return `/v1/sandboxes/${this.name}/schedules/${this.schedule.id}${rest}`;
  }

  ask<T = Schedule>(method: string, rest = "", body?: unknown, headers = {}): Promise<Answer<T>> {
    return ask<T & { error: Fault }>(method, this.url(rest), body, headers);
  }

  async read(): Promise<Schedule> {
    return (await this.ask("GET")).body;
  }

  /** The newest first. */
  async runs(query = ""): Promise<ScheduleRun[]> {
    return (await this.ask<ScheduleRunList>("GET", `/runs?limit=100${query}`)).body.data;
  }

  async run(id: string): Promise<ScheduleRun> {
    return (await this.ask<ScheduleRun>("GET", `/runs/${id}`)).body;
  }

  async newest(): Promise<ScheduleRun> {
    const [{ id } = { id: "" }] = await this.runs();
    return this.run(id);
  }

  /** When the newest run is as wanted. */
  until(holds: (run: ScheduleRun) => boolean): Promise<ScheduleRun> {
    return eventually(() => this.newest(), holds);
  }

  /** When a run, the newest unless it is named, is over; the clock goes on for it. */
  over(id?: string): Promise<ScheduleRun> {
    let looks = 0;
    const read = async () => {
      if (++looks % 20 === 0) await this.pass(5 * SECOND);
      return id === undefined ? this.newest() : this.run(id);
    };
    return eventually(read, ({ state }) => state !== "running");
  }

  /** It is due: the clock goes on to its next time, and a bit further, and the alarm goes off. */
  async due(late = SECOND): Promise<void> {
    const [next = ""] = (await this.read()).next;
    await this.pass(Date.parse(next) + late - Date.now());
  }

  /** The clock goes on, its host is there still, and the alarm goes off. */
  override async pass(ms: number): Promise<void> {
    shift(ms);
    await heartbeat();
    await this.alarm();
  }

  /** Keys of the commands that began. */
  async begun(): Promise<string[]> {
    return (await fake.begun(this.name)).map(({ key }) => key);
  }

  /** How often its machine was woken. */
  async wakes(): Promise<number> {
    return (await fake.state(this.name)).log.filter((line) => line.startsWith("wake")).length;
  }

  verb(verb: string, body: object = {}): Promise<unknown> {
    return ask("POST", `/v1/sandboxes/${this.name}:${verb}`, body);
  }
}
