/**
 * Held sockets at work: what a client sends is stored, then given to the program's connection in order; where there is
 * none, one is opened. What the program sends goes to the client at once. All of what must survive is in the store; the
 * rest is worked out anew by whoever asks next, or by the alarm.
 */
import type { ErrorCode, Failure } from "../../sdk/contract/error-codes.ts";
import type { HeldSocket, Resumed } from "../../sdk/contract/socket.ts";
import { CAUSE_REQUEST_MAX, type Cause } from "../../sdk/contract/timeline.ts";
import { Sealer } from "../sealed-secret.ts";
import { iso, isoOrNull } from "../time.ts";
import {
  afterProgram,
  cut,
  GIVE_UP_MS,
  giveUpReason,
  laterMs,
  retryMs,
  RETRIES,
  verdictOn,
  type Closing,
} from "./closing.ts";
import { gave, lost, nextOf, opened, overflowOf, pendingOf, told, took, type Flow } from "./flow.ts";
import { Gate } from "./gate.ts";
import { credentialOf, type SocketRecord, type UpgradeRequest } from "./record.ts";
import type { Message, SocketStore } from "./store.ts";
import { Upstreams, type Connection, type Opened } from "./upstream.ts";

/** Connections to programs that are being opened at once. */
const OPENING_MAX = 6;
/** A connection that lasted for so long was one, milliseconds: the next loss of it is the first. */
const LASTING_MS = 60_000;
/** A host tells within seconds what has reached a program. One that tells nothing for so long is gone, milliseconds. */
const SILENT_MS = 20_000;

/** What there is of a socket in memory. */
interface Line {
  readonly id: string;
  record: SocketRecord;
  flow: Flow;
  /** Bytes of what waits. */
  bytes: number;
  up: (Connection & { readonly since: number }) | null;
  /** When the oldest message of those that may not have reached the program was given to it, Unix milliseconds. */
  givenAt: number | null;
  opening: Promise<void> | null;
  /** Grows with everything that wants a connection, so that who is about to give up sees it. */
  wanted: number;
  /** Connections that broke, one soon after another, with nothing of the client's that reached the program. */
  breaks: number;
}

export class Holder {
  readonly #ctx: DurableObjectState;
  readonly #store: SocketStore;
  readonly #sealer: Sealer;
  readonly #gate = new Gate(OPENING_MAX);
  readonly #lines = new Map<string, Line>();
  /** Of what waits of all sockets; null until it is counted. */
  #bytesOfAll: number | null = null;
  readonly upstreams: Upstreams;
  /** Something is to be looked after by the alarm. */
  readonly #arm: (at?: number) => void;
  readonly #isGood: (keyId: string) => Promise<boolean>;

  /** @param isGood whether a key is not over */
  constructor(
    ctx: DurableObjectState,
    env: Env,
    store: SocketStore,
    arm: (at?: number) => void,
    isGood: (keyId: string) => Promise<boolean>,
  ) {
    this.#ctx = ctx;
    this.#store = store;
    this.#sealer = new Sealer(env.ROUSE_SECRET, "socket");
    this.upstreams = new Upstreams(env);
    this.#arm = arm;
    this.#isGood = isGood;
  }

