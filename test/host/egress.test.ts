/** What a machine reaches of the outside, by name and by address, with real sockets and a nameserver. */
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { formatAddress } from "../../backend-pool/egress/addresses.ts";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { clientHello } from "../support/client-hello.ts";
import { listening, soon, textOf, WayOut } from "./outside-world.ts";

let world: WayOut;
let echo: Server;
let echoPort = 0;
/** How what came in begins, by connection. */
let heard: Buffer[] = [];
const sockets = new Set<Socket>();

vi.setConfig({ testTimeout: 30_000 });

beforeAll(async () => {
  echo = createServer({ allowHalfOpen: true }, (socket) => {
    const at = heard.push(Buffer.alloc(0)) - 1;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
    socket.on("data", (bytes) => {
      const before = heard[at] ?? Buffer.alloc(0);
      if (before.length < 4096) heard[at] = Buffer.concat([before, bytes]);
    });
    socket.pipe(socket);
  });
  echoPort = await listening(echo);
  world = await WayOut.open({
    hosts: { "echo.lan": `127.0.0.1:${echoPort}`, "only.lan:5000": `127.0.0.1:${echoPort}` },
  });
  for (const port of [22, 80, 443]) world.ports.set(`93.184.216.34:${port}`, echoPort);
  world.nameserver.set("example.com", [{ type: "A", value: "93.184.216.34" }]);
});
afterAll(async () => {
  await world.close();
  for (const socket of sockets) socket.destroy();
  echo.close();
});
beforeEach(() => {
  heard = [];
  world.tried.length = 0;
  world.nameserver.asked.length = 0;
});

const closed = (stream: Duplex) => new Promise((resolve) => stream.resume().once("close", resolve));

let count = 0;
const fresh = () => `m-${++count}`;

describe("a connection by name", () => {
  it("carries bytes both ways, ends by halves, and is counted", async () => {
    const machine = world.machine(fresh(), { internet: true });
    const stream = await machine.stream("example.com", 80);
    stream.end("hello out there");
    expect(await textOf(stream)).toBe("hello out there");
    await soon(() => expect(machine.report).toMatchObject({ bytesOut: 15, bytesIn: 15 }));
    expect(world.tried).toEqual(["93.184.216.34:80"]);
  });

  it("carries megabytes at the pace of who reads them", async () => {
    const machine = world.machine(fresh(), { internet: true });
    const stream = await machine.stream("example.com", 80);
    const part = Buffer.alloc(65_536, 7);
    const parts = 160;
    void (async () => {
      for (let at = 0; at < parts; at++) if (!stream.write(part)) await once(stream, "drain");
      stream.end();
    })();
    let size = 0;
    for await (const bytes of stream) size += (bytes as Buffer).length;
    expect(size).toBe(parts * part.length);
  });

  it("that breaks is not taken for one that ended, either way", async () => {
    const broken = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => socket.write("some", () => socket.resetAndDestroy()));
    });
    world.ports.set("93.184.216.34:8080", await listening(broken));
    const machine = world.machine(fresh(), { internet: true });
    const stream = await machine.stream("example.com", 8080);
    stream.write("go");
    const [fault] = (await once(stream.resume(), "error")) as [Error];
    expect(fault.message).toContain("CONNECT_ERROR");
    broken.close();
    const mine = await machine.stream("example.com", 80);
    mine.write("a");
    await once(mine, "data");
    const [theirs] = [...sockets].slice(-1);
    mine.destroy();
    await soon(() => expect([theirs?.destroyed, theirs?.readableEnded]).toEqual([true, false]));
  });

  it("is refused with the rule, which is counted", async () => {
    const machine = world.machine(fresh(), { internet: true, deny: ["*.example.com", "example.com"] });
    expect(await machine.ruleOf("example.com", 443)).toBe("deny:example.com");
    expect(await machine.ruleOf("API.example.com", 443)).toBe("deny:*.example.com");
    expect(machine.report?.refusals).toMatchObject([
      { rule: "deny:example.com", target: "example.com:443", count: 1 },
      { rule: "deny:*.example.com", target: "API.example.com:443", count: 1 },
    ]);
    expect(world.nameserver.asked).toEqual([]);
    expect(world.tried).toEqual([]);
  });

  it("is refused for whoever has no rules, an older run, or one that is over", async () => {
    const machine = world.machine(fresh(), { internet: true });
    world.outside.changed(machine.self, null);
    expect(await machine.ruleOf("example.com", 80)).toBe("internet-off");
    world.outside.changed(
      { ...machine.self, generation: 2 },
      { version: 1, network: { internet: true }, brokered: [], inside: "x" },
    );
    expect(await machine.ruleOf("example.com", 80)).toBe("closed");
    world.outside.gone(machine.self.id);
    expect(await machine.ruleOf("example.com", 80)).toBe("closed");
  });

  it("says what went wrong out there", async () => {
    const machine = world.machine(fresh(), { internet: true });
    const messageOf = async (host: string) => {
      const reached = await machine.reach(host, 81);
      return "refusal" in reached ? `${reached.refusal.code}: ${reached.refusal.message}` : null;
    };
    expect(await messageOf("nowhere.example.com")).toMatch(/^host_unavailable: .*no address/);
    expect(await messageOf("example.com")).toMatch(/^host_unavailable: .*failed/);
  });

  it("tries the next address when the first does not answer", async () => {
    world.nameserver.set("two.example.com", [
      { type: "A", value: "93.184.216.99" },
      { type: "A", value: "93.184.216.34" },
    ]);
    const machine = world.machine(fresh(), { internet: true });
    expect(await machine.ruleOf("two.example.com", 80)).toBeNull();
    expect(world.tried).toEqual(["93.184.216.99:80", "93.184.216.34:80"]);
  });
});

