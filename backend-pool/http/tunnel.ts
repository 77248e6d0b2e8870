/**
 * Data routes: bytes between the edge and a guest. Two ways lead in: through the guest's kernel (a forwarded port),
 * which is much the faster, and through the guest agent, which reaches servers the kernel's way does not (`::1`).
 */
import {
  Agent,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
  type ServerResponse,
} from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";
import { signingKey, Ticket, verify, type SigningKey } from "../../sdk/contract/ticket.ts";
import type { Endpoint } from "../machine/driver.ts";
import type { DataLease } from "../machine/held.ts";
import type { Machines } from "../machine/machines.ts";
import { HeldSocket } from "./held-socket.ts";
import { Pacer } from "./pacer.ts";
import { PulseSocket } from "./pulse-socket.ts";
import type { Revocations } from "./revocations.ts";

/** How long a request waits for a server that is still starting, or was just woken. */
const LISTEN_WAIT_MS = 3000;
const LISTEN_RETRY_MS = 50;
/** Below the 5 s after which common servers close an idle connection. */
const IDLE_CONNECTION_MS = 4000;
/** Verified tickets that are remembered, so that a warm request costs no signature check. */
const TICKETS_KEPT = 4096;

/** Methods whose requests may be sent again when a kept connection turns out to be closed. */
const REPEATABLE = new Set(["GET", "HEAD", "OPTIONS"]);

interface Target {
  readonly machine: string;
  /** null: the guest agent. */
  readonly port: number | null;
  /** Path and query as the guest gets them. */
  readonly path: string;
}

/** Where to connect, and the path to ask for there. */
interface Way {
  readonly at: Endpoint;
  readonly path: string;
}

export class Tunnel {
  readonly #machines: Machines;
  readonly #revocations: Revocations;
  readonly #key: SigningKey;
  readonly #now: () => number;
  readonly #tickets = new Map<string, Ticket>();
  readonly #kept = new Agent({ keepAlive: true, timeout: IDLE_CONNECTION_MS, maxFreeSockets: 256, scheduling: "lifo" });

  private constructor(machines: Machines, revocations: Revocations, key: SigningKey, now: () => number) {
    this.#machines = machines;
    this.#revocations = revocations;
    this.#key = key;
    this.#now = now;
  }

  /** @param now the edge's clock, Unix milliseconds */
  static async open(
    machines: Machines,
    revocations: Revocations,
    ticketSecret: string,
    now: () => number,
  ): Promise<Tunnel> {
    return new Tunnel(machines, revocations, await signingKey(ticketSecret, "ticket"), now);
  }

  async request(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const target = parseTarget(req.url ?? "");
    res.once(
      "close",
      this.#enterBy(req, () => res.destroy()),
    );
    const lease = await this.#lease(req, target);
    // A connection that breaks ends the use just as a last byte does.
    res.once("close", () => lease.done());
    lease.onCut(() => res.destroy());
    if (target.port !== null) await lease.admit(target.port);
    const began = performance.now();
    const hasBody =
      req.headers["content-length"] !== undefined
        ? req.headers["content-length"] !== "0"
        : req.headers["transfer-encoding"] !== undefined;
    const repeatable = !hasBody && REPEATABLE.has(req.method ?? "");
    for (;;) {
      const way = await this.#way(lease, target, repeatable);
      const leaveQueue = await this.#enter(lease, target, way, repeatable);
      if (res.destroyed) return leaveQueue(false);
      const { outcome, reason } = await this.#exchange(req, res, way, { repeatable, began, ready: lease.run.ready });
      leaveQueue(outcome === "done");
      if (outcome === "done") {
        if (target.port !== null) lease.answered.add(target.port);
        return;
      }
      if (res.destroyed) return;
      // No byte of an answer came. Nothing listening, or a server that hung up?
      if (!repeatable)
        throw new RouseFailure(
          "upstream_closed",
          `${target.port === null ? "The guest agent" : "The program in the sandbox"} closed the connection before it answered.`,
          { details: { reason } },
        );
      await this.#awaitListener(lease, target, began);
    }
  }

