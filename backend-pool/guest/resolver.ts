/**
 * The machine's resolver. Whether a name exists is the host's to say, which also knows what may be asked; an address of
 * it is synthetic (`names.ts`), so that the host hears the name when a program connects.
 */
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import {
  codeOf,
  dnsCodes,
  dnsTypes,
  fitUdp,
  hasRecord,
  ipv4Bytes,
  readQuery,
  withType,
  writeAnswer,
  type DnsQuery,
} from "./dns-message.ts";
import { localAddressOf } from "./local-names.ts";
import type { Names } from "./names.ts";

const QUERY_BYTES = 4096;
const PENDING_MOST = 512;
const TCP_IDLE_MS = 20_000;
const TCP_MOST = 64;

export class Resolver {
  readonly #ask: (query: Buffer) => Promise<Buffer>;
  readonly #names: Names;
  #pending = 0;
  #udp: UdpSocket | undefined;
  #tcp: Server | undefined;

  /** @param ask a query as it is, of the host */
  constructor(ask: (query: Buffer) => Promise<Buffer>, names: Names) {
    this.#ask = ask;
    this.#names = names;
  }

  /** Answers by UDP and TCP there; returns the port. */
  async listen({ host, port }: { host: string; port: number }): Promise<number> {
    const udp = createSocket("udp4");
    udp.on("message", (query, from) => {
      void this.answer(query).then((answer) => {
        udp.send(fitUdp(answer, query, readQuery(query)), from.port, from.address, () => undefined);
      });
    });
    udp.bind(port, host);
    await once(udp, "listening");
    udp.on("error", (fault) => console.error(fault));
    const own = udp.address().port;
    const tcp = createServer((socket) => this.#serve(socket));
    tcp.maxConnections = TCP_MOST;
    tcp.listen(own, host);
    await once(tcp, "listening");
    tcp.on("error", (fault) => console.error(fault));
    this.#udp = udp;
    this.#tcp = tcp;
    return own;
  }

  close(): void {
    this.#udp?.close();
    this.#tcp?.close();
  }

  /** Never fails: a fault is an answer too. */
  async answer(query: Buffer): Promise<Buffer> {
    const read = query.length > QUERY_BYTES ? null : readQuery(query);
    if (!read) return writeAnswer(query, null, { code: dnsCodes.malformed });
    if (this.#pending >= PENDING_MOST) return writeAnswer(query, read, { code: dnsCodes.failed });
    this.#pending++;
    try {
      return await this.#answer(query, read);
    } catch {
      return writeAnswer(query, read, { code: dnsCodes.failed });
    } finally {
      this.#pending--;
    }
  }

  async #answer(query: Buffer, read: DnsQuery): Promise<Buffer> {
    const { name, type } = read;
    const local = localAddressOf(name);
    if (local !== null) {
      const isLoopback = local === "127.0.0.1";
      if (type === dnsTypes.A) return writeAnswer(query, read, { addresses: [ipv4Bytes(local)] });
      if (type === dnsTypes.AAAA && isLoopback) {
        const loopback = Buffer.alloc(16);
        loopback[15] = 1;
        return writeAnswer(query, read, { addresses: [loopback] });
      }
      return writeAnswer(query, read, {});
    }
    switch (type) {
      case dnsTypes.A: {
        const { exists, answer } = await this.#lookUp(query, read);
        if (!exists) return answer;
        return writeAnswer(query, read, { addresses: [ipv4Bytes(this.#names.addressOf(name))] });
      }
      case dnsTypes.AAAA: {
        // There is no IPv6 in here; a name that has addresses has one of ours.
        if (this.#names.knows(name)) return writeAnswer(query, read, {});
        const { exists, answer } = await this.#lookUp(query, read);
        return exists ? writeAnswer(query, read, {}) : writeAnswer(query, read, { code: codeOf(answer) });
      }
      case dnsTypes.HTTPS:
      case dnsTypes.SVCB:
        // They hold addresses as well, and keys for hiding the name from the host.
        return writeAnswer(query, read, {});
      default:
        return this.#ask(query);
    }
  }

  /** Whether a name has an address of either kind; if not, the answer that says so. */
  async #lookUp(query: Buffer, read: DnsQuery): Promise<{ exists: boolean; answer: Buffer }> {
    const answer = await this.#ask(withType(query, read, dnsTypes.A));
    if (hasRecord(answer, dnsTypes.A)) return { exists: true, answer };
    if (codeOf(answer) !== dnsCodes.ok) return { exists: false, answer };
    const six = await this.#ask(withType(query, read, dnsTypes.AAAA));
    return { exists: hasRecord(six, dnsTypes.AAAA), answer };
  }

  /** Messages with their length in front (RFC 1035, section 4.2.2), answered in the order they come. */
  #serve(socket: Socket): void {
    let seen = Buffer.alloc(0);
    let busy = false;
    socket.on("error", () => undefined);
    socket.setTimeout(TCP_IDLE_MS, () => socket.destroy());
    const next = async (): Promise<void> => {
      if (busy) return;
      busy = true;
      while (seen.length >= 2 && seen.length >= 2 + seen.readUInt16BE(0) && !socket.destroyed) {
        const end = 2 + seen.readUInt16BE(0);
        const query = seen.subarray(2, end);
        seen = seen.subarray(end);
        const answer = await this.answer(query);
        const size = Buffer.alloc(2);
        size.writeUInt16BE(answer.length);
        socket.write(Buffer.concat([size, answer]));
      }
      busy = false;
    };
    socket.on("data", (chunk: Buffer) => {
      seen = Buffer.concat([seen, chunk]);
      if (seen.length > 2 * (QUERY_BYTES + 2)) socket.destroy();
      else void next();
    });
  }
}