describe("what is never reached", () => {
  const literals = [
    ..."127.0.0.1 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 198.18.77.7 255.255.255.255".split(
      " ",
    ),
    ..."::1 :: ::ffff:127.0.0.1 ::ffff:7f00:1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1:: fe80::1 fc00::1".split(
      " ",
    ),
  ];
  it.each(literals)("%s, whoever asks for it", async (literal) => {
    const machine = world.machine(fresh(), { internet: true, allow: [literal] });
    expect(await machine.ruleOf(literal, 80)).toBe("private-address");
    expect(world.tried).toEqual([]);
  });

  it.each(["127.1", "0x7f.1", "2130706433", "0177.0.0.1", "a b", "exa\0mple.com", "fe80::1%lo", ""])(
    "%j, which is no name",
    async (host) => {
      expect(await world.machine(fresh(), { internet: true }).ruleOf(host, 80)).toBe("name");
      expect(world.nameserver.asked).toEqual([]);
    },
  );

  it.each(["localhost", "metadata", "metadata.google.internal", "printer.local", "db.corp"])(
    "%s, a name of the host's network",
    async (host) => {
      expect(await world.machine(fresh(), { internet: true }).ruleOf(host, 80)).toBe("private-address");
      expect(world.nameserver.asked).toEqual([]);
    },
  );

  it("a name that leads to such an address, also when it says another one first", async () => {
    let times = 0;
    const records = () => [{ type: "A", value: times++ === 0 ? "93.184.216.34" : "127.0.0.1", ttl: 0 }] as const;
    world.nameserver.set("rebind.example.com", records);
    const machine = world.machine(fresh(), { internet: true });
    const told = await machine.dns("rebind.example.com");
    expect(told.addresses.map(formatAddress)).toEqual(["93.184.216.34"]);
    expect(await machine.ruleOf("rebind.example.com", echoPort)).toBe("private-address");
    expect((await machine.dns("rebind.example.com")).code).toBe(5);
    expect(world.tried).toEqual([]);
  });

  it("such addresses among others: only the others are tried", async () => {
    world.nameserver.set("mixed.example.com", [
      { type: "A", value: "10.0.0.1" },
      { type: "AAAA", value: "64:ff9b::a00:1" },
      { type: "A", value: "93.184.216.34" },
    ]);
    const machine = world.machine(fresh(), { internet: true });
    expect(await machine.ruleOf("mixed.example.com", 80)).toBeNull();
    expect((await machine.dns("mixed.example.com")).addresses.map(formatAddress)).toEqual(["93.184.216.34"]);
    expect((await machine.dns("mixed.example.com", 28)).code).toBe(5);
    expect(world.tried).toEqual(["93.184.216.34:80"]);
  });

  it("an address that a range denies, of a name that is allowed", async () => {
    const machine = world.machine(fresh(), { internet: false, allow: ["example.com"], deny: ["93.184.0.0/16"] });
    expect(await machine.ruleOf("example.com", 80)).toBe("deny:93.184.0.0/16");
    expect(world.tried).toEqual([]);
  });
});

