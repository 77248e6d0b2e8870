/**
 * Holds the WebSockets of one sandbox's clients while its machine sleeps. The object sleeps too then: the platform keeps
 * the clients' sockets and answers their pings. It is in memory while a program has a connection.
 */
import { DurableObject } from "cloudflare:workers";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import { socketLimits, type ClosedSocket, type HeldSocket } from "../../sdk/contract/socket.ts";
import { accountObject } from "../account/api.ts";
import { readBoard } from "../hosts/board-facade.ts";
import { refuse, type Result } from "../result.ts";
import { FAILED_HEADER, HOLD_HEADER, WOKEN_HEADER, type Hold, type SocketsApi } from "./api.ts";
import { afterClient } from "./closing.ts";
import { closeSocket, Holder } from "./holder.ts";
import { credentialOf, isAdmitted, type SocketRecord, type UpgradeRequest } from "./record.ts";
import { SocketStore, type Whose } from "./store.ts";

/** While a program has a connection, or something waits, it is looked after so often, milliseconds. */
const TEND_MS = 30_000;
/** Longer than any edge remembers a verdict on a credential, milliseconds. */
const REVOKED_KEPT_MS = 120_000;
/** How long what the account said of a key is believed, milliseconds. */
const GOOD_MS = 30_000;
/** They belong to the connection between edge and host. */
const DROPPED = new Set([HOLD_HEADER, "sec-websocket-key", "sec-websocket-extensions", "host"]);
const DROPPED_OF_ANSWER = [
  "connection",
  "upgrade",
  "sec-websocket-accept",
  "sec-websocket-extensions",
  "content-length",
  "transfer-encoding",
];

