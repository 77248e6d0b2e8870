/** A host's way out with everything around it on this machine: nameserver, servers out there, a machine that asks. */
import { generateKeyPairSync, createPublicKey } from "node:crypto";
import { once } from "node:events";
import {
  connect as connectHttp2,
  createServer as createHttp2,
  type ClientHttp2Session,
  type Http2Server,
} from "node:http2";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as connectTcp, type AddressInfo, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { vi } from "vitest";
import { issueAuthority, issueLeaf } from "../../backend-pool/egress/certificate.ts";
import { nameBytes, readMessage, type Message } from "../../backend-pool/egress/dns-wire.ts";
import { HostOutside } from "../../backend-pool/egress/host-outside.ts";
import { OperatorHosts } from "../../backend-pool/egress/hosts.ts";
import type { OutsideMachine, OutsideRefusal, OutsideTarget } from "../../backend-pool/egress/outside.ts";
import type { BrokeredSecret, MachineEgress } from "../../sdk/contract/egress.ts";
import type { NetworkRules } from "../../sdk/contract/network.ts";
import { TestNameserver } from "../support/test-nameserver.ts";

export type Reached = { readonly stream: Duplex } | { readonly refusal: OutsideRefusal };

export class WayOut {
  readonly outside: HostOutside;
  readonly nameserver: TestNameserver;
  /** `address:port` of each connection that was tried, in order. */
  readonly tried: string[];
  /** Where connections to a public `address:port` really go: a port of this machine. */
  readonly ports: Map<string, number>;
  readonly dir: string;
  readonly authorityKey: ReturnType<typeof generateKeyPairSync>["privateKey"];
  readonly #tunnel: Http2Server;
  readonly #session: ClientHttp2Session;
  #version = 0;

  private constructor(
    fields: Pick<WayOut, "outside" | "nameserver" | "tried" | "ports" | "dir" | "authorityKey">,
    tunnel: Http2Server,
    session: ClientHttp2Session,
  ) {
    this.#tunnel = tunnel;
    this.#session = session;
    this.outside = fields.outside;
    this.nameserver = fields.nameserver;
    this.tried = fields.tried;
    this.ports = fields.ports;
    this.dir = fields.dir;
    this.authorityKey = fields.authorityKey;
  }

  static async open({
    hosts = {},
    edgeUrl = "http://127.0.0.1:9",
  }: { hosts?: object; edgeUrl?: string } = {}): Promise<WayOut> {
    const dir = await mkdtemp(join(tmpdir(), "rouse-egress-"));
    const nameserver = await TestNameserver.start();
    const authorityKey = generateKeyPairSync("ec", { namedCurve: "prime256v1" }).privateKey;
    await writeFile(join(dir, "world.pem"), issueAuthority("World", authorityKey, Date.now()));
    const tried: string[] = [];
    const ports = new Map<string, number>();
    const outside = await HostOutside.open({
      ...{ edgeUrl, hostKey: "rousehost_test" },
      authorityFile: join(dir, "egress-ca.pem"),
      hosts: OperatorHosts.parse(JSON.stringify(hosts)),
      nameservers: [nameserver.address],
      upstreamCaFile: join(dir, "world.pem"),
      dialer: {
        own: () => [],
        connect: ({ address, port }) => {
          tried.push(`${address}:${port}`);
          const to = address === "127.0.0.1" ? port : (ports.get(`${address}:${port}`) ?? 9);
          return connectTcp({ host: "127.0.0.1", port: to, allowHalfOpen: true });
        },
      },
    });
    const tunnel = tunnelTo(outside);
    const session = connectHttp2(`http://127.0.0.1:${await listening(tunnel)}`, { peerMaxConcurrentStreams: 2000 });
    await once(session, "remoteSettings");
    return new WayOut({ outside, nameserver, tried, ports, dir, authorityKey }, tunnel, session);
  }

  async close(): Promise<void> {
    this.outside.close();
    this.#session.destroy();
    this.#tunnel.close();
    await this.nameserver.close();
    await rm(this.dir, { recursive: true, force: true });
  }

  /** Certificate and key of a server out there. */
  certificate(name: string): { cert: string; key: string } {
    const key = generateKeyPairSync("ec", { namedCurve: "prime256v1" }).privateKey;
    const cert = issueLeaf(name, createPublicKey(key), { name: "World", key: this.authorityKey }, Date.now());
    return { cert, key: String(key.export({ type: "pkcs8", format: "pem" })) };
  }