describe("without internet", () => {
  it("an address needs a range that is allowed", async () => {
    expect(await world.machine(fresh(), { internet: false }).ruleOf("93.184.216.34", 80)).toBe("internet-off");
    expect(await world.machine(fresh(), { internet: false, allow: ["example.com"] }).ruleOf("93.184.216.34", 80)).toBe(
      "not-allowed",
    );
    expect(
      await world.machine(fresh(), { internet: false, allow: ["93.184.216.0/24"] }).ruleOf("93.184.216.34", 80),
    ).toBeNull();
  });
});

describe("names", () => {
  it("that the rules do not let out are REFUSED, and nobody out there hears of them", async () => {
    const machine = world.machine(fresh(), { internet: false, allow: ["example.com"] });
    for (const name of ["secret-data.evil.net", "x.example.com", "34.216.184.93.in-addr.arpa", "localhost"])
      expect((await machine.dns(name)).code).toBe(5);
    expect(world.nameserver.asked).toEqual([]);
    expect((await machine.dns("example.com")).addresses).toHaveLength(1);
    expect(machine.report?.refusals[0]).toMatchObject({ rule: "not-allowed", target: "secret-data.evil.net:53" });
  });

  it("of the host's network, private reverse zones and whole zones are not told", async () => {
    const machine = world.machine(fresh(), { internet: true });
    for (const name of ["db.internal", "router", "1.0.0.10.in-addr.arpa", "8.b.d.0.1.0.0.2.ip6.arpa.local"])
      expect((await machine.dns(name, 12)).code).toBe(5);
    expect((await machine.dns("example.com", 252)).code).toBe(4);
    expect(await machine.dns("example.com", 65)).toMatchObject({ code: 0, ttl: null });
    expect(world.nameserver.asked).toEqual([]);
  });

  it("of other types pass, long ones by TCP, and each is asked for once", async () => {
    world.nameserver.set(
      "long.example.com",
      Array.from({ length: 40 }, () => ({ type: "TXT", value: "x".repeat(60) }) as const),
    );
    const machine = world.machine(fresh(), { internet: true });
    const tcp = world.nameserver.byTcp;
    const [one, other] = await Promise.all([machine.dns("long.example.com", 16), machine.dns("LONG.example.com", 16)]);
    expect([one.code, other.code, one.ttl]).toEqual([0, 0, 60]);
    expect((await machine.dns("long.example.com", 16)).code).toBe(0);
    expect(world.nameserver.byTcp).toBe(tcp + 1);
  });

  it("that nobody answers for fail, and bad messages are said to be bad", async () => {
    const machine = world.machine(fresh(), { internet: true });
    const codeOf = async (bytes: Buffer) => ((await world.outside.dns(machine.self, bytes))[3] ?? 0) & 15;
    expect(await codeOf(Buffer.alloc(0))).toBe(1);
    expect(await codeOf(Buffer.alloc(12))).toBe(1);
    expect(await codeOf(Buffer.from([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1]))).toBe(1);
    expect(await codeOf(Buffer.from([0, 1, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]))).toBe(4);
  });

  it("of the operator stand for addresses that lead to them", async () => {
    const machine = world.machine(fresh(), { internet: false, allow: ["echo.lan"] });
    const { addresses } = await machine.dns("echo.lan");
    const [address] = addresses.map(formatAddress);
    expect(address).toMatch(/^198\.19\.128\./);
    const stream = await machine.stream(address ?? "", 1234);
    stream.end("hi");
    expect(await textOf(stream)).toBe("hi");
    expect(await machine.ruleOf("echo.lan", 1)).toBeNull();
    expect(await world.machine(fresh(), { internet: true }).ruleOf("only.lan", 5001)).toBe("private-address");
    expect(await world.machine(fresh(), { internet: false }).ruleOf("echo.lan", 1)).toBe("internet-off");
    expect(world.nameserver.asked).toEqual([]);
  });

  it("are asked for at a bounded rate", async () => {
    const machine = world.machine(fresh(), { internet: true });
    const codes = await Promise.all(Array.from({ length: 400 }, async () => (await machine.dns("example.com")).code));
    expect(codes.filter((code) => code === 0).length).toBeGreaterThanOrEqual(300);
    expect(codes).toContain(5);
  });
});

