/** Asks the host's nameservers, for all machines together: by UDP, by TCP where an answer is long, each name once. */
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { getServers } from "node:dns";
import { connect, isIPv6 } from "node:net";
import { parseAddress, type Address } from "./addresses.ts";
import { codes, readMessage, types, writeQuery, type Message } from "./dns-wire.ts";

const TRY_MS = 2000;
const ROUNDS = 2;
const KEPT_MAX = 4096;
const KEPT_SECONDS_MAX = 300;
/** How long "there is none" is believed. */
const NONE_SECONDS = 5;
const WAITING_MAX = 512;
const DNS_PORT = 53;

export interface Answer {
  readonly bytes: Buffer;
  readonly message: Message;
}

interface Server {
  readonly address: string;
  readonly port: number;
}

export type Lookup =
  | { readonly ok: true; readonly addresses: readonly Address[] }
  | { readonly ok: false; readonly fault: "nxdomain" | "unanswered" };

export class Nameservers {
  readonly #servers: readonly Server[] | null;
  readonly #kept = new Map<string, { answer: Answer; until: number }>();
  readonly #asking = new Map<string, Promise<Answer | null>>();

  /** @param servers `address`, `address:port` or `[address]:port`; null: those of the host, as they are when asked */
  constructor(servers: readonly string[] | null) {
    this.#servers = servers?.map(serverOf) ?? null;
  }

  /** Null when no server answered. */
  ask(name: string, type: number): Promise<Answer | null> {
    const key = `${type} ${name}`;
    const kept = this.#kept.get(key);
    if (kept && kept.until > performance.now()) return Promise.resolve(kept.answer);
    this.#kept.delete(key);
    const asking = this.#asking.get(key);
    if (asking) return asking;
    if (this.#asking.size >= WAITING_MAX) return Promise.resolve(null);
    const asked = this.#ask(name, type)
      .catch(() => null)
      .finally(() => this.#asking.delete(key));
    this.#asking.set(key, asked);
    return asked;
  }

  /** All addresses of a name, those of IPv4 first. */
  async lookup(name: string): Promise<Lookup> {
    const answers = await Promise.all([this.ask(name, types.A), this.ask(name, types.AAAA)]);
    const addresses = answers.flatMap((answer) => answer?.message.addresses ?? []);
    if (addresses.length > 0) return { ok: true, addresses };
    const isKnown = answers.some(
      (answer) => answer && [codes.NOERROR, codes.NXDOMAIN].some((c) => c === answer.message.code),
    );
    return { ok: false, fault: isKnown ? "nxdomain" : "unanswered" };
  }

  async #ask(name: string, type: number): Promise<Answer | null> {
    const servers = this.#servers ?? getServers().map(serverOf);
    let refused: Answer | null = null;
    for (let round = 0; round < ROUNDS; round++) {
      for (const server of servers) {
        const answer = await askOne(server, name, type);
        if (!answer) continue;
        const { code } = answer.message;
        if (code === codes.NOERROR || code === codes.NXDOMAIN) {
          this.#keep(`${type} ${name}`, answer);
          return answer;
        }
        refused ??= answer;
      }
      if (refused) return refused;
    }
    return null;
  }

  #keep(key: string, answer: Answer): void {
    const { code, ttl } = answer.message;
    const isNone = code === codes.NXDOMAIN || ttl === null;
    const seconds = Math.min(isNone ? NONE_SECONDS : ttl, KEPT_SECONDS_MAX);
    if (seconds === 0) return;
    const oldest = this.#kept.keys().next().value;
    if (this.#kept.size >= KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(key, { answer, until: performance.now() + seconds * 1000 });
  }
}

function serverOf(text: string): Server {
  const match = /^\[(.+)\]:(\d+)$/.exec(text) ?? /^([^:]+):(\d+)$/.exec(text);
  const server = { address: match?.[1] ?? text, port: Number(match?.[2] ?? DNS_PORT) };
  if (!parseAddress(server.address.replace(/%.*$/, ""))) throw new Error(`"${text}" is no address of a nameserver`);
  return server;
}

async function askOne(server: Server, name: string, type: number): Promise<Answer | null> {
  // A port and an id of its own for each, so that nobody answers in the server's place by guessing.
  const id = randomInt(0x1_0000);
  const query = writeQuery(id, name, type);
  const answerIn = (bytes: Buffer): Answer | null => {
    const message = readMessage(bytes);
    return message && message.id === id && message.name === name && message.type === type ? { bytes, message } : null;
  };
  const short = await byUdp(server, query, answerIn);
  return short?.message.truncated ? byTcp(server, query, answerIn) : short;
}

type Reading = (bytes: Buffer) => Answer | null;

function byUdp({ address, port }: Server, query: Buffer, read: Reading): Promise<Answer | null> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
    const end = (answer: Answer | null) => {
      clearTimeout(timer);
      socket.removeAllListeners("message");
      try {
        socket.close();
      } catch {
        // it is closed already
      }
      resolve(answer);
    };
    const timer = setTimeout(() => end(null), TRY_MS);
    socket.on("error", () => end(null));
    socket.on("message", (bytes) => {
      const answer = read(bytes);
      if (answer) end(answer);
    });
    // Connected: what others send is not even seen.
    socket.connect(port, address, () => socket.send(query, (fault) => fault && end(null)));
  });
}

function byTcp({ address, port }: Server, query: Buffer, read: Reading): Promise<Answer | null> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    let got = Buffer.alloc(0);
    const end = (answer: Answer | null) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(() => end(null), TRY_MS);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(query.length, 0);
    socket.once("connect", () => socket.write(Buffer.concat([length, query])));
    socket.on("error", () => end(null));
    socket.on("close", () => end(null));
    socket.on("data", (bytes) => {
      got = Buffer.concat([got, bytes]);
      if (got.length >= 2 && got.length >= 2 + got.readUInt16BE(0)) end(read(got.subarray(2, 2 + got.readUInt16BE(0))));
    });
  });
}
