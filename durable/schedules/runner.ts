/**
 * Runs that go on: each is tried until the machine took it, and a command is looked after until it ended. What a step
 * does is stored before and after, so that one that breaks off is made again, under the same id.
 */
import type { Process } from "../../sdk/contract/guest.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import { scheduleLimits, type ScheduleAction } from "../../sdk/contract/schedule.ts";
import type { Cause } from "../../sdk/contract/timeline.ts";
import { drillsObject } from "../drills/api.ts";
import { Commands } from "./commands.ts";
import { causeOf, Machine, type Reached } from "./machine.ts";
import { ended, type Output, type RunRecord } from "./record.ts";
import { isLost, judge, lookAgainMs, LOST_MS, type Fault } from "./rules.ts";
import type { SchedulesStore } from "./store.ts";

/** A step that is due so soon is waited for here; others have the alarm, milliseconds. */
const STAY_MS = 2000;
/** After a wake, programs may take so long until they listen, milliseconds. */
const SETTLING_MS = 60_000;
/** A command of this age has the sandbox held awake for it, for so long at a time, milliseconds. */
const HOLD_AFTER_MS = 5000;
const HOLD_MS = 120_000;
/** Output of a command of this age is stored while it runs, milliseconds: its machine may be lost. */
const STORE_AFTER_MS = 10_000;
/** A guest that does not end a command in its time is waited for so long, milliseconds. */
const OVERTIME_MS = 300_000;
/** A machine that somebody put to sleep is looked after so often, milliseconds. */
const ASLEEP_MS = 60_000;
/** A drill that goes on is looked at so often, milliseconds. */
const DRILL_MS = 5000;

type Tried = Pick<Reached<unknown>, "woken" | "wakeMs"> &
  (
    | { readonly what: "fault"; readonly fault: Fault }
    | { readonly what: "awake" }
    | { readonly what: "drills" }
    | { readonly what: "drilled"; readonly state: string; readonly output: Output; readonly bytes: number }
    | { readonly what: "started"; readonly process: Process }
    | { readonly what: "answered"; readonly status: number; readonly output: Output; readonly bytes: number }
  );

export class Runner {
  readonly #store: SchedulesStore;
  readonly #env: Env;
  /** When this object last saw the sandbox wake, Unix milliseconds. */
  #wokenAt = 0;

  constructor(store: SchedulesStore, env: Env) {
    this.#store = store;
    this.#env = env;
  }