  /** Whether a program has a connection here. */
  get isAttached(): boolean {
    return [...this.#lines.values()].some(({ up }) => up !== null);
  }

  line(id: string): Line | null {
    const known = this.#lines.get(id);
    if (known) return known;
    const row = this.#store.get(id);
    if (!row) return null;
    const waiting = this.#store.waiting(id);
    const line: Line = {
      id,
      record: row.record,
      flow: { taken: waiting?.newest ?? row.reached, reached: row.reached, open: null },
      bytes: waiting?.bytes ?? 0,
      ...{ up: null, givenAt: null, opening: null, wanted: 0, breaks: 0 },
    };
    this.#lines.set(id, line);
    return line;
  }

  seal(id: string, request: UpgradeRequest): Promise<string> {
    return this.#sealer.sealText(id, JSON.stringify(request));
  }

  /** A client came in, and the program has taken the connection. */
  add(record: SocketRecord, client: WebSocket, connection: Connection): void {
    this.#store.add(record);
    this.#ctx.acceptWebSocket(client, [record.id]);
    const line = this.line(record.id);
    if (line) this.#attach(line, connection, false);
    this.#answerPings();
  }

  /** A message of a client. */
  take(line: Line, message: Message): void {
    const { ping, pong } = line.record.rule;
    if (message === ping && pong !== undefined) {
      this.#toClient(line, pong);
      return;
    }
    const bytes = typeof message === "string" ? new TextEncoder().encode(message).length : message.byteLength;
    const waits = pendingOf(line.flow);
    this.#bytesOfAll ??= this.#store.bytesWaiting();
    const overflow = overflowOf({ frames: waits, bytes: line.bytes, bytesOfAll: this.#bytesOfAll }, bytes);
    if (overflow) return this.end(line, overflow.code, giveUpReason(overflow.reason, waits));
    const flow = took(line.flow);
    this.#store.addFrame(line.id, flow.taken, message, bytes);
    line.flow = flow;
    this.#setBytes(line, line.bytes + bytes);
    line.record = { ...line.record, bytesIn: line.record.bytesIn + bytes, lastAt: Date.now() };
    if (line.up) this.#pump(line, message);
    else this.want(line);
    this.#arm();
  }

  /** The client has gone. What it sent is delivered; a machine that sleeps is not woken to hear of an end alone. */
  clientClosed(line: Line, closing: Closing): void {
    if (pendingOf(line.flow) > 0) {
      this.#save(line, { closing });
      if (!line.up) this.want(line);
      this.#arm();
      return;
    }
    this.#remove(line, closing);
  }

  /** Both sides end. */
  end(line: Line, code: number | null, reason: string): void {
    const text = cut(reason);
    this.#remove(line, { code, reason: text });
    for (const client of this.#ctx.getWebSockets(line.id)) closeSocket(client, { code, reason: text });
  }

  /** See that the program has its connection, where one is wanted. */
  want(line: Line): void {
    line.wanted++;
    line.opening ??= this.#open(line).finally(() => {
      line.opening = null;
    });
    this.#ctx.waitUntil(
      line.opening.catch((fault: unknown) => {
        console.error(JSON.stringify({ level: "error", what: "socket", fault: String(fault) }));
        this.#arm();
      }),
    );
  }

  /** The sandbox runs, in that generation. */
  running(generation: number): void {
    for (const id of this.#store.ids()) {
      const line = this.line(id);
      if (!line) continue;
      // Its end has not been heard of yet.
      if (line.up && line.up.generation !== generation) this.#broke(line, line.up);
      if (!line.up && (pendingOf(line.flow) > 0 || reopens(line.record))) this.want(line);
    }
  }

  /** Look after what nobody else does: it broke off, or its time has come. Answers whether anything is left to do. */
  tend(now: number, isLost: (hostId: string) => boolean): boolean {
    let left = false;
    for (const id of this.#store.ids()) {
      const line = this.line(id);
      if (!line) continue;
      const { up, record } = line;
      if (!record.closing && this.#ctx.getWebSockets(id).length === 0) {
        this.clientClosed(line, { code: 1001, reason: "" });
        left = true;
        continue;
      }
      const silent = up?.word && line.givenAt !== null && now - line.givenAt > SILENT_MS;
      if (up && (silent || isLost(up.hostId))) this.#broke(line, up);
      const { closing, attached, tryAt } = record;
      const wants = pendingOf(line.flow) > 0 || closing !== null || tryAt !== null || (attached && reopens(record));
      const isDue = tryAt === null ? record.waitsFor === null : tryAt <= now;
      if (!line.up && wants && isDue) this.want(line);
      left ||= line.up !== null || (wants && (tryAt !== null || record.waitsFor === null));
    }
    return left;
  }

  /** When something is tried again by the clock, Unix milliseconds. */
  nextTryAt(): number | null {
    const times = this.#store.ids().flatMap((id) => this.line(id)?.record.tryAt ?? []);
    return times.length === 0 ? null : Math.min(...times);
  }

  shown(line: Line, sandboxId: string): HeldSocket {
    const { record, flow, up } = line;
    return {
      ...{ id: line.id, sandboxId, state: up ? "attached" : "detached", since: iso(record.since) },
      ...{ port: record.port, path: record.path, protocol: record.protocol, keyId: credentialOf(record.pass) },
      ...{ resumed: record.resumed, framesIn: flow.taken, framesOut: record.framesOut },
      ...{ bytesIn: record.bytesIn, bytesOut: record.bytesOut, buffered: pendingOf(flow) },
      ...{ lastMessageAt: isoOrNull(record.lastAt), waitsFor: record.waitsFor },
    };
  }

  /** What is under way in memory alone ends with the object. */
  forget(): void {
    for (const { up } of this.#lines.values()) if (up) closeSocket(up.socket, { code: 1001, reason: "" });
    this.#lines.clear();
    this.#bytesOfAll = null;
  }

  async #open(line: Line): Promise<void> {
    for (let tries = 0; ;) {
      if (!this.#isThere(line) || line.up) return;
      const { wanted } = line;
      const pending = pendingOf(line.flow);
      if (pending === 0 && line.record.closing) return this.#remove(line, line.record.closing);
      const result = await this.#gate.run(() => this.#try(line, pending > 0 && line.record.wake));
      if (!this.#isThere(line)) {
        if (result?.kind === "open") drop(result.connection.socket);
        return;
      }
      if (!result) return;
      if (result.kind === "open") {
        this.#attach(line, result.connection, true);
        return;
      }
      const answer = await whyNot(result);
      const verdict = answer.code === null ? "retry" : verdictOn(answer.code);
      if (verdict === "retry") {
        const wait = retryMs(tries++);
        if (wait !== null) {
          await new Promise((resolve) => setTimeout(resolve, wait));
          continue;
        }
        if (pending > 0) return this.end(line, 1011, this.#reason(line, answer.text));
      }
      if (typeof verdict === "object") return this.end(line, verdict.end, this.#reason(line, answer.text));
      if (verdict === "later" && (pending > 0 || reopens(line.record)))
        return this.#later(line, answer.text, answer.retryAfterMs);
      if (line.wanted !== wanted) {
        // Something came while this went in vain.
        tries = 0;
        continue;
      }
      return this.#save(line, { attached: false, waitsFor: answer.text, tryAt: null });
    }
  }

  /** null: it is of nobody. */
  async #try(line: Line, wake: boolean): Promise<Opened | null> {
    const whose = this.#store.whose();
    if (!whose) return null;
    const { record, flow } = line;
    if (record.pass.by === "key" && !(await this.#isGood(record.pass.keyId)))
      return { kind: "failed", failure: { code: "unauthorized", message: "The key is over." }, woken: false };
    const request = JSON.parse(await this.#sealer.openText(line.id, record.sealed)) as UpgradeRequest;
    const cause: Cause = {
      ...{ kind: "socket", keyId: credentialOf(record.pass), request: record.path.slice(0, CAUSE_REQUEST_MAX) },
      ...{ port: record.port, requestId: line.id },
    };
    const delivered = flow.reached;
    return this.upstreams.open(whose, { record, request, wake, resumed: record.resumed + 1, delivered, cause });
  }

  #later(line: Line, why: string, retryAfterMs: number | undefined): void {
    const now = Date.now();
    const { tries, failingSince } = line.record;
    if (now - (failingSince ?? now) >= GIVE_UP_MS) {
      if (pendingOf(line.flow) > 0) return this.end(line, 1013, this.#reason(line, why));
      // Nobody waits for it: its next message, or the next wake, begins anew.
      return this.#save(line, { attached: false, waitsFor: why, tryAt: null, tries: 0, failingSince: null });
    }
    const tryAt = now + Math.max(laterMs(tries), retryAfterMs ?? 0);
    this.#save(line, { attached: false, waitsFor: why, tryAt, tries: tries + 1, failingSince: failingSince ?? now });
    this.#arm(tryAt);
  }

  #reason(line: Line, why: string): string {
    return giveUpReason(why, pendingOf(line.flow));
  }

  #attach(line: Line, connection: Connection, anew: boolean): void {
    const { socket } = connection;
    const up = { ...connection, since: Date.now() };
    const announces = anew && line.record.rule.announce === true;
    line.up = up;
    line.givenAt = null;
    line.flow = opened(line.flow, announces ? 1 : 0);
    const resumed = line.record.resumed + (anew ? 1 : 0);
    this.#save(line, { attached: true, resumed, waitsFor: null, tryAt: null, failingSince: null, tries: 0 });
    socket.addEventListener("message", ({ data }) => this.#fromProgram(line, up, data as Message));
    socket.addEventListener("close", (event) => this.#programClosed(line, up, event));
    socket.addEventListener("error", () => this.#broke(line, up));
    socket.accept();
    if (announces) {
      const { reached } = line.flow;
      const pending = pendingOf(line.flow);
      const first: Resumed = { type: "rouse.resumed", socket: line.id, resumed, delivered: reached, pending };
      socket.send(JSON.stringify(first));
    }
    this.#pump(line);
    this.#arm();
  }

  /** Give the program what it has not been given. @param newest the last of it, where that is at hand */
  #pump(line: Line, newest: Message | null = null): void {
    const { up } = line;
    if (!up) return;
    for (let number = nextOf(line.flow); number !== null; number = nextOf(line.flow)) {
      const message = newest !== null && number === line.flow.taken ? newest : this.#store.frame(line.id, number);
      if (message === null) break;
      try {
        up.socket.send(message);
      } catch {
        return this.#broke(line, up);
      }
      line.flow = gave(line.flow);
      line.givenAt ??= Date.now();
      // A host that tells nothing is believed to have passed it on.
      if (up.word === null) this.#reached(line, Number.MAX_SAFE_INTEGER);
    }
  }

  #fromProgram(line: Line, up: Connection, message: Message): void {
    if (line.up?.socket !== up.socket) return;
    if (typeof message === "string" && up.word !== null && message.startsWith(`${up.word}:`)) {
      this.#reached(line, Number(message.slice(up.word.length + 1)));
      return;
    }
    const bytes = typeof message === "string" ? message.length : message.byteLength;
    const { framesOut, bytesOut } = line.record;
    line.record = { ...line.record, framesOut: framesOut + 1, bytesOut: bytesOut + bytes, lastAt: Date.now() };
    this.#toClient(line, message);
  }

  #reached(line: Line, count: number): void {
    const before = line.flow.reached;
    line.flow = told(line.flow, count);
    if (line.flow.reached === before) return;
    line.breaks = 0;
    this.#store.reached(line.id, line.flow.reached);
    this.#setBytes(line, pendingOf(line.flow) === 0 ? 0 : (this.#store.waiting(line.id)?.bytes ?? 0));
    line.givenAt = pendingOf(line.flow) === 0 ? null : Date.now();
    if (pendingOf(line.flow) === 0 && line.record.closing) this.#remove(line, line.record.closing);
  }

  #toClient(line: Line, message: Message): void {
    const [client] = this.#ctx.getWebSockets(line.id);
    try {
      client?.send(message);
    } catch {
      // It is closing, and its end is on the way here.
    }
  }

  #programClosed(line: Line, up: Connection & { readonly since: number }, event: CloseEvent): void {
    if (line.up !== up) return;
    const closing = afterProgram(event);
    closeSocket(up.socket, { code: null, reason: "" });
    if (!closing) return this.#broke(line, up);
    line.up = null;
    this.end(line, closing.code, closing.reason);
  }

  /** The connection is over, and nobody meant it to be. */
  #broke(line: Line, up: Connection & { readonly since: number }): void {
    if (line.up !== up || !this.#isThere(line)) return;
    line.up = null;
    line.givenAt = null;
    line.flow = lost(line.flow);
    drop(up.socket);
    this.upstreams.forget();
    line.breaks = Date.now() - up.since >= LASTING_MS ? 1 : line.breaks + 1;
    const pending = pendingOf(line.flow);
    if (line.breaks > RETRIES && pending > 0) return this.end(line, 1011, this.#reason(line, "upstream_closed"));
    // What breaks again and again without a message of the client waits for one.
    const wants = pending > 0 || (line.breaks <= RETRIES && reopens(line.record));
    this.#save(line, { attached: wants });
    this.#arm();
    if (!wants) return;
    const wait = line.breaks <= 1 ? 0 : (retryMs(line.breaks - 2) ?? 0);
    if (wait === 0) this.want(line);
    else this.#ctx.waitUntil(new Promise<void>((resolve) => setTimeout(resolve, wait)).then(() => this.want(line)));
  }

  #isThere(line: Line): boolean {
    return this.#lines.get(line.id) === line;
  }

  #remove(line: Line, closing: Closing): void {
    const { up } = line;
    line.up = null;
    this.#setBytes(line, 0);
    this.#lines.delete(line.id);
    this.#store.remove(line.id);
    if (up) closeSocket(up.socket, closing);
    this.#answerPings();
    this.#arm();
  }

  #setBytes(line: Line, bytes: number): void {
    if (this.#bytesOfAll !== null) this.#bytesOfAll += bytes - line.bytes;
    line.bytes = bytes;
  }

  #save(line: Line, change: Partial<SocketRecord>): void {
    line.record = { ...line.record, ...change };
    this.#store.save(line.record);
  }

