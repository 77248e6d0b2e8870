/** What stands between people and a machine, with a real one: webhooks, share links, wake rules, and why it woke. */
import { describe, expect, it } from "vitest";
import { tellWebhook } from "../../backend-pool/local/story/webhook.ts";
import { startCounter } from "../../backend-pool/local/story/counter.ts";
import { freshName, named, rouse, system } from "./support.ts";

describe("the edge", () => {
  it("takes webhooks for a machine that sleeps, and each runs once", async () => {
    const told = await tellWebhook({ ...system, say: () => undefined }, 1);
    expect(told).toMatchObject({ sent: 10, accepted: 10, ranOnce: 10, asleepAtArrival: true });
  });

  it("lets a share link in below its path, wakes for it, and ends what is open when it is revoked", async () => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("shared"), idlePauseSeconds: 0 });
    await startCounter(sandbox);
    const holder =
      "import socket\ns=socket.create_server(('127.0.0.1',9090))\nkept=[]\nwhile True: kept.append(s.accept())\n";
    await sandbox.files.write("/workspace/holder.py", holder);
    await sandbox.spawn("python3 /workspace/holder.py");
    const lines = async (command: string) => (await sandbox.exec(`${command} | wc -l`)).stdout.trim();
    await expect.poll(() => lines("ss -tlnH sport = :9090"), { timeout: 30_000 }).toBe("1");
    const page = await sandbox.links.create({ path: "/page" });
    const hanging = await sandbox.links.create({ port: 9090 });
    await sandbox.pause();
    const by = (token: string | undefined) => ({ key: null, headers: { "x-rouse-token": token ?? "" } });
    expect((await named(sandbox, "/other", by(page.token))).status).toBe(403);
    expect((await sandbox.refresh()).info.state).toBe("paused");
    const woken = await named(sandbox, "/page/1", by(page.token));
    expect([woken.status, woken.headers["x-rouse-state"]]).toEqual([200, "woken"]);
    const { lastRun } = await sandbox.why();
    expect(lastRun?.cause).toMatchObject({ kind: "request", request: "GET /page/1", keyId: page.id });
    const open = named(sandbox, "/", { ...by(hanging.token), port: 9090 }).then(
      ({ status }) => status,
      () => 0,
    );
    await expect.poll(() => lines("ss -tnH state established sport = :9090"), { timeout: 30_000 }).toBe("1");
    await sandbox.links.revoke(hanging.id);
    // Asked again, as a GET may be, it is not let in.
    expect([0, 401, 502]).toContain(await open);
    expect((await named(sandbox, "/", { ...by(hanging.token), port: 9090 })).status).toBe(401);
    expect((await named(sandbox, "/page/2", by(page.token))).status).toBe(200);
    await sandbox.delete();
  });

  it("keeps requests from waking a machine, or from keeping it awake, as its rules say", async () => {
    const sandbox = await rouse.sandboxes.create({
      ...{ name: freshName("ruled"), idlePauseSeconds: 10 },
      wakeRules: [
        { match: { path: "/health" }, action: "answer", body: "asleep" },
        { match: { path: "/metrics" }, action: "no_keep" },
      ],
    });
    await startCounter(sandbox);
    // Asked for all the time, and idle all the same. It is woken by the next one: the timeline says that it slept.
    await expect
      .poll(
        async () => {
          expect((await named(sandbox, "/metrics")).status).toBe(200);
          return (await sandbox.why()).timeline.map(({ event, reason }) => `${event} ${reason}`);
        },
        // Seldom enough that its CPU is idle in software emulation.
        { timeout: 120_000, interval: 6000 },
      )
      .toContain("paused idle");
    await sandbox.pause();
    const health = await named(sandbox, "/health");
    expect([health.status, health.text]).toEqual([200, "asleep"]);
    expect((await sandbox.refresh()).info.state).toBe("paused");
    await sandbox.delete();
  });
});