  /** Take the steps that are due. Resolves when none is, any more, for a while. */
  async run(): Promise<void> {
    await Promise.all(this.#store.runsDue(Date.now()).map(({ id }) => this.#drive(id)));
  }

  async #drive(id: string): Promise<void> {
    const store = this.#store;
    store.busy.add(id);
    try {
      for (;;) {
        const dueAt = store.run(id)?.dueAt ?? null;
        if (dueAt === null || dueAt - Date.now() > STAY_MS) return;
        if (dueAt > Date.now()) await scheduler.wait(dueAt - Date.now());
        const run = store.run(id);
        if (run?.state !== "running") return;
        await (run.processId === null ? this.#attempt(run) : this.#look(run, run.processId));
      }
    } finally {
      store.busy.delete(id);
      store.arm();
    }
  }

  async #attempt(due: RunRecord): Promise<void> {
    const startedAt = Date.now();
    let run = due;
    if (run.begunAt !== null) {
      // One that broke off is made again at once, but not for ever: it may be what breaks the object.
      run = this.#judged(run, { reason: "broke_off", settling: false });
      if (run.state !== "running") return this.#store.saveRun(run);
    }
    const begun = { ...run, dueAt: startedAt, begunAt: startedAt, startedAt: run.startedAt ?? startedAt };
    this.#store.saveRun(begun);
    const tried = await this.#try(begun).catch((fault: unknown): Tried => {
      console.error(JSON.stringify({ level: "error", run: run.id, fault: String(fault) }));
      return { what: "fault", fault: { reason: "internal_error", settling: false }, woken: false, wakeMs: null };
    });
    if (tried.woken) this.#wokenAt = Date.now();
    const now = Date.now();
    const current = this.#store.run(run.id);
    if (current?.state !== "running") return;
    const known = {
      ...{ ...current, begunAt: null, wasAsleep: current.wasAsleep === true || tried.woken },
      wakeMs: tried.wakeMs ?? current.wakeMs,
    };
    if (tried.what === "fault") return this.#store.saveRun(this.#judged(known, tried.fault));
    const counted = { ...known, attempts: known.attempts + 1, settling: 0, reason: null };
    switch (tried.what) {
      case "awake":
        return this.#store.saveRun(ended(counted, "succeeded", null, now));
      case "drills":
        return this.#store.saveRun({ ...known, reason: null, dueAt: now + DRILL_MS });
      case "drilled": {
        const { state, output, bytes } = tried;
        const seen = { ...counted, outputBytes: bytes, truncated: bytes > scheduleLimits.outputBytes };
        return this.#store.transaction(() => {
          this.#store.saveOutput(run.id, output);
          const isFine = state === "passed";
          this.#store.saveRun(ended(seen, isFine ? "succeeded" : "failed", isFine ? null : `drill_${state}`, now));
        });
      }
      case "started": {
        const at = { processId: tried.process.id, processAt: now, reachedAt: now };
        return this.#store.saveRun({ ...counted, ...at, dueAt: now + lookAgainMs(0) });
      }
      case "answered": {
        const { status, output, bytes } = tried;
        const truncated = bytes > scheduleLimits.outputBytes;
        const answered = { ...counted, status, outputBytes: bytes, truncated };
        this.#store.transaction(() => {
          this.#store.saveOutput(run.id, output);
          const isFine = status < 400;
          this.#store.saveRun(ended(answered, isFine ? "succeeded" : "failed", isFine ? null : "http_status", now));
        });
      }
    }
  }

  #judged(run: RunRecord, fault: Fault): RunRecord {
    const now = Date.now();
    const next = judge(run, fault, now);
    const { attempts } = next;
    if (next.next === "failed") return ended({ ...run, attempts }, "failed", fault.reason, now);
    const { at: dueAt, settling } = next;
    return { ...run, attempts, settling, reason: fault.reason, dueAt, begunAt: null };
  }

  async #try(run: RunRecord): Promise<Tried> {
    const { whose } = this.#store;
    const { action } = run;
    if (!whose || !action) return { ...faulty({ code: "not_found" }, false), woken: false, wakeMs: null };
    const machine = new Machine(this.#env, whose);
    const isSettling = (woken: boolean) => woken || run.settling > 0 || Date.now() - this.#wokenAt < SETTLING_MS;
    const cause = this.#causeOf(run);
    switch (action.kind) {
      case "wake": {
        const { woken, wakeMs, ...reached } = await machine.wake(cause);
        return { ...(reached.ok ? { what: "awake" } : faulty(reached.failure, isSettling(woken))), woken, wakeMs };
      }
      case "command": {
        const commands = new Commands(machine, run.id, action);
        const { woken, wakeMs, ...reached } = await commands.start(cause);
        if (!reached.ok) return { ...faulty(reached.failure, isSettling(woken)), woken, wakeMs };
        return { what: "started", process: reached.value, woken, wakeMs };
      }
      case "drill": {
        const drills = drillsObject(this.#env.DRILLS, whose.account, whose.label);
        // Under the run's id: it is begun once, and then this is how it is.
        const once = { key: run.id, fingerprint: action.kill };
        const begun = await drills.begin(whose.sandboxId, { kill: action.kill }, once);
        const way = { woken: false, wakeMs: null };
        if (!begun.ok) return { ...faulty(begun.failure, false), ...way };
        const { state } = begun.drill;
        if (state === "running") return { what: "drills", ...way };
        const body = new TextEncoder().encode(JSON.stringify(begun.drill));
        const kept = body.slice(0, scheduleLimits.outputBytes);
        const output = { stdout: null, stderr: null, body: new Uint8Array(kept) };
        return { what: "drilled", state, output, bytes: body.length, ...way };
      }
      case "request": {
        const { woken, wakeMs, ...reached } = await this.#request(machine, run, action, cause);
        if (!reached.ok) return { ...faulty(reached.failure, isSettling(woken)), woken, wakeMs };
        const { status, begin, total } = reached.value ?? { status: 0, begin: new Uint8Array(), total: 0 };
        const output = { stdout: null, stderr: null, body: begin };
        return { what: "answered", status, output, bytes: total, woken, wakeMs };
      }
    }
  }

  #request(
    machine: Machine,
    run: RunRecord,
    action: Extract<ScheduleAction, { kind: "request" }>,
    cause: Cause,
  ): ReturnType<Machine["send"]> {
    const { method = "POST", path = "/", body, timeoutSeconds = scheduleLimits.requestSecondsDefault } = action;
    const headers = new Headers(action.headers ?? {});
    // It may come again after a crash: a program that must not act twice goes by this.
    if (!headers.has("idempotency-key")) headers.set("idempotency-key", run.id);
    headers.set("x-rouse-schedule", run.scheduleId);
    headers.set("x-rouse-run", run.id);
    return machine.send(
      { method, path: `/port/${cause.port}${path}`, headers, body: body === undefined ? null : body },
      { cause, wake: true, limitMs: timeoutSeconds * 1000, most: scheduleLimits.outputBytes },
    );
  }

  /** How the command is. */
  async #look(run: RunRecord, processId: string): Promise<void> {
    const { whose } = this.#store;
    const { action } = run;
    if (!whose || action?.kind !== "command") return this.#end(run, null, "failed", "process_lost");
    const machine = new Machine(this.#env, whose);
    const commands = new Commands(machine, run.id, action);
    const wait = (changes: Partial<RunRecord>) => {
      const current = this.#store.run(run.id);
      if (current?.state === "running") this.#store.saveRun({ ...current, ...changes });
    };
    const looked = await this.#looked(run, commands, machine, processId);
    const now = Date.now();
    if (looked === "asleep") return wait({ dueAt: now + ASLEEP_MS });
    if (!looked.ok) {
      const { code, retryAfterMs = 0 } = looked.failure;
      if (isLost(code) || now - (run.reachedAt ?? now) > LOST_MS) return this.#end(run, machine, "failed", code);
      const dueAt = now + Math.max(Math.min(60_000, 1000 * 2 ** Math.min(run.unreached, 6)), retryAfterMs);
      return wait({ reason: code, unreached: run.unreached + 1, dueAt });
    }
    const process = looked.value;
    if (!process) return this.#end(run, machine, "failed", "process_lost");
    const age = now - (run.processAt ?? now);
    const isOver = process.state !== "running";
    if (process.outputBytes !== run.outputBytes && (isOver || age > STORE_AFTER_MS)) {
      const read = await commands.output(process, this.#causeOf(run));
      if (!read.ok) return wait({ unreached: run.unreached + 1, dueAt: now + lookAgainMs(age) });
      const { output, truncated } = read.value;
      if (output) this.#store.saveOutput(run.id, output);
      wait({ outputBytes: process.outputBytes, truncated });
    }
    if (isOver) {
      const { exitCode, state } = process;
      wait({ exitCode, reachedAt: now });
      const isFine = exitCode === 0 && state === "exited";
      const reason = isFine ? null : state === "timed_out" ? "timeout" : "exit_code";
      return this.#end(run, machine, isFine ? "succeeded" : "failed", reason);
    }
    const limitMs = commands.limitMs + OVERTIME_MS;
    if (age > limitMs + LOST_MS) return this.#end(run, machine, "failed", "timeout");
    const heldUntil = age > HOLD_AFTER_MS && age < limitMs ? await this.#held(run, machine) : run.heldUntil;
    const dueAt = Date.now() + lookAgainMs(age);
    wait({ heldUntil, reachedAt: now, unreached: 0, insist: false, reason: null, dueAt });
  }

  /** null: its machine knows nothing of it. */
  async #looked(
    run: RunRecord,
    commands: Commands,
    machine: Machine,
    processId: string,
  ): Promise<Reached<Process | null> | "asleep"> {
    const cause = this.#causeOf(run);
    const asleep = await commands.get(processId, cause, false);
    if (asleep !== null) return asleep;
    // What else put it to sleep, such as an edge that was away, did not mean to stop the command.
    if (!run.insist && (await machine.isAsleepOnPurpose())) return "asleep";
    const woken = await commands.get(processId, cause, true);
    return woken ?? { ok: false, failure: { code: "sandbox_waking" }, woken: false, wakeMs: null };
  }

  async #held(run: RunRecord, machine: Machine): Promise<number | null> {
    const now = Date.now();
    if (run.heldUntil !== null && run.heldUntil - now > HOLD_MS / 2) return run.heldUntil;
    // Where it has no room for another hold, looking after the command keeps it awake as well as that goes.
    const held = await machine.hold(holdOf(run), HOLD_MS / 1000).catch(() => false);
    return held ? now + HOLD_MS : run.heldUntil;
  }

  async #end(
    run: RunRecord,
    machine: Machine | null,
    state: "succeeded" | "failed",
    reason: string | null,
  ): Promise<void> {
    const current = this.#store.run(run.id);
    if (current?.state === "running") this.#store.saveRun(ended(current, state, reason, Date.now()));
    // A hold that is not let go of ends by itself.
    if (run.heldUntil !== null) await machine?.hold(holdOf(run), 0).catch(() => undefined);
  }

  #causeOf({ id, scheduleId, action }: RunRecord): Cause {
    const port = action?.kind === "request" ? (action.port ?? defaults.port) : null;
    return causeOf(scheduleId, this.#store.schedule(scheduleId)?.name ?? null, id, port);
  }
}

export function holdOf({ id }: Pick<RunRecord, "id">): string {
  return `schedule.${id}`;
}

function faulty(
  { code, retryAfterMs }: { code: Fault["reason"]; retryAfterMs?: number | undefined },
  settling: boolean,
): { what: "fault"; fault: Fault } {
  const needsMoment =
    code === "sandbox_waking" ||
    (settling && (code === "port_not_listening" || code === "service_not_ready" || code === "guest_busy"));
  return { what: "fault", fault: { reason: code, retryAfterMs, settling: needsMoment } };
}
