/** Sockets that stay open while the machine sleeps. */
import { once } from "node:events";
import { describe, it } from "vitest";
import { WebSocket } from "ws";
import { socketProgram } from "../../backend-pool/local/story/socket-program.ts";
import { freshName, rouse, system } from "./support.ts";

const SOCKETS = 20;
const PORT = 8080;

describe("held sockets", () => {
  it("stay open longer than the idle time while the machine sleeps, are pinged, and answer", async ({ expect }) => {
    const name = freshName("sockets");
    const sandbox = await rouse.sandboxes.create({ name, idlePauseSeconds: 10, sockets: [{ path: "/ws" }] });
    await sandbox.files.write("/workspace/sockets.py", socketProgram(PORT));
    await sandbox.spawn("python3 /workspace/sockets.py");
    await expect.poll(async () => (await sandbox.fetch("/")).status, { timeout: 60_000 }).toBe(200);
    const { host } = new URL(sandbox.url(PORT));
    const clients = Array.from({ length: SOCKETS }, () => {
      const headers = { host, authorization: `Bearer ${system.apiKey}` };
      return new WebSocket(`ws://127.0.0.1:${new URL(system.url).port}/ws`, { headers });
    });
    await Promise.all(clients.map((client) => once(client, "open")));
    const state = async () => (await sandbox.refresh()).info.state;
    await expect.poll(state, { timeout: 120_000, interval: 500 }).toBe("paused");
    // Each ping is answered by the edge, over more than another idle time.
    for (let n = 0; n < 12; n++) {
      const pongs = clients.map((client) => once(client, "pong"));
      for (const client of clients) client.ping();
      await Promise.all(pongs);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    expect(await state()).toBe("paused");
    const held = await sandbox.sockets.list();
    expect(held.map((one) => one.state)).toEqual(Array.from({ length: SOCKETS }, () => "detached"));
    const answers = clients.map((client) => once(client, "message"));
    clients.forEach((client, n) => client.send(`from ${n}`));
    const texts = (await Promise.all(answers)).map(([data]) => String(data).replace(/^\d+ /, ""));
    expect(texts).toEqual(clients.map((_, n) => `from ${n}`));
    expect((await sandbox.refresh()).info.generation).toBe(2);
    await expect
      .poll(async () => (await sandbox.sockets.list()).every(({ buffered }) => buffered === 0), { timeout: 30_000 })
      .toBe(true);
    expect(clients.every((client) => client.readyState === WebSocket.OPEN)).toBe(true);
    for (const client of clients) client.close();
    await sandbox.delete();
  }, 300_000);
});
