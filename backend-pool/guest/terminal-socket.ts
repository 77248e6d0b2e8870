/**
 * Terminals over WebSockets. A terminal is a process, and a socket is one look at it: closing that ends nothing, and
 * another one goes on from the byte that its client names.
 *
 * Down: `ready`, then binary output; `truncated` before output that is kept no more was to come; `exit`; `error`.
 * Up: binary input, `resize`. A client that names itself (`client`) is told how much of its input was taken, before and
 * after a cut, and says by `ack` what it has.
 */
import type { WebSocket } from "ws";
import { errorBody, RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { Fields } from "./fields.ts";
import { toFailure } from "./http.ts";
import type { GuestProcess, Processes } from "./processes.ts";

/** Bytes of one message. */
const MESSAGE_BYTES = 65_536;
/** Clients whose input is counted, of one terminal. */
const CLIENTS = 64;
const SHELL = ["/bin/bash", "-l"];
const CLIENT = /^[A-Za-z0-9-]{1,64}$/;
const closeCodes = { normal: 1000, policy: 1008, failed: 1011 } as const;

interface Client {
  /** Bytes of its input that were taken. */
  taken: number;
  /** It has one socket at a time, so that nothing of an older one comes after what a newer one sends again. */
  socket: WebSocket;
}

export class TerminalSockets {
  readonly #processes: Processes;
  readonly #clients = new WeakMap<GuestProcess, Map<string, Client>>();

  constructor(processes: Processes) {
    this.#processes = processes;
  }

  /** Serve one socket until it closes. */
  async serve(socket: WebSocket, query: URLSearchParams, requestId: string | undefined): Promise<void> {
    socket.on("error", () => undefined); // what breaks a rule of WebSockets is closed by the library
    try {
      const fields = new Fields(query);
      const asked = {
        size: fields.size(),
        command: fields.text("command"),
        cwd: fields.text("cwd"),
        processId: fields.text("processId"),
        cursor: fields.integer("cursor", 0, Number.MAX_SAFE_INTEGER),
        client: fields.text("client"),
      };
      if (asked.client !== undefined && !CLIENT.test(asked.client)) fields.fault("client", "1-64 of a-z A-Z 0-9 -");
      if (asked.command === "" || asked.command?.includes("\0")) fields.fault("command", "expected text without NUL");
      fields.check();
      const process = this.#process(asked);
      const client = asked.client === undefined ? null : this.#client(process, asked.client, socket);
      await attend(socket, process, asked.cursor ?? process.log.first, client);
    } catch (fault) {
      const failure = toFailure(fault);
      if (failure.code === "guest_failed") console.error(fault);
      say(socket, { type: "error", ...errorBody(failure, requestId) });
      socket.close(failure.code === "guest_failed" ? closeCodes.failed : closeCodes.policy, failure.code);
    }
  }

  /** @throws RouseFailure `process_not_found`, `process_limit`, ... */
  #process({ size, command, cwd, processId }: Asked): GuestProcess {
    const { cols, rows } = size;
    if (processId === undefined)
      return this.#processes.start({
        ...(command === undefined ? { argv: SHELL } : { command }),
        ...{ cwd, keepStdin: true, timeoutMs: null, outputEncoding: "utf8", headBytes: 0 },
        pty: { cols: cols ?? guestLimits.terminalCols, rows: rows ?? guestLimits.terminalRows },
      });
    const found = this.#processes.get(processId);
    if (!found.info().pty) throw new RouseFailure("invalid_request", `The process ${processId} has no terminal.`);
    if (cols !== undefined && rows !== undefined && found.state === "running") found.resize({ cols, rows });
    return found;
  }

  #client(process: GuestProcess, name: string, socket: WebSocket): Client {
    const clients = this.#clients.get(process) ?? new Map<string, Client>();
    this.#clients.set(process, clients);
    const client = clients.get(name) ?? { taken: 0, socket };
    // What had come over the older one and waits in this program is read once more as it ends.
    const older = client.socket;
    client.socket = socket;
    if (older !== socket) older.terminate();
    clients.delete(name);
    clients.set(name, client);
    const oldest = clients.keys().next().value;
    if (clients.size > CLIENTS && oldest !== undefined) clients.delete(oldest);
    return client;
  }
}

