/**
 * A drill, step by step: look, kill, look again until the machine answers. What a step does is stored before and after,
 * so that a drill goes on after the death of what it kills, the edge too. A kill that was begun is not made again before
 * it is known that it did nothing.
 */
import { drillLimits } from "../../sdk/contract/drill.ts";
import { backoffMs } from "../backoff.ts";
import { DrilledHost, type Asked } from "./host.ts";
import { causeOf, Look } from "./look.ts";
import { endedDrill, type DrillRecord } from "./record.ts";
import { isAnotherBoot, lossesOf, takesRam, tryAgainMs } from "./rules.ts";
import type { DrillsStore, Whose } from "./store.ts";

/** A step that is due so soon is waited for here; others have the alarm, milliseconds. */
const STAY_MS = 2000;
/** A step that breaks off so often is given up. */
const BREAKS_MAX = 5;
/** Time for the first look, with the wake, milliseconds. */
const BEFORE_MS = 300_000;
/** After the order to end the edge, the next alarm: of the next edge, if all goes well, milliseconds. */
const EDGE_GONE_MS = 3000;
/** Ends a Linux system at once, as a fault of it would. Nothing where the machine is no machine of its own. */
const CRASH = [
  ...["sudo", "-n", "sh", "-c"],
  'test "$(readlink /proc/1/exe)" = /usr/lib/rouse/rouse-init || exit 1\n' +
    "echo 1 > /proc/sys/kernel/sysrq; echo b > /proc/sysrq-trigger",
];

type Step = (record: DrillRecord, whose: Whose) => Promise<DrillRecord>;

export class Runner {
  readonly #store: DrillsStore;
  readonly #env: Env;
  /** Another after each start of the object. */
  readonly #instance = crypto.randomUUID();
  #busy = false;

  constructor(store: DrillsStore, env: Env) {
    this.#store = store;
    this.#env = env;
  }

  get isBusy(): boolean {
    return this.#busy;
  }

