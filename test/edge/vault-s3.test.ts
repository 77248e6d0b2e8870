import { createHash, createHmac } from "node:crypto";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { blobStore } from "../../durable/vault/blob-store.ts";
import { S3BlobStore, s3SettingsOf } from "../../durable/vault/s3-blob-store.ts";
import { signedHeaders } from "../../durable/vault/sigv4.ts";

/** The published examples of SigV4 for S3. */
const example = {
  region: "us-east-1",
  keyId: "AKIAIOSFODNN7EXAMPLE",
  secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};
const EMPTY = createHash("sha256").update("").digest("hex");

it.each([
  [
    "GET",
    "/test.txt",
    { range: "bytes=0-9" },
    EMPTY,
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  ],
  [
    "PUT",
    "/test%24file.text",
    { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  ],
])("signs %s %s as the published example does", async (method, path, headers, payloadHash, signature) => {
  const url = new URL(`https://examplebucket.s3.amazonaws.com${path}`);
  const now = new Date("2013-05-24T00:00:00Z");
  const { authorization } = await signedHeaders(example, method, url, headers, payloadHash, now);
  expect(authorization).toContain(`Signature=${signature}`);
  expect(authorization).toContain("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,");
});

/** An S3 with one bucket that trusts nobody. */
class S3 {
  readonly objects = new Map<string, Uint8Array>();
  /** Answers every request with this status. */
  broken: number | null = null;

  async fetch(request: Request): Promise<Response> {
    if (this.broken !== null) return new Response("<Code>SlowDown</Code>", { status: this.broken });
    if (!this.#isSigned(request)) return new Response("<Code>SignatureDoesNotMatch</Code>", { status: 403 });
    const { pathname } = new URL(request.url);
    const body = new Uint8Array(await request.arrayBuffer());
    if (createHash("sha256").update(body).digest("hex") !== request.headers.get("x-amz-content-sha256"))
      return new Response("<Code>XAmzContentSHA256Mismatch</Code>", { status: 400 });
    const found = this.objects.get(pathname);
    switch (request.method) {
      case "PUT":
        this.objects.set(pathname, body);
        return new Response(null);
      case "DELETE":
        this.objects.delete(pathname);
        return new Response(null, { status: 204 });
      default: {
        if (!found) return new Response("<Code>NoSuchKey</Code>", { status: 404 });
        const headers = { "content-length": String(found.byteLength) };
        return new Response(request.method === "HEAD" ? null : new Uint8Array(found), { headers });
      }
    }
  }

  #isSigned({ method, url, headers }: Request): boolean {
    const { pathname, host } = new URL(url);
    const grant = headers.get("authorization") ?? "";
    const [, scope = "", names = "", signature = ""] =
      /^AWS4-HMAC-SHA256 Credential=id\/([^,]+),SignedHeaders=([^,]+),Signature=(.+)$/.exec(grant) ?? [];
    const lines = names.split(";").map((name) => `${name}:${name === "host" ? host : headers.get(name)}\n`);
    const hash = headers.get("x-amz-content-sha256");
    const request = `${method}\n${pathname}\n\n${lines.join("")}\n${names}\n${hash}`;
    const digest = createHash("sha256").update(request).digest("hex");
    const text = `AWS4-HMAC-SHA256\n${headers.get("x-amz-date")}\n${scope}\n${digest}`;
    let key: Uint8Array | string = "AWS4hidden";
    for (const part of scope.split("/")) key = createHmac("sha256", key).update(part).digest();
    return createHmac("sha256", key).update(text).digest("hex") === signature;
  }
}

let s3: S3;
const env = {
  ROUSE_S3_ENDPOINT: "https://s3.test:9000/",
  ROUSE_S3_BUCKET: "blobs",
  ROUSE_S3_REGION: "auto",
  ROUSE_S3_KEY_ID: "id",
  ROUSE_S3_SECRET: "hidden",
} as unknown as Env;

beforeEach(() => {
  s3 = new S3();
  vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => s3.fetch(new Request(input as Request, init)));
});
afterEach(() => {
  vi.restoreAllMocks();
});

const bytes = Uint8Array.from(new TextEncoder().encode("some bytes"));
const announced = { bytes: bytes.byteLength, sha256: createHash("sha256").update(bytes).digest("hex") };
const streamOf = (content: Uint8Array<ArrayBuffer>) => new Blob([content]).stream();

it("keeps blobs in an S3", async () => {
  const store = blobStore(env);
  expect(store).toBeInstanceOf(S3BlobStore);
  expect(await store.head("blobs/v/1")).toBeNull();
  expect(await store.get("blobs/v/1")).toBeNull();
  expect(await store.put("blobs/v/1", streamOf(bytes), announced)).toBe(true);
  expect([...s3.objects.keys()]).toEqual(["/blobs/blobs/v/1"]);
  expect(await store.head("blobs/v/1")).toBe(bytes.byteLength);
  const found = await store.get("blobs/v/1");
  expect(found?.bytes).toBe(bytes.byteLength);
  expect(await new Response(found?.body).text()).toBe("some bytes");
  await store.delete(["blobs/v/1", "blobs/v/2"]);
  await store.delete(["blobs/v/1"]);
  expect(s3.objects.size).toBe(0);
});

it("stores nothing but what was announced", async () => {
  const store = blobStore(env);
  expect(await store.put("blobs/v/1", streamOf(bytes.map((byte) => byte ^ 1)), announced)).toBe(false);
  await expect(store.put("blobs/v/1", streamOf(bytes.slice(1)), announced)).rejects.toThrow("expected bytes");
  expect(s3.objects.size).toBe(0);
});

it("throws when the S3 fails or does not trust it, and says nothing of the secret", async () => {
  s3.broken = 503;
  await expect(blobStore(env).delete(["blobs/v/1"])).rejects.toThrow("the S3 answered DELETE with 503");
  await expect(blobStore(env).head("blobs/v/1")).rejects.toThrow("503");
  s3.broken = null;
  const stranger = blobStore({ ...env, ROUSE_S3_SECRET: "guessed" });
  await expect(stranger.put("blobs/v/1", streamOf(bytes), announced)).rejects.toThrow(/^the S3 answered PUT with 403$/);
});

it("wants all of its settings", () => {
  expect(s3SettingsOf({} as Env)).toBeNull();
  expect(() => s3SettingsOf({ ROUSE_S3_ENDPOINT: "https://s3.test" } as Env)).toThrow("ROUSE_S3_SECRET");
});
