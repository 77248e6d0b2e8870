/** A nameserver on this machine, by UDP and TCP, that says what tests tell it to and knows what it was asked. */
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import type { AddressInfo } from "node:net";
import { nameBytes } from "../../backend-pool/egress/dns-wire.ts";

const TYPES: Readonly<Record<string, number>> = { A: 1, TXT: 16, AAAA: 28 };

export interface TestRecord {
  readonly type: "A" | "AAAA" | "TXT";
  readonly value: string;
  readonly ttl?: number;
}

type Zone = () => readonly TestRecord[];

export class TestNameserver {
  readonly #udp: Socket;
  readonly #tcp: Server;
  readonly #zones = new Map<string, Zone>();
  /** `<name> <type>`, in order. */
  readonly asked: string[] = [];
  /** How many questions came by TCP. */
  byTcp = 0;
  /** Longer answers by UDP are cut short. */
  udpBytes = 1200;
  /** Says nothing. */
  silent = false;

  private constructor(udp: Socket, tcp: Server) {
    this.#udp = udp;
    this.#tcp = tcp;
    udp.on("message", (query, { port, address }) => {
      if (this.silent) return;
      const answer = this.#answer(query);
      udp.send(answer.length > this.udpBytes ? cut(answer) : answer, port, address);
    });
    tcp.on("connection", (socket) => {
      socket.on("error", () => undefined);
      socket.on("data", (bytes) => {
        this.byTcp++;
        const answer = this.#answer(bytes.subarray(2));
        const length = Buffer.alloc(2);
        length.writeUInt16BE(answer.length, 0);
        socket.end(Buffer.concat([length, answer]));
      });
    });
  }

  static async start(): Promise<TestNameserver> {
    const tcp = createServer().listen(0, "127.0.0.1");
    await once(tcp, "listening");
    const udp = createSocket("udp4");
    udp.bind((tcp.address() as AddressInfo).port, "127.0.0.1");
    await once(udp, "listening");
    return new TestNameserver(udp, tcp);
  }

  get address(): string {
    return `127.0.0.1:${(this.#tcp.address() as AddressInfo).port}`;
  }

  /** @param records what is said of the name, or what says it anew each time */
  set(name: string, records: readonly TestRecord[] | Zone): void {
    this.#zones.set(name, typeof records === "function" ? records : () => records);
  }

  async close(): Promise<void> {
    this.#udp.close();
    this.#tcp.close();
    await once(this.#tcp, "close");
  }

  #answer(query: Buffer): Buffer {
    let at = 12;
    const labels: string[] = [];
    for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
      labels.push(query.toString("latin1", at + 1, at + 1 + length));
      at += 1 + length;
    }
    const name = labels.join(".").toLowerCase();
    const type = query.readUInt16BE(at + 1);
    this.asked.push(`${name} ${type}`);
    const zone = this.#zones.get(name);
    const records = (zone?.() ?? []).filter((record) => TYPES[record.type] === type);
    const head = Buffer.alloc(12);
    query.copy(head, 0, 0, 2);
    head.writeUInt16BE(0x8180 | (zone ? 0 : 3), 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(records.length, 6);
    return Buffer.concat([head, query.subarray(12, at + 5), ...records.map(recordBytes)]);
  }
}

function cut(answer: Buffer): Buffer {
  const out = Buffer.from(answer.subarray(0, 12));
  out.writeUInt16BE(out.readUInt16BE(2) | 0x0200, 2);
  out.writeUInt16BE(0, 6);
  let at = 12;
  while ((answer[at] ?? 0) !== 0) at += 1 + (answer[at] ?? 0);
  return Buffer.concat([out, answer.subarray(12, at + 5)]);
}

function recordBytes({ type, value, ttl = 60 }: TestRecord): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(TYPES[type] ?? 0, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt32BE(ttl, 6);
  const data = dataOf(type, value);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}

function dataOf(type: TestRecord["type"], value: string): Buffer {
  if (type === "A") return Buffer.from(value.split(".").map(Number));
  if (type === "TXT") return nameBytes(value).subarray(0, -1);
  const [left = "", right = ""] = value.split("::");
  const before = left === "" ? [] : left.split(":");
  const after = right === "" ? [] : right.split(":");
  const groups = [...before, ...Array<string>(8 - before.length - after.length).fill("0"), ...after];
  return Buffer.from(groups.map((group) => group.padStart(4, "0")).join(""), "hex");
}
