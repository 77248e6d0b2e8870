/** What a host noticed of a machine, and what follows. */
import type { FrozenFate, MachineEvent } from "../../sdk/contract/host.ts";
import type { Result } from "../result.ts";
import type { Engine } from "./engine.ts";
import { idleSeconds } from "./holds.ts";
import { fateOf } from "./lifecycle.ts";
import type { SandboxRecord } from "./record.ts";

export function machineEvent(
  engine: Engine,
  record: SandboxRecord,
  event: MachineEvent,
  hostId: string,
): Result<{ fate: FrozenFate }> {
  const { id, life, host } = record;
  if (host?.id !== hostId) {
    engine.hastenPurge(id);
    return { ok: true, fate: "end" };
  }
  if (event.type === "returned") return { ok: true, fate: fateOf(life, event.generation) };
  const taken = { ok: true, fate: "run" } as const;
  if (event.type === "boot") {
    const drafts = engine.boots.note(record, event.generation, event.report);
    if (drafts.length > 0) engine.save(record, [], [], drafts);
    return taken;
  }
  if (event.generation !== life.generation) return taken;
  if (event.type === "idle") {
    if (life.state !== "running" || idleSeconds(record, Date.now()) === 0) return taken;
    const outcome = engine.commit(id, { type: "pause", reason: "idle" });
    engine.background(engine.drive());
    return outcome.ok ? taken : outcome;
  }
  // The answer to the call that starts this run is still on its way, and must be read first.
  if (life.state === "starting" || life.state === "resuming") {
    return { ok: false, failure: { code: "conflict", message: "The run is only beginning.", retryAfterMs: 1000 } };
  }
  engine.commit(id, event);
  if (life.state === "pausing") engine.background(engine.drive());
  return taken;
}