describe("where names decide", () => {
  const rules = { internet: true, deny: ["evil.example.com"] };
  it.each([
    ["a greeting for another host", clientHello(["other.example.com"])],
    ["a greeting for two", clientHello(["example.com", "other.example.com"])],
    ["a greeting that is none", Buffer.from([22, 3, 1, 0, 5, 1, 255, 255, 255, 0])],
    ["a request for another host", Buffer.from("GET / HTTP/1.1\r\nHost: other.example.com\r\n\r\n")],
    ["a request with two hosts", Buffer.from("GET / HTTP/1.1\r\nHost: example.com\r\nhost: other.example.com\r\n\r\n")],
    ["a request for a whole URL", Buffer.from("GET http://other.example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")],
    [
      "a request with a blank before the colon",
      Buffer.from("GET / HTTP/1.1\r\nHost: example.com\r\nHost : other\r\n\r\n"),
    ],
  ])("%s ends the connection, unheard", async (_what, bytes) => {
    const machine = world.machine(fresh(), rules);
    const stream = await machine.stream("example.com", 443);
    stream.write(bytes);
    expect(await textOf(stream).catch(() => "")).toBe("");
    expect(Buffer.concat(heard)).toHaveLength(0);
    expect(machine.report?.refusals).toMatchObject([{ rule: "fronting", target: "example.com:443" }]);
  });

  it.each([
    ["its own name", clientHello(["Example.com"])],
    ["its own name, in pieces", clientHello(["example.com"], 30)],
    ["no name", clientHello([])],
    ["its own host", Buffer.from("GET / HTTP/1.1\r\nHost: example.com:443\r\n\r\n")],
    ["something else altogether", Buffer.from("SSH-2.0-me\r\n")],
  ])("a greeting with %s passes", async (_what, bytes) => {
    const stream = await world.machine(fresh(), rules).stream("example.com", 443);
    stream.write(bytes.subarray(0, 9));
    await new Promise((resolve) => setImmediate(resolve));
    stream.end(bytes.subarray(9));
    expect(await textOf(stream)).toBe(bytes.toString("latin1"));
  });

  it("an address is held against the names that are denied", async () => {
    const machine = world.machine(fresh(), rules);
    const stream = await machine.stream("93.184.216.34", 443);
    stream.write(clientHello(["evil.example.com"]));
    expect(await textOf(stream).catch(() => "")).toBe("");
    expect(machine.report?.refusals).toMatchObject([{ rule: "deny:evil.example.com" }]);
  });

  it("what speaks first out there is heard before the machine says anything", async () => {
    const greeter = createServer((socket) => socket.write("220 hello\r\n"));
    world.ports.set("93.184.216.34:22", await listening(greeter));
    const stream = await world.machine(fresh(), rules).stream("example.com", 22);
    const [bytes] = (await once(stream, "data")) as [Buffer];
    expect(bytes.toString()).toBe("220 hello\r\n");
    stream.destroy();
    greeter.close();
  });

  it("and with open rules nothing is looked at", async () => {
    const stream = await world.machine(fresh(), { internet: true }).stream("example.com", 443);
    stream.end(clientHello(["other.example.com"]));
    expect((await textOf(stream)).length).toBeGreaterThan(0);
  });
});

