/** What others are told until they have taken note, in tables of the version before as well. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { migrate } from "../../durable/migrations.ts";
import { migrations } from "../../durable/sandbox/schema.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { ask, freshName, heartbeat, paused } from "./client.ts";
import { COMPATIBILITY, store } from "./stored.ts";
import { TestInbox } from "./inboxes.ts";
import { later, vaultOf } from "./vaults.ts";
import { instead } from "./volumes.ts";

it("are run when they were noted by a version before", async () => {
  await heartbeat({ compatibility: COMPATIBILITY });
  const { id } = await paused();
  const { permit } = await store(id, 1);
  const vault = vaultOf(permit.vault);
  const owned = async () => (await vault.api.owned(id)) as { ownedBytes: number };
  expect((await owned()).ownedBytes).toBe(5100);
  const label = freshName();
  const stub = env.SANDBOX.getByName(`default/${label}`) as DurableObjectStub;
  await runInDurableObject(stub, async (_object: object, { storage }) => {
    migrate(storage, migrations.slice(0, 4));
    const { sql } = storage;
    sql.exec("INSERT INTO releases VALUES (?, ?, '', 2, 1)", permit.vault, id);
    sql.exec("INSERT INTO detaches VALUES ('att-x', ?, 3, 1, 0, 1)", newSandboxId(label));
    sql.exec("INSERT INTO purges VALUES (?, 4, 'gone-1', 'http://127.0.0.1:9', 5, 1, 1)", newSandboxId(label));
    for (const kind of ["releases", "detaches", "purges"]) sql.exec("INSERT INTO timers VALUES (?, 1)", kind);
    await storage.setAlarm(Date.now() + 60_000);
  });
  await evictDurableObject(stub);
  await ask("GET", `/v1/sandboxes/${label}`);
  await runDurableObjectAlarm(stub);
  await runDurableObjectAlarm(stub);
  expect((await owned()).ownedBytes).toBe(0);
  const left = await runInDurableObject(stub, (_object: object, { storage }) => [
    storage.sql.exec("SELECT kind FROM errands").toArray(),
    storage.sql.exec("SELECT kind FROM timers").toArray(),
  ]);
  // The host was away for longer than anybody waits for.
  expect(left).toEqual([[], []]);
});

it("a deleted sandbox's inbox goes with it, once it can't be taken back any more", async () => {
  await heartbeat();
  const inbox = await TestInbox.make({}, true);
  await ask("POST", `/v1/sandboxes/${inbox.name}:update`, { autoWake: false });
  expect((await inbox.post("{}")).status).not.toBe(404);
  const { id } = inbox;
  await ask("DELETE", `/v1/sandboxes/${id}?graceSeconds=60`);
  const stub = env.SANDBOX.getByName(`default/${inbox.name}`) as DurableObjectStub;
  await runDurableObjectAlarm(stub);
  await ask("POST", `/v1/sandboxes/${id}:undelete`, {});
  expect((await ask<{ data: unknown[] }>("GET", `/v1/sandboxes/${id}/hooks`)).body.data).toHaveLength(1);
  // The inbox does not answer when it is told first.
  await instead(inbox.stub, { purge: () => Promise.reject(new Error("not now")) });
  await ask("DELETE", `/v1/sandboxes/${id}`);
  await runDurableObjectAlarm(stub);
  await evictDurableObject(inbox.stub);
  await later(2000, async () => {
    await runDurableObjectAlarm(stub);
    await runDurableObjectAlarm(stub);
  });
  expect((await inbox.post("{}")).status).toBe(404);
  const left = await runInDurableObject(stub, (_object: object, { storage }) =>
    storage.sql.exec("SELECT kind FROM errands").toArray(),
  );
  expect(left).toEqual([]);
});
