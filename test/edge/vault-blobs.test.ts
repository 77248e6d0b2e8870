import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { vaultObject } from "../../durable/vault/api.ts";
import {
  BLOB_BYTES_MAX,
  blobPath,
  SavedState,
  VAULT_TICKET_HEADER,
  type ArchivePermit,
} from "../../sdk/contract/archive.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { API, edge, faultOf } from "./client.ts";
import { roots } from "./secrets.ts";
import {
  ACCOUNT,
  alarms,
  expectGone,
  freshBlob,
  freshVault,
  HOST,
  note,
  send,
  stored,
  ticketFor,
  upload,
  uploaded,
  type TestBlob,
  type Vault,
} from "./vaults.ts";

describe("the blobs of a vault", () => {
  async function begun(vault: Vault, ...blobs: TestBlob[]): Promise<void> {
    const manifest = await freshBlob();
    expect(
      await vault.api.begin(
        "a",
        manifest.id,
        [manifest, ...blobs].map((blob) => note(blob)),
      ),
    ).toEqual({ ok: true });
  }

  /** Nobody knows how long it will be. */
  function streamOf(bytes: Uint8Array): ReadableStream {
    return new ReadableStream({
      start(controller) {
        controller.enqueue(bytes);
        controller.close();
      },
    });
  }

  it("are stored, found and read", async () => {
    const vault = freshVault();
    const blob = await freshBlob(60_000);
    await begun(vault, blob);
    const path = blobPath(vault.id, blob.id);
    const ticket = await ticketFor(vault, false);
    for (const method of ["GET", "HEAD"]) expect((await send(method, path, { ticket })).status).toBe(404);
    expect((await faultOf(await send("GET", path, { ticket }))).code).toBe("not_found");
    await uploaded(vault, blob, blob);
    const head = await send("HEAD", path, { ticket });
    expect([head.status, head.headers.get("content-length")]).toEqual([200, "60000"]);
    expect(new Uint8Array(await (await send("GET", path, { ticket })).arrayBuffer())).toEqual(blob.bytes);
  });

  it("are refused when they are not what was announced, and nothing is stored", async () => {
    const vault = freshVault();
    const [blob, other] = [await freshBlob(), await freshBlob()];
    await begun(vault, blob);
    const put = async (body: BodyInit, headers: Record<string, string> = {}) => {
      const init = { ticket: await ticketFor(vault), body, headers };
      return faultOf(await send("PUT", blobPath(vault.id, blob.id), init));
    };
    expect(await put(other.bytes)).toMatchObject({ code: "digest_mismatch", status: 422 });
    expect(await put(blob.bytes.slice(1))).toMatchObject({ code: "conflict", status: 409 });
    expect(await put(streamOf(blob.bytes))).toMatchObject({ code: "invalid_request", status: 400 });
    expect(await put("", { "content-length": "0" })).toMatchObject({ code: "invalid_request", status: 400 });
    expect(await put(new Uint8Array(BLOB_BYTES_MAX + 1))).toMatchObject({
      code: "payload_too_large",
      status: 413,
      details: { maxBytes: BLOB_BYTES_MAX },
    });
    expect(await faultOf(await upload(vault, other))).toMatchObject({ code: "conflict" });
    expect(await stored(vault)).toEqual(new Set());
    await vault.api.release("a", null);
    await expectGone(vault);
  });

  it("need a ticket for the vault, the host and the deed", async () => {
    const vault = freshVault();
    const blob = await freshBlob();
    await begun(vault, blob);
    const payload = { account: ACCOUNT, vault: vault.id, host: HOST, write: true, e: Date.now() + 60_000 };
    const forged = await sign(await signingKey("another secret", "vault"), payload);
    const ofAnotherKind = await sign(await signingKey(roots.signing, "ticket"), payload);
    const over = await ticketFor(vault, true, HOST, -1);
    for (const ticket of [forged, ofAnotherKind, over, "", "nonsense"]) {
      expect(await faultOf(await upload(vault, blob, ticket))).toMatchObject({ code: "unauthorized", status: 401 });
      expect((await send("GET", blobPath(vault.id, blob.id), { ticket })).status).toBe(401);
    }
    const elsewhere = [await ticketFor(freshVault()), await ticketFor(vault, true, "fake-2")];
    for (const ticket of [...elsewhere, await ticketFor(vault, false)])
      expect(await faultOf(await upload(vault, blob, ticket))).toMatchObject({ code: "forbidden", status: 403 });
    for (const ticket of elsewhere)
      expect((await send("GET", blobPath(vault.id, blob.id), { ticket })).status).toBe(403);
    const bare = { [VAULT_TICKET_HEADER]: await ticketFor(vault) };
    expect((await edge(API + blobPath(vault.id, blob.id), { headers: bare })).status).toBe(401);
    expect((await send("GET", "/internal/blobs/Nowhere/1", { ticket: await ticketFor(vault) })).status).toBe(400);
    expect(await stored(vault)).toEqual(new Set());
  });
});

