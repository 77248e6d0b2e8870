/**
 * Time that passes while the edge is down: everything that its objects wrote down about one sandbox's times is moved
 * back, so that the edge finds its timers overdue when it starts, as after weeks without it. The edge must not run.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** Fields of a life that are Unix milliseconds. */
const TIMES = ["nextTryAt", "readyAt", "lastActiveAt", "pausedAt", "endedAt"];

interface Stored {
  createdAt: number;
  holds: Record<string, number>;
  life: Record<string, number | null> & { lease: { endsAt: number | null } };
}

/** Columns and fields of an event that are. */
const EVENT_COLUMNS = ["created_at", "next_at", "expires_at"];
const EVENT_TIMES = ["createdAt", "waitsSince", "nextAt", "begunAt", "endedAt"];

interface StoredEvent extends Record<string, unknown> {
  steps: { at: number; nextAt?: number }[];
}

/** @throws when no object of this edge holds the sandbox */
export async function age(stateDir: string, id: string, ms: number): Promise<void> {
  await change(stateDir, "SandboxObject", ms, (db) => {
    const row = hasTable(db, "record") && db.prepare("SELECT body FROM record WHERE id = ?").get(id);
    if (!row) return false;
    const record = JSON.parse(String(row["body"])) as Stored;
    const { life } = record;
    record.createdAt -= ms;
    for (const key of TIMES) if (typeof life[key] === "number") life[key] -= ms;
    if (life.lease.endsAt !== null) life.lease.endsAt -= ms;
    for (const hold of Object.keys(record.holds)) record.holds[hold] = (record.holds[hold] ?? 0) - ms;
    db.prepare("UPDATE record SET body = ? WHERE id = ?").run(JSON.stringify(record), id);
    db.prepare("UPDATE timers SET due_at = due_at - ?").run(ms);
    return true;
  });
}

/** The same for what a sandbox's inbox holds. @throws when it has none */
export async function ageInbox(stateDir: string, id: string, ms: number): Promise<void> {
  await change(stateDir, "InboxObject", ms, (db) => {
    if (!hasTable(db, "inbox") || !db.prepare("SELECT 1 FROM inbox WHERE sandbox_id = ?").get(id)) return false;
    for (const column of EVENT_COLUMNS) db.prepare(`UPDATE events SET ${column} = ${column} - ?`).run(ms);
    for (const { seq, body } of db.prepare("SELECT seq, body FROM events").all()) {
      const event = JSON.parse(String(body)) as StoredEvent;
      for (const key of EVENT_TIMES) if (typeof event[key] === "number") event[key] -= ms;
      for (const step of event.steps) {
        step.at -= ms;
        if (step.nextAt !== undefined) step.nextAt -= ms;
      }
      db.prepare("UPDATE events SET body = ? WHERE seq = ?").run(JSON.stringify(event), seq ?? 0);
    }
    return true;
  });
}

/** Change the one object of a class that is meant, and when its alarm is due. @throws when none is */
async function change(
  stateDir: string,
  className: string,
  ms: number,
  make: (db: DatabaseSync) => boolean,
): Promise<void> {
  const folder = join(stateDir, `edge/objects/do/rouse-${className}`);
  for (const name of await readdir(folder)) {
    if (!name.endsWith(".sqlite") || name === "metadata.sqlite") continue;
    const db = new DatabaseSync(join(folder, name));
    try {
      if (!make(db)) continue;
      // The alarm stands in the object's own storage and in the list of whoever sets them off, in nanoseconds.
      const ns = BigInt(Math.round(ms)) * 1_000_000n;
      db.prepare("UPDATE _cf_METADATA SET value = value - ? WHERE key = 1").run(ns);
      const alarms = new DatabaseSync(join(folder, "metadata.sqlite"));
      try {
        const actor = name.slice(0, -".sqlite".length);
        alarms.prepare("UPDATE _cf_ALARM SET scheduled_time = scheduled_time - ? WHERE actor_id = ?").run(ns, actor);
      } finally {
        alarms.close();
      }
      return;
    } finally {
      db.close();
    }
  }
  throw new Error(`no ${className} of the edge is meant`);
}

function hasTable(db: DatabaseSync, name: string): boolean {
  return db.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?").get(name) !== undefined;
}
