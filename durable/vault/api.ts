/**
 * What the edge may ask of the object of one vault. Every method may be repeated. Owners are the caller's: a sandbox,
 * a snapshot, a golden state.
 */
import type { BlobNote } from "../../sdk/contract/archive.ts";
import type { Result } from "../result.ts";

export interface Owned {
  /** Bytes of committed blobs that count for this owner: of those who refer to a blob, the one that did first. */
  readonly ownedBytes: number;
  /** Bytes of all committed blobs that it refers to, shared ones too. */
  readonly storedBytes: number;
}

export interface Tally {
  readonly blobs: number;
  readonly bytes: number;
}

export interface VaultFacts {
  /** Owners with a committed manifest. */
  readonly owners: number;
  /** Committed manifests. */
  readonly manifests: number;
  /** Named by committed manifests. */
  readonly referenced: Tally;
  /** Named by pending manifests alone. */
  readonly pending: Tally;
  /** Named by none, and not removed yet. */
  readonly garbage: Tally;
}

export interface VaultApi {
  /**
   * Note a pending manifest and its blobs (the manifest is one of them), before a byte is sent. It replaces the owner's
   * earlier pending one. A day without a commit or a repeat ends it.
   * Refused with `conflict`: blobs that are said to be here and are in no committed manifest (`details.missing`), or
   * that are known with another size (`details.wrongSize`), or a known manifest with other blobs.
   */
  begin(owner: string, manifest: string, blobs: readonly BlobNote[]): Promise<Result<unknown>>;
  /**
   * The owner's pending manifest counts, once all its blobs are there. Refused with `conflict`: blobs are not
   * (`details.missing`, `details.wrongSize`), or it was not begun.
   */
  commit(owner: string, manifest: string): Promise<Result<Owned>>;
  /**
   * Like `commit`, but for `to`, and only when that has no manifest yet. Either way `owner` refers to nothing afterwards.
   * Answers the manifest that `to` has.
   */
  publish(owner: string, manifest: string, to: string): Promise<Result<{ readonly manifest: string }>>;
  /** The owner refers to them no more; null: to none, pending ones included. What nobody names is removed. */
  release(owner: string, manifests: readonly string[] | null): Promise<Result<unknown>>;
  /** `to` refers to a committed manifest of `from` too. `not_found`: `from` has no such manifest. */
  share(from: string, manifest: string, to: string): Promise<Result<Owned>>;
  owned(owner: string): Promise<Result<Owned>>;
  /** Of several owners; those that it does not know have nothing. */
  ownedOf(owners: readonly string[]): Promise<Result<{ readonly owned: Readonly<Record<string, Owned>> }>>;
  /** Committed manifests of an owner, the first referred to first. */
  manifestsOf(owner: string): Promise<Result<{ readonly manifests: readonly string[] }>>;
  /**
   * A blob is about to be stored. Until `landed`, or for `UPLOAD_MS`, it is not removed. `conflict`: no manifest names
   * it with that size.
   */
  admit(blob: string, bytes: number): Promise<Result<{ readonly upload: string }>>;
  /** An admitted upload is over. @param stored false: nothing was stored. */
  landed(upload: string, blob: string, bytes: number, stored: boolean): Promise<Result<unknown>>;
  inspect(): Promise<Result<VaultFacts>>;
}

/** How long an upload may take, milliseconds. */
export const UPLOAD_MS = 900_000;

/** How long a manifest may be pending, milliseconds. */
export const PENDING_MS = 86_400_000;

/** Under which key a blob is stored. Vault ids are unique among all accounts. */
export const blobKey = (vault: string, blob: string): string => `blobs/${vault}/${blob}`;

export function vaultObject(namespace: DurableObjectNamespace<never>, account: string, vault: string): VaultApi {
  return namespace.getByName(`${account}/${vault}`) as unknown as VaultApi;
}