describe("golden states", () => {
  const freshGolden = () => crypto.randomUUID().replaceAll("-", "");

  async function step<T>(goldenId: string, body: object, host = HOST): Promise<T> {
    const response = await edge(`${API}/internal/bases/${goldenId}/archive`, {
      method: "POST",
      headers: { authorization: `Bearer ${await hostKey(roots.host, host, FIRST_EPOCH)}` },
      body: JSON.stringify(body),
    });
    return response.json<T>();
  }

  it("are published once, by whom commits first, and read by every host", async () => {
    const goldenId = freshGolden();
    expect((await send("GET", `/internal/bases/${goldenId}`)).status).toBe(404);
    const hosts = ["fake-1", "fake-2"];
    const manifests: TestBlob[] = [];
    for (const host of hosts) {
      const permit = await step<ArchivePermit>(goldenId, { step: "begin" }, host);
      expect(permit).toMatchObject({ vault: `base-${goldenId}`, previous: null });
      const manifest = await freshBlob();
      manifests.push(manifest);
      expect(await step(goldenId, { step: "upload", manifest: manifest.id, blobs: [note(manifest)] }, host)).toEqual({
        ok: true,
      });
      const put = await edge(API + blobPath(permit.vault, manifest.id), {
        method: "PUT",
        headers: {
          authorization: `Bearer ${await hostKey(roots.host, host, FIRST_EPOCH)}`,
          [VAULT_TICKET_HEADER]: permit.ticket,
        },
        body: manifest.bytes,
      });
      expect(put.status).toBe(204);
    }
    const answers = await Promise.all(
      hosts.map((host, index) => step(goldenId, { step: "commit", manifest: manifests[index]?.id }, host)),
    );
    expect(answers).toEqual([{ published: true }, { published: true }]);
    for (const body of [{ step: "begin" }, { step: "commit", manifest: manifests[1]?.id }])
      expect(await step(goldenId, body, "fake-2")).toEqual({ published: true });

    const state = SavedState.parse(await (await send("GET", `/internal/bases/${goldenId}`)).json());
    expect(manifests.map(({ id }) => id)).toContain(state.manifest);
    expect((await send("GET", blobPath(state.vault, state.manifest), { ticket: state.ticket })).status).toBe(200);
    expect(
      await faultOf(await send("PUT", blobPath(state.vault, state.manifest), { ticket: state.ticket, body: "x" })),
    ).toMatchObject({ code: "forbidden" });
    const again = SavedState.parse(await (await send("GET", `/internal/bases/${goldenId}`)).json());
    expect(again).toMatchObject({ manifest: state.manifest, key: state.key });

    const stub = env.VAULT.getByName(`rousebases/${state.vault}`);
    const vault = { id: state.vault, api: vaultObject(env.VAULT, "rousebases", state.vault), stub };
    await alarms(vault);
    expect(await stored(vault)).toEqual(new Set([state.manifest]));
  });

  it("are not published before all is there", async () => {
    const goldenId = freshGolden();
    const manifest = await freshBlob();
    const commit = { step: "commit", manifest: manifest.id };
    expect(await step(goldenId, commit)).toMatchObject({ error: { code: "conflict" } });
    await step(goldenId, { step: "upload", manifest: manifest.id, blobs: [note(manifest)] });
    expect(await step(goldenId, commit)).toMatchObject({
      error: { code: "conflict", details: { missing: [manifest.id] } },
    });
    expect((await send("GET", `/internal/bases/${goldenId}`)).status).toBe(404);
    expect(await step(goldenId, { step: "think" })).toMatchObject({ error: { code: "invalid_request" } });
  });
});
