/**
 * The object of one vault: knows which owner refers to which manifest, which manifest names which blobs, and removes
 * blobs that none names any more. Bytes never pass through it.
 */
import { DurableObject } from "cloudflare:workers";
import type { BlobNote } from "../../sdk/contract/archive.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { refuse, type Result } from "../result.ts";
import { blobKey, type Owned, type VaultApi, type VaultFacts } from "./api.ts";
import { blobStore, DELETE_MAX, type BlobStore } from "./blob-store.ts";
import { VaultStore } from "./store.ts";

/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;
/** Batches of one alarm; the next follows at once. */
const BATCHES_MAX = 5;
const RETRY_MS = 5000;
const RETRY_MAX_MS = 3_600_000;
/** Blobs that are looked for at once. */
const HEADS_AT_ONCE = 6;
/** Blobs that a refusal names at most. */
const NAMED_MAX = 100;

const nothing: Owned = { ownedBytes: 0, storedBytes: 0 };
const none = { blobs: 0, bytes: 0 };

export class VaultObject extends DurableObject<Env> implements VaultApi {
  /** Where the blobs are. Tests put one in its place that fails. */
  blobs: BlobStore;
  /** null: nothing was noted yet, or all is gone. */
  #store: VaultStore | null;
  #removing: Promise<boolean> | null = null;
  /** The alarm as last set; undefined when there is none, or it is not known. */
  #armedAt: number | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.blobs = blobStore(env);
    this.#store = VaultStore.existing(ctx.storage);
  }

  async begin(owner: string, manifest: string, blobs: readonly BlobNote[]): Promise<Result<unknown>> {
    const ids = new Set(blobs.map(({ id }) => id));
    if (ids.size !== blobs.length || !ids.has(manifest))
      return refuse("invalid_request", "The blobs of a manifest are named once each, the manifest among them.");
    const store = this.#open();
    // A blob that is being removed is noted anew only once it is gone.
    while (this.#store === store && store.isRemovingAny(blobs)) {
      if (!(await this.#remove(store))) return { ok: false, failure: storeFailed };
    }
    return this.#note(owner, manifest, blobs);
  }

  /** Without a pause between looking and noting: nothing is removed in between. */
  #note(owner: string, manifest: string, blobs: readonly BlobNote[]): Result<unknown> {
    const store = this.#open();
    try {
      if (store.isCommitted(owner, manifest)) return { ok: true };
      if (!store.agrees(manifest, blobs)) return refuse("conflict", "The manifest is known, with other blobs.");
      const { missing, wrongSize } = store.faultsOf(blobs);
      if (missing.length + wrongSize.length > 0) return unfit(missing, wrongSize);
      store.note(owner, manifest, blobs, Date.now());
      return { ok: true };
    } finally {
      this.#arm(store);
    }
  }

  async commit(owner: string, manifest: string): Promise<Result<Owned>> {
    const fault = await this.#lookFor(owner, manifest);
    // Things may have moved on while the blobs were looked for.
    const store = this.#store;
    if (store?.isReady(owner, manifest)) store.refer(owner, manifest);
    else if (!store?.isCommitted(owner, manifest)) return fault ?? notBegun();
    return { ok: true, ...store.owned(owner) };
  }

  async publish(owner: string, manifest: string, to: string): Promise<Result<{ manifest: string }>> {
    const isPublished = (this.#store?.manifestsOf(to).length ?? 0) > 0;
    const fault = isPublished ? null : await this.#lookFor(owner, manifest);
    const store = this.#store;
    const earlier = store?.manifestsOf(to)[0];
    if (!store || (earlier === undefined && !store.isReady(owner, manifest))) return fault ?? notBegun();
    if (earlier === undefined) store.refer(to, manifest);
    store.release(owner, null);
    this.#arm(store);
    return { ok: true, manifest: earlier ?? manifest };
  }

  async release(owner: string, manifests: readonly string[] | null): Promise<Result<unknown>> {
    const store = this.#store;
    if (!store) return { ok: true };
    store.release(owner, manifests);
    this.#arm(store);
    return { ok: true };
  }

  async share(from: string, manifest: string, to: string): Promise<Result<Owned>> {
    const store = this.#store;
    if (!store?.isCommitted(to, manifest)) {
      if (!store?.isCommitted(from, manifest)) return refuse("not_found", "There is no such manifest to share.");
      store.refer(to, manifest);
    }
    return { ok: true, ...store.owned(to) };
  }

  async owned(owner: string): Promise<Result<Owned>> {
    return { ok: true, ...(this.#store?.owned(owner) ?? nothing) };
  }

  async ownedOf(owners: readonly string[]): Promise<Result<{ owned: Record<string, Owned> }>> {
    const store = this.#store;
    return { ok: true, owned: Object.fromEntries(owners.map((owner) => [owner, store?.owned(owner) ?? nothing])) };
  }

  async manifestsOf(owner: string): Promise<Result<{ manifests: readonly string[] }>> {
    return { ok: true, manifests: this.#store?.manifestsOf(owner) ?? [] };
  }

  async admit(blob: string, bytes: number): Promise<Result<{ upload: string }>> {
    const upload = this.#store?.admit(blob, bytes, Date.now()) ?? null;
    if (!this.#store || upload === null)
      return refuse("conflict", "No manifest names that blob with that size: it was not announced, or dropped since.");
    this.#arm(this.#store);
    return { ok: true, upload };
  }

  async landed(upload: string, blob: string, bytes: number, stored: boolean): Promise<Result<unknown>> {
    // A removal that is under way may be over before the blob was there.
    await this.#removing;
    const store = stored ? this.#open() : this.#store;
    if (!store) return { ok: true };
    store.landed(upload, blob, bytes, stored);
    this.#arm(store);
    return { ok: true };
  }

  async inspect(): Promise<Result<VaultFacts>> {
    const empty: VaultFacts = { owners: 0, manifests: 0, referenced: none, pending: none, garbage: none };
    return { ok: true, ...(this.#store?.facts() ?? empty) };
  }

  override async alarm(): Promise<void> {
    const store = this.#store;
    if (!store) return;
    this.#armedAt = Date.now() + SAFETY_MS;
    await this.ctx.storage.setAlarm(this.#armedAt);
    try {
      store.dropStale(Date.now());
      for (let batch = 0; batch < BATCHES_MAX; batch += 1) {
        const now = Date.now();
        const dueAt = store.garbageAt(now);
        if (dueAt === null || dueAt > now || !(await this.#remove(store))) break;
      }
      await this.#rest(store);
    } catch (fault) {
      console.error(JSON.stringify({ level: "error", vault: this.ctx.id.name, fault: String(fault) }));
    }
  }

  /** Set the alarm to just when there is something to do. With nothing left, all that the object stored goes. */
  async #rest(store: VaultStore): Promise<void> {
    const { storage } = this.ctx;
    const next = store.nextAt(Date.now());
    this.#armedAt = next ?? undefined;
    if (store.isEmpty()) {
      this.#store = null;
      this.#armedAt = undefined;
      await Promise.all([storage.deleteAlarm(), storage.deleteAll()]);
    } else await (next === null ? storage.deleteAlarm() : storage.setAlarm(next));
  }

  /** See that the alarm goes off in time. Not awaited: the output gate holds answers until it is stored. */
  #arm(store: VaultStore): void {
    const next = store.nextAt(Date.now());
    if (next === null || (this.#armedAt !== undefined && this.#armedAt <= next)) return;
    this.#armedAt = next;
    void this.ctx.storage.setAlarm(next);
  }

  #open(): VaultStore {
    this.#store ??= VaultStore.create(this.ctx.storage, (this.ctx.id.name ?? "").split("/")[1] ?? "");
    return this.#store;
  }

  /** One batch of garbage goes; whoever asks meanwhile waits for the same. false: the store failed. */
  #remove(store: VaultStore): Promise<boolean> {
    this.#removing ??= this.#removeBatch(store).finally(() => {
      this.#removing = null;
    });
    return this.#removing;
  }

  async #removeBatch(store: VaultStore): Promise<boolean> {
    const batch = store.takeGarbage(DELETE_MAX, Date.now());
    if (batch.length === 0) return true;
    const { vault } = store;
    try {
      await this.blobs.delete(batch.map(({ id }) => blobKey(vault, id)));
    } catch (fault) {
      console.error(JSON.stringify({ level: "error", vault, fault: String(fault) }));
      store.failed(Date.now(), (failures) => Math.min(RETRY_MS * 2 ** (failures - 1), RETRY_MAX_MS));
      return false;
    }
    // The row is what remembers the blob, so it goes last.
    store.removed(batch);
    return true;
  }

  /** Look for the blobs of a pending manifest that nobody saw yet. null: they are there. */
  async #lookFor(owner: string, manifest: string): Promise<{ ok: false; failure: Failure } | null> {
    const store = this.#store;
    if (!store?.isPending(owner, manifest)) return notBegun();
    const { vault } = store;
    const queue = store.unverified(manifest);
    const missing: string[] = [];
    const wrongSize: string[] = [];
    const look = async () => {
      for (let blob = queue.pop(); blob; blob = queue.pop()) {
        const bytes = await this.blobs.head(blobKey(vault, blob.id));
        if (bytes === null) missing.push(blob.id);
        else if (bytes !== blob.bytes) wrongSize.push(blob.id);
        else if (this.#store === store) store.verify(blob.ordinal);
      }
    };
    try {
      await Promise.all(Array.from({ length: HEADS_AT_ONCE }, look));
    } catch (fault) {
      console.error(JSON.stringify({ level: "error", vault, fault: String(fault) }));
      return { ok: false, failure: storeFailed };
    }
    return missing.length + wrongSize.length > 0 ? unfit(missing, wrongSize) : null;
  }
}

const storeFailed: Failure = {
  code: "internal_error",
  message: "The store of blobs did not answer.",
  retryAfterMs: RETRY_MS,
};

function notBegun(): { ok: false; failure: Failure } {
  return refuse("conflict", "That manifest was not begun, or was dropped since.");
}

function unfit(missing: readonly string[], wrongSize: readonly string[]): { ok: false; failure: Failure } {
  return refuse("conflict", "Some blobs of the manifest are not there, or have another size.", {
    missing: missing.slice(0, NAMED_MAX),
    wrongSize: wrongSize.slice(0, NAMED_MAX),
  });
}
