/** Secrets in requests of machines: what servers out there get, what machines get, and what nobody does. */
import { once } from "node:events";
import { readdir, readFile, stat } from "node:fs/promises";
import {
  createServer,
  request as httpRequest,
  Agent,
  type IncomingMessage,
  type RequestOptions,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createSecure } from "node:https";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { inspect } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { Authority } from "../../backend-pool/egress/ca.ts";
import type { BrokeredSecret } from "../../sdk/contract/egress.ts";
import { listening, soon, textOf, WayOut, type TestMachine } from "./outside-world.ts";

const CANARY = "canary-93fe1c";
const NAME = "api.example.com";
const secret = (more: Partial<BrokeredSecret> = {}): BrokeredSecret => ({
  ...{ name: "model", version: 1, hosts: [NAME, "*.wild.example.com"], mode: "broker" },
  ...{ header: "authorization", format: "Bearer {value}", value: CANARY },
  ...more,
});
const token: BrokeredSecret = {
  ...{ name: "token", version: 1, hosts: [NAME], mode: "placeholder" },
  ...{ placeholder: "rouse-placeholder-1", value: "token-canary" },
};

let world: WayOut;
let secure: Server;
let plain: Server;
let wrong: Server;
let edge: Server;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let edgeAnswer: (request: IncomingMessage, response: ServerResponse) => void;
const seen: IncomingMessage[] = [];
const connections = new Set<Duplex>();

vi.setConfig({ testTimeout: 30_000 });

beforeAll(async () => {
  edge = createServer((request, response) => edgeAnswer(request, response));
  plain = createServer((request, response) => void (seen.push(request), answer(request, response)));
  const edgeUrl = `http://127.0.0.1:${await listening(edge)}`;
  world = await WayOut.open({ hosts: { "models.lan": `127.0.0.1:${await listening(plain)}` }, edgeUrl });
  secure = createSecure(
    world.certificate(NAME),
    (request, response) => void (seen.push(request), answer(request, response)),
  );
  secure.on("checkContinue", (request, response) => void (seen.push(request), answer(request, response)));
  secure.on("secureConnection", (socket: Duplex) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
  });
  wrong = createSecure(world.certificate("other.example.com"), (_request, response) => response.end("mine"));
  world.ports.set("93.184.216.34:443", await listening(secure));
  world.ports.set("93.184.216.35:443", await listening(wrong));
  world.nameserver.set(NAME, [{ type: "A", value: "93.184.216.34" }]);
  world.nameserver.set("b.wild.example.com", [{ type: "A", value: "93.184.216.35" }]);
});
afterAll(async () => {
  await world.close();
  for (const server of [secure, plain, wrong, edge]) {
    server.closeAllConnections();
    server.close();
  }
});
beforeEach(() => {
  seen.length = 0;
  answer = (_request, response) => response.end("fine");
});

let count = 0;
const machineWith = (...secrets: BrokeredSecret[]): TestMachine =>
  world.machine(`b-${++count}`, { internet: true }, secrets);

interface Said {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  readonly trailers: IncomingMessage["trailers"];
}

function send(stream: Duplex, options: RequestOptions, body?: Buffer | string | null): Promise<Said> {
  return new Promise((resolve, reject) => {
    const agent = new Agent();
    agent.createConnection = () => stream;
    const request = httpRequest({ host: NAME, ...options, agent });
    request.on("error", reject);
    request.on("response", (response) => {
      textOf(response).then(
        (text) =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, trailers: response.trailers }),
        reject,
      );
    });
    if (body !== null) request.end(body);
  });
}

async function ask(machine: TestMachine, options: RequestOptions = {}, body?: Buffer | string): Promise<Said> {
  const host = options.host ?? NAME;
  return send(await machine.secure(host), { ...options, headers: { host, ...(options.headers as object) } }, body);
}

