/** What programs of a machine meet on their way out, through a real guest agent and the host's end of its tunnel. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer as createHttpServer, request } from "node:http";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { refusedDns } from "../../backend-pool/egress/dns-refusal.ts";
import type { Outside, OutsideMachine } from "../../backend-pool/egress/outside.ts";
import { parseTarget } from "../../backend-pool/http/tunnel.ts";
import { FakeDriver } from "../../backend-pool/machine/fake/driver.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import type { MachineEgress } from "../../sdk/contract/egress.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";

vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const policy = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
const open: MachineEgress = { version: 1, network: { internet: true }, brokered: [], inside: "ticket" };
const run = { env: {}, idlePauseSeconds: 0, egress: open };

/** Leads every name to one server of the test, where the machine has a way out at all. */
class TestOutside implements Outside {
  readonly egress = new Map<string, MachineEgress | null>();
  readonly asked: string[] = [];
  /** Streams that are not over. */
  open = 0;
  readonly #port: () => number;

  constructor(port: () => number) {
    this.#port = port;
  }

  connect(...[machine, { host, port }, stream, answer]: Parameters<Outside["connect"]>): void {
    this.asked.push(`${host}:${port}`);
    if (!this.#isOpen(machine)) return answer.refuse({ code: "egress_refused", message: "No.", rule: "closed" });
    if (host === "nowhere.test") return answer.refuse({ code: "upstream_closed", message: "Nobody is there." });
    const upstream = connect({ port: this.#port(), host: "127.0.0.1", allowHalfOpen: true });
    upstream.once("connect", () => {
      answer.open();
      stream.pipe(upstream);
      upstream.pipe(stream);
    });
    upstream.on("error", () => stream.destroy());
    this.open++;
    stream.once("close", () => {
      this.open--;
      upstream.destroy();
    });
  }

  async dns(machine: OutsideMachine, query: Buffer): Promise<Buffer> {
    if (!this.#isOpen(machine)) return refusedDns(query);
    const answer = Buffer.from(query);
    answer[2] = 0x81;
    answer[3] = 0x80;
    const isKnown = query.toString("latin1").toLowerCase().includes("known");
    const isFour = query.readUInt16BE(query.length - 4) === 1;
    if (!isKnown) answer[3] = 0x83;
    if (!isKnown || !isFour) return answer;
    answer.writeUInt16BE(1, 6);
    return Buffer.concat([answer, Buffer.from("c00c0001000100000e10000401020304", "hex")]);
  }

  inside(...[machine, req, res]: Parameters<Outside["inside"]>): void {
    res.writeHead(201, { "x-home": machine.id });
    req.stream.pipe(res.stream);
  }

  caPem = () => "";
  changed = ({ id }: OutsideMachine, egress: MachineEgress | null): void => void this.egress.set(id, egress);
  gone = (id: string): void => void this.egress.delete(id);

  #isOpen({ id }: OutsideMachine): boolean {
    return this.egress.get(id)?.network.internet === true;
  }
}

let id: string;
let folder: string;
let server: Server;
let accepted: Socket[];
let driver: FakeDriver;
let outside: TestOutside;
let machines: Machines;

beforeEach(async () => {
  id = newSandboxId("out");
  folder = await mkdtemp(join(tmpdir(), "rouse-way-out-"));
  accepted = [];
  // What it is told it says back, whatever it is.
  server = createServer({ allowHalfOpen: true }, (socket) => {
    accepted.push(socket);
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  await listen(server);
  driver = new FakeDriver(join(folder, "machines"));
  await driver.prepare(shapeOf({}));
  outside = new TestOutside(() => (server.address() as AddressInfo).port);
  machines = new Machines(driver, new Journal(":memory:"), policy, { outside });
});
afterEach(async () => {
  await machines.close();
  server.close();
  for (const socket of accepted) socket.destroy();
  await rm(folder, { recursive: true, force: true });
});

const create = (egress: MachineEgress | undefined = open) =>
  machines.create(id, { ...run, egress, generation: 1, account: "default", shape: shapeOf({}), hostname: "out" });

it("takes a program's connection to a name out, with each end of it", async () => {
  await create();
  const socket = await tunnelTo("known.test:443");
  socket.write("hello");
  expect(await bytes(socket, 5)).toBe("hello");
  socket.end(" and bye");
  expect(await rest(socket)).toBe(" and bye");
  expect(outside.asked).toEqual(["known.test:443"]);
});

it("carries much both ways at once without losing a byte", async () => {
  await create();
  const sent = Buffer.alloc(8 * 1_048_576, "0123456789abcdef-");
  const socket = await tunnelTo("known.test:443");
  socket.end(sent);
  expect((await rest(socket)) === sent.toString("latin1")).toBe(true);
});

it("says why something is refused, to a CONNECT and to a request", async () => {
  await create({ ...open, network: { internet: false } });
  const refused = await ask("CONNECT", "known.test:443");
  expect(refused).toMatchObject({ status: 403, rule: "closed" });
  expect(JSON.parse(refused.body)).toMatchObject({ error: { code: "egress_refused", message: "No." } });
  expect(await ask("GET", "http://known.test/x")).toMatchObject({ status: 403, rule: "closed" });
  expect(await ask("GET", "http://")).toMatchObject({ status: 400 });
});

it("is closed to a run that nothing is known of, and opens when the host is told", async () => {
  await machines.create(id, {
    ...{ env: {}, idlePauseSeconds: 0, generation: 1 },
    ...{ account: "default", shape: shapeOf({}), hostname: "out" },
  });
  expect(await ask("CONNECT", "known.test:443")).toMatchObject({ status: 403 });
  await machines.configure(id, { ...run, generation: 1 });
  expect(await ask("CONNECT", "known.test:443")).toMatchObject({ status: 200 });
  // One that is older than what is in force changes nothing.
  await machines.configure(id, {
    ...run,
    generation: 1,
    egress: { ...open, version: 3, network: { internet: false } },
  });
  await machines.configure(id, { ...run, generation: 1, egress: { ...open, version: 2 } });
  expect(await ask("CONNECT", "known.test:443")).toMatchObject({ status: 403 });
});

it("passes requests of plain HTTP through, and those for the homes of state to the host", async () => {
  const app = createHttpServer((req, res) => {
    res.setHeader("x-path", `${req.method} ${req.headers.host} ${req.url}`);
    if (req.url === "/endless") res.write("and so on");
    else req.pipe(res);
  });
  await listen(app);
  outside = new TestOutside(() => (app.address() as AddressInfo).port);
  machines = new Machines(driver, new Journal(":memory:"), policy, { outside });
  await create();
  const answer = await ask("POST", "http://known.test:8080/a?b", "some");
  expect(answer).toMatchObject({ status: 200, body: "some", headers: { "x-path": "POST known.test:8080 /a?b" } });
  expect(outside.asked).toEqual(["known.test:8080"]);
  // Whether the answer was read to its end or not, nothing stays behind.
  await new Promise<void>((left) => {
    const headers = { host: "known.test:8080" };
    const path = "http://known.test:8080/endless";
    const req = request({ host: "127.0.0.1", port: driver.ways(id).proxy, path, headers, agent: false });
    req.on("error", () => undefined);
    req.once("response", () => {
      req.destroy();
      left();
    });
    req.end();
  });
  await vi.waitFor(() => expect(outside.open).toBe(0));
  const home = await ask("PUT", "http://rouse.internal/kv/x", "kept");
  expect(home).toMatchObject({ status: 201, body: "kept", headers: { "x-home": id } });
  const page = { origin: "https://stranger.example" };
  expect(await ask("PUT", "http://rouse.internal/kv/x", "kept", page)).toMatchObject({ status: 403, rule: "page" });
  app.close();
});

it("ends connections at a pause, and the next run has a way out of its own", async () => {
  await create();
  const before = await tunnelTo("known.test:443");
  before.write("x");
  await bytes(before, 1);
  const over = once(before, "close");
  await machines.pause(id, { generation: 1 });
  await vi.waitFor(() => expect(accepted[0]?.destroyed).toBe(true));
  expect(outside.egress.has(id)).toBe(false);
  await machines.wake(id, { ...run, generation: 2 });
  await over;
  const after = await tunnelTo("known.test:443");
  after.write("again");
  expect(await bytes(after, 5)).toBe("again");
});

it("what is asked while there is no tunnel waits for the next one", async () => {
  await create();
  await machines.pause(id, { generation: 1 });
  // A program of before the sleep had begun to ask.
  const asked = connect(driver.ways(id).proxy, "127.0.0.1");
  await once(asked, "connect");
  asked.write("CONNECT known.test:443 HTTP/1.1\r\nhost: x\r\n\r\n");
  await machines.wake(id, { ...run, generation: 2 });
  expect((await bytes(asked, 12)).startsWith("HTTP/1.1 200")).toBe(true);
  asked.destroy();
});

it("answers names with addresses of its own, and says of others what the host says", async () => {
  await create();
  const first = await resolve("known.test", 1);
  expect(first).toMatchObject({ code: 0, addresses: [expect.stringMatching(/^198\.18\.\d+\.\d+$/)] });
  expect(await resolve("KNOWN.test", 1)).toEqual(first);
  expect(await resolve("known.test", 28)).toEqual({ code: 0, addresses: [] });
  expect(await resolve("missing.test", 1)).toEqual({ code: 3, addresses: [] });
  expect(await resolve("missing.test", 28)).toEqual({ code: 3, addresses: [] });
  expect(await resolve("localhost", 1)).toEqual({ code: 0, addresses: ["127.0.0.1"] });
  expect(await resolve("rouse.internal", 1)).toEqual({ code: 0, addresses: ["198.18.0.1"] });
  // A program that connects to the address means the name, also after a sleep.
  await machines.pause(id, { generation: 1 });
  await machines.wake(id, { ...run, generation: 2 });
  await tunnelTo(`${first.addresses[0]}:443`);
  expect(outside.asked).toEqual(["known.test:443"]);
  await machines.configure(id, {
    ...run,
    generation: 2,
    egress: { ...open, version: 2, network: { internet: false } },
  });
  expect(await resolve("known.test", 1)).toEqual({ code: 5, addresses: [] });
});

it("programs are told of it, unless they are told something else", async () => {
  await create();
  const { port } = await driver.endpoint(id, AGENT_PORT);
  const body = JSON.stringify({ command: "echo $http_proxy $NO_PROXY", env: { NO_PROXY: "mine" } });
  const answer = await fetch(`http://127.0.0.1:${port}/exec`, { method: "POST", body });
  const proxy = `http://127.0.0.1:${driver.ways(id).proxy}`;
  expect(await answer.json()).toMatchObject({ stdout: `${proxy} mine\n` });
});

it("an open connection keeps no machine awake, bytes do", async () => {
  await create();
  const socket = await tunnelTo("known.test:443");
  const { lastActiveAt, open: count } = machines.describe(id);
  expect(count).toBe(0);
  const timer = setInterval(() => socket.write("x"), 50);
  await vi.waitFor(() => expect(machines.describe(id).lastActiveAt > lastActiveAt).toBe(true), { timeout: 5000 });
  clearInterval(timer);
});

it("is asked of the edge by a host agent that has forgotten", async () => {
  await create();
  const journal = new Journal(join(folder, "journal"));
  const asked: unknown[] = [];
  const recall = async (machine: OutsideMachine) => {
    asked.push(machine);
    if (asked.length === 1) throw new Error("not now");
    return open;
  };
  const before = new Machines(driver, journal, policy, { outside });
  const other = newSandboxId("other");
  await before.create(other, { ...run, generation: 4, account: "default", shape: shapeOf({}), hostname: "o" });
  const after = new Machines(driver, new Journal(join(folder, "journal")), policy, { outside, recall });
  outside.egress.clear();
  vi.spyOn(driver, "list").mockResolvedValue([]);
  await after.reclaim();
  expect(outside.egress.get(other)).toBeNull();
  await vi.waitFor(() => expect(outside.egress.get(other)).toEqual(open), { timeout: 5000 });
  expect(asked).toEqual(Array(2).fill({ id: other, account: "default", generation: 4 }));
});

it("no caller of the data routes takes the host's place", async () => {
  await create();
  const { port } = await driver.endpoint(id, AGENT_PORT);
  const answer = await fetch(`http://127.0.0.1:${port}/tunnel`, { method: "POST" });
  expect(answer.status).toBe(404);
  expect(() => parseTarget(`/m/${id}/agent/tunnel`)).toThrow("no such data route");
  expect(() => parseTarget(`/m/${id}/agent//tunnel?x`)).toThrow("no such data route");
  expect(parseTarget(`/m/${id}/port/80/tunnel`)).toMatchObject({ path: "/tunnel" });
});

interface Answer {
  readonly status: number;
  readonly rule: string | undefined;
  readonly headers: Record<string, unknown>;
  readonly body: string;
}

function ask(method: string, url: string, body?: string, more: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve_, reject) => {
    const { proxy } = driver.ways(id);
    const headers = { ...more, host: /^http:\/\/([^/]+)/.exec(url)?.[1] ?? url };
    const req = request({ host: "127.0.0.1", port: proxy, method, path: url, headers, agent: false });
    const done = (status: number, { "x-rouse-egress": rule, ...headers_ }: Record<string, unknown>, text: string) =>
      resolve_({ status, rule: rule as string | undefined, headers: headers_, body: text });
    req.on("connect", async (res, socket, head) => {
      if (res.statusCode === 200) {
        socket.destroy();
        return done(200, {}, "");
      }
      if (head.length > 0) socket.unshift(head);
      done(res.statusCode ?? 0, { ...res.headers }, await rest(socket as Socket));
    });
    req.on("response", (res) => {
      let text = "";
      res.on("data", (chunk: Buffer) => (text += chunk.toString()));
      res.on("end", () => done(res.statusCode ?? 0, { ...res.headers }, text));
    });
    req.on("error", reject);
    req.end(body);
  });
}

async function tunnelTo(target: string): Promise<Socket> {
  const { proxy } = driver.ways(id);
  const req = request({ host: "127.0.0.1", port: proxy, method: "CONNECT", path: target, agent: false }).end();
  const [res, socket] = (await once(req, "connect")) as [{ statusCode: number }, Socket];
  expect(res.statusCode).toBe(200);
  socket.on("error", () => undefined);
  return socket;
}

async function resolve(name: string, type: number): Promise<{ code: number; addresses: string[] }> {
  const labels = name.split(".").map((label) => Buffer.from([label.length, ...Buffer.from(label)]));
  const head = Buffer.from("123401000001000000000000", "hex");
  const query = Buffer.concat([head, ...labels, Buffer.from([0, 0, type, 0, 1])]);
  const socket = createSocket("udp4");
  try {
    socket.send(query, driver.ways(id).resolver, "127.0.0.1");
    const [answer] = (await once(socket, "message")) as [Buffer];
    expect(answer.readUInt16BE(0)).toBe(0x1234);
    const count = answer.readUInt16BE(6);
    const addresses = count === 0 ? [] : [[...answer.subarray(-4)].join(".")];
    return { code: (answer[3] ?? 0) & 15, addresses };
  } finally {
    socket.close();
  }
}

async function bytes(socket: Socket, size: number): Promise<string> {
  let text = "";
  while (text.length < size) {
    const chunk = socket.read() as Buffer | null;
    if (chunk) text += chunk.toString("latin1");
    else await once(socket, "readable");
  }
  return text;
}

async function rest(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("latin1");
}

async function listen(one: Server): Promise<void> {
  one.listen(0, "127.0.0.1");
  await once(one, "listening");
}
