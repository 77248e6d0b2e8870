/** Wakes a sleeper for the timer of a program in it, as requests would: not where those may not. */
import type { Engine } from "./engine.ts";
import { causeOfTimer } from "./guest-timer.ts";
import { timerDueAt } from "./record.ts";
import { wakeLimit } from "./wake-limit.ts";

/** The object's timer for it has gone off. Called twice, or late, it does nothing more. */
export async function wakeByTimer(engine: Engine): Promise<void> {
  const record = engine.record();
  const due = record && timerDueAt(record);
  // Whatever is found: a time that is no longer due must not go off again and again.
  engine.timers.set("timer", due);
  const timer = record?.life.timer;
  const now = Date.now();
  if (!record || !timer || due === null || due > now) return;
  const { id, life } = record;
  const { generation } = life;
  const limit = wakeLimit(record, engine.timeline, now);
  if (limit) {
    engine.commit(id, { type: "timer", generation, putOffTo: now + (limit.retryAfterMs ?? 0) });
    return;
  }
  // Its host may be lost: then nothing is begun, and it is tried again as after a wake that failed.
  const lost = await engine.hosting.outOfReach(id);
  engine.commit(id, { type: "timer", generation, ...(lost ? { failed: true } : {}) }, causeOfTimer(timer));
  await engine.drive();
}
