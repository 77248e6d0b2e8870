/** Many timers on the one alarm an object has. */

/** `step`: a host call is due or under way; `timer`: of a program in a sleeper; the others say themselves. */
export const timerKinds = [
  "step",
  "retention",
  "lease",
  "holds",
  "timer",
  "outbox",
  "configure",
  "answers",
  "errands",
  "events",
] as const;
export type TimerKind = (typeof timerKinds)[number];

export class Timers {
  readonly #storage: DurableObjectStorage;
  /** The alarm as last set; undefined when there is none, or it is not known. */
  #armedAt: number | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  set(kind: TimerKind, dueAt: number | null): void {
    if (dueAt === null) this.#storage.sql.exec("DELETE FROM timers WHERE kind = ?", kind);
    else this.#storage.sql.exec("INSERT OR REPLACE INTO timers (kind, due_at) VALUES (?, ?)", kind, dueAt);
  }

  /** Like `set`, but an earlier time that is set already stays. */
  atLatest(kind: TimerKind, dueAt: number): void {
    this.#storage.sql.exec(
      "INSERT INTO timers (kind, due_at) VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET due_at = MIN(due_at, excluded.due_at)",
      kind,
      dueAt,
    );
  }

  due(now: number): TimerKind[] {
    const rows = this.#storage.sql
      .exec<{ kind: TimerKind }>("SELECT kind FROM timers WHERE due_at <= ? ORDER BY due_at", now)
      .toArray();
    return rows.map((row) => row.kind);
  }

  /**
   * See that the alarm goes off by the earliest timer. One that goes off sooner is left alone: it finds nothing due and
   * sets the next, which costs less than setting it twice in every change. Not awaited: the output gate holds answers
   * until it is stored.
   */
  arm(): void {
    const next = this.#next();
    if (next === null || (this.#armedAt !== undefined && this.#armedAt <= next)) return;
    this.#armedAt = next;
    void this.#storage.setAlarm(next);
  }

  /** The alarm has gone off: until `rearm`, a crash is survived by an alarm at `safetyAt`. */
  async fired(safetyAt: number): Promise<void> {
    this.#armedAt = safetyAt;
    await this.#storage.setAlarm(safetyAt);
  }

  /** Set the alarm to just the earliest timer, or to none. */
  rearm(): void {
    const next = this.#next();
    this.#armedAt = next ?? undefined;
    void (next === null ? this.#storage.deleteAlarm() : this.#storage.setAlarm(next));
  }

  #next(): number | null {
    return this.#storage.sql.exec<{ at: number | null }>("SELECT MIN(due_at) AS at FROM timers").one().at;
  }
}
