/** A woken machine takes up its run before any user traffic reaches it, and sleeps again when it can't. */
import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, it, vi } from "vitest";
import { hostServer } from "../../backend-pool/http/server.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import { hostHeaders, hostPaths } from "../../sdk/contract/host.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { OneMachine } from "./one-machine.ts";

const SECRET = "a secret of this test alone, long enough";
const id = newSandboxId("ready");

describe("a woken machine", () => {
  let ready: PromiseWithResolvers<void>;
  let driver: OneMachine;
  let app: Server;
  let host: Server;
  let machines: Machines;
  let connections: number;
  let requests: number;

  beforeEach(async () => {
    [connections, requests] = [0, 0];
    ready = Promise.withResolvers();
    app = createServer((_req, res) => {
      requests++;
      res.end("hello");
    });
    app.on("connection", () => connections++);
    app.listen(0, "127.0.0.1");
    await once(app, "listening");
    driver = new OneMachine(
      id,
      () => (app.address() as AddressInfo).port,
      () => ready.promise,
    );
    machines = new Machines(driver, new Journal(":memory:"), {
      residentSeconds: 600,
      prestartedSeconds: 0,
      compactAfterSeconds: 3600,
      coldAfterSeconds: 3600,
    });
    host = await hostServer({ machines, controlSecret: SECRET, ticketSecret: SECRET, about: async () => ({}) });
    host.listen(0, "127.0.0.1");
    await once(host, "listening");
    const run = { generation: 1, env: {}, idlePauseSeconds: 0 };
    await machines.create(id, { ...run, account: "default", shape: shapeOf({}), hostname: "ready" });
  });
  afterEach(async () => {
    for (const server of [app, host]) {
      server.close();
      server.closeAllConnections();
    }
    await machines.close();
  });

  async function ask(method: string, more: Record<string, string> = {}): Promise<{ status: number; text: string }> {
    const ticket = await sign(await signingKey(SECRET, "ticket"), { m: id, g: 1, e: Date.now() + 60_000 });
    const { port } = host.address() as AddressInfo;
    const length: Record<string, string> = method === "POST" ? { "content-length": "4" } : {};
    const headers = { [hostHeaders.ticket]: ticket, ...length, ...more };
    return new Promise((resolve, reject) => {
      const req = request({ host: "127.0.0.1", port, path: hostPaths.port(id, 8080), method, headers }, (res) => {
        let text = "";
        res.on("data", (chunk: Buffer) => (text += chunk.toString()));
        res.on("end", () => resolve({ status: res.statusCode ?? 0, text }));
      });
      req.on("error", reject);
      req.end(method === "POST" ? "body" : undefined);
    });
  }

  it.for(["GET", "POST"])("has a %s wait until it took up its run", async (method, { expect }) => {
    const answer = ask(method);
    await expect.poll(() => connections).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(requests).toBe(0);
    ready.resolve();
    expect(await answer).toEqual({ status: 200, text: "hello" });
    expect(requests).toBe(1);
  });

  it("that does not take it up sleeps again, and the edge learns why", async ({ expect }) => {
    const answer = ask("GET");
    await expect.poll(() => connections).toBe(1);
    ready.reject(new RouseFailure("wake_failed", "The guest is silent."));
    expect((await answer).text).toContain("wake_failed");
    expect(requests).toBe(0);
    await vi.waitFor(() => expect(machines.describe(id).state).toBe("paused"));
    await vi.waitFor(() =>
      expect(machines.pendingEvents()).toMatchObject([{ event: { type: "paused", reason: "wake_failed" } }]),
    );
  });

  it("that does not take new settings sleeps again, and the wake fails", async ({ expect }) => {
    ready.resolve();
    await machines.pause(id, { generation: 1 });
    ready = Promise.withResolvers();
    const wake = machines.wake(id, { generation: 2, env: { A: "1" }, idlePauseSeconds: 0 });
    ready.reject(new RouseFailure("wake_failed", "The guest is silent."));
    await expect(wake).rejects.toMatchObject({ code: "wake_failed" });
    expect(driver.asleep).toBe(true);
    expect(machines.describe(id)).toMatchObject({ state: "paused", memory: "saved", generation: 2 });
  });

  it("says what is under way, and does not count what is to keep nothing awake", async ({ expect }) => {
    const counted = ask("GET");
    await expect.poll(() => machines.describe(id).open).toBe(1);
    const uncounted = ask("GET", { [hostHeaders.noKeep]: "1" });
    await expect.poll(() => connections).toBe(2);
    expect(machines.describe(id).open).toBe(1);
    ready.resolve();
    await Promise.all([counted, uncounted]);
    await expect.poll(() => machines.describe(id).open).toBe(0);
    const { lastActiveAt } = machines.describe(id);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect((await ask("GET", { [hostHeaders.noKeep]: "1" })).status).toBe(200);
    expect(machines.describe(id).lastActiveAt).toBe(lastActiveAt);
    await ask("GET");
    expect(machines.describe(id).lastActiveAt).not.toBe(lastActiveAt);
  });

  it("is paused only after it took up its run", async ({ expect }) => {
    const pause = machines.pause(id, { generation: 1 });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(driver.asleep).toBe(false);
    ready.resolve();
    expect((await pause).state).toBe("paused");
  });
});
