/** Objects of a sandbox: bytes under keys, kept outside of its machine. */
import { z } from "zod";
import { StateKey } from "./state.ts";

export const objectLimits = {
  /** One put, or one part of an upload, bytes. */
  putBytesMax: 100 * 1_048_576,
  /** A body whose length is not said, bytes. */
  unmeasuredBytesMax: 8 * 1_048_576,
  /** An object, bytes, and the parts it is uploaded in. */
  bytesMax: 5 * 1_073_741_824,
  partsMax: 1000,
  /** All objects of a sandbox. */
  totalBytesMax: 10 * 1_073_741_824,
  countMax: 100_000,
  /** Uploads in parts at once, and how long one may take, seconds. */
  uploadsMax: 100,
  uploadSeconds: 7 * 86_400,
  listMax: 1000,
  /** A signed URL lasts for an hour unless it says, and at most for a week, seconds. */
  signSecondsDefault: 3600,
  signSecondsMax: 7 * 86_400,
} as const;

const Time = z.iso.datetime();

export const ObjectKey = StateKey;
const ContentType = z
  .string()
  .min(1)
  .max(255)
  .regex(/^[ -~]+$/, "printable ASCII");
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/, "a SHA-256 in hexadecimal");

export const StoredObject = z
  .object({
    key: z.string(),
    bytes: z.int(),
    /** Says what the bytes are: the same only for the same. */
    etag: z.string(),
    /** null for one that was uploaded in parts. */
    sha256: z.string().nullable(),
    contentType: z.string(),
    updatedAt: Time,
    by: z.string(),
  })
  .meta({ id: "StoredObject" });
export type StoredObject = z.infer<typeof StoredObject>;

/** Query of `PUT .../objects/{key}` and of parts. */
export const PutObjectQuery = z.strictObject({
  /** Bytes with another one are refused, `digest_mismatch`. */
  sha256: Sha256.optional(),
});

/** Query of `GET .../objects`. */
export const ObjectListQuery = z.strictObject({
  prefix: z.string().max(512).optional(),
  /** Keys with a slash after the prefix are shown as one prefix each. */
  delimiter: z.literal("/").optional(),
  limit: z.coerce.number().int().min(1).max(objectLimits.listMax).optional(),
  cursor: z.string().max(1024).optional(),
});
export type ObjectListQuery = z.infer<typeof ObjectListQuery>;

export const ObjectList = z
  .object({ data: z.array(StoredObject), prefixes: z.array(z.string()), nextCursor: z.string().nullable() })
  .meta({ id: "ObjectList" });
export type ObjectList = z.infer<typeof ObjectList>;

export const DeletedObject = z.object({ key: z.string(), deleted: z.boolean() }).meta({ id: "DeletedObject" });
export type DeletedObject = z.infer<typeof DeletedObject>;

/** Body of `POST .../objects:sign`. */
export const SignObject = z
  .strictObject({
    key: ObjectKey,
    /** GET unless given. */
    method: z.enum(["GET", "PUT"]).optional(),
    /** 3600 unless given, at most a week. */
    expiresSeconds: z.int().min(1).max(objectLimits.signSecondsMax).optional(),
    /** Of PUT: what is stored with it, whatever the sender says. */
    contentType: ContentType.optional(),
    /** Of PUT: largest body, bytes. */
    maxBytes: z.int().min(1).max(objectLimits.putBytesMax).optional(),
  })
  .meta({ id: "SignObject" });
export type SignObject = z.infer<typeof SignObject>;

export const SignedObject = z
  .object({ url: z.string(), method: z.enum(["GET", "PUT"]), key: z.string(), expiresAt: Time })
  .meta({ id: "SignedObject" });
export type SignedObject = z.infer<typeof SignedObject>;

export const ObjectUploadId = z.string().regex(/^upl-[0-9a-z]{20}$/, "an upload id such as upl-...");

/** Body of `POST .../object-uploads`. */
export const BeginObjectUpload = z
  .strictObject({ key: ObjectKey, contentType: ContentType.optional() })
  .meta({ id: "BeginObjectUpload" });
export type BeginObjectUpload = z.infer<typeof BeginObjectUpload>;

/** A part that is there. */
export const ObjectPart = z.object({ part: z.int(), bytes: z.int(), sha256: z.string() }).meta({ id: "ObjectPart" });
export type ObjectPart = z.infer<typeof ObjectPart>;

export const ObjectUpload = z
  .object({
    id: ObjectUploadId,
    key: z.string(),
    contentType: z.string(),
    createdAt: Time,
    expiresAt: Time,
    parts: z.array(ObjectPart),
  })
  .meta({ id: "ObjectUpload" });
export type ObjectUpload = z.infer<typeof ObjectUpload>;

/** Body of `:complete`. */
export const CompleteObjectUpload = z
  .strictObject({
    /** How many parts it has, 1 to this: one that is missing is found so. */
    parts: z.int().min(1).max(objectLimits.partsMax),
  })
  .meta({ id: "CompleteObjectUpload" });
export type CompleteObjectUpload = z.infer<typeof CompleteObjectUpload>;

export const AbortedObjectUpload = z
  .object({ id: ObjectUploadId, aborted: z.literal(true) })
  .meta({ id: "AbortedObjectUpload" });
export type AbortedObjectUpload = z.infer<typeof AbortedObjectUpload>;

/** What a signed URL says (`ticket.ts`, purpose `object`): one key of one sandbox, by one method, until a time. */
export const ObjectToken = z.object({
  /** Account. */
  a: z.string(),
  /** Sandbox id. */
  s: z.string(),
  /** Key. */
  k: z.string(),
  m: z.enum(["GET", "PUT"]),
  /** Largest body, bytes. */
  b: z.int().optional(),
  /** Content type. */
  t: z.string().optional(),
  /** Who made it. */
  by: z.string(),
  /** Ends at, Unix milliseconds. */
  e: z.number(),
});
export type ObjectToken = z.infer<typeof ObjectToken>;
