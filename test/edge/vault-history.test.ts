import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { eventually } from "./client.ts";
import { expectGone, facts, freshBlob, freshVault, note, owned, stored, uploaded, type TestBlob } from "./vaults.ts";
import { seeded } from "../support/random.ts";

/** What a vault should say, by lists and nothing else. */
class Model {
  readonly pending = new Map<string, string>();
  /** Owner, manifest. */
  readonly committed: [owner: string, manifest: string][] = [];
  readonly blobsOf = new Map<string, TestBlob[]>();
  /** Of each blob, who refers to it, in the order in which they came. */
  readonly referrers = new Map<string, string[]>();
  readonly #sizes = new Map<string, number>();

  isReferred(blob: string): boolean {
    return (this.referrers.get(blob) ?? []).length > 0;
  }

  refer(owner: string, manifest: string): void {
    if (this.committed.some(([one, other]) => one === owner && other === manifest)) return;
    this.committed.push([owner, manifest]);
    for (const { id, bytes } of this.blobsOf.get(manifest) ?? []) {
      this.#sizes.set(id, bytes.byteLength);
      const referrers = this.referrers.get(id) ?? [];
      if (!referrers.includes(owner)) referrers.push(owner);
      this.referrers.set(id, referrers);
    }
  }

  release(owner: string, manifests: string[] | null): void {
    const isMeant = (manifest: string) => manifests === null || manifests.includes(manifest);
    if (isMeant(this.pending.get(owner) ?? "")) this.pending.delete(owner);
    const left = this.committed.filter(([one, manifest]) => one !== owner || !isMeant(manifest));
    this.committed.splice(0, this.committed.length, ...left);
    const kept = new Set(
      left
        .filter(([one]) => one === owner)
        .flatMap(([, manifest]) => (this.blobsOf.get(manifest) ?? []).map(({ id }) => id)),
    );
    for (const [id, referrers] of this.referrers)
      if (!kept.has(id))
        this.referrers.set(
          id,
          referrers.filter((one) => one !== owner),
        );
  }

  manifestsOf(owner: string): string[] {
    return this.committed.filter(([one]) => one === owner).map(([, manifest]) => manifest);
  }

  owned(owner: string): number[] {
    const sum = (mine: (referrers: string[]) => boolean) =>
      [...this.referrers].reduce((total, [id, list]) => total + (mine(list) ? (this.#sizes.get(id) ?? 0) : 0), 0);
    return [sum(([first]) => first === owner), sum((list) => list.includes(owner))];
  }

  referred(): string[] {
    return [...this.referrers.keys()].filter((id) => this.isReferred(id));
  }

  /** Blobs of pending manifests that no committed one names. */
  pendingBlobs(): Set<string> {
    const all = [...this.pending.values()].flatMap((manifest) =>
      (this.blobsOf.get(manifest) ?? []).map(({ id }) => id),
    );
    return new Set(all.filter((id) => !this.isReferred(id)));
  }
}

describe("any history of a vault", () => {
  const owners = ["a", "b", "c"];

  it.each([1, 2, 3, 4, 5])(
    "keeps what is referred to, removes the rest, and counts each blob once (seed %i)",
    async (seed) => {
      const vault = freshVault();
      const model = new Model();
      const next = seeded(seed);
      const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)] as T;
      const pool = await Promise.all(Array.from({ length: 10 }, (_, index) => freshBlob(10 + index * 7)));

      const begin = async (owner: string) => {
        const manifest = await freshBlob(20);
        const blobs = [manifest, ...pool.filter(() => next() < 0.4)];
        const asKnown = blobs.filter(() => next() < 0.5);
        const bold = asKnown.filter(({ id }) => !model.isReferred(id));
        const honest = next() < 0.8;
        const notes = blobs.map((blob) =>
          note(blob, honest ? !asKnown.includes(blob) || bold.includes(blob) : !asKnown.includes(blob)),
        );
        const isRefused = !honest && bold.length > 0;
        const refusal = { failure: { code: "conflict", details: { missing: bold.map(({ id }) => id) } } };
        expect(await vault.api.begin(owner, manifest.id, notes)).toMatchObject(isRefused ? refusal : { ok: true });
        if (isRefused) return;
        model.blobsOf.set(manifest.id, blobs);
        model.pending.set(owner, manifest.id);
      };
      const commit = async (owner: string) => {
        const manifest = model.pending.get(owner);
        if (manifest === undefined) return;
        // The manifest itself is the one blob that was never there before.
        const complete = next() < 0.8;
        for (const blob of model.blobsOf.get(manifest) ?? [])
          if (!model.isReferred(blob.id) && (complete || blob.id !== manifest)) await uploaded(vault, blob);
        if (complete) {
          model.refer(owner, manifest);
          model.pending.delete(owner);
        }
        const [ownedBytes, storedBytes] = model.owned(owner);
        const refusal = { failure: { code: "conflict", details: { missing: [manifest] } } };
        expect(await vault.api.commit(owner, manifest)).toMatchObject(
          complete ? { ok: true, ownedBytes, storedBytes } : refusal,
        );
      };
      const release = async (owner: string) => {
        const manifests = next() < 0.3 ? null : model.manifestsOf(owner).filter(() => next() < 0.5);
        model.release(owner, manifests);
        expect(await vault.api.release(owner, manifests)).toEqual({ ok: true });
      };
      const share = async (owner: string) => {
        const manifest = pick(model.manifestsOf(owner));
        if (manifest === undefined) return;
        const to = pick(owners);
        expect(await vault.api.share(owner, manifest, to)).toMatchObject({ ok: true });
        model.refer(to, manifest);
      };

      for (let step = 0; step < 50; step += 1) {
        const work = pick([begin, begin, commit, commit, commit, release, share])(pick(owners));
        // Its alarm may go off at any time.
        await Promise.all([work, next() < 0.5 ? runDurableObjectAlarm(vault.stub) : undefined]);
        if (next() < 0.1) await evictDurableObject(vault.stub);

        const there = await stored(vault);
        const referred = model.referred();
        expect(referred.filter((id) => !there.has(id))).toEqual([]);
        const counts = await Promise.all(owners.map((owner) => owned(vault, owner)));
        expect(counts).toEqual(owners.map((owner) => model.owned(owner)));
        const { referenced, pending } = await facts(vault);
        expect(referenced.blobs).toBe(referred.length);
        expect(counts.reduce((sum, [bytes = 0]) => sum + bytes, 0)).toBe(referenced.bytes);
        expect(pending.blobs).toBe(model.pendingBlobs().size);
        for (const owner of owners)
          expect(await vault.api.manifestsOf(owner)).toEqual({ ok: true, manifests: model.manifestsOf(owner) });
      }
      // With the garbage gone, just what is referred to is there.
      await eventually(
        async () => (await runDurableObjectAlarm(vault.stub), facts(vault)),
        ({ garbage }) => garbage.blobs === 0,
      );
      const allowed = new Set([...model.referred(), ...model.pendingBlobs()]);
      expect([...(await stored(vault))].filter((id) => !allowed.has(id))).toEqual([]);
      for (const owner of owners) await vault.api.release(owner, null);
      await expectGone(vault);
    },
  );
});
