/** Blobs in a folder, by workerd's own disk service. */
import { env } from "cloudflare:workers";
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { blobStore } from "../../durable/vault/blob-store.ts";
import { blobFile, DiskBlobStore } from "../../durable/vault/disk-blob-store.ts";

declare global {
  namespace Cloudflare {
    interface Env {
      TEST_DISK: Fetcher;
    }
  }
}

let folder = "";
beforeEach(() => {
  folder = `t${crypto.randomUUID()}`;
});

const store = blobStore({ ...env, BLOBS_DISK: env.TEST_DISK });
const bytes = crypto.getRandomValues(new Uint8Array(60_000));
const announced = { bytes: bytes.byteLength, sha256: createHash("sha256").update(bytes).digest("hex") };
const CHUNK = 7000;

/** In pieces; `fault`: it breaks off in the end. */
function streamOf(content: Uint8Array, fault?: Error): ReadableStream {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at < content.byteLength) controller.enqueue(content.slice(at, (at += CHUNK)));
      else if (fault) controller.error(fault);
      else controller.close();
    },
  });
}

/** Names in a folder of the disk. */
async function names(path: string): Promise<string[]> {
  const response = await env.TEST_DISK.fetch(`http://disk/${path}`);
  if (response.status === 404) return [];
  return (await response.json<{ name: string }[]>()).map(({ name }) => name);
}

describe("a folder of blobs", () => {
  it("is taken where there is one", () => {
    expect(store).toBeInstanceOf(DiskBlobStore);
  });

  it("has what was put there, whole, until it is deleted", async () => {
    const key = `blobs/${folder}/one`;
    expect([await store.head(key), await store.get(key)]).toEqual([null, null]);
    expect(await Promise.all([1, 2].map(() => store.put(key, streamOf(bytes), announced)))).toEqual([true, true]);
    expect(await store.head(key)).toBe(bytes.byteLength);
    const found = await store.get(key);
    expect(found?.bytes).toBe(bytes.byteLength);
    expect(new Uint8Array(await new Response(found?.body).arrayBuffer())).toEqual(bytes);
    expect(await names(`blobs/${folder}`)).toEqual(["one.blob"]);
    await store.delete([key, `blobs/${folder}/never`]);
    await store.delete([key]);
    expect(await store.get(key)).toBeNull();
  });

  it("takes nothing but what was announced", async () => {
    const key = `blobs/${folder}/one`;
    const other = bytes.map((byte) => byte ^ 1);
    for (const content of [other, bytes.slice(1), new Uint8Array([...bytes, 1]), new Uint8Array(0)])
      expect(await store.put(key, streamOf(content), announced)).toBe(false);
    expect(await store.put(key, new Blob([other]).stream(), announced)).toBe(false);
    await expect(
      store.put(key, streamOf(bytes.slice(0, 3 * CHUNK), new Error("cut")), announced),
    ).rejects.toBeInstanceOf(Error);
    await expect(store.put(key, streamOf(bytes, new Error("cut")), announced)).rejects.toBeInstanceOf(Error);
    expect(await store.head(key)).toBeNull();
    expect(await names(`blobs/${folder}`)).toEqual([]);
  });

  it("keeps what is there when another body under its key is refused", async () => {
    const key = `blobs/${folder}/one`;
    await store.put(key, streamOf(bytes), announced);
    expect(await store.put(key, streamOf(bytes.slice(1)), announced)).toBe(false);
    expect(await store.head(key)).toBe(bytes.byteLength);
  });

  it("never deletes a folder, nor leaves its own", async () => {
    await store.put(`blobs/${folder}/one`, streamOf(bytes), announced);
    await store.delete([`blobs/${folder}`]);
    expect(await store.head(`blobs/${folder}/one`)).toBe(bytes.byteLength);
    for (const key of [
      "",
      "one",
      "/one",
      "a/",
      "a//b",
      "../a/b",
      "a/..",
      "a/.b",
      "a/b.c",
      "a/%2e%2e",
      "a/b?c",
      "a\\b/c",
    ]) {
      expect(() => blobFile(key)).toThrow("no key");
      await expect(store.delete([key])).rejects.toThrow("no key");
    }
  });
});