  /** By the credential that let it in. */
  #enterBy(req: IncomingMessage, cut: () => void): () => void {
    const endsAt = Number(textOf(req, hostHeaders.endsAt) ?? NaN);
    return this.#revocations.enter(
      textOf(req, hostHeaders.keyId),
      Number.isFinite(endsAt) ? endsAt - this.#now() : null,
      cut,
    );
  }

  async upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const target = parseTarget(req.url ?? "");
    socket.once(
      "close",
      this.#enterBy(req, () => socket.destroy()),
    );
    const lease = await this.#lease(req, target);
    socket.once("close", () => lease.done());
    const word = req.headers[hostHeaders.socketWord];
    let cut = (): void => {
      socket.destroy();
    };
    lease.onCut(() => cut());
    if (target.port !== null) await lease.admit(target.port);
    const way = await this.#way(lease, target, false);
    const leave = await this.#enter(lease, target, way, false);
    if (socket.destroyed) return leave(false);
    const upstream = connect({ ...way.at, noDelay: true });
    upstream.once("data", () => leave(true));
    upstream.once("close", () => leave(false));
    upstream.on("error", () => socket.destroy());
    upstream.once("connect", async () => {
      await lease.run.ready.catch(() => upstream.destroy());
      if (upstream.destroyed) return;
      upstream.write(`${req.method} ${way.path} HTTP/1.1\r\n${headerLines(req, way)}\r\n`);
      if (typeof word === "string") {
        const onUse = () => {
          if (isKeeping(req)) lease.touch();
        };
        const held = new HeldSocket({ client: socket, program: upstream, word, onUse });
        cut = () => held.sleep();
        held.join(head);
        return;
      }
      if (req.headers[hostHeaders.byMessage] !== undefined) {
        const pulse = new PulseSocket({ client: socket, guest: upstream, onUse: () => lease.touch() }, head);
        cut = () => pulse.rest();
        return;
      }
      if (head.length > 0) upstream.write(head);
      joinSockets(socket, upstream);
    });
    upstream.once("close", () => socket.destroy());
    socket.once("close", () => upstream.destroy());
  }

  /** Wait for a turn to open a connection; a kept one that is free, and the agent's large backlog, need none. */
  async #enter(lease: DataLease, target: Target, way: Way, repeatable: boolean): Promise<(answered: boolean) => void> {
    if (target.port === null) return () => undefined;
    if (repeatable && (this.#kept.freeSockets[this.#kept.getName(way.at)]?.length ?? 0) > 0) return () => undefined;
    let pacers = this.#pacers.get(lease.run);
    if (!pacers) this.#pacers.set(lease.run, (pacers = new Map()));
    let pacer = pacers.get(target.port);
    if (!pacer) pacers.set(target.port, (pacer = new Pacer()));
    return pacer.enter();
  }

  async #lease(req: IncomingMessage, target: Target): Promise<DataLease> {
    const text = req.headers[hostHeaders.ticket];
    const ticket = typeof text === "string" ? await this.#ticket(text) : null;
    if (!ticket || ticket.m !== target.machine)
      throw new RouseFailure("misdirected", "The ticket is missing, wrong, or over.");
    const byMessage = [hostHeaders.socketWord, hostHeaders.byMessage].some((name) => req.headers[name] !== undefined);
    const keeps = isKeeping(req) && !byMessage;
    return this.#machines.lease(target.machine, ticket.g, keeps);
  }

  async #ticket(text: string): Promise<Ticket | null> {
    const known = this.#tickets.get(text);
    if (known) return known.e > this.#now() ? known : null;
    const ticket = await verify(this.#key, Ticket, text, this.#now());
    if (ticket) {
      if (this.#tickets.size >= TICKETS_KEPT) this.#tickets.clear();
      this.#tickets.set(text, ticket);
    }
    return ticket;
  }

  /**
   * The way in. A request that can't be sent twice goes only to a port that is known to listen; one that can is sent
   * at once, and what comes of it tells.
   */
  async #way(lease: DataLease, target: Target, repeatable: boolean): Promise<Way> {
    if (target.port === null) return { at: await lease.endpoint(AGENT_PORT), path: target.path };
    if (!repeatable && !lease.answered.has(target.port)) {
      const listening = await this.#awaitListener(lease, target, performance.now());
      if (listening === "elsewhere") return this.#throughAgent(lease, target);
    }
    if (repeatable && this.#elsewhere.get(lease.answered)?.has(target.port)) return this.#throughAgent(lease, target);
    return { at: await lease.endpoint(target.port), path: target.path };
  }

  /** By run, then by port. */
  readonly #pacers = new WeakMap<object, Map<number, Pacer>>();

  /** Ports of a machine that only the guest agent reaches. */
  readonly #elsewhere = new WeakMap<Set<number>, Set<number>>();

  async #throughAgent(lease: DataLease, target: Target): Promise<Way> {
    return { at: await lease.endpoint(AGENT_PORT), path: `/port/${target.port}${target.path}` };
  }

  async #awaitListener(lease: DataLease, target: Target, began: number): Promise<"reachable" | "elsewhere"> {
    if (target.port === null) throw new RouseFailure("guest_failed", "The guest agent closed the connection.");
    for (;;) {
      const listening = await lease.listening(target.port);
      if (listening === "elsewhere") {
        const ports = this.#elsewhere.get(lease.answered) ?? new Set();
        this.#elsewhere.set(lease.answered, ports.add(target.port));
      }
      if (listening !== "no") {
        if (performance.now() - began > LISTEN_WAIT_MS)
          throw new RouseFailure("upstream_closed", "The program in the sandbox closes connections before it answers.");
        return listening;
      }
      if (performance.now() - began > LISTEN_WAIT_MS) {
        throw new RouseFailure("port_not_listening", `Nothing in the sandbox listens on port ${target.port}.`, {
          details: { port: target.port },
        });
      }
      await new Promise((resolve) => setTimeout(resolve, LISTEN_RETRY_MS));
    }
  }

  #exchange(
    req: IncomingMessage,
    res: ServerResponse,
    way: Way,
    { repeatable, began, ready }: { repeatable: boolean; began: number; ready: Promise<void> },
  ): Promise<{ outcome: "done" | "nothing"; reason: string | null }> {
    return new Promise((resolve, reject) => {
      const options: RequestOptions = {
        ...way.at,
        path: way.path,
        method: req.method ?? "GET",
        headers: guestHeaders(req, way),
        // A request that must not be sent twice never meets a connection that may be closing.
        agent: repeatable ? this.#kept : false,
      };
      const upstream: ClientRequest = httpRequest(options);
      upstream.setNoDelay(true);
      let settled = false;
      upstream.on("response", (answer) => {
        settled = true;
        const waited = Math.round(performance.now() - began);
        res.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? "", [
          ...answerHeaders(answer),
          hostHeaders.waited,
          String(waited),
        ]);
        // Headers go at once: an event stream may have nothing to say for minutes.
        res.flushHeaders();
        answer.pipe(res);
        answer.on("error", () => res.destroy());
        answer.on("close", () => answer.complete || res.destroy());
        resolve({ outcome: "done", reason: null });
      });
      upstream.on("error", (fault: NodeJS.ErrnoException) => {
        if (settled) res.destroy();
        else resolve({ outcome: "nothing", reason: fault.code ?? null });
      });
      upstream.on("upgrade", (_answer, socket: Socket) => {
        socket.destroy();
        resolve({ outcome: "nothing", reason: "upgrade" }); // it switched protocols unasked, which is no answer
      });
      res.once("close", () => upstream.destroy());
      // The connection opens while the guest is still taking up its run; bytes wait until it has.
      ready.then(
        () => (repeatable ? upstream.end() : req.pipe(upstream)),
        (fault: unknown) => {
          reject(fault);
          upstream.destroy();
        },
      );
    });
  }
}

