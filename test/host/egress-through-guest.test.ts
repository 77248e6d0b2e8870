/** A program in a machine, the guest agent, the tunnel and the host's way out, all of them real but for the machine. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request, type IncomingMessage, type Server } from "node:http";
import { createServer as createSecure } from "node:https";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { FakeDriver } from "../../backend-pool/machine/fake/driver.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import type { BrokeredSecret, MachineEgress } from "../../sdk/contract/egress.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import type { NetworkRules } from "../../sdk/contract/network.ts";
import { listening, soon, textOf, WayOut } from "./outside-world.ts";

vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const NAME = "api.example.com";
const secret: BrokeredSecret = {
  ...{ name: "model", version: 1, hosts: [NAME], mode: "broker" },
  ...{ header: "x-api-key", format: "{value}", value: "canary-5c21" },
};
const id = newSandboxId("egress");
let version = 0;
const egress = (network: NetworkRules, brokered: BrokeredSecret[] = []): MachineEgress => ({
  ...{ version: ++version, network, brokered, inside: "ticket-canary" },
});

let world: WayOut;
let upstream: Server;
let edge: Server;
let folder: string;
let driver: FakeDriver;
let machines: Machines;
const seen: IncomingMessage[] = [];

beforeAll(async () => {
  edge = createServer((req, res) => {
    res.setHeader("x-asked", `${req.method} ${req.url} ${String(req.headers["x-rouse-inside"])}`);
    req.pipe(res);
  });
  world = await WayOut.open({ edgeUrl: `http://127.0.0.1:${await listening(edge)}` });
  upstream = createSecure(world.certificate(NAME), (req, res) => {
    seen.push(req);
    req.pipe(res);
  });
  world.ports.set("93.184.216.34:443", await listening(upstream));
  world.nameserver.set(NAME, [{ type: "A", value: "93.184.216.34" }]);
  folder = await mkdtemp(join(tmpdir(), "rouse-egress-guest-"));
  driver = new FakeDriver(join(folder, "machines"));
  await driver.prepare(shapeOf({}));
  const policy = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
  machines = new Machines(driver, new Journal(":memory:"), policy, { outside: world.outside });
  await machines.create(id, {
    ...{ env: {}, idlePauseSeconds: 0, generation: 1, account: "default", shape: shapeOf({}), hostname: "egress" },
    egress: egress({ internet: false, allow: [NAME] }, [secret]),
  });
});
afterAll(async () => {
  await machines.close();
  await world.close();
  for (const server of [upstream, edge]) {
    server.closeAllConnections();
    server.close();
  }
  await rm(folder, { recursive: true, force: true });
});

interface Opened {
  readonly status: number;
  readonly rule: unknown;
  readonly socket: Socket;
}

async function connectTo(target: string): Promise<Opened> {
  const proxy = { host: "127.0.0.1", port: driver.ways(id).proxy, agent: false };
  const req = request({ ...proxy, method: "CONNECT", path: target }).end();
  const [res, socket] = (await once(req, "connect")) as [IncomingMessage, Socket];
  socket.on("error", () => undefined);
  return { status: res.statusCode ?? 0, rule: res.headers["x-rouse-egress"], socket };
}

async function post(body: string): Promise<string> {
  const { socket } = await connectTo(`${NAME}:443`);
  const secure = connectTls({ socket, servername: NAME, ca: world.outside.caPem() });
  const head = `POST /v1 HTTP/1.1\r\nhost: ${NAME}\r\nX-API-Key: none\r\nconnection: close\r\ncontent-length: ${body.length}`;
  secure.write(`${head}\r\n\r\n${body}`);
  return textOf(secure);
}

it("has a program's request arrive with a secret that the machine never had", async () => {
  const body = "0123456789".repeat(100_000);
  const answer = await post(body);
  expect(answer).toMatch(/^HTTP\/1.1 200 /);
  expect(answer.length).toBeGreaterThan(body.length);
  expect(seen[0]?.headersDistinct["x-api-key"]).toEqual(["canary-5c21"]);
  expect(answer).not.toContain("canary-5c21");
});

it("refuses by name, by address and at once when the rules change", async () => {
  expect(await connectTo("other.example.com:443")).toMatchObject({ status: 403, rule: "not-allowed" });
  expect(await connectTo("127.0.0.1:22")).toMatchObject({ status: 403, rule: "not-allowed" });
  const { status, socket } = await connectTo(`${NAME}:443`);
  expect(status).toBe(200);
  const over = new Promise((resolve) => socket.resume().once("close", resolve));
  await machines.configure(id, { env: {}, idlePauseSeconds: 0, generation: 1, egress: egress({ internet: false }) });
  await over;
  expect(await connectTo(`${NAME}:443`)).toMatchObject({ status: 403, rule: "internet-off" });
  await machines.configure(id, {
    ...{ env: {}, idlePauseSeconds: 0, generation: 1 },
    egress: egress({ internet: true }, [{ ...secret, version: 2, value: "canary-2" }]),
  });
  expect(await connectTo("127.0.0.1:22")).toMatchObject({ status: 403, rule: "private-address" });
  await post("again");
  expect(seen.at(-1)?.headers["x-api-key"]).toBe("canary-2");
});

it("leads to the homes of state with the ticket of this run", async () => {
  const proxy = { host: "127.0.0.1", port: driver.ways(id).proxy, agent: false };
  const headers = { host: "rouse.internal", "x-rouse-inside": "forged" };
  const req = request({ ...proxy, method: "PUT", path: "http://rouse.internal/state/keys/a?b=1", headers }).end("kept");
  const [res] = (await once(req, "response")) as [IncomingMessage];
  expect(await textOf(res)).toBe("kept");
  expect(res.headers["x-asked"]).toBe("PUT /internal/inside/state/keys/a?b=1 ticket-canary");
});

it("counts what went out and what was refused", async () => {
  await soon(() => {
    const report = world.outside.report(id)?.report;
    expect(report?.bytesOut).toBeGreaterThan(1_000_000);
    expect(report?.secretUses.map(({ version: used }) => used)).toEqual([1, 2]);
    expect(report?.refusals.map(({ rule }) => rule)).toContain("private-address");
  });
});