interface Asked {
  readonly size: { readonly cols?: number; readonly rows?: number };
  readonly command: string | undefined;
  readonly cwd: string | undefined;
  readonly processId: string | undefined;
}

/** Input goes in and output out, until the process ends or the client goes. @param from offset of the first byte to send */
async function attend(socket: WebSocket, process: GuestProcess, from: number, client: Client | null): Promise<void> {
  const { log } = process;
  const over = new AbortController();
  const reader = {};
  let cursor = Math.min(Math.max(from, log.first), log.total);
  // One that acknowledges what it has is waited for by that; of others it is known what was sent.
  let acknowledges = false;
  socket.on("message", (data: Buffer, isBinary: boolean) => {
    if (client && client.socket !== socket) return;
    try {
      if (isBinary) take(socket, process, data, client);
      else
        order(data.toString(), {
          resize: (size) => process.state === "running" && process.resize(size),
          ack: (position) => {
            acknowledges = true;
            process.follow(reader, Math.min(position, log.total));
          },
        });
    } catch (fault) {
      say(socket, { type: "error", ...errorBody(toFailure(fault)) });
      socket.close(closeCodes.policy);
    }
  });
  socket.once("close", (code: number) => {
    // Who leaves on purpose is not waited for.
    if (code === closeCodes.normal) process.unfollow(reader);
    over.abort();
  });
  process.follow(reader, cursor);
  try {
    say(socket, { type: "ready", processId: process.id, cursor, ...(client ? { input: client.taken } : {}) });
    for (;;) {
      await log.change(cursor, over.signal);
      if (over.signal.aborted) return;
      if (cursor < log.first) {
        say(socket, { type: "truncated", droppedBytes: log.first - cursor, resumeAt: log.first });
        cursor = log.first;
      }
      const data = log.raw(cursor, MESSAGE_BYTES);
      if (data.length > 0) await new Promise((resolve) => socket.send(data, resolve));
      cursor += data.length;
      if (!acknowledges) process.follow(reader, cursor);
      if (!log.ended || cursor < log.total) continue;
      say(socket, { type: "exit", exitCode: process.exitCode, state: process.state });
      process.unfollow(reader);
      socket.close(closeCodes.normal);
      return;
    }
  } finally {
    process.lose(reader, "broke");
  }
}

/** While the program does not read, its client is not read either. */
function take(socket: WebSocket, process: GuestProcess, data: Buffer, client: Client | null): void {
  socket.pause();
  void process.type(data).then(() => socket.resume());
  if (!client) return;
  client.taken += data.length;
  say(socket, { type: "input", offset: client.taken });
}

interface Orders {
  resize(size: { cols: number; rows: number }): void;
  ack(cursor: number): void;
}

/** What a newer client says that is not known here is passed over. @throws RouseFailure `invalid_request` */
function order(text: string, orders: Orders): void {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    message = null;
  }
  if (typeof message !== "object" || message === null || Array.isArray(message))
    throw new RouseFailure("invalid_request", "A text message is a JSON object; input is binary.");
  const fields = new Fields(message as Record<string, unknown>);
  const type = fields.text("type");
  if (type === "resize") {
    const { cols, rows } = fields.size();
    if (cols === undefined) fields.fault("cols", "missing");
    if (rows === undefined) fields.fault("rows", "missing");
    fields.check();
    orders.resize({ cols: cols ?? 0, rows: rows ?? 0 });
  } else if (type === "ack") {
    const cursor = fields.integer("cursor", 0, Number.MAX_SAFE_INTEGER);
    fields.check();
    if (cursor !== undefined) orders.ack(cursor);
  }
}

function say(socket: WebSocket, message: object): void {
  if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(message));
}
