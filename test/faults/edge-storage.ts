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

/** @throws when no object of this edge holds the sandbox */
export async function age(stateDir: string, id: string, ms: number): Promise<void> {
  const folder = join(stateDir, "edge/objects/do/rouse-SandboxObject");
  for (const name of await readdir(folder)) {
    if (!name.endsWith(".sqlite") || name === "metadata.sqlite") continue;
    const db = new DatabaseSync(join(folder, name));
    try {
      const held = db.prepare("SELECT name FROM sqlite_master WHERE name = 'record'").get();
      const row = held && db.prepare("SELECT body FROM record WHERE id = ?").get(id);
      if (!row) continue;
      const record = JSON.parse(String(row["body"])) as Stored;
      const { life } = record;
      record.createdAt -= ms;
      for (const key of TIMES) if (typeof life[key] === "number") life[key] -= ms;
      if (life.lease.endsAt !== null) life.lease.endsAt -= ms;
      for (const hold of Object.keys(record.holds)) record.holds[hold] = (record.holds[hold] ?? 0) - ms;
      db.prepare("UPDATE record SET body = ? WHERE id = ?").run(JSON.stringify(record), id);
      db.prepare("UPDATE timers SET due_at = due_at - ?").run(ms);
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
  throw new Error(`no object of the edge holds ${id}`);
}
