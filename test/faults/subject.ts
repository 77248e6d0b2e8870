/** A sandbox under test: the actions that are played on it, and what it promised by acknowledging them. */
import { request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { Rouse, RouseError, type Sandbox } from "rouse";
import { Sandbox as SandboxSchema, type Sandbox as Info } from "../../sdk/contract/sandbox.ts";
import { objection, type Circumstances } from "./error-rules.ts";
import { Ledger } from "./ledger.ts";
import type { Random } from "./random.ts";
import type { Record } from "./record.ts";

/** Nothing that a caller does may take longer, milliseconds. */
const HANG_MS = 60_000;
const CALL_MS = 10_000;
/** After a boot, software emulation needs more than a minute for the first start of the interpreter's libraries. */
const SLOW_START_MS = 240_000;

const COUNTER = `
import http.server, itertools
counts = itertools.count(1)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        text = str(next(counts)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`;

export interface Server {
  readonly url: string;
  readonly apiKey: string;
  readonly accelerator: string;
}

/** What came of an action that was tried. */
export type Tried<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly code: string };

export class Subject {
  readonly name: string;
  readonly id: string;
  /** Retries as every user's client does. */
  readonly patient: Sandbox;
  /** Sees each answer as it is. */
  readonly direct: Sandbox;
  readonly lines = new Ledger();
  /** Begun anew when RAM was lost. */
  ram = new Ledger();
  /** The counter server's last answer; it only grows while RAM is kept. */
  counted = 0;
  /** Largest generation that an answer held. */
  generation = 0;
  /** When this round's kill of its QEMU was sent, Unix milliseconds. */
  killedAt: number | null = null;
  pausedThisRound = false;
  /** The fault is being aimed: leave it alone. */
  held = false;
  #inFlight = 0;
  readonly #clients: { readonly patient: Rouse; readonly direct: Rouse };
  readonly #server: Server;
  readonly #record: Record;

  private constructor(
    patient: Sandbox,
    direct: Sandbox,
    clients: { patient: Rouse; direct: Rouse },
    server: Server,
    record: Record,
  ) {
    this.patient = patient;
    this.direct = direct;
    this.id = patient.id;
    this.name = patient.name ?? patient.id;
    this.#clients = clients;
    this.#server = server;
    this.#record = record;
    this.see(patient.info, 0);
  }

  static async create(name: string, server: Server, record: Record): Promise<Subject> {
    const options = { apiKey: server.apiKey, baseUrl: server.url };
    const clients = { patient: new Rouse(options), direct: new Rouse({ ...options, maxRetries: 0 }) };
    const patient = await clients.patient.sandboxes.create({ name, idlePauseSeconds: 0 });
    const direct = await clients.direct.sandboxes.get(patient.id);
    const subject = new Subject(patient, direct, clients, server, record);
    await subject.prepare();
    return subject;
  }

  get busy(): boolean {
    return this.#inFlight > 0;
  }

  /** Start what lives in RAM: after the creation, and after a boot from disk. */
  async prepare(): Promise<void> {
    this.ram = new Ledger();
    this.counted = 0;
    const set = await this.patient.interpreter.run("numbers = []", { timeoutMs: CALL_MS });
    if (set.status !== "ok") throw new Error(`the interpreter of ${this.name} does not work: ${set.status}`);
    await this.patient.files.write("/workspace/counter.py", COUNTER);
    await this.patient.exec(
      "touch lines.txt; (nohup python3 counter.py >counter.log 2>&1 &); for i in $(seq 300); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8080))' 2>/dev/null && exit 0; sleep 0.1; done; cat counter.log; exit 1",
      { check: true },
    );
  }

  /** Append, sync or compute, one after the other, so that the order is known. */
  async work(random: Random): Promise<void> {
    const action = random.weighted({ line: 5, ram: 3, sync: 2 });
    const handle = random.next() < 0.6 ? this.direct : this.patient;
    if (action === "line") {
      const n = this.lines.begin();
      const done = await this.attempt("exec", () =>
        handle.exec(`echo ${n} >> /workspace/lines.txt`, { timeoutMs: CALL_MS }),
      );
      if (done.ok && done.value.exitCode === 0) this.lines.acknowledge(n);
      else if (done.ok) this.#record.violation(`${this.name}: appending a line ended with ${done.value.exitCode}`);
    } else if (action === "ram") {
      const { ram } = this;
      const n = ram.begin();
      const done = await this.attempt("interpreter", () =>
        handle.interpreter.run(`numbers.append(${n})`, { timeoutMs: CALL_MS }),
      );
      if (done.ok && done.value.status === "ok") ram.acknowledge(n);
      else if (done.ok && this.killedAt === null) {
        const { status, error } = done.value;
        this.#record.violation(`${this.name}: the interpreter answered ${status} ${error?.value ?? ""}`);
      }
    } else {
      const mark = this.lines.mark();
      const done = await this.attempt("sync", () => handle.exec("sync", { timeoutMs: CALL_MS }));
      if (done.ok && done.value.exitCode === 0) this.lines.durable(mark);
    }
  }

  /** Ask for another state. A machine that was killed is left as it is, so that what it says of itself can be read. */
  async change(random: Random): Promise<void> {
    const action = random.weighted({ pause: 5, wake: 3, getOrCreate: 2 });
    if (action === "wake") await this.act("wake");
    else if (this.killedAt !== null) await delay(50);
    else if (action === "pause") await this.act("pause");
    else await this.getOrCreate();
  }

