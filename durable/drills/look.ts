/** How a sandbox is: what its machine says, and what is kept of it elsewhere. */
import { z } from "zod";
import { drillLimits, DrillView, type DrillKill } from "../../sdk/contract/drill.ts";
import { ExecResult } from "../../sdk/contract/guest.ts";
import { GuestBoot } from "../../sdk/contract/boot.ts";
import type { Cause } from "../../sdk/contract/timeline.ts";
import { checkpointsObject } from "../checkpoints/api.ts";
import { Machine, type Reached, type Sent } from "../schedules/machine.ts";
import { stateObject } from "../state/api.ts";
import { iso } from "../time.ts";
import type { DrillRecord, FileSeen, Where } from "./record.ts";
import { LOOK } from "./script.ts";
import type { Whose } from "./store.ts";

/** Time for the look, and for its answer, milliseconds; its longest answer, bytes. */
const LOOK_MS = 60_000;
const ANSWER_MS = 75_000;
const ANSWER_MAX = 1_048_576;

/** What a guest says is read as a stranger's. */
const Said = z.object({
  bootId: z.string().max(64),
  files: z
    .array(z.tuple([z.string().max(256), z.int(), z.int(), z.string().max(64).nullable()]))
    .max(drillLimits.files),
  marker: z.boolean(),
  alive: z.boolean(),
  process: z.string().max(64),
  checkpoints: DrillView.shape.checkpoints.max(100),
});

export interface Seen {
  readonly view: DrillView;
  readonly files: readonly FileSeen[];
  readonly process: string;
  readonly where: Where;
}

export type Looked = { readonly ok: true; readonly seen: Seen } | { readonly ok: false; readonly code: string };

export function causeOf({ id, kill }: { readonly id: string; readonly kill: DrillKill }): Cause {
  return { kind: "api", keyId: null, request: `drill ${kill}`, port: null, requestId: id };
}

export class Look {
  readonly #env: Env;
  readonly #whose: Whose;
  readonly machine: Machine;

  constructor(env: Env, whose: Whose) {
    this.#env = env;
    this.#whose = whose;
    this.machine = new Machine(env, whose);
  }

  /** The machine is woken for it. With what was seen before, the same files are looked at. */
  async see(drill: DrillRecord): Promise<Looked> {
    const paths = JSON.stringify(drill.before === null ? [] : drill.files.map(([path]) => path));
    const script = LOOK.replace("FILES]", `${drillLimits.files}]`).replace("HASHED", String(drillLimits.hashedBytes));
    const argv = ["python3", "-c", script, drill.id, drill.before === null ? "" : (drill.process ?? "0:"), paths];
    const sent = await this.exec(drill, argv, true);
    if (!sent.ok) return { ok: false, code: sent.failure.code };
    const result = ExecResult.safeParse(sent.value && jsonOf(sent.value.begin));
    const said = Said.safeParse(result.success ? parsed(result.data.stdout) : null);
    if (!said.success) return { ok: false, code: "guest_failed" };
    const where = await this.where();
    if (!where) return { ok: false, code: "sandbox_waking" };
    const { bootId, files, marker, alive, process, checkpoints } = said.data;
    const { label, account, sandboxId } = this.#whose;
    const [mirror, queues, services] = await Promise.all([
      checkpointsObject(this.#env.CHECKPOINTS, account, label).last(sandboxId),
      this.#queues(),
      this.#services(drill),
    ]);
    const view = {
      ...{ at: iso(Date.now()), bootId, generation: where.generation },
      files: { count: files.length, bytes: files.reduce((sum, [, bytes]) => sum + bytes, 0) },
      ram: { marker, process: alive },
      checkpoints,
      mirror: mirror && { name: mirror.name, version: mirror.version, step: mirror.step },
      ...{ queues, services },
    };
    return { ok: true, seen: { view, files, process, where } };
  }

  exec(drill: DrillRecord, argv: readonly string[], wake: boolean): Promise<Reached<Sent | null>> {
    const headers = new Headers({ "content-type": "application/json" });
    const body = JSON.stringify({ argv, timeoutMs: LOOK_MS });
    const request = { method: "POST", path: "/agent/exec", headers, body };
    return this.machine.send(request, { cause: causeOf(drill), wake, limitMs: ANSWER_MS, most: ANSWER_MAX });
  }

  /** Where it runs; null where it does not. */
  async where(): Promise<Where | null> {
    const ask = { id: this.#whose.sandboxId, wake: false, waitMs: 0, verify: false, cause: null, subject: null };
    const routed = await this.machine.sandbox.route(ask);
    if (!routed.ok || !routed.grant) return null;
    const { hostId, hostUrl } = routed.grant;
    return { hostId, hostUrl, generation: routed.facts.generation };
  }

  /** Tasks that are not done. */
  async #queues(): Promise<DrillView["queues"]> {
    const { account, sandboxId } = this.#whose;
    const asker = { by: "drill", sandboxId, generation: null };
    const read = await stateObject(this.#env.STATE, account, sandboxId).queues(asker);
    if (!read.ok) return [];
    return read.queues.map(({ name, ready, delayed, leased }) => ({ name, tasks: ready + delayed + leased }));
  }

  async #services(drill: DrillRecord): Promise<DrillView["services"]> {
    const request = { method: "GET", path: "/agent/services", headers: new Headers(), body: null };
    const terms = { cause: causeOf(drill), wake: false, limitMs: ANSWER_MS, most: ANSWER_MAX };
    const sent = await this.machine.send(request, terms);
    const boot = GuestBoot.safeParse(sent.ok && sent.value ? jsonOf(sent.value.begin) : null);
    return boot.success ? boot.data.services.map(({ name, state }) => ({ name, state })) : [];
  }
}

function jsonOf(bytes: Uint8Array): unknown {
  return parsed(new TextDecoder().decode(bytes));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
