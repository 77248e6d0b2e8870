/** The commands of a sandbox of the fake host: noted as they begin, and ended as a test says. */
import { createHash, randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";

/** What the next command does. */
export interface CommandTurn {
  /** 0 unless given; null: it never started. */
  readonly exitCode?: number | null;
  readonly state?: "exited" | "killed" | "timed_out";
  readonly stdout?: string;
  readonly stderr?: string;
  /** Output that is no text. */
  readonly base64?: string;
  /** It goes on until `end`. */
  readonly runs?: boolean;
  /** It begins, and who asked for it is never told. */
  readonly drop?: boolean;
}

/** A command as it was begun. */
export interface Begun {
  readonly key: string;
  readonly body: Record<string, unknown>;
}

interface Running {
  readonly id: string;
  readonly fingerprint: string;
  readonly startedAt: string;
  readonly chunks: { readonly stream: "stdout" | "stderr"; readonly data: Buffer; readonly offset: number }[];
  state: "running" | "exited" | "killed" | "timed_out";
  exitCode: number | null;
  bytes: number;
  /** Too many others ended since: it is not listed any more. */
  unlisted: boolean;
}

export class FakeCommands {
  readonly begun: Begun[] = [];
  readonly #turns: CommandTurn[] = [];
  #byKey = new Map<string, Running>();

  plan(turn: CommandTurn): void {
    this.#turns.push(turn);
  }

  /** The machine boots: it knows nothing of them any more. */
  reboot(): void {
    this.#byKey = new Map();
  }

  /** Those that run write and end, or with `runs` only write. */
  end(turn: CommandTurn): void {
    for (const one of this.#byKey.values()) if (one.state === "running") apply(one, turn);
  }

  unlist(): void {
    for (const one of this.#byKey.values()) one.unlisted = true;
  }

  take(path: string, query: URLSearchParams, body: Buffer, req: IncomingMessage, res: ServerResponse): void {
    if (path === "/processes" && req.method === "POST") return this.#start(body, req, res);
    const [, , id = "", what] = path.split("/");
    const one = [...this.#byKey.values()].find((process) => process.id === id && !process.unlisted);
    if (!one) return refuse(res, 404, "process_not_found");
    if (what === undefined) return json(res, infoOf(one));
    const cursor = Number(query.get("cursor") ?? 0);
    // A megabyte of a log is kept.
    const first = Math.max(0, one.bytes - 1_048_576);
    let left = Number(query.get("maxBytes") ?? 1_048_576);
    let next = Math.max(cursor, first);
    const chunks = [];
    for (const { stream, data, offset } of one.chunks) {
      if (offset + data.length <= next || left <= 0) continue;
      const part = data.subarray(next - offset, next - offset + left);
      const text = part.toString("utf8");
      const isText = Buffer.from(text, "utf8").equals(part);
      chunks.push({ stream, text, offset: next, ...(isText ? {} : { base64: part.toString("base64") }) });
      next += part.length;
      left -= part.length;
    }
    json(res, {
      ...{ chunks, nextCursor: next, truncated: cursor < first },
      process: { state: one.state, exitCode: one.exitCode },
    });
  }

  #start(body: Buffer, req: IncomingMessage, res: ServerResponse): void {
    const key = String(req.headers["idempotency-key"] ?? randomUUID());
    const fingerprint = createHash("sha256").update(body).digest("hex");
    const known = this.#byKey.get(key);
    if (known && known.fingerprint !== fingerprint) return refuse(res, 422, "idempotency_key_reused");
    if (known) return json(res, { ...infoOf(known), replayed: true });
    const asked = JSON.parse(body.toString()) as Record<string, unknown>;
    const { cwd } = asked;
    if (typeof cwd === "string" && !cwd.startsWith("/workspace")) return refuse(res, 404, "file_not_found");
    const turn = this.#turns.shift() ?? { stdout: "ok\n" };
    const one: Running = {
      ...{ id: `p-${this.begun.length + 1}-${randomUUID().slice(0, 6)}`, fingerprint },
      ...{ startedAt: new Date().toISOString(), chunks: [], state: "running", exitCode: null, bytes: 0 },
      unlisted: false,
    };
    this.#byKey.set(key, one);
    this.begun.push({ key, body: asked });
    apply(one, turn);
    if (turn.drop) return void req.socket.destroy();
    json(res, infoOf(one));
  }
}

function apply(one: Running, { stdout, stderr, base64, runs, exitCode = 0, state = "exited" }: CommandTurn): void {
  const write = (stream: "stdout" | "stderr", data: Buffer) => {
    if (data.length > 0) one.chunks.push({ stream, data, offset: one.bytes });
    one.bytes += data.length;
  };
  write("stdout", Buffer.from(stdout ?? ""));
  write("stdout", Buffer.from(base64 ?? "", "base64"));
  write("stderr", Buffer.from(stderr ?? ""));
  if (runs) return;
  one.state = state;
  one.exitCode = exitCode;
}

function infoOf({ id, state, exitCode, startedAt, bytes }: Running): object {
  return {
    ...{ id, kind: "process", state, exitCode, command: "", cwd: "/workspace", pty: false, stdinOpen: false },
    ...{ stdinOffset: 0, outputEncoding: "utf8", startedAt, timeoutMs: null, outputBytes: bytes, firstOffset: 0 },
    endedAt: state === "running" ? null : new Date().toISOString(),
  };
}

function refuse(res: ServerResponse, status: number, code: string): void {
  res.writeHead(status, { "content-type": "application/json" });
  res.end(JSON.stringify({ error: { code, status, message: code, hint: "" } }));
}

function json(res: ServerResponse, body: object): void {
  res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}
