/** A resolver that speaks DNS over HTTPS (RFC 8484) on this machine, and says what tests tell it to. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type ZoneRecord = {
  readonly type: "A" | "AAAA" | "CNAME" | "TXT";
  /** Of a TXT record: its strings, or one. */
  readonly value: string | readonly string[];
};

/** What is said of one name. */
export interface Zone {
  readonly name: string;
  readonly records: readonly ZoneRecord[];
  /** A response code in the place of an answer: 2 is SERVFAIL. */
  readonly code?: number;
  /** A status of HTTP in the place of an answer. */
  readonly status?: number;
}

const TYPES = { A: 1, CNAME: 5, TXT: 16, AAAA: 28 } as const;
const MEDIA = "application/dns-message";

export class TestResolver {
  readonly #server: Server;
  readonly #zones = new Map<string, Zone>();
  /** How often each name was asked for. */
  readonly #asked = new Map<string, number>();

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  static async start(): Promise<TestResolver> {
    const resolver = new TestResolver();
    await new Promise<void>((resolve) => resolver.#server.listen(0, "127.0.0.1", resolve));
    return resolver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/dns-query`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://resolver");
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    if (url.pathname === "/zone") {
      const zone = JSON.parse(body.toString()) as Zone;
      this.#zones.set(zone.name, zone);
      response.end();
      return;
    }
    if (url.pathname === "/asked") {
      response.end(String(this.#asked.get(url.searchParams.get("name") ?? "") ?? 0));
      return;
    }
    if (request.method !== "POST" || request.headers["content-type"] !== MEDIA) {
      response.writeHead(415).end();
      return;
    }
    const { name, type, end } = questionOf(body);
    this.#asked.set(name, (this.#asked.get(name) ?? 0) + 1);
    const zone = this.#zones.get(name);
    if (zone?.status !== undefined) {
      response.writeHead(zone.status).end("no");
      return;
    }
    response.writeHead(200, { "content-type": MEDIA });
    response.end(this.#answer(body.subarray(12, end), name, type, zone?.code));
  }

  #answer(question: Buffer, asked: string, type: number, code: number | undefined): Buffer {
    const records: Buffer[] = [];
    let name = asked;
    let known = this.#zones.has(name);
    for (let hops = 0; hops < 8; hops++) {
      const zone = this.#zones.get(name);
      known ||= zone !== undefined;
      const alias = zone?.records.find((one) => one.type === "CNAME");
      const found = alias ? [alias] : (zone?.records ?? []).filter((one) => TYPES[one.type] === type);
      for (const record of found) records.push(recordOf(name, record));
      if (!alias || type === TYPES.CNAME) break;
      name = String(alias.value);
    }
    const header = Buffer.alloc(12);
    header.writeUInt16BE(0x8180 | (code ?? (known ? 0 : 3)), 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(code === undefined ? records.length : 0, 6);
    return Buffer.concat([header, question, ...(code === undefined ? records : [])]);
  }
}

function questionOf(message: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = message.readUInt8(at); length > 0; length = message.readUInt8(at)) {
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 };
}

export function nameBytes(name: string): Buffer {
  const labels = name.split(".").map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  return Buffer.concat([...labels, Buffer.from([0])]);
}

/** A record of an answer. The case of names is as a resolver may have it: any. */
export function recordOf(name: string, { type, value }: ZoneRecord): Buffer {
  const data = dataOf(type, value);
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(TYPES[type], 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt32BE(60, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([nameBytes(name.toUpperCase()), fixed, data]);
}

function dataOf(type: ZoneRecord["type"], value: ZoneRecord["value"]): Buffer {
  switch (type) {
    case "A":
      return Buffer.from(String(value).split(".").map(Number));
    case "AAAA": {
      const groups = String(value)
        .split(":")
        .map((group) => Number.parseInt(group, 16));
      return Buffer.from(groups.flatMap((group) => [group >> 8, group & 0xff]));
    }
    case "CNAME":
      return nameBytes(String(value));
    case "TXT": {
      const strings = typeof value === "string" ? [value] : value;
      return Buffer.concat(
        strings.map((one) => Buffer.concat([Buffer.from([Buffer.byteLength(one)]), Buffer.from(one)])),
      );
    }
  }
}
