/** Stores of blobs, and uploads that go wrong on the way. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { blobPath, VAULT_TICKET_HEADER } from "../../sdk/contract/archive.ts";
import { upload, type Blobs } from "../../backend-pool/archive/blobs.ts";
import { DirectoryBlobs } from "../../backend-pool/archive/directory-blobs.ts";
import { EdgeBlobs } from "../../backend-pool/archive/edge-blobs.ts";
import { chance, folder, noise, Sleeper, write } from "./support.ts";

const VAULT = "vlt-0123456789abcdef";

/** A sealed folder of several packs. */
async function sealed() {
  const sleeper = await Sleeper.create(20_000_000, async () => undefined);
  await write(sleeper.ram, 0, noise(chance(51), 18_000_000, 4));
  return sleeper.seal(null);
}

/** An edge with a store in memory; `mishap` may answer a call with a status, or cut it with 0. */
async function edge(mishap: (req: IncomingMessage) => number | undefined = () => undefined) {
  const blobs = new Map<string, Buffer>();
  const calls: string[] = [];
  const server = createServer(async (req, res) => {
    const body = await buffer(req);
    const { authorization, "content-length": length } = req.headers;
    calls.push([req.method, authorization, req.headers[VAULT_TICKET_HEADER], length].join(" "));
    const status = mishap(req);
    const path = req.url ?? "";
    if (status === 0) req.socket.destroy();
    else if (status !== undefined) res.writeHead(status).end();
    else if (req.method === "PUT") {
      blobs.set(path, body);
      res.writeHead(204).end();
    } else res.writeHead(blobs.has(path) ? 200 : 404).end(req.method === "GET" ? blobs.get(path) : undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const edgeUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = new EdgeBlobs({ edgeUrl, hostKey: "host-key", uploadBytesPerSecond: 0 }).with("ticket");
  return { edgeUrl, blobs, calls, store };
}

const id = "ab".repeat(32);

describe.each([
  ["a folder", async (): Promise<Blobs> => new DirectoryBlobs(await folder())],
  ["the edge", async (): Promise<Blobs> => (await edge()).store],
])("%s", (_, open) => {
  it("gives back what was put, and tells what it does not have", async () => {
    const store = await open();
    const bytes = noise(chance(1), 100_000);
    expect(await store.has(VAULT, id)).toBe(false);
    await expect(store.get(VAULT, id)).rejects.toMatchObject({ name: "DamagedState", blob: id, fault: "missing" });
    await Promise.all([store.put(VAULT, id, bytes), store.put(VAULT, id, bytes)]);
    expect(await store.has(VAULT, id)).toBe(true);
    expect((await store.get(VAULT, id)).equals(bytes)).toBe(true);
    expect(await store.has(`${VAULT}0`, id)).toBe(false);
  });

  it("takes a sealed folder, and the rest of it after a cut", async () => {
    const store = await open();
    const { dir, blobs, storedBytes } = await sealed();
    expect(blobs.length).toBeGreaterThan(3);
    let puts = 0;
    const cut: Blobs = {
      ...store,
      get: (...args) => store.get(...args),
      has: (...args) => store.has(...args),
      put: async (...args) => {
        if (++puts > 2) throw new Error("the line is cut");
        await store.put(...args);
      },
    };
    await expect(upload(dir, blobs, cut, VAULT, { parallel: 2 })).rejects.toThrow("the line is cut");
    const went = await upload(dir, blobs, store, VAULT);
    expect(went.presentBytes).toBeGreaterThan(0);
    expect(went.sentBytes).toBeGreaterThan(0);
    expect(went.presentBytes + went.sentBytes).toBe(storedBytes);
    for (const blob of blobs) expect(await store.has(VAULT, blob.id)).toBe(true);
    expect(await upload(dir, blobs, store, VAULT)).toEqual({ sentBytes: 0, presentBytes: storedBytes });
  });
});

describe("a folder", () => {
  it("takes no name that leads out of it", async () => {
    const dir = await folder();
    const store = new DirectoryBlobs(join(dir, "root"));
    await expect(store.put("../vlt", id, Buffer.from("x"))).rejects.toThrow("a vault id");
    await expect(store.put(VAULT, "../x", Buffer.from("x"))).rejects.toThrow("64 hex digits");
    await expect(store.get(VAULT, "..")).rejects.toThrow("64 hex digits");
    expect(await readdir(dir)).toEqual([]);
  });
});

describe("the edge", () => {
  it("is asked again after cut lines, 429 and 5xx, with key and ticket", async () => {
    const mishaps = [0, 429, 500, 503];
    const { store, calls, blobs } = await edge(() => mishaps.shift());
    await store.put(VAULT, id, Buffer.from("bytes"));
    expect(blobs.get(blobPath(VAULT, id))?.toString()).toBe("bytes");
    expect(calls).toEqual(Array.from({ length: 5 }, () => "PUT Bearer host-key ticket 5"));
  }, 30_000);

  it("is not asked again after a refusal", async () => {
    const { store, calls } = await edge(() => 403);
    await expect(store.get(VAULT, id)).rejects.toMatchObject({ name: "BlobsRefused", status: 403 });
    await expect(store.put(VAULT, id, Buffer.from("x"))).rejects.toMatchObject({ status: 403 });
    expect(calls).toHaveLength(2);
  });

  it("is left alone after an abort, also between two tries", async () => {
    const stop = new AbortController();
    const { store, calls } = await edge(() => {
      stop.abort(new Error("not wanted any more"));
      return 503;
    });
    await expect(store.get(VAULT, id, stop.signal)).rejects.toThrow("not wanted any more");
    expect(calls).toHaveLength(1);
  });

  it("gets uploads no faster than it is bounded to, all of them together", async () => {
    const { edgeUrl, calls } = await edge();
    const stop = new AbortController();
    const bounded = new EdgeBlobs({ edgeUrl, hostKey: "k", uploadBytesPerSecond: 1 });
    // The first has an hour to itself.
    await bounded.with("one").put(VAULT, id, Buffer.alloc(3600), stop.signal);
    const second = bounded.with("two").put(VAULT, id, Buffer.alloc(1), stop.signal);
    expect(await bounded.with("two").has(VAULT, id)).toBe(true);
    stop.abort(new Error("waited long enough"));
    await expect(second).rejects.toMatchObject({ name: "AbortError" });
    expect(calls.filter((call) => call.startsWith("PUT"))).toHaveLength(1);
  });
});

describe("an upload", () => {
  it("does not store what rotted on this disk", async () => {
    const { dir, blobs } = await sealed();
    const store = new DirectoryBlobs(await folder());
    const [first, second] = blobs;
    if (!first || !second) throw new Error("too few blobs");
    await writeFile(join(dir, first.id), "rotten");
    await expect(upload(dir, blobs, store, VAULT)).rejects.toMatchObject({ blob: first.id, fault: "damaged" });
    expect(await store.has(VAULT, first.id)).toBe(false);
    await rm(join(dir, first.id));
    await expect(upload(dir, blobs, store, VAULT)).rejects.toMatchObject({ blob: first.id, fault: "missing" });
  });

  it("leaves alone what is not new", async () => {
    const { dir, blobs } = await sealed();
    const store = new DirectoryBlobs(await folder());
    await upload(
      dir,
      blobs.map((blob, at) => ({ ...blob, isNew: at > 0 })),
      store,
      VAULT,
    );
    expect(await store.has(VAULT, blobs[0]?.id ?? "")).toBe(false);
  });
});