  machine(id: string, network: NetworkRules, brokered: readonly BrokeredSecret[] = []): TestMachine {
    const machine = new TestMachine(
      this.outside,
      this.#session,
      { id, account: "acc", generation: 1 },
      () => ++this.#version,
    );
    machine.rules(network, brokered);
    return machine;
  }
}

export class TestMachine {
  readonly #outside: HostOutside;
  readonly self: OutsideMachine;
  readonly #session: ClientHttp2Session;
  readonly #version: () => number;

  constructor(outside: HostOutside, session: ClientHttp2Session, self: OutsideMachine, version: () => number) {
    this.#outside = outside;
    this.#session = session;
    this.self = self;
    this.#version = version;
  }

  rules(network: NetworkRules, brokered: readonly BrokeredSecret[] = []): void {
    const egress: MachineEgress = {
      version: this.#version(),
      network,
      brokered: [...brokered],
      inside: "ticket-canary",
    };
    this.#outside.changed(this.self, egress);
  }

  /** `CONNECT`, over HTTP/2 as a guest agent does it. */
  reach(host: string, port: number): Promise<Reached> {
    return new Promise((resolve, reject) => {
      const stream = this.#session.request({
        ...{ ":method": "CONNECT", ":authority": "outside:1" },
        ...{ "x-machine": JSON.stringify(this.self), "x-target": JSON.stringify({ host, port }) },
      });
      stream.on("error", reject);
      stream.once("response", ({ ":status": status, "x-refusal": refusal }) => {
        stream.removeListener("error", reject);
        stream.on("error", () => undefined);
        resolve(status === 200 ? { stream } : { refusal: JSON.parse(String(refusal)) as OutsideRefusal });
      });
    });
  }

  async stream(host: string, port: number): Promise<Duplex> {
    const reached = await this.reach(host, port);
    if ("refusal" in reached) throw new Error(`refused: ${JSON.stringify(reached.refusal)}`);
    return reached.stream;
  }

  /** The rule that refuses, or the code of another refusal; null: it is reached. */
  async ruleOf(host: string, port: number): Promise<string | null> {
    const reached = await this.reach(host, port);
    if ("refusal" in reached) return reached.refusal.rule ?? reached.refusal.code;
    reached.stream.destroy();
    return null;
  }

  /** A connection with TLS, as a program makes it that trusts its host. */
  async secure(host: string, port = 443, servername = host): Promise<TLSSocket> {
    const socket = connectTls({
      ...{ socket: await this.stream(host, port), servername, ca: this.#outside.caPem(), ALPNProtocols: ["http/1.1"] },
    });
    await once(socket, "secureConnect");
    return socket;
  }

  async dns(name: string, type = 1): Promise<Message> {
    const query = Buffer.concat([
      Buffer.from([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
      nameBytes(name),
      Buffer.from([0, type, 0, 1]),
    ]);
    const message = readMessage(await this.#outside.dns(this.self, query));
    if (!message) throw new Error("no answer");
    return message;
  }

  get report() {
    return this.#outside.report(this.self.id)?.report;
  }
}

function tunnelTo(outside: HostOutside): Http2Server {
  const server = createHttp2({ settings: { maxConcurrentStreams: 2000 } });
  server.on("stream", (stream, headers) => {
    const machine = JSON.parse(String(headers["x-machine"])) as OutsideMachine;
    const target = JSON.parse(String(headers["x-target"])) as OutsideTarget;
    outside.connect(machine, target, stream, {
      open: () => stream.respond({ ":status": 200 }),
      refuse: (refusal) =>
        stream.respond({ ":status": 403, "x-refusal": JSON.stringify(refusal) }, { endStream: true }),
    });
  });
  return server;
}

export async function listening(server: Server | Http2Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Everything until its end, as text. */
export async function textOf(stream: AsyncIterable<Buffer | string>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(Buffer.from(part));
  return Buffer.concat(parts).toString("latin1");
}

/** Looked at again until it holds. */
export function soon(holds: () => void | Promise<void>): Promise<void> {
  return vi.waitFor(holds, { timeout: 20_000 });
}
