/** An entry as it is kept, what it counts, and how it is shown. Pure. */
import {
  memoryLimits,
  type MemoryAuthor,
  type MemoryEntry,
  type MemoryFilter,
  type NewMemory,
} from "../../sdk/contract/memory.ts";
import { BASE36 } from "../../sdk/contract/random.ts";
import { refuse } from "../result.ts";
import { iso } from "../time.ts";

export type Origin = NonNullable<MemoryEntry["origin"]>;

/** Times in Unix milliseconds. */
export interface EntryRecord {
  readonly seq: number;
  readonly id: string;
  readonly text: string;
  readonly metadata: NonNullable<NewMemory["metadata"]>;
  readonly tags: readonly string[];
  readonly author: MemoryAuthor;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
  /** Whoever changed it last. */
  readonly updatedBy: MemoryAuthor | null;
  readonly dimension: number | null;
  readonly bytes: number;
  readonly origin: Origin | null;
}

/** What an entry counts towards the memory's size, bytes. @param dimension 0: it has no embedding */
export function sizeOf(
  { text, metadata, tags }: Pick<EntryRecord, "text" | "metadata" | "tags">,
  dimension: number,
): number {
  const encoder = new TextEncoder();
  const parts = [text, JSON.stringify(metadata), JSON.stringify(tags)];
  const own: number = memoryLimits.entryBytes;
  return parts.reduce((sum, part) => sum + encoder.encode(part).byteLength, own) + 4 * dimension;
}

export function shown(record: EntryRecord, embedding?: readonly number[]): MemoryEntry {
  const { id, text, metadata, author, updatedBy, version, origin, dimension } = record;
  return {
    ...{ id, text, metadata, tags: [...record.tags], author },
    ...{ createdAt: iso(record.createdAt), updatedAt: iso(record.updatedAt), updatedBy, version },
    dimension,
    ...(embedding ? { embedding: [...embedding] } : {}),
    ...(origin ? { origin } : {}),
  };
}

const TIME_DIGITS = 9;
const COUNT_DIGITS = 3;
const TAIL_DIGITS = 8;
const COUNT_MAX = 36 ** COUNT_DIGITS;

/** An id after `last`: the time, a count within its millisecond, and a random tail. @param last "": there was none */
export function nextId(last: string, now: number): string {
  const lastAt = last === "" ? 0 : Number.parseInt(last.slice(4, 4 + TIME_DIGITS), 36);
  const lastCount = last === "" ? 0 : Number.parseInt(last.slice(4 + TIME_DIGITS, 4 + TIME_DIGITS + COUNT_DIGITS), 36);
  // A clock that was set back does not put what is new before what is old.
  const isNewer = now > lastAt;
  const isFull = !isNewer && lastCount + 1 >= COUNT_MAX;
  const at = isNewer ? now : lastAt + (isFull ? 1 : 0);
  const count = isNewer || isFull ? 0 : lastCount + 1;
  const digits = (value: number, length: number) => value.toString(36).padStart(length, "0");
  const tail = [...crypto.getRandomValues(new Uint8Array(TAIL_DIGITS))].map((byte) => BASE36[byte % 36]).join("");
  return `mem-${digits(at, TIME_DIGITS)}${digits(count, COUNT_DIGITS)}${tail}`;
}

export interface Where {
  readonly sql: string;
  readonly bindings: readonly (string | number)[];
}

/** A filter as a condition on `entries AS e`. */
export function whereOf({ tags = [], author, since, until, metadata = {} }: MemoryFilter): Where {
  const conditions: string[] = [];
  const bindings: (string | number)[] = [];
  const add = (condition: string, ...values: (string | number)[]) => {
    conditions.push(condition);
    bindings.push(...values);
  };
  for (const tag of new Set(tags)) add("EXISTS (SELECT 1 FROM tags AS t WHERE t.tag = ? AND t.seq = e.seq)", tag);
  if (author !== undefined) add("(e.author_id = ? OR e.author_name = ?)", author, author);
  if (since !== undefined) add("e.created_at >= ?", Date.parse(since));
  if (until !== undefined) add("e.created_at < ?", Date.parse(until));
  for (const [key, value] of Object.entries(metadata)) {
    const is = "EXISTS (SELECT 1 FROM json_each(e.metadata) AS m WHERE m.key = ? AND";
    if (typeof value === "string") add(`${is} m.type = 'text' AND m.value = ?)`, key, value);
    else if (typeof value === "number") add(`${is} m.type IN ('integer', 'real') AND m.value = ?)`, key, value);
    else add(`${is} m.type = ?)`, key, String(value));
  }
  return { sql: conditions.length === 0 ? "1" : conditions.join(" AND "), bindings };
}

export function otherDimension(given: number, common: number): ReturnType<typeof refuse> {
  const message = `The memory's embeddings have ${common} numbers; this one has ${given}.`;
  const issues = [{ path: "embedding", message: `${common} numbers` }];
  return refuse("invalid_request", message, { dimension: common, issues });
}