  /** Pings of clients are answered without this object where all sockets have the same; else it does so itself. */
  #answerPings(): void {
    const common = this.#store.commonPing();
    if (common) this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(common.ping, common.pong));
    else this.#ctx.setWebSocketAutoResponse();
  }
}

function reopens({ rule }: SocketRecord): boolean {
  return rule.reopenOnWake !== false;
}

async function whyNot(
  opened: Exclude<Opened, { kind: "open" }>,
): Promise<{ code: ErrorCode | null; text: string; retryAfterMs: number | undefined }> {
  if (opened.kind === "failed") {
    const { code, retryAfterMs }: Failure = opened.failure;
    return { code, text: code, retryAfterMs };
  }
  await opened.response.body?.cancel();
  const { status } = opened.response;
  return { code: null, text: `the program answered ${status}`, retryAfterMs: undefined };
}

/** Close as far as that still can be. */
export function closeSocket(socket: WebSocket, { code, reason }: Closing): void {
  try {
    if (code === null) socket.close();
    else socket.close(code, cut(reason));
  } catch {
    // It is closed, or was told a code that may not be passed on.
    drop(socket);
  }
}

/** End a connection that nobody listens to any more. */
function drop(socket: WebSocket): void {
  try {
    socket.accept();
  } catch {
    // It is accepted.
  }
  try {
    socket.close(1001);
  } catch {
    // It is closed.
  }
}