describe("a request to a host that gets a secret", () => {
  it("gets its header in the place of every one that the machine sent, and the rest as it was", async () => {
    const machine = machineWith(secret());
    const headers = {
      AUTHORIZATION: ["Bearer mine", "Bearer other"],
      "x-Own": "kept",
      connection: "close, x-dropped, authorization",
      "x-dropped": "1",
    };
    const said = await ask(machine, { path: "/v1/x?y=1", headers });
    expect(said).toMatchObject({ status: 200, text: "fine" });
    expect(seen[0]?.url).toBe("/v1/x?y=1");
    expect(seen[0]?.headersDistinct["authorization"]).toEqual([`Bearer ${CANARY}`]);
    expect(seen[0]?.headers).toMatchObject({ "x-own": "kept", host: NAME });
    expect(seen[0]?.headers["x-dropped"]).toBeUndefined();
    await soon(() => expect(machine.report).toMatchObject({ secretUses: [{ name: "model", version: 1, count: 1 }] }));
    expect(machine.report?.bytesOut).toBeGreaterThan(0);
  });

  it("is refused when no rule of the secret fits, and is not sent", async () => {
    const machine = machineWith(secret({ rules: [{ methods: ["POST"], paths: ["/v1/messages"] }] }));
    expect(await ask(machine, { method: "POST", path: "/v1/messages" }, "{}")).toMatchObject({ status: 200 });
    for (const [method, path] of [
      ["GET", "/v1/messages"],
      ["POST", "/v1/keys"],
      ["POST", "/v1/messages/%2e%2e/keys"],
    ]) {
      const said = await ask(machine, { method, path });
      expect(said).toMatchObject({ status: 403, headers: { "x-rouse-egress": "secret-rule:model" } });
      expect(JSON.parse(said.text)).toMatchObject({ error: { code: "egress_refused" } });
    }
    expect(seen).toHaveLength(1);
    expect(machine.report?.refusals).toMatchObject([{ rule: "secret-rule:model", target: `${NAME}:443`, count: 3 }]);
  });

  it("has its placeholder replaced, which goes nowhere else", async () => {
    const machine = machineWith(secret({ hosts: ["models.lan"] }), token);
    await ask(machine, { path: "/?key=rouse-placeholder-1", headers: { "x-key": "rouse-placeholder-1" } });
    expect(seen[0]).toMatchObject({ url: "/?key=token-canary", headers: { "x-key": "token-canary" } });
    const stream = await machine.stream("models.lan", 80);
    const said = await send(stream, { headers: { host: "models.lan", "x-key": "rouse-placeholder-1" } });
    expect(said).toMatchObject({ status: 403, headers: { "x-rouse-egress": "placeholder:token" } });
    expect(seen).toHaveLength(1);
  });

  it("must be for the host that the connection is for", async () => {
    const machine = machineWith(secret());
    const cases: RequestOptions[] = [
      { headers: { host: "other.example.com" } },
      { headers: { host: `${NAME}:444` } },
      { path: "https://other.example.com/", headers: { host: NAME } },
    ];
    for (const options of cases) {
      const said = await send(await machine.secure(NAME), { setHost: false, ...options });
      expect([options, said.status, said.headers["x-rouse-egress"]]).toEqual([options, 403, "fronting"]);
    }
    const twice = await machine.secure(NAME);
    twice.write(`GET / HTTP/1.1\r\nhost: ${NAME}\r\nhost: ${NAME}\r\n\r\n`);
    expect(await textOf(twice)).toMatch(/^HTTP\/1.1 40[03] /);
    const socket = connectTls({
      socket: await machine.stream(NAME, 443),
      servername: "other.example.com",
      rejectUnauthorized: false,
    });
    socket.on("error", () => undefined);
    await new Promise((resolve) => socket.once("close", resolve));
    expect(seen).toHaveLength(0);
    expect(machine.report?.refusals).toMatchObject([{ rule: "fronting" }]);
  });

  it("takes the secret as it is when it comes: after a rotation, on the same connection, the new one", async () => {
    const machine = machineWith(secret());
    const socket = await machine.secure(NAME);
    let text = "";
    socket.on("data", (bytes: Buffer) => (text += bytes.toString()));
    const answers = () => text.split("fine").length - 1;
    socket.write(`GET / HTTP/1.1\r\nhost: ${NAME}\r\n\r\n`);
    await soon(() => expect(answers()).toBe(1));
    machine.rules({ internet: true }, [secret({ version: 2, value: "canary-rotated" })]);
    socket.write(`GET / HTTP/1.1\r\nhost: ${NAME}\r\n\r\n`);
    await soon(() => expect(answers()).toBe(2));
    expect(seen.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${CANARY}`, "Bearer canary-rotated"]);
    expect(seen[1]?.socket).toBe(seen[0]?.socket);
    // Taken back: the connection ends, on both sides.
    machine.rules({ internet: true }, []);
    socket.on("error", () => undefined);
    await new Promise((resolve) => socket.resume().once("close", resolve));
    await soon(() => expect(seen[0]?.socket.destroyed).toBe(true));
  });

  it("goes to nobody whose certificate is not that of the name", async () => {
    const said = await ask(machineWith(secret()), { host: "b.wild.example.com" });
    expect(said.status).toBe(503);
    expect(said.text).toContain("ERR_TLS_CERT_ALTNAME_INVALID");
    expect(said.text).not.toContain(CANARY);
  });

  it("goes in the clear only where the operator leads", async () => {
    const machine = machineWith(secret({ hosts: [NAME, "models.lan"] }));
    const said = await send(await machine.stream(NAME, 80), { headers: { host: NAME } });
    expect(said).toMatchObject({ status: 403, headers: { "x-rouse-egress": "secret-plain" } });
    const own = await send(await machine.stream("models.lan", 11_434), { headers: { host: "models.lan:11434" } });
    expect(own.status).toBe(200);
    expect(seen[0]?.headers.authorization).toBe(`Bearer ${CANARY}`);
  });

  it("leaves other hosts alone: their greeting is not ours", async () => {
    const machine = world.machine(`b-${++count}`, { internet: true }, [secret({ hosts: ["elsewhere.example.com"] })]);
    const socket = connectTls({
      socket: await machine.stream(NAME, 443),
      servername: NAME,
      ca: await readFile(join(world.dir, "world.pem")),
    });
    expect((await send(socket, { headers: { host: NAME, authorization: "mine" } })).text).toBe("fine");
    expect(seen[0]?.headers.authorization).toBe("mine");
  });
});

describe("what passes", () => {
  it("large bodies both ways, at the pace of who reads", async () => {
    const size = 8 * 1024 * 1024;
    let got = 0;
    answer = (request, response) => {
      request.on("data", (bytes: Buffer) => (got += bytes.length));
      request.on("end", () => response.end(Buffer.alloc(size, 1)));
    };
    const said = await ask(machineWith(secret()), { method: "POST" }, Buffer.alloc(size, 2));
    expect([got, said.text.length]).toEqual([size, size]);
  });

  it("an answer that comes bit by bit, as it comes, and its trailers", async () => {
    let next = (): void => undefined;
    answer = (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream", trailer: "x-sum" });
      response.write("one\n");
      next = () => {
        response.addTrailers({ "x-sum": "42" });
        response.end("two\n");
      };
    };
    const socket = await machineWith(secret()).secure(NAME);
    let text = "";
    socket.on("data", (bytes: Buffer) => (text += bytes.toString()));
    socket.write(`GET / HTTP/1.1\r\nhost: ${NAME}\r\n\r\n`);
    await soon(() => expect(text).toContain("one\n"));
    expect(text).not.toContain("two");
    next();
    await soon(() => expect(text).toMatch(/two\n[^]*x-sum: 42/i));
    socket.destroy();
  });

  it("the question whether a body is wanted, both answers", async () => {
    const machine = machineWith(secret());
    const begin = async () => {
      const socket = await machine.secure(NAME);
      const head = `POST / HTTP/1.1\r\nhost: ${NAME}\r\nexpect: 100-continue\r\ncontent-length: 4\r\nconnection: close\r\n\r\n`;
      socket.write(head);
      return socket;
    };
    answer = (request, response) => {
      response.writeContinue();
      request.pipe(response);
    };
    const wanted = await begin();
    expect(String((await once(wanted, "data"))[0])).toMatch(/^HTTP\/1.1 100 Continue/);
    wanted.write("body");
    expect(await textOf(wanted)).toMatch(/200 OK[^]*body/);
    answer = (_request, response) => void response.writeHead(417).end("no");
    expect(await textOf(await begin())).toMatch(/^HTTP\/1.1 417/);
  });

  it("chunked requests, empty ones, and headers that come more than once", async () => {
    answer = (request, response) => {
      response.setHeader("set-cookie", ["a=1", "b=2"]);
      request.pipe(response);
    };
    const machine = machineWith(secret());
    const said = await ask(machine, { method: "PUT", headers: { "transfer-encoding": "chunked" } }, "in chunks");
    expect(said).toMatchObject({ text: "in chunks", headers: { "set-cookie": ["a=1", "b=2"] } });
    await ask(machine, { method: "DELETE" });
    await ask(machine, { method: "HEAD" });
    expect(seen.map(({ headers }) => [headers["transfer-encoding"], headers["content-length"]])).toEqual([
      ["chunked", undefined],
      [undefined, "0"],
      [undefined, undefined],
    ]);
  });

  it("a WebSocket, with the secret in its first request", async () => {
    const sockets = new WebSocketServer({ noServer: true });
    secure.on("upgrade", (request, socket, head) => {
      seen.push(request);
      if (request.url === "/no") return void socket.end("HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno");
      sockets.handleUpgrade(request, socket, head, (one) =>
        one.on("message", (data) => one.send(`echo ${String(data)}`)),
      );
    });
    const machine = machineWith(secret());
    const stream = await machine.secure(NAME);
    const client = new WebSocket(`ws://${NAME}/socket`, { createConnection: () => stream });
    await once(client, "open");
    client.send("hi");
    expect(String((await once(client, "message"))[0])).toBe("echo hi");
    expect(seen[0]?.headers.authorization).toBe(`Bearer ${CANARY}`);
    client.close();
    await once(client, "close");
    const other = await machine.secure(NAME);
    const refused = new WebSocket(`ws://${NAME}/no`, { createConnection: () => other });
    const [, response] = (await once(refused, "unexpected-response")) as [unknown, IncomingMessage];
    expect(response.statusCode).toBe(401);
    refused.on("error", () => undefined);
    refused.terminate();
    sockets.close();
  });

  it("an end that comes too early, to whoever waits for more", async () => {
    answer = (_request, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("some");
      setImmediate(() => response.destroy());
    };
    await expect(ask(machineWith(secret()))).rejects.toThrow(/aborted|hang up|RESET/);
    let isOver = false;
    answer = (request) => void request.on("close", () => (isOver = true));
    const socket = await machineWith(secret()).secure(NAME);
    socket.write(`POST / HTTP/1.1\r\nhost: ${NAME}\r\ncontent-length: 100\r\n\r\nabc`);
    await soon(() => expect(seen).toHaveLength(2));
    socket.destroy();
    await soon(() => expect(isOver).toBe(true));
  });

  it("the end of a connection out there that waits for nothing", async () => {
    const socket = await machineWith(secret()).secure(NAME);
    socket.write(`GET / HTTP/1.1\r\nhost: ${NAME}\r\n\r\n`);
    await once(socket, "data");
    for (const one of connections) one.end();
    await once(socket.resume(), "end");
    expect(socket.readableEnded).toBe(true);
    socket.destroy();
  });
});

describe("what does not", () => {
  it.each([
    ["a greeting that is none", Buffer.from([22, 3, 1, 0, 5, 1, 255, 255, 255, 0])],
    ["garbage", Buffer.from("\0\x01\x02garbage\r\n\r\n")],
    ["half a greeting", Buffer.from([22, 3, 1])],
  ])("%s: it harms nobody", async (_what, bytes) => {
    const machine = machineWith(secret());
    const stream = await machine.stream(NAME, 443);
    stream.end(bytes);
    await textOf(stream).catch(() => "");
    expect((await ask(machine)).status).toBe(200);
  });

  it("headers without an end, and two lengths", async () => {
    const machine = machineWith(secret());
    const said = async (text: string) => {
      const socket = await machine.secure(NAME);
      socket.on("error", () => undefined);
      socket.write(text);
      return textOf(socket).catch(() => "");
    };
    expect(await said(`GET / HTTP/1.1\r\nhost: ${NAME}\r\nx: ${"y".repeat(70_000)}\r\n\r\n`)).toMatch(/^HTTP\/1.1 431/);
    expect(
      await said(
        `POST / HTTP/1.1\r\nhost: ${NAME}\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
      ),
    ).toMatch(/^HTTP\/1.1 400/);
    expect(await said(`GET / HTTP/1.1\r\nhost: ${NAME}\r\n host: x\r\n\r\n`)).not.toMatch(/ 200 /);
    // Bytes that a path may not have, a method that nobody knows, and an answer that is none.
    expect(await said(`GET /\x7f\xff\x00 HTTP/1.1\r\nhost: ${NAME}\r\n\r\n`)).not.toMatch(/ 200 /);
    expect(await said(`BREW / HTTP/1.1\r\nhost: ${NAME}\r\n\r\n`)).not.toMatch(/ 200 /);
    expect(seen).toHaveLength(0);
    answer = (request) => void request.socket.end("HTTP/1.1 200 \x01\x02\r\nx: \x01\r\nnonsense\r\n\r\n");
    expect(await said(`GET / HTTP/1.1\r\nhost: ${NAME}\r\nconnection: close\r\n\r\n`)).not.toMatch(/ 200 /);
    answer = (request) =>
      void request.socket.end("HTTP/1.1 200 \xe4\xf6\r\ncontent-length: 2\r\nx: \xe4\r\n\r\nok", "latin1");
    expect(await said(`GET / HTTP/1.1\r\nhost: ${NAME}\r\nconnection: close\r\n\r\n`)).toMatch(/ 200 [^]*ok$/);
  });
});

describe("a secret's value", () => {
  it("is in no error, no report, no file and nothing that is printed", async () => {
    const spies = (["log", "error", "warn"] as const).map((name) => vi.spyOn(console, name));
    const machine = machineWith(secret({ value: `${CANARY}\n` }), secret({ name: "b", hosts: ["models.lan"] }));
    const said = await ask(machine);
    expect(said).toMatchObject({ status: 403, headers: { "x-rouse-egress": "secret-value:model" } });
    const printed = spies.flatMap((spy) => spy.mock.calls.map((call) => inspect(call)));
    const files = await Promise.all((await readdir(world.dir)).map((name) => readFile(join(world.dir, name), "utf8")));
    const shown = inspect(world.outside, { depth: 20, showHidden: true });
    for (const text of [
      said.text,
      inspect(said.headers),
      JSON.stringify(machine.report),
      shown,
      ...printed,
      ...files,
    ]) {
      expect(text).not.toContain(CANARY);
      expect(text).not.toContain("ticket-canary");
    }
    for (const spy of spies) spy.mockRestore();
  });
});

describe("the authority of a host", () => {
  it("is made once, for its owner alone, and is the same afterwards", async () => {
    const file = join(world.dir, "shared", "ca.pem");
    const [one, other] = await Promise.all([Authority.open(file), Authority.open(file)]);
    expect(one.pem).toBe(other.pem);
    expect((await Authority.open(file)).pem).toBe(one.pem);
    expect(one.pem).not.toContain("PRIVATE");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readdir(join(world.dir, "shared"))).toEqual(["ca.pem"]);
    await expect(Authority.open(join(world.dir, "world.pem"))).rejects.toThrow(/does not hold/);
  });
});

describe("the homes of state", () => {
  it("are reached by a program that knows nothing of the tunnel, with the machine's ticket and none of its own rights", async () => {
    const got: IncomingMessage[] = [];
    edgeAnswer = (request, response) => {
      got.push(request);
      response.setHeader("x-kept", "1");
      request.pipe(response);
    };
    const machine = world.machine(`b-${++count}`, { internet: false });
    const told = await machine.dns("rouse.internal");
    expect(told.addresses).toHaveLength(1);
    const headers = {
      host: "rouse.internal",
      ...{
        authorization: "Bearer guest",
        "x-rouse-inside": "forged",
        "X-Forwarded-For": "1.1.1.1",
        "content-type": "text/plain",
      },
    };
    const said = await send(
      await machine.stream("rouse.internal", 80),
      { method: "PUT", path: "/state/keys/a%2Fb?x=1", headers },
      "value",
    );
    expect(said).toMatchObject({ status: 200, text: "value", headers: { "x-kept": "1" } });
    expect(got[0]).toMatchObject({
      ...{ method: "PUT", url: "/internal/inside/state/keys/a%2Fb?x=1" },
      headers: {
        authorization: "Bearer rousehost_test",
        "x-rouse-inside": "ticket-canary",
        "content-type": "text/plain",
      },
    });
    expect(got[0]?.headersDistinct["x-rouse-inside"]).toHaveLength(1);
    expect(got[0]?.headers["x-forwarded-for"]).toBeUndefined();
    expect(await machine.ruleOf("rouse.internal", 443)).toBe("port");
  });

  it.each(["/../hosts", "/..%2f", "/%2e%2e/usage", "/a/../../usage", "/\\..\\..\\usage"])(
    "lead nowhere else: %s",
    async (path) => {
      const got: string[] = [];
      edgeAnswer = (request, response) => {
        got.push(request.url ?? "");
        response.end();
      };
      const machine = world.machine(`b-${++count}`, { internet: false });
      const socket = await machine.stream("rouse.internal", 80);
      socket.write(`GET ${path} HTTP/1.1\r\nhost: rouse.internal\r\nconnection: close\r\n\r\n`);
      await textOf(socket).catch(() => "");
      for (const url of got) expect(new URL(url, "http://edge").pathname).toMatch(/^\/internal\/inside\//);
    },
  );

  it("say so when the edge is away", async () => {
    edgeAnswer = (request) => void request.socket.destroy();
    const machine = world.machine(`b-${++count}`, { internet: true });
    const said = await send(await machine.stream("rouse.internal", 80), { headers: { host: "rouse.internal" } });
    expect(said.status).toBe(503);
    expect(JSON.parse(said.text)).toMatchObject({ error: { code: "host_unavailable" } });
    expect(said.text).not.toContain("ticket-canary");
  });
});
