/** State of a sandbox that is kept outside of its machine: keys with values, and a database of its own. */
import { z } from "zod";

export const stateLimits = {
  /** A key, bytes of UTF-8. */
  keyBytesMax: 512,
  /** A value, bytes. */
  valueBytesMax: 131_072,
  /** All keys, and the bytes of keys and values together. */
  keysMax: 100_000,
  bytesMax: 64 * 1_048_576,
  /** Checks of one batch, and writes of one. */
  batchMax: 128,
  listMax: 1000,
  /** How far ahead a value may end, seconds: ten years. */
  ttlSecondsMax: 315_360_000,
  /** The database, bytes. */
  sqlBytesMax: 256 * 1_048_576,
  /** Statements of one transaction; the text of one, bytes; its parameters. */
  statementsMax: 100,
  statementBytesMax: 100_000,
  paramsMax: 100,
  /** Rows of one transaction's answer, bytes of JSON. */
  resultBytesMax: 1_048_576,
} as const;

const Time = z.iso.datetime();
const encoder = new TextEncoder();

/** 1 to 512 bytes; a path can't hold `.` and `..` between slashes. */
export const StateKey = z
  .string()
  .min(1)
  .refine((key) => key.isWellFormed(), "a key is well-formed Unicode")
  .refine((key) => encoder.encode(key).length <= stateLimits.keyBytesMax, `at most ${stateLimits.keyBytesMax} bytes`)
  // oxlint-disable-next-line no-control-regex -- control characters are just what this refuses
  .refine((key) => !/[\u0000-\u001f\u007f]/.test(key), "a key has no control characters")
  .refine((key) => !/(?:^|\/)\.{1,2}(?:\/|$)/.test(key), "a key has no . or .. between slashes");

/** Of what is stored; grows with each write of the sandbox, so that no two values of a key have the same. */
const Version = z.int().min(1);
/** What a key must have: its version, or null: it must not be there. */
const Expected = Version.nullable();
const Ttl = z.int().min(1).max(stateLimits.ttlSecondsMax);
const ContentType = z
  .string()
  .min(1)
  .max(255)
  .regex(/^[ -~]+$/, "printable ASCII");
const Base64 = z.base64();

export const StateEntry = z
  .object({
    key: z.string(),
    version: Version,
    contentType: z.string(),
    /** Of the value. */
    bytes: z.int(),
    updatedAt: Time,
    expiresAt: Time.nullable(),
    /** Who wrote it: a key's id, or `sandbox:` with a label. */
    by: z.string(),
  })
  .meta({ id: "StateEntry" });
export type StateEntry = z.infer<typeof StateEntry>;

/** Query of `PUT .../state/keys/{key}`. */
export const PutStateQuery = z.strictObject({
  /** Seconds until it ends; for good unless given. */
  ttlSeconds: z.coerce.number().int().min(1).max(stateLimits.ttlSecondsMax).optional(),
});

export const DeletedState = z.object({ key: z.string(), deleted: z.boolean() }).meta({ id: "DeletedState" });
export type DeletedState = z.infer<typeof DeletedState>;

/** Query of `GET .../state/keys`. */
export const StateListQuery = z.strictObject({
  prefix: z.string().max(stateLimits.keyBytesMax).optional(),
  limit: z.coerce.number().int().min(1).max(stateLimits.listMax).optional(),
  cursor: z.string().max(1024).optional(),
});
export type StateListQuery = z.infer<typeof StateListQuery>;

export const StateList = z
  .object({ data: z.array(StateEntry), nextCursor: z.string().nullable() })
  .meta({ id: "StateList" });
export type StateList = z.infer<typeof StateList>;

const value = {
  /** JSON; or `base64`. */
  value: z.json().optional(),
  base64: Base64.optional(),
  /** Of `base64`: `application/octet-stream` unless given. */
  contentType: ContentType.optional(),
};

const Put = z
  .strictObject({ op: z.literal("put"), key: StateKey, ...value, ttlSeconds: Ttl.optional() })
  .refine((one) => (one.value === undefined) !== (one.base64 === undefined), "value or base64, and not both");

export const StateWrite = z.union([
  Put,
  z.strictObject({ op: z.literal("delete"), key: StateKey }),
  /** To a whole number; one that is not there is 0. */
  z.strictObject({ op: z.literal("add"), key: StateKey, by: z.int() }),
]);
export type StateWrite = z.infer<typeof StateWrite>;

/** Body of `.../state/keys:batch`: the writes in order, all or none, where every key has what is checked. */
export const StateBatch = z
  .strictObject({
    checks: z
      .array(z.strictObject({ key: StateKey, version: Expected }))
      .max(stateLimits.batchMax)
      .optional(),
    writes: z.array(StateWrite).max(stateLimits.batchMax),
  })
  .meta({ id: "StateBatch" });
export type StateBatch = z.infer<typeof StateBatch>;

/** What became of each write. */
export const StateBatched = z
  .object({
    data: z.array(
      z.object({
        key: z.string(),
        /** null: there is no such key now. */
        version: Version.nullable(),
        /** Of `add`: the sum. */
        value: z.int().optional(),
      }),
    ),
  })
  .meta({ id: "StateBatched" });
export type StateBatched = z.infer<typeof StateBatched>;

/** A parameter or a value of SQL. Bytes are `{base64}`. `true` and `false` are stored as 1 and 0. */
export const SqlParam = z.union([z.null(), z.number(), z.string(), z.boolean(), z.strictObject({ base64: Base64 })]);
export type SqlParam = z.infer<typeof SqlParam>;
export type SqlValue = null | number | string | { readonly base64: string };

export const SqlStatement = z.strictObject({
  sql: z
    .string()
    .min(1)
    .refine((sql) => encoder.encode(sql).length <= stateLimits.statementBytesMax, "at most 100,000 bytes"),
  /** For `?` in it, in order. */
  params: z.array(SqlParam).max(stateLimits.paramsMax).optional(),
});
export type SqlStatement = z.infer<typeof SqlStatement>;

/** Body of `.../state/sql`: one transaction. */
export const RunSql = z
  .strictObject({ statements: z.array(SqlStatement).min(1).max(stateLimits.statementsMax) })
  .meta({ id: "RunSql" });
export type RunSql = z.infer<typeof RunSql>;

export const SqlResult = z.object({
  columns: z.array(z.string()),
  rows: z.array(z.array(z.union([z.null(), z.number(), z.string(), z.object({ base64: z.string() })]))),
  rowsWritten: z.int(),
  /** There are more rows than the answer has room for. */
  truncated: z.boolean(),
});
export type SqlResult = z.infer<typeof SqlResult>;

export const SqlResults = z.object({ results: z.array(SqlResult) }).meta({ id: "SqlResults" });
export type SqlResults = z.infer<typeof SqlResults>;

const Held = z.object({ bytes: z.int(), maxBytes: z.int() });

/** What a sandbox keeps in its homes, and how much it may. */
export const StateUsage = z
  .object({
    keys: Held.extend({ count: z.int(), maxCount: z.int() }),
    sql: Held,
    queues: Held.extend({ tasks: z.int(), maxTasks: z.int() }),
    /** `reservedBytes`: of uploads under way; they count too. */
    objects: Held.extend({ count: z.int(), maxCount: z.int(), reservedBytes: z.int() }),
    /** All of it. */
    bytes: z.int(),
  })
  .meta({ id: "StateUsage" });
export type StateUsage = z.infer<typeof StateUsage>;