export class SocketsObject extends DurableObject<Env> implements SocketsApi {
  readonly #store: SocketStore;
  readonly #holder: Holder;
  /** Clients that are coming in. */
  #entering = 0;
  /** What the account said of keys, and until when that is believed, Unix milliseconds. */
  readonly #keys = new Map<string, { readonly isGood: boolean; readonly until: number }>();
  /** The alarm as last set; undefined when that is not known. */
  #armedAt: number | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new SocketStore(ctx.storage);
    this.#holder = new Holder(
      ctx,
      env,
      this.#store,
      (at) => this.#arm(at),
      (keyId) => this.#isGood(keyId),
    );
  }

  /** An upgrade that is to be held. The program is asked first: the client gets its answer, whatever that is. */
  override async fetch(request: Request): Promise<Response> {
    const hold = JSON.parse(decodeURIComponent(request.headers.get(HOLD_HEADER) ?? "null")) as Hold;
    await this.#openFor(hold.sandboxId);
    const held = this.#store.ids().length;
    if (held + this.#entering >= socketLimits.socketsMax) {
      const message = `A sandbox holds at most ${socketLimits.socketsMax} sockets.`;
      return failed({ code: "quota_exceeded", message, details: { max: socketLimits.socketsMax } });
    }
    this.#entering++;
    try {
      return await this.#enter(request, hold);
    } finally {
      this.#entering--;
    }
  }

  override async webSocketMessage(client: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const line = this.#lineOf(client);
    if (line && !line.record.closing) this.#holder.take(line, message);
  }

  override async webSocketClose(client: WebSocket, code: number, reason: string): Promise<void> {
    closeSocket(client, afterClient(code, reason));
    const line = this.#lineOf(client);
    if (line && !line.record.closing) this.#holder.clientClosed(line, afterClient(code, reason));
  }

  override async webSocketError(client: WebSocket): Promise<void> {
    const line = this.#lineOf(client);
    if (line && !line.record.closing) this.#holder.clientClosed(line, afterClient(1006, ""));
  }

  async list(sandboxId: string): Promise<HeldSocket[]> {
    if (!this.#isOf(sandboxId)) return [];
    const lines = this.#store.ids().flatMap((id) => this.#holder.line(id) ?? []);
    return lines.filter(({ record }) => !record.closing).map((line) => this.#holder.shown(line, sandboxId));
  }

  async close(sandboxId: string, socketId: string): Promise<Result<{ socket: ClosedSocket }>> {
    const line = this.#isOf(sandboxId) ? this.#holder.line(socketId) : null;
    if (!line) return refuse("socket_not_found", "There is no such socket.");
    this.#holder.end(line, 1001, "closed");
    return { ok: true, socket: { id: socketId, closed: true } };
  }

  async changed(sandboxId: string): Promise<void> {
    const whose = this.#store.whose();
    if (whose?.sandboxId !== sandboxId) return;
    const now = await this.#holder.upstreams.look(whose, this.#store.ids().length + this.#entering > 0);
    if (!this.#isOf(sandboxId)) return;
    if (!now.ok) {
      const { code } = now.failure;
      if (code !== "sandbox_gone" && code !== "not_found") throw new Error(code);
      return this.#endAll("sandbox_gone");
    }
    const { facts, grant } = now;
    for (const id of this.#store.ids()) {
      const line = this.#holder.line(id);
      if (line && !isAdmitted(line.record, facts, Date.now())) this.#holder.end(line, 1008, "forbidden");
    }
    if (grant) this.#holder.running(facts.generation);
  }

  async revoke(credentials: readonly string[]): Promise<void> {
    if (!this.#store.whose()) return;
    this.#store.revoke(credentials, Date.now(), REVOKED_KEPT_MS);
    this.#holder.upstreams.forget();
    this.#keys.clear();
    for (const id of this.#store.ids()) {
      const line = this.#holder.line(id);
      const credential = line && credentialOf(line.record.pass);
      if (line && credential !== null && credentials.includes(credential))
        this.#holder.end(line, 1008, "the credential was revoked");
    }
  }

  override async alarm(): Promise<void> {
    this.#armedAt = undefined;
    if (!this.#store.whose()) return;
    const now = Date.now();
    await this.ctx.storage.setAlarm(now + TEND_MS);
    this.#armedAt = now + TEND_MS;
    const board = this.#holder.isAttached ? await readBoard(this.env).catch(() => null) : null;
    const left = this.#holder.tend(now, (hostId) => board?.isLost(hostId) ?? false);
    const next = this.#holder.nextTryAt();
    if (left && (next === null || next >= this.#armedAt)) return;
    if (!left && next === null) {
      this.#armedAt = undefined;
      await this.ctx.storage.deleteAlarm();
    } else if (next !== null) {
      this.#armedAt = Math.max(next, now + 1);
      await this.ctx.storage.setAlarm(this.#armedAt);
    }
  }

  async #enter(request: Request, hold: Hold): Promise<Response> {
    const whose = this.#store.whose();
    const credential = credentialOf(hold.pass);
    if (!whose || (credential !== null && this.#store.isOver(credential))) return failed(revoked);
    if (hold.pass.by === "key" && !(await this.#tellAccount(whose, hold.pass.keyId))) return failed(revoked);
    const id = `sock-${randomText(BASE36, 20)}`;
    const { pathname, search } = new URL(request.url);
    const kept = [...request.headers].filter(([name]) => !DROPPED.has(name));
    const upgrade: UpgradeRequest = { path: pathname + search, headers: kept };
    const { port, path, userAgent, pass, rule, wake, cause } = hold;
    const sealed = await this.#holder.seal(id, upgrade);
    const opened = await this.#holder.upstreams.open(whose, {
      ...{ record: { id, port, path, userAgent, pass }, request: upgrade, wake, resumed: 0, delivered: 0, cause },
    });
    if (opened.kind === "failed") return failed(opened.failure);
    if (opened.kind === "refused") {
      const { status, headers, body } = opened.response;
      return new Response(body, { status, headers: plain(headers, opened.woken) });
    }
    const { connection } = opened;
    if ((credential !== null && this.#store.isOver(credential)) || !this.#isOf(hold.sandboxId)) {
      connection.socket.accept();
      connection.socket.close(1008);
      return failed(revoked);
    }
    const pair = new WebSocketPair();
    const record: SocketRecord = {
      ...{ id, since: Date.now(), port, path, userAgent, pass, rule, wake, sealed },
      protocol: connection.headers.get("sec-websocket-protocol"),
      ...{ resumed: 0, framesOut: 0, bytesIn: 0, bytesOut: 0, lastAt: null, attached: true, closing: null },
      ...{ waitsFor: null, tryAt: null, failingSince: null, tries: 0 },
    };
    this.#holder.add(record, pair[1], connection);
    const headers = plain(connection.headers, opened.woken);
    headers.set("x-rouse-socket", id);
    return new Response(null, { status: 101, headers, webSocket: pair[0] });
  }

  /** Whether a key that is revoked, or has come to its end, was good a moment ago at most. */
  async #isGood(keyId: string): Promise<boolean> {
    const whose = this.#store.whose();
    const known = this.#keys.get(keyId);
    if (!whose || (known && known.until > Date.now())) return known?.isGood ?? false;
    const isGood = await accountObject(this.env.ACCOUNT, whose.account).holdsSockets(keyId, whose.label);
    this.#keys.set(keyId, { isGood, until: Date.now() + GOOD_MS });
    return isGood;
  }

  /** Whether the key is good. From then on the account says when it is over. */
  async #tellAccount({ account, label }: Whose, keyId: string): Promise<boolean> {
    if (this.#store.knowsKey(keyId)) return true;
    if (!(await accountObject(this.env.ACCOUNT, account).holdsSockets(keyId, label))) return false;
    this.#store.addKey(keyId);
    return true;
  }

  #lineOf(client: WebSocket) {
    const [id = ""] = this.ctx.getTags(client);
    return this.#holder.line(id);
  }

  #isOf(sandboxId: string): boolean {
    return this.#store.whose()?.sandboxId === sandboxId;
  }

  /** For that sandbox. What there is of an earlier one of the name goes. */
  async #openFor(sandboxId: string): Promise<void> {
    const whose = this.#store.whose();
    if (whose?.sandboxId === sandboxId) return;
    if (whose) await this.#endAll("sandbox_gone");
    const [account = "", label = ""] = (this.ctx.id.name ?? "").split("/");
    this.#store.open({ account, label, sandboxId });
  }

  async #endAll(reason: string): Promise<void> {
    for (const id of this.#store.ids()) {
      const line = this.#holder.line(id);
      if (line) this.#holder.end(line, 1001, reason);
    }
    this.#holder.forget();
    this.#armedAt = undefined;
    await this.#store.clear();
  }

  /** See that the alarm goes off by then; it finds out itself what there is to do. */
  #arm(at = Date.now() + TEND_MS): void {
    if (this.#armedAt !== undefined && this.#armedAt <= at) return;
    this.#armedAt = at;
    void this.ctx.storage.setAlarm(at);
  }
}

const revoked: Failure = { code: "unauthorized", message: "The credential was revoked." };

function failed(failure: Failure): Response {
  return Response.json(failure, { status: 500, headers: { [FAILED_HEADER]: "1" } });
}

/** The headers of a program's answer that are for its client. */
function plain(from: Headers, woken: boolean): Headers {
  const headers = new Headers(from);
  for (const name of DROPPED_OF_ANSWER) headers.delete(name);
  for (const name of from.keys()) if (name.startsWith("x-rouse-")) headers.delete(name);
  if (woken) headers.set(WOKEN_HEADER, "1");
  return headers;
}
