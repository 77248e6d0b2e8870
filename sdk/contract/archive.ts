/**
 * Saved states off their host: what hosts and edge tell each other of them. A saved state is a manifest and packs
 * (both are *blobs*, addressed by the SHA-256 of their bytes, encrypted by the host before they leave it) in a *vault*.
 * Internal: the public API shows only `Durability`.
 */
import { z } from "zod";
import { AccountName } from "./account.ts";
import { AttachmentId, Generation } from "./names.ts";

/** Groups the blobs of one sandbox and of all that descends from it: what they share is stored once. */
export const VaultId = z.string().regex(/^[a-z]+-[0-9a-z]{16,64}$/, "a vault id");

/** SHA-256 of a blob's bytes, hex. */
export const BlobId = z.string().regex(/^[0-9a-f]{64}$/, "64 hex digits");

/** 32 bytes, base64url: opens one manifest, and with it all that the manifest names. */
export const ManifestKey = z.string().regex(/^[A-Za-z0-9_-]{43}$/, "32 bytes as base64url");

/** Largest blob, bytes. Packs aim at a quarter of it. */
export const BLOB_BYTES_MAX = 33_554_432;

/** Most blobs that one manifest may name. */
export const BLOBS_MAX = 65_536;

/** A saved state, and the right to fetch it. Held by objects and, in memory, by the host that runs the machine. */
export const SavedState = z.object({
  vault: VaultId,
  manifest: BlobId,
  key: ManifestKey,
  /** `VaultTicket`, signed by the edge, sent along with every call for a blob. */
  ticket: z.string(),
});
export type SavedState = z.infer<typeof SavedState>;

/** The right of one host to read or write the blobs of one vault. */
export const VaultTicket = z.object({
  /** Whose vault it is. */
  account: AccountName,
  vault: VaultId,
  host: z.string(),
  write: z.boolean(),
  /** Ends at, Unix milliseconds. */
  e: z.number(),
});
export type VaultTicket = z.infer<typeof VaultTicket>;

/** Carries a `VaultTicket` on `GET|HEAD|PUT /internal/blobs/{vault}/{blob}`. */
export const VAULT_TICKET_HEADER = "x-rouse-vault-ticket";

export const blobPath = (vault: string, blob: string): string => `/internal/blobs/${vault}/${blob}`;

/** A blob of a manifest. `isNew` ones are about to be uploaded; the others are in the vault already. */
export const BlobNote = z.object({ id: BlobId, bytes: z.int().min(1).max(BLOB_BYTES_MAX), isNew: z.boolean() });
export type BlobNote = z.infer<typeof BlobNote>;

/**
 * `POST /internal/accounts/{account}/machines/{id}/archive`, host key: a host moves a sleeper's state off itself, in
 * three steps, each repeatable. Intent is noted before a byte is sent, so that no blob is ever without an owner.
 */
export const ArchiveStep = z.discriminatedUnion("step", [
  /** The machine sleeps in that generation, and its state may be read. Answered with a permit, or refused: it moved on. */
  z.object({ step: z.literal("begin"), generation: Generation }),
  /** It is sealed and synced on the host (`local`); these blobs are about to be uploaded. The manifest is one of them. */
  z.object({
    step: z.literal("upload"),
    generation: Generation,
    manifest: BlobId,
    blobs: z.array(BlobNote).max(BLOBS_MAX),
    /** Bytes of RAM, disk and devices that the state stands for. */
    logicalBytes: z.int().min(0),
    /** Without RAM: of a machine that was stopped. */
    diskOnly: z.boolean(),
    /** Hosts that say the same of themselves can load it. */
    compatibility: z.string(),
    /** Of a volume: nothing was mounted, or writing stood still; it mounts read-only as it is. */
    clean: z.boolean().optional(),
    /** Of a machine: the states of its volumes that belong to this one, stored already. */
    volumes: z.array(z.object({ attachment: AttachmentId, manifest: BlobId })).optional(),
  }),
  /** All are stored. */
  z.object({ step: z.literal("commit"), generation: Generation, manifest: BlobId }),
  /** The host keeps nothing of it any more. */
  z.object({ step: z.literal("cold"), generation: Generation }),
]);
export type ArchiveStep = z.infer<typeof ArchiveStep>;

/** Answer to `begin`. */
export const ArchivePermit = z.object({
  vault: VaultId,
  key: ManifestKey,
  ticket: z.string(),
  /** The newest state that is stored: what did not change since is not stored again. */
  previous: z.object({ manifest: BlobId, key: ManifestKey }).nullable(),
});
export type ArchivePermit = z.infer<typeof ArchivePermit>;

/** Answer to `commit`. */
export const ArchiveStored = z.object({
  /** Bytes in the vault that are this sandbox's alone. */
  ownedBytes: z.int().min(0),
});
export type ArchiveStored = z.infer<typeof ArchiveStored>;

/**
 * A golden state and its image, which sleepers' states are the difference to. `id` is made up when the golden state is
 * made: two hosts that build the same recipe get different bytes.
 */
export const GoldenId = z.string().regex(/^[0-9a-f]{32}$/, "32 hex digits");

/**
 * `POST /internal/bases/{goldenId}/archive`, host key: a golden state leaves its host once, for all hosts. Whoever
 * commits first has published it. `begin` is answered with an `ArchivePermit` (without `previous`), `upload` with
 * `{ok: true}`, `commit` with `BasePublished`; and each step with `BasePublished` once it is published, by whomever.
 * `GET /internal/bases/{goldenId}` then answers its `SavedState`.
 */
export const BaseStep = z.discriminatedUnion("step", [
  z.object({ step: z.literal("begin") }),
  z.object({ step: z.literal("upload"), manifest: BlobId, blobs: z.array(BlobNote).max(BLOBS_MAX) }),
  z.object({ step: z.literal("commit"), manifest: BlobId }),
]);
export type BaseStep = z.infer<typeof BaseStep>;

/** There is nothing left to do for a golden state. */
export const BasePublished = z.object({ published: z.literal(true) });
export type BasePublished = z.infer<typeof BasePublished>;