/** `/m/<id>/agent<path>` or `/m/<id>/port/<port><path>`. */
export function parseTarget(url: string): Target {
  const match = /^\/m\/([^/?]+)\/(?:agent|port\/(\d{1,5}))(?=[/?]|$)/.exec(url);
  if (!match?.[1]) throw new RouseFailure("route_not_found", "There is no such data route.");
  const rest = url.slice(match[0].length);
  const path = rest.startsWith("/") ? rest : `/${rest}`;
  const port = match[2] === undefined ? null : Number(match[2]);
  // The way out is between host and guest agent alone.
  if (port === null && /^\/+tunnel(?=[/?]|$)/.test(path))
    throw new RouseFailure("route_not_found", "There is no such data route.");
  if (port !== null && (port < 1 || port > 65_535 || port === AGENT_PORT)) {
    throw new RouseFailure("invalid_port", `${match[2]} is not a port of a sandbox.`);
  }
  return { machine: decodeURIComponent(match[1]), port, path };
}

const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
/** They are between edge and host. */
const INTERNAL: ReadonlySet<string> = new Set([
  hostHeaders.ticket,
  hostHeaders.keyId,
  hostHeaders.endsAt,
  hostHeaders.socketWord,
  hostHeaders.byMessage,
  hostHeaders.host,
]);