  /** Take the steps that are due. */
  async run(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      for (;;) {
        const due = this.#store.running();
        const { whose } = this.#store;
        if (!due || !whose || due.dueAt === null || due.dueAt - Date.now() > STAY_MS) return;
        if (due.dueAt > Date.now()) await scheduler.wait(due.dueAt - Date.now());
        await this.#take(due, whose);
      }
    } finally {
      this.#busy = false;
      this.#store.arm();
    }
  }

  async #take(due: DrillRecord, whose: Whose): Promise<void> {
    const brokeOff = due.isBegun ? due.brokeOff + 1 : due.brokeOff;
    if (brokeOff > BREAKS_MAX)
      return this.#save(endedDrill(due, "failed", "broke_off", "A step broke off again and again.", Date.now()));
    const begun = { ...due, brokeOff, isBegun: true };
    this.#save(begun);
    const step: Step = { before: this.#before, kill: this.#kill, after: this.#after }[due.step ?? "after"];
    const next = await step.call(this, begun, whose).catch((fault: unknown) => {
      console.error(JSON.stringify({ level: "error", drill: due.id, fault: String(fault) }));
      return this.#later(begun, "internal_error");
    });
    this.#save({ ...next, isBegun: false, brokeOff: next.step === due.step ? brokeOff : 0 });
  }

  /** Unless the sandbox was deleted meanwhile. */
  #save(record: DrillRecord): void {
    if (this.#store.whose) this.#store.save(record);
  }

  async #before(record: DrillRecord, whose: Whose): Promise<DrillRecord> {
    const looked = await new Look(this.#env, whose).see(record);
    const now = Date.now();
    if (looked.ok) {
      const { view: before, files, process, where } = looked.seen;
      return { ...record, step: "kill", reason: null, dueAt: now, before, files, process, where };
    }
    if (now - record.createdAt < BEFORE_MS && !isFinal(looked.code)) return this.#later(record, looked.code);
    return endedDrill(record, "failed", looked.code, "The machine could not be looked at; nothing was killed.", now);
  }

  async #kill(record: DrillRecord, whose: Whose): Promise<DrillRecord> {
    const { where, kill } = record;
    if (!where) return endedDrill(record, "failed", "internal_error", null, Date.now());
    // One that broke off may have been made: what comes after finds out.
    if (record.killedAt !== null) return { ...record, step: "after", dueAt: Date.now() };
    const killed = { ...record, killedAt: Date.now(), killedBy: this.#instance };
    this.#save(killed);
    const host = new DrilledHost(this.#env, where);
    let asked: Asked = { ok: true, value: null };
    switch (kill) {
      case "guest":
        // It is never answered.
        await new Look(this.#env, whose).exec(record, CRASH, false);
        break;
      case "vmm":
        asked = await host.killMachine(whose.sandboxId, { generation: where.generation, drill: record.id });
        break;
      case "host":
        asked = await host.killPart({ drill: record.id, part: "host" });
        break;
      case "edge":
        // Said before the order: this object may be gone before its answer.
        this.#save({ ...killed, step: "after", dueAt: Date.now() + EDGE_GONE_MS, isBegun: false });
        this.#store.arm(Date.now() + EDGE_GONE_MS);
        asked = await host.killPart({ drill: record.id, part: "edge" });
    }
    // A host that is gone does not answer: it may be for the order.
    if (!asked.ok && asked.code !== "host_unavailable")
      return endedDrill(
        { ...record, killedAt: null },
        asked.code === "unavailable" || asked.code === "route_not_found" ? "unavailable" : "failed",
        asked.code,
        asked.message,
        Date.now(),
      );
    return { ...killed, step: "after", dueAt: Date.now() + (kill === "edge" ? EDGE_GONE_MS : 0) };
  }

  async #after(record: DrillRecord, whose: Whose): Promise<DrillRecord> {
    const { before, where } = record;
    if (!before || !where) return endedDrill(record, "failed", "internal_error", null, Date.now());
    if (!(await this.#isBack(record))) return this.#wait(record, "host_unavailable");
    const look = new Look(this.#env, whose);
    // An end of RAM leaves the sandbox stopped until somebody has it run: this is what that somebody would do.
    const looked = await look.see(record);
    if (!looked.ok && looked.code === "sandbox_stopped") {
      const change = { id: whose.sandboxId, holdMs: 60_000, idempotencyKey: null, fingerprint: "" };
      const recovered = await look.machine.sandbox.recover({ ...change, cause: causeOf(record) });
      return this.#wait(record, recovered.ok ? "sandbox_waking" : recovered.failure.code);
    }
    if (!looked.ok) return this.#wait(record, looked.code);
    const now = Date.now();
    const { view: after, files } = looked.seen;
    if (!isAnotherBoot(record.kill, before, after.bootId)) return this.#wait(record, "not_killed");
    const answered = { ...record, answeredAt: record.answeredAt ?? now };
    // Services take their time after a boot.
    const isSettling = after.services.some(({ state }) => state !== "ready" && state !== "failed" && state !== "ended");
    if (isSettling && now - (answered.answeredAt ?? now) < 1000 * drillLimits.endSeconds)
      return { ...answered, dueAt: now + 1000 };
    const at = Date.parse(before.at);
    const lost = lossesOf(record.kill, before, after, { before: record.files, after: files, at });
    const ended = endedDrill(answered, lost.length === 0 ? "passed" : "lost", null, null, now);
    return { ...ended, after, lost };
  }

  /** Whether the part that was killed is another one by now. */
  async #isBack({ id, kill, where, killedBy }: DrillRecord): Promise<boolean> {
    if (kill === "edge") return killedBy !== this.#instance;
    if (kill !== "host" || !where) return true;
    return (await new DrilledHost(this.#env, where).survived()) === id;
  }

  #wait(record: DrillRecord, reason: string): DrillRecord {
    const now = Date.now();
    const since = now - (record.killedAt ?? now);
    const { endSeconds, returnSeconds } = drillLimits;
    if (reason === "not_killed" && since > 1000 * endSeconds)
      return endedDrill(record, "failed", reason, "The kill did nothing: the machine runs as before.", now);
    if (since <= 1000 * returnSeconds) return { ...record, reason, dueAt: now + tryAgainMs(since) };
    const message = `It did not answer within ${returnSeconds} s${takesRam(record.kill) ? "" : `; whoever runs the ${record.kill} may have to start it again`}.`;
    return endedDrill(record, "failed", reason, message, now);
  }

  #later(record: DrillRecord, reason: string): DrillRecord {
    const { killedAt, createdAt } = record;
    if (killedAt !== null) return this.#wait(record, reason);
    const tries = Math.floor((Date.now() - createdAt) / 10_000);
    return { ...record, reason, dueAt: Date.now() + backoffMs(500, tries) };
  }
}

/** No look later comes to anything. */
function isFinal(code: string): boolean {
  return ["not_found", "sandbox_gone", "sandbox_stopped", "command_not_found"].includes(code);
}