describe("when rules change", () => {
  it("what is open and not allowed any more ends at once, on both sides; the rest stays", async () => {
    const machine = world.machine(fresh(), { internet: true });
    const gone = await machine.stream("example.com", 80);
    const stays = await machine.stream("echo.lan", 80);
    gone.write("a");
    stays.write("b");
    await once(gone, "data");
    await once(stays, "data");
    const theirs = sockets.size;
    machine.rules({ internet: false, allow: ["echo.lan"] });
    await closed(gone);
    await soon(() => expect(sockets.size).toBe(theirs - 1));
    stays.write("c");
    expect(String((await once(stays, "data"))[0])).toBe("c");
    world.outside.gone(machine.self.id);
    await closed(stays);
    await soon(() => expect(sockets.size).toBe(theirs - 2));
  });

  it("an older version changes nothing", async () => {
    const machine = world.machine(fresh(), { internet: true });
    world.outside.changed(machine.self, { version: 0, network: { internet: false }, brokered: [], inside: "x" });
    expect(await machine.ruleOf("example.com", 80)).toBeNull();
  });

  it("a connection that is being made is held against the new ones", async () => {
    world.nameserver.silent = true;
    const machine = world.machine(fresh(), { internet: true });
    world.nameserver.set("slow.example.com", [{ type: "A", value: "93.184.216.34" }]);
    const reaching = machine.ruleOf("slow.example.com", 80);
    machine.rules({ internet: false, allow: ["slow.example.com"], deny: ["93.184.216.34"] });
    world.nameserver.silent = false;
    expect(await reaching).toBe("deny:93.184.216.34");
  });
});

describe("bounds", () => {
  it("a machine has so many connections open, and more when some are over", async () => {
    const machine = world.machine(fresh(), { internet: true });
    const streams = await Promise.all(Array.from({ length: 512 }, () => machine.stream("echo.lan", 80)));
    expect(await machine.ruleOf("echo.lan", 80)).toBe("limit");
    for (const stream of streams) stream.destroy();
    await soon(async () => expect(await machine.ruleOf("echo.lan", 80)).toBeNull());
  });
});

describe("a run that ends", () => {
  it("is told once more, and counts on when it goes on after all", async () => {
    const machine = world.machine(fresh(), { internet: true });
    const send = async (text: string) => {
      const stream = await machine.stream("example.com", 80);
      stream.end(text);
      await textOf(stream);
    };
    await send("12345");
    await soon(() => expect(machine.report?.bytesOut).toBe(5));
    world.outside.gone(machine.self.id);
    const told = () => world.outside.news().filter((one) => one.machine.id === machine.self.id);
    expect(told()).toMatchObject([{ machine: machine.self, report: { bytesOut: 5 } }]);
    expect(told()).toEqual([]);
    machine.rules({ internet: true });
    await send("123");
    await soon(() => expect(machine.report?.bytesOut).toBe(8));
    world.outside.changed(
      { ...machine.self, generation: 2 },
      { version: 1, network: { internet: true }, brokered: [], inside: "x" },
    );
    expect(world.outside.report(machine.self.id)?.report).toMatchObject({ generation: 2, bytesOut: 0 });
  });
});
