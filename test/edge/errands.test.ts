/** What others are told until they have taken note, in tables of the version before as well. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { migrate } from "../../durable/migrations.ts";
import { migrations } from "../../durable/sandbox/schema.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { ask, freshName, heartbeat, paused } from "./client.ts";
import { COMPATIBILITY, store } from "./stored.ts";
import { vaultOf } from "./vaults.ts";

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
