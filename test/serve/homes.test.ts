/** Homes of state through the SDK, on an edge that is killed in the middle, by Miniflare and on plain workerd. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Rouse, type Sandbox } from "../../sdk/src/index.ts";
import { TestEdge } from "./test-edge.ts";

const nobody = { id: "task-00000000000000000000", lease: "-" };

describe.each(["miniflare", "workerd"] as const)("homes of state, %s", (kind) => {
  let edge: TestEdge;
  let sandbox: Sandbox;

  beforeAll(async () => {
    edge = await TestEdge.begin(kind);
    const { name } = await edge.create();
    await edge.pause(name);
    const baseUrl = `http://127.0.0.1:${edge.port}`;
    sandbox = await new Rouse({ apiKey: edge.apiKey, baseUrl }).sandboxes.get(name);
  }, 120_000);
  afterAll(() => edge.end());

  it("keys and SQL", async () => {
    const { data } = sandbox;
    expect(await data.get("plan")).toBeUndefined();
    const { version } = await data.set("plan", { step: 8 });
    expect(await data.read("plan")).toEqual({ value: { step: 8 }, version, contentType: "application/json" });
    expect(await data.cas("plan", version + 9, { step: 9 })).toBeNull();
    expect(await data.cas("plan", version, { step: 9 })).toBe(version + 1);
    expect(await data.cas("other", null, 1)).toBeGreaterThan(0);
    await data.setBytes("folder/raw", new Uint8Array([1, 2]), { ttlSeconds: 60 });
    expect((await data.readBytes("folder/raw"))?.value).toEqual(new Uint8Array([1, 2]));
    expect(await data.add("n", 3)).toBe(3);
    const another = () =>
      data.transaction(async (one) => {
        one.set("n", ((await one.get<number>("n")) ?? 0) + 1);
      });
    await Promise.all([another(), another(), another()]);
    expect(await data.get("n")).toBe(6);
    const listed = await (await data.list({ limit: 2 })).toArray();
    expect(listed.map(({ key }) => key)).toEqual(["folder/raw", "n", "other", "plan"]);
    expect(await data.delete("n")).toBe(true);
    await data.sqlBatch([{ sql: "CREATE TABLE p (name)" }, { sql: "INSERT INTO p VALUES (?)", params: ["Ada"] }]);
    await expect(data.sql("nonsense")).rejects.toMatchObject({ code: "sql_failed" });
  });

  it("queues", async () => {
    const mail = sandbox.queues("mail");
    const put = await mail.put({ to: "ada" }, { maxAttempts: 1 });
    const [task = nobody] = await mail.take({ waitSeconds: 1 });
    expect(task).toMatchObject({ id: put.id, payload: { to: "ada" } });
    await mail.extend(task, 90);
    await mail.nack(task, { error: "no" });
    const dead = await (await mail.list({ state: "dead" })).toArray();
    expect(dead.map(({ lastError }) => lastError)).toEqual(["no"]);
    await mail.retry(put.id);
  });

  it("objects, small and in parts", async () => {
    const { objects } = sandbox;
    await objects.put("a/b c.txt", "hello", { contentType: "text/plain", ifEtag: null });
    await expect(objects.put("a/b c.txt", "x", { ifEtag: null })).rejects.toMatchObject({ code: "version_mismatch" });
    expect(await objects.getText("a/b c.txt", { range: { offset: 1, length: 3 } })).toBe("ell");
    const large = new Uint8Array(33 * 1_048_576).fill(7);
    large[32 * 1_048_576] = 9;
    expect(await objects.put("large", large)).toMatchObject({ bytes: large.length, sha256: null });
    // Across the end of the first part.
    const across = await objects.get("large", { range: { offset: 32 * 1_048_576 - 1, length: 3 } });
    expect(across).toEqual(new Uint8Array([7, 9, 7]));
    expect((await objects.get("large")).length).toBe(large.length);
    expect(await objects.stat("large")).toMatchObject({ bytes: large.length });
    await expect(objects.stat("larg")).rejects.toMatchObject({ code: "object_not_found" });
    expect((await objects.list({ delimiter: "/" })).prefixes).toEqual(["a/"]);
    const { url } = await objects.sign("a/b c.txt");
    expect(await (await fetch(url)).text()).toBe("hello");
  });

  it("all of it is there after the edge was killed, and nothing woke the machine", async () => {
    await edge.kill();
    await edge.start();
    expect(await sandbox.data.get("plan")).toEqual({ step: 9 });
    expect(await sandbox.data.sql("SELECT name FROM p")).toEqual([{ name: "Ada" }]);
    const mail = sandbox.queues("mail");
    const [task = nobody] = await mail.take();
    expect((await mail.ack(task)).state).toBe("done");
    expect(await sandbox.objects.getText("a/b c.txt")).toBe("hello");
    expect(await sandbox.objects.delete("large")).toBe(true);
    expect((await sandbox.data.usage()).keys.count).toBe(3);
    expect((await sandbox.refresh()).state).toBe("paused");
  }, 60_000);
});