  /** `:pause` or `:wake` as plain calls: the state may be another one again before the SDK's method looks. */
  async act(verb: "pause" | "wake"): Promise<Tried<Info>> {
    if (verb === "pause") this.pausedThisRound = true;
    const before = this.generation;
    const done = await this.attempt(verb, async () => {
      const call = { method: "POST", path: `/v1/sandboxes/${this.id}:${verb}`, json: {}, waitSeconds: 20 } as const;
      return SandboxSchema.parse(await this.#clients.direct.transport.json({ ...call, timeoutMs: HANG_MS }));
    });
    if (done.ok) this.see(done.value, before);
    return done;
  }

  async getOrCreate(): Promise<Tried<Sandbox>> {
    const before = this.generation;
    const done = await this.attempt("getOrCreate", () =>
      this.#clients.direct.sandboxes.getOrCreate(this.name, {}, { timeoutMs: HANG_MS }),
    );
    if (!done.ok) return done;
    const { info } = done.value;
    this.see(info, before);
    if (info.id !== this.id || info.reused !== true)
      this.#record.violation(`getOrCreate(${this.name}) answered ${info.id}, reused ${info.reused}`);
    return done;
  }

  /** A request to the named URL, one after the other: each answer counts further. */
  async visit(): Promise<Tried<number>> {
    const done = await this.attempt("named URL", () => this.#get());
    if (done.ok && done.value <= this.counted)
      this.#record.violation(`${this.name}: the counter said ${done.value} after ${this.counted}`);
    if (done.ok) this.counted = Math.max(this.counted, done.value);
    return done;
  }

  async refresh(): Promise<Tried<Info>> {
    const before = this.generation;
    const done = await this.attempt("read", async () => (await this.patient.refresh({ timeoutMs: HANG_MS })).info);
    if (done.ok) this.see(done.value, before);
    return done;
  }

  /** Take note of an answer to a call before which `before` was the largest generation seen. */
  see(info: Info, before: number): void {
    if (info.generation < before)
      this.#record.violation(`${this.name}: generation ${info.generation} was answered after ${before}`);
    this.generation = Math.max(this.generation, info.generation);
  }

  /** Do something, and judge how it ends. */
  async attempt<T>(action: string, work: () => Promise<T>): Promise<Tried<T>> {
    const from = Date.now();
    this.#inFlight += 1;
    const late = new AbortController();
    try {
      const value = await Promise.race([work(), this.#hangs(action, late.signal)]);
      this.#note(action, from, "ok");
      return { ok: true, value };
    } catch (fault) {
      const code = fault instanceof RouseError ? fault.code : "untyped";
      const message = fault instanceof Error ? fault.message : String(fault);
      this.#note(action, from, code, message);
      const why = objection(code, this.#circumstances(action, from, message));
      if (why !== null)
        this.#record.violation(
          `${this.name}: ${action} failed with ${code} after ${Date.now() - from} ms, and ${why}: ${message}`,
        );
      return { ok: false, code };
    } finally {
      late.abort();
      this.#inFlight -= 1;
    }
  }

  /** Throws when the call takes too long. */
  async #hangs(action: string, signal: AbortSignal): Promise<never> {
    await delay(HANG_MS, undefined, { signal });
    if (this.#startsSlowly(action)) await delay(SLOW_START_MS, undefined, { signal });
    throw new RouseError({ code: "hangs", message: "it does not end" });
  }

  /** Asked while the call waits: the machine may have been killed since it began. */
  #startsSlowly(action: string): boolean {
    return action === "interpreter" && this.killedAt !== null && this.#server.accelerator === "tcg";
  }

  #circumstances(action: string, from: number, message: string): Circumstances {
    const to = Date.now();
    return {
      edgeDown: this.#record.wasDown("edge", from, to),
      hostDown: this.#record.wasDown("host", from, to),
      crashed: this.killedAt !== null,
      pausing: this.pausedThisRound,
      asksForState: ["pause", "wake", "getOrCreate"].includes(action),
      slowStart: this.#startsSlowly(action),
      refused: message.includes("ECONNREFUSED"),
    };
  }

  #note(action: string, from: number, outcome: string, message?: string): void {
    const { round } = this.#record;
    const ms = Date.now() - from;
    const at = new Date(from).toISOString();
    this.#record.calls.push({ at, round, sandbox: this.name, action, ms, outcome, ...(message ? { message } : {}) });
  }

  #get(): Promise<number> {
    const { port } = new URL(this.#server.url);
    const headers = {
      host: new URL(this.patient.url()).host,
      authorization: `Bearer ${this.#server.apiKey}`,
    };
    return new Promise((resolve, reject) => {
      const broken = (cause: Error) =>
        reject(new RouseError({ code: "connection_error", message: cause.message, cause }));
      const req = request({ host: "127.0.0.1", port, path: "/", headers, agent: false }, (res) => {
        const chunks: Buffer[] = [];
        res.on("data", (chunk: Buffer) => chunks.push(chunk));
        res.on("error", broken);
        res.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          if (res.statusCode === 200) resolve(Number(text));
          else reject(errorOf(res.statusCode ?? 0, text));
        });
      });
      req.on("error", broken);
      req.end();
    });
  }
}

function errorOf(status: number, text: string): RouseError {
  let code = "request_failed";
  let message = text.slice(0, 200);
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string } };
    ({ code, message } = error);
  } catch {
    // Not an error of Rouse: it stays what it is.
  }
  return new RouseError({ code, status, message });
}