/** The guest's program sees the host name its user asked for, not this host's address. */
function hostHeader(req: IncomingMessage, way: Way): string {
  const forwarded = req.headers[hostHeaders.host] ?? req.headers["x-forwarded-host"];
  return typeof forwarded === "string" ? forwarded : `localhost:${way.at.port}`;
}

function guestHeaders(req: IncomingMessage, way: Way): string[] {
  const out: string[] = ["host", hostHeader(req, way)];
  eachHeader(req.rawHeaders, (name, value) => {
    const lower = name.toLowerCase();
    if (INTERNAL.has(lower) || lower === "host" || HOP_BY_HOP.has(lower)) return;
    out.push(name, value);
  });
  // A body of unknown length keeps that form; Node sets no framing of its own when headers come as a list.
  if (req.headers["transfer-encoding"] !== undefined) out.push("transfer-encoding", "chunked");
  return out;
}

function answerHeaders(answer: IncomingMessage): string[] {
  const out: string[] = [];
  eachHeader(answer.rawHeaders, (name, value) => {
    if (!HOP_BY_HOP.has(name.toLowerCase())) out.push(name, value);
  });
  return out;
}

function headerLines(req: IncomingMessage, way: Way): string {
  let lines = `host: ${hostHeader(req, way)}\r\n`;
  const isHeld = req.headers[hostHeaders.socketWord] !== undefined;
  eachHeader(req.rawHeaders, (name, value) => {
    const lower = name.toLowerCase();
    // Frames of a held socket are looked at, so they are not to be compressed.
    const isOurs = INTERNAL.has(lower) || (isHeld && lower === "sec-websocket-extensions");
    if (!isOurs && lower !== "host") lines += `${name}: ${value}\r\n`;
  });
  return lines;
}

function eachHeader(raw: readonly string[], use: (name: string, value: string) => void): void {
  for (let i = 0; i + 1 < raw.length; i += 2) use(raw[i] ?? "", raw[i + 1] ?? "");
}

function joinSockets(left: Duplex, right: Duplex): void {
  left.pipe(right);
  right.pipe(left);
}

function isKeeping(req: IncomingMessage): boolean {
  return req.headers[hostHeaders.noKeep] === undefined;
}

function textOf(req: IncomingMessage, header: string): string | undefined {
  const value = req.headers[header];
  return typeof value === "string" ? value : undefined;
}
