/** Blobs of vaults, and golden states that hosts share. Bytes stream between host and store, past every object. */
import { Hono } from "hono";
import { vaultObject, blobKey } from "../../durable/vault/api.ts";
import { blobStore } from "../../durable/vault/blob-store.ts";
import { readVaultTicket, vaultTicket } from "../../durable/vault/tickets.ts";
import {
  BaseStep,
  BLOB_BYTES_MAX,
  BlobId,
  GoldenId,
  VAULT_TICKET_HEADER,
  VaultId,
  type ArchivePermit,
  type BasePublished,
  type SavedState,
  type VaultTicket,
} from "../../sdk/contract/archive.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { toBase64Url } from "../../sdk/contract/ticket.ts";
import { readJson } from "../api/input.ts";
import { okOrThrow } from "./context.ts";

interface HostEnv {
  readonly Bindings: Env;
  readonly Variables: { hostId: string };
}

/** The account that the vaults of golden states are under. */
const BASES = "rousebases";
/** How long a host may take for a golden state, milliseconds. */
const BASE_TICKET_MS = 3_600_000;

export const blobs = new Hono<HostEnv>();

blobs.put("/blobs/:vault/:blob", async (c) => {
  const { vault, blob } = placeOf(c.req.param());
  const { account } = await admitted(c.env, c.req.raw, c.get("hostId"), vault, true);
  const bytes = lengthOf(c.req.raw);
  const object = vaultObject(c.env.VAULT, account, vault);
  const { upload } = okOrThrow(await object.admit(blob, bytes));
  const body = c.req.raw.body as ReadableStream;
  // When this fails nobody knows what was stored: the object waits a while before it may remove the blob.
  const stored = await blobStore(c.env).put(blobKey(vault, blob), body, { bytes, sha256: blob });
  okOrThrow(await object.landed(upload, blob, bytes, stored));
  if (!stored) throw new RouseFailure("digest_mismatch", "The bytes do not have that SHA-256; nothing was stored.");
  return c.body(null, 204);
});

/** `HEAD` too. */
blobs.get("/blobs/:vault/:blob", async (c) => {
  const { vault, blob } = placeOf(c.req.param());
  await admitted(c.env, c.req.raw, c.get("hostId"), vault, false);
  const store = blobStore(c.env);
  const key = blobKey(vault, blob);
  const headersOf = (bytes: number) => ({
    "content-type": "application/octet-stream",
    "content-length": String(bytes),
  });
  if (c.req.raw.method === "HEAD") {
    const bytes = await store.head(key);
    if (bytes === null) throw noBlob();
    return new Response(null, { headers: headersOf(bytes) });
  }
  const found = await store.get(key);
  if (!found) throw noBlob();
  return new Response(found.body, { headers: headersOf(found.bytes) });
});

blobs.get("/bases/:goldenId", async (c) => {
  const goldenId = parseOrFail(GoldenId, c.req.param("goldenId"), "golden id");
  const { vault, manifest } = await baseOf(c.env, goldenId);
  if (manifest === undefined) throw new RouseFailure("not_found", "That golden state is not published.");
  const key = await baseKey(c.env, goldenId);
  const ticket = await vaultTicket(c.env, BASES, vault, c.get("hostId"), false, BASE_TICKET_MS);
  return c.json({ vault, manifest, key, ticket } satisfies SavedState);
});

blobs.post("/bases/:goldenId/archive", async (c) => {
  const goldenId = parseOrFail(GoldenId, c.req.param("goldenId"), "golden id");
  const hostId = c.get("hostId");
  const { value: step } = await readJson(BaseStep, c.req.raw);
  const { vault, manifest } = await baseOf(c.env, goldenId);
  const published: BasePublished = { published: true };
  if (manifest !== undefined) return c.json(published);
  const object = vaultObject(c.env.VAULT, BASES, vault);
  // Each host has a manifest of its own pending, so that two who publish at once do not undo each other's.
  const owner = `${goldenId}/${hostId}`;
  switch (step.step) {
    case "begin":
      return c.json({
        vault,
        key: await baseKey(c.env, goldenId),
        ticket: await vaultTicket(c.env, BASES, vault, hostId, true, BASE_TICKET_MS),
        previous: null,
      } satisfies ArchivePermit);
    case "upload":
      okOrThrow(await object.begin(owner, step.manifest, step.blobs));
      return c.json({ ok: true });
    case "commit":
      okOrThrow(await object.publish(owner, step.manifest, goldenId));
      return c.json(published);
  }
});

function placeOf(path: Record<string, string>): { vault: string; blob: string } {
  return { vault: parseOrFail(VaultId, path["vault"], "vault"), blob: parseOrFail(BlobId, path["blob"], "blob") };
}

/** @throws RouseFailure `unauthorized` without a ticket that is good, `forbidden` when it is for something else */
async function admitted(env: Env, request: Request, host: string, vault: string, write: boolean): Promise<VaultTicket> {
  const ticket = await readVaultTicket(env, request.headers.get(VAULT_TICKET_HEADER) ?? "");
  if (!ticket) throw new RouseFailure("unauthorized", "The vault ticket is missing, wrong or over.");
  if (ticket.vault !== vault || ticket.host !== host || (write && !ticket.write))
    throw new RouseFailure("forbidden", "The vault ticket is for another vault or host, or not for writing.");
  return ticket;
}

/** @throws RouseFailure `invalid_request`, `payload_too_large` */
function lengthOf(request: Request): number {
  const bytes = Number(request.headers.get("content-length") ?? 0);
  if (!Number.isSafeInteger(bytes) || bytes < 1 || !request.body)
    throw new RouseFailure("invalid_request", "A blob is sent with its Content-Length, and has at least one byte.");
  if (bytes > BLOB_BYTES_MAX)
    throw new RouseFailure("payload_too_large", `A blob has at most ${BLOB_BYTES_MAX} bytes.`, {
      details: { maxBytes: BLOB_BYTES_MAX },
    });
  return bytes;
}

function noBlob(): RouseFailure {
  return new RouseFailure("not_found", "There is no such blob.");
}

/** The vault of a golden state, and its manifest when it is published. */
async function baseOf(env: Env, goldenId: string): Promise<{ vault: string; manifest: string | undefined }> {
  const vault = `base-${goldenId}`;
  const { manifests } = okOrThrow(await vaultObject(env.VAULT, BASES, vault).manifestsOf(goldenId));
  return { vault, manifest: manifests[0] };
}

/** The key of a golden state's manifest: the same for all hosts, and stored nowhere. */
async function baseKey({ ROUSE_SECRET }: Env, goldenId: string): Promise<string> {
  const encoder = new TextEncoder();
  const material = encoder.encode(`rouse-base\n${ROUSE_SECRET}`);
  const key = await crypto.subtle.importKey("raw", material, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return toBase64Url(new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(goldenId))));
}
