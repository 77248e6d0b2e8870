import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { blobKey, PENDING_MS, UPLOAD_MS } from "../../durable/vault/api.ts";
import type { BlobNote } from "../../sdk/contract/archive.ts";
import { eventually } from "./client.ts";
import {
  alarms,
  committed,
  expectGone,
  facts,
  freshBlob,
  freshVault,
  instead,
  later,
  note,
  owned,
  stored,
  uploaded,
  type TestBlob,
} from "./vaults.ts";

describe("a vault", () => {
  it("keeps blobs while a manifest names them, and ends with its last owner", async () => {
    const vault = freshVault();
    const [shared, first, second] = [await freshBlob(1000), await freshBlob(200), await freshBlob(30)];
    const one = await committed(vault, "a", [shared, first]);
    expect(await owned(vault, "a")).toEqual([1300, 1300]);

    const two = await freshBlob();
    expect(await vault.api.begin("a", two.id, [note(two), note(shared, false), note(second)])).toEqual({ ok: true });
    await uploaded(vault, two, second);
    expect(await vault.api.commit("a", two.id)).toEqual({ ok: true, ownedBytes: 1430, storedBytes: 1430 });
    expect(await vault.api.manifestsOf("a")).toEqual({ ok: true, manifests: [one.id, two.id] });

    await vault.api.release("a", [one.id]);
    await alarms(vault);
    expect(await stored(vault)).toEqual(new Set([shared.id, second.id, two.id]));
    expect(await facts(vault)).toEqual({
      owners: 1,
      manifests: 1,
      referenced: { blobs: 3, bytes: 1130 },
      pending: { blobs: 0, bytes: 0 },
      garbage: { blobs: 0, bytes: 0 },
    });
    await vault.api.release("a", null);
    await expectGone(vault);
    await vault.api.release("a", null);
    await expectGone(vault);
  });

  it("counts a shared blob for one owner: who referred to it first, then the next", async () => {
    const vault = freshVault();
    const manifest = await committed(vault, "sandbox", [await freshBlob(1000)]);
    const share = () => vault.api.share("sandbox", manifest.id, "snapshot");
    expect(await Promise.all([share(), share()])).toEqual(
      Array(2).fill({ ok: true, ownedBytes: 0, storedBytes: 1100 }),
    );
    expect(await vault.api.share("snapshot", manifest.id, "fork")).toMatchObject({ ok: true });
    await vault.api.release("sandbox", null);
    expect(await share()).toMatchObject({ ok: true });
    expect(await vault.api.share("sandbox", manifest.id, "other")).toMatchObject({
      ok: false,
      failure: { code: "not_found" },
    });
    await alarms(vault);
    expect(await owned(vault, "snapshot")).toEqual([1100, 1100]);
    expect(await owned(vault, "fork")).toEqual([0, 1100]);
    await vault.api.release("snapshot", null);
    expect(await owned(vault, "fork")).toEqual([1100, 1100]);
    await vault.api.release("fork", null);
    await expectGone(vault);
  });

  it("an owner keeps its place while it refers to a blob through any manifest", async () => {
    const vault = freshVault();
    const shared = await freshBlob(1000);
    const one = await committed(vault, "a", [shared]);
    await vault.api.share("a", one.id, "b");
    await committed(vault, "a", [shared]);
    await vault.api.release("a", [one.id]);
    expect(await owned(vault, "a")).toEqual([1100, 1100]);
    expect(await owned(vault, "b")).toEqual([100, 1100]);
  });

  it("leaves no trace of questions and refusals", async () => {
    const vault = freshVault();
    expect(await owned(vault, "a")).toEqual([0, 0]);
    expect(await vault.api.commit("a", (await freshBlob()).id)).toMatchObject({ failure: { code: "conflict" } });
    const [manifest, blob] = [await freshBlob(), await freshBlob()];
    expect(await vault.api.begin("a", manifest.id, [note(manifest), note(blob, false)])).toMatchObject({
      failure: { code: "conflict", details: { missing: [blob.id], wrongSize: [] } },
    });
    await expectGone(vault);
  });

  it("refuses lists that can't be", async () => {
    const vault = freshVault();
    const blob = await freshBlob();
    const manifest = await committed(vault, "a", [blob]);
    const begin = async (id: string, ...blobs: BlobNote[]) => {
      const answer = await vault.api.begin("b", id, blobs);
      return answer.ok ? null : answer.failure;
    };
    const other = await freshBlob();
    expect(await begin(other.id, note(blob))).toMatchObject({ code: "invalid_request" });
    expect(await begin(other.id, note(other), note(other))).toMatchObject({ code: "invalid_request" });
    expect(await begin(manifest.id, note(manifest))).toMatchObject({ code: "conflict" });
    expect(await begin(other.id, note(other), { ...note(blob), bytes: 7 })).toMatchObject({
      code: "conflict",
      details: { wrongSize: [blob.id] },
    });
  });

  it("commits only what is there with its size, and once however often it is asked", async () => {
    const vault = freshVault();
    const [manifest, blob] = [await freshBlob(), await freshBlob()];
    const begin = () => vault.api.begin("a", manifest.id, [note(manifest), { ...note(blob), bytes: 99 }]);
    expect(await Promise.all([begin(), begin()])).toEqual([{ ok: true }, { ok: true }]);
    await uploaded(vault, manifest);
    const commit = () => vault.api.commit("a", manifest.id);
    expect(await commit()).toMatchObject({ failure: { code: "conflict", details: { missing: [blob.id] } } });
    await env.BLOBS.put(blobKey(vault.id, blob.id), blob.bytes);
    expect(await commit()).toMatchObject({ failure: { details: { missing: [], wrongSize: [blob.id] } } });
    await env.BLOBS.put(blobKey(vault.id, blob.id), blob.bytes.slice(1));
    await evictDurableObject(vault.stub);
    const answer = { ok: true, ownedBytes: 199, storedBytes: 199 };
    expect(await Promise.all([commit(), commit()])).toEqual([answer, answer]);
    await alarms(vault);
    expect(await commit()).toEqual(answer);
    expect(await begin()).toEqual({ ok: true });
    expect(await facts(vault)).toMatchObject({ owners: 1, manifests: 1, pending: { blobs: 0 } });
  });

  it("does not commit what was released meanwhile", async () => {
    const vault = freshVault();
    const manifest = await freshBlob();
    await vault.api.begin("a", manifest.id, [note(manifest)]);
    await env.BLOBS.put(blobKey(vault.id, manifest.id), manifest.bytes);
    const gate = { open: false, reached: false };
    await instead(vault, (store) => ({
      head: async (key) => {
        gate.reached = true;
        while (!gate.open) await scheduler.wait(5);
        return store.head(key);
      },
    }));
    const commit = vault.api.commit("a", manifest.id);
    await eventually(async () => gate.reached, Boolean);
    await vault.api.release("a", null);
    gate.open = true;
    expect(await commit).toMatchObject({ ok: false, failure: { code: "conflict" } });
    await expectGone(vault);
  });

  it("replaces an owner's pending manifest, and keeps what both name", async () => {
    const vault = freshVault();
    const [one, two, both, gone] = [await freshBlob(), await freshBlob(), await freshBlob(), await freshBlob()];
    await vault.api.begin("a", one.id, [note(one), note(both), note(gone)]);
    await uploaded(vault, both, gone);
    await vault.api.begin("a", two.id, [note(two), note(both)]);
    await alarms(vault);
    expect(await vault.api.commit("a", one.id)).toMatchObject({ ok: false, failure: { code: "conflict" } });
    expect(await stored(vault)).toEqual(new Set([both.id]));
    await uploaded(vault, two);
    expect(await vault.api.commit("a", two.id)).toMatchObject({ ok: true });
    // A late repeat of what is committed replaces nothing.
    const three = await freshBlob();
    await vault.api.begin("a", three.id, [note(three)]);
    expect(await vault.api.begin("a", two.id, [note(two), note(both)])).toEqual({ ok: true });
    await uploaded(vault, three);
    expect(await vault.api.commit("a", three.id)).toMatchObject({ ok: true, storedBytes: 300 });
    await vault.api.release("a", null);
    await expectGone(vault);
  });

  it("drops what is pending for a day, unless it is repeated", async () => {
    const vault = freshVault();
    const manifest = await freshBlob();
    await vault.api.begin("a", manifest.id, [note(manifest)]);
    await uploaded(vault, manifest);
    await later(PENDING_MS - 1000, async () => {
      await alarms(vault);
      await vault.api.begin("a", manifest.id, [note(manifest)]);
    });
    await later(PENDING_MS + 1000, () => alarms(vault));
    expect(await facts(vault)).toMatchObject({ pending: { blobs: 1, bytes: 100 } });
    await later(PENDING_MS * 2, async () => {
      await runDurableObjectAlarm(vault.stub);
      await expectGone(vault);
    });
  });

  it("goes on with a removal that failed half way, later and later", async () => {
    const vault = freshVault();
    await committed(vault, "a", [await freshBlob(), await freshBlob()]);
    let tries = 0;
    await instead(vault, (store) => ({
      delete: async (keys) => {
        tries += 1;
        await store.delete(keys.slice(0, 1));
        throw new Error("the store is away");
      },
    }));
    await vault.api.release("a", null);
    await eventually(
      async () => (await runDurableObjectAlarm(vault.stub), tries),
      (count) => count === 1,
    );
    await runDurableObjectAlarm(vault.stub);
    expect(tries).toBe(1);
    await later(6000, () => runDurableObjectAlarm(vault.stub));
    expect(tries).toBe(2);
    await later(12_000, () => runDurableObjectAlarm(vault.stub));
    expect(tries).toBe(2);
    expect(await facts(vault)).toMatchObject({ garbage: { blobs: 3, bytes: 300 } });
    await evictDurableObject(vault.stub);
    await later(60_000, () => expectGone(vault));
  });

  it("removes more than one batch", async () => {
    const vault = freshVault();
    const blobs = await Promise.all(Array.from({ length: 120 }, (_, index) => freshBlob(40 + index)));
    const [manifest] = blobs as [TestBlob];
    await vault.api.begin(
      "a",
      manifest.id,
      blobs.map((blob) => note(blob)),
    );
    for (const blob of blobs) await env.BLOBS.put(blobKey(vault.id, blob.id), blob.bytes);
    expect(await vault.api.commit("a", manifest.id)).toMatchObject({ ok: true });
    await vault.api.release("a", null);
    await expectGone(vault);
  });

  it("notes a blob that is being removed once it is gone", async () => {
    const vault = freshVault();
    const blob = await freshBlob();
    await committed(vault, "a", [blob]);
    const gate = { open: false, reached: false };
    await instead(vault, (store) => ({
      delete: async (keys) => {
        gate.reached = true;
        while (!gate.open) await scheduler.wait(5);
        await store.delete(keys);
      },
    }));
    await vault.api.release("a", null);
    const alarm = runDurableObjectAlarm(vault.stub);
    await eventually(async () => gate.reached, Boolean);
    const manifest = await freshBlob();
    const order: string[] = [];
    const again = (owner: string) =>
      vault.api.begin(owner, manifest.id, [note(manifest), note(blob)]).then((answer) => (order.push("noted"), answer));
    const begun = Promise.all([again("b"), again("c")]);
    // What is asked later is answered sooner: they wait.
    expect(await facts(vault)).toMatchObject({ garbage: { blobs: 2 } });
    order.push("opened");
    gate.open = true;
    expect(await begun).toEqual([{ ok: true }, { ok: true }]);
    await alarm;
    expect(order).toEqual(["opened", "noted", "noted"]);
    expect(await vault.api.commit("b", manifest.id)).toMatchObject({ ok: false });
    await uploaded(vault, manifest, blob);
    expect(await vault.api.commit("b", manifest.id)).toMatchObject({ ok: true });
    await alarms(vault);
    expect(await stored(vault)).toEqual(new Set([manifest.id, blob.id]));
  });

  it("refuses to note a blob that can't be removed now", async () => {
    const vault = freshVault();
    const blob = await freshBlob();
    await committed(vault, "a", [blob]);
    await instead(vault, () => ({ delete: () => Promise.reject(new Error("the store is away")) }));
    await vault.api.release("a", null);
    await eventually(
      async () => {
        await runDurableObjectAlarm(vault.stub);
        return vault.api.begin("b", blob.id, [note(blob)]);
      },
      (answer) => !answer.ok && answer.failure.retryAfterMs !== undefined,
    );
    await evictDurableObject(vault.stub);
    expect(await vault.api.begin("b", blob.id, [note(blob)])).toEqual({ ok: true });
    expect((await stored(vault)).has(blob.id)).toBe(false);
  });

  it("waits for uploads before it removes, and takes back what came late", async () => {
    const vault = freshVault();
    const blob = await freshBlob();
    await vault.api.begin("a", blob.id, [note(blob)]);
    const first = await vault.api.admit(blob.id, 100);
    const second = await vault.api.admit(blob.id, 100);
    if (!first.ok || !second.ok) throw new Error("not admitted");
    await vault.api.release("a", null);
    await alarms(vault);
    expect(await facts(vault)).toMatchObject({ garbage: { blobs: 1 } });
    expect(await vault.api.admit(blob.id, 100)).toMatchObject({ ok: false, failure: { code: "conflict" } });
    await vault.api.landed(first.upload, blob.id, 100, false);
    await alarms(vault);
    expect(await facts(vault)).toMatchObject({ garbage: { blobs: 1 } });
    await later(UPLOAD_MS + 1000, () => expectGone(vault));
    await env.BLOBS.put(blobKey(vault.id, blob.id), blob.bytes);
    await vault.api.landed(second.upload, blob.id, 100, true);
    await expectGone(vault);
  });
});
