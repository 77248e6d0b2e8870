/** Ids as UUIDs: an account's index finds what they spell, in other accounts nobody does. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, it } from "vitest";
import { accountObject } from "../../durable/account/api.ts";
import { migrations } from "../../durable/account/schema.ts";
import { migrate } from "../../durable/migrations.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { suffixOf, uuidOf } from "../../sdk/contract/uuid.ts";
import { openAccount } from "./accounts.ts";
import { ask, call, created, freshName, heartbeat } from "./client.ts";

beforeEach(() => heartbeat());

it("finds a sandbox from before there was such a spelling", async () => {
  const name = `old${crypto.randomUUID().slice(0, 6)}`;
  const stub = env.ACCOUNT.getByName(name) as DurableObjectStub;
  const label = freshName();
  const id = newSandboxId(label);
  await runInDurableObject(stub, (_object: object, { storage }) => {
    migrate(storage, migrations.slice(0, 7));
    const row =
      "INSERT INTO sandboxes (label, sequence, changed_at, created_at, state, body) VALUES (?, 1, 0, 'x', 'paused', ?)";
    storage.sql.exec(row, label, JSON.stringify({ id }));
    storage.sql.exec("INSERT INTO sandboxes (label, sequence, changed_at) VALUES ('gone', 1, 0)");
  });
  await evictDurableObject(stub);
  expect(await accountObject(env.ACCOUNT, name).idWith(suffixOf(id))).toBe(id);
  expect(await accountObject(env.ACCOUNT, name).idWith("aaaaaaaaaaaa")).toBeNull();
});

it("is no way into another account", async () => {
  const { id } = await created();
  const path = `/v1/sandboxes/${uuidOf(id)}`;
  expect((await ask("GET", path)).body.id).toBe(id);
  const other = await openAccount();
  expect(await other.as("GET", path)).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
  const runtime = { "x-runtime-client": "sdk-js/0.11.2" };
  expect((await ask("GET", path, undefined, runtime)).body.id).toBe(uuidOf(id));
  expect((await call("DELETE", path, undefined, runtime)).status).toBe(200);
});
