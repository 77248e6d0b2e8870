/** What hosts told of a sandbox's start: the newest word, and what else there is to go on with. */
import { GuestBoot, type Resume } from "../../sdk/contract/boot.ts";
import type { Queue } from "../../sdk/contract/queue.ts";
import { checkpointsObject, type LastCheckpoint } from "../checkpoints/api.ts";
import type { Draft } from "../events/draft.ts";
import { stateObject } from "../state/api.ts";
import { bootEvents, resumeOf } from "./boot-settings.ts";
import type { SandboxRecord } from "./record.ts";

export class BootLog {
  readonly #sql: SqlStorage;

  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  /** Take note. Which events that is; the caller stores them in the same turn. */
  note(record: SandboxRecord, generation: number, report: GuestBoot): Draft[] {
    if (generation > record.life.generation) return [];
    const known = this.#newest(record.id);
    // It may come late, from a run that is over.
    if (known && known.generation > generation) return [];
    this.#sql.exec(
      "INSERT OR REPLACE INTO boot_report (one, sandbox_id, generation, body) VALUES (1, ?, ?, ?)",
      ...[record.id, generation, JSON.stringify(report)],
    );
    return bootEvents(record, generation, report);
  }

  report(sandboxId: string): GuestBoot | null {
    return this.#newest(sandboxId)?.report ?? null;
  }

  #newest(sandboxId: string): { generation: number; report: GuestBoot } | null {
    const [row] = this.#sql
      .exec<{ generation: number; body: string }>(
        "SELECT generation, body FROM boot_report WHERE one = 1 AND sandbox_id = ?",
        sandboxId,
      )
      .toArray();
    const parsed = row && GuestBoot.safeParse(JSON.parse(row.body));
    return row && parsed?.success ? { generation: row.generation, report: parsed.data } : null;
  }
}

/** The answer to "is there something to go on with?". Its machine is not asked. */
export async function resume(
  env: Env,
  record: SandboxRecord,
  known: { readonly report: GuestBoot | null; readonly bootedAt: string | null },
): Promise<Resume> {
  const [checkpoint, queue] = await Promise.all([lastCheckpoint(env, record), queueDepth(env, record)]);
  return resumeOf(record, { ...known, checkpoint, queue });
}

/** The newest checkpoint of all that its programs saved off the machine; null for none. */
async function lastCheckpoint(env: Env, { account, label, id }: SandboxRecord): Promise<LastCheckpoint | null> {
  return checkpointsObject(env.CHECKPOINTS, account, label).last(id);
}

/** Tasks of all its queues; null where it has none. */
async function queueDepth(env: Env, { account, id }: SandboxRecord): Promise<Resume["queue"]> {
  const asker = { by: "resume", sandboxId: id, generation: null };
  const answer = await stateObject(env.STATE, account, id).queues(asker);
  if (!answer.ok || answer.queues.length === 0) return null;
  const sum = (count: (queue: Queue) => number) => answer.queues.reduce((total, queue) => total + count(queue), 0);
  return {
    waiting: sum(({ ready, delayed }) => ready + delayed),
    leased: sum(({ leased }) => leased),
    dead: sum(({ dead }) => dead),
  };
}
