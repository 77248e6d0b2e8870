/** QEMU's control protocol: JSON lines over a unix socket, with ids, events and time limits. */
import { EventEmitter } from "node:events";
import { connect, type Socket } from "node:net";
import { z } from "zod";

const Message = z.object({
  id: z.number().optional(),
  return: z.unknown().optional(),
  error: z.object({ class: z.string(), desc: z.string() }).optional(),
  event: z.string().optional(),
  data: z.record(z.string(), z.unknown()).optional(),
});

/** QEMU refused or failed a command. */
export class QmpError extends Error {
  override readonly name = "QmpError";
}

interface Waiting {
  readonly command: string;
  readonly resolve: (value: unknown) => void;
  readonly reject: (fault: Error) => void;
  readonly timer: NodeJS.Timeout;
}

interface QmpEvents {
  event: [name: string, data: Record<string, unknown>];
  close: [];
}

export class Qmp extends EventEmitter<QmpEvents> {
  readonly #socket: Socket;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #rest = "";
  closed = false;

  private constructor(socket: Socket) {
    super();
    this.#socket = socket;
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => this.#read(text));
    socket.on("error", () => undefined); // "close" follows and says all there is
    socket.on("close", () => this.#end());
  }

  /** Connect and leave negotiation mode; retries until the socket is there. */
  static async open(path: string, limitMs = 10_000): Promise<Qmp> {
    const socket = await connectUnix(path, limitMs);
    const qmp = new Qmp(socket);
    await qmp.execute("qmp_capabilities", {}, limitMs);
    return qmp;
  }

  execute(command: string, args: Record<string, unknown> = {}, limitMs = 10_000): Promise<unknown> {
    if (this.closed) return Promise.reject(new QmpError(`${command}: QEMU is gone`));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new QmpError(`${command}: no answer in ${limitMs} ms`));
      }, limitMs);
      this.#waiting.set(id, { command, resolve, reject, timer });
      this.#socket.write(`${JSON.stringify({ execute: command, arguments: args, id })}\n`);
    });
  }

  /** A command of the human monitor, for what QMP itself lacks. */
  async human(line: string): Promise<string> {
    const text = await this.execute("human-monitor-command", { "command-line": line });
    return typeof text === "string" ? text : "";
  }

  /** The next event that passes the test. Rejects when QEMU goes or the limit passes. */
  nextEvent(test: (name: string, data: Record<string, unknown>) => boolean, limitMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const done = (fault?: Error) => {
        clearTimeout(timer);
        this.off("event", onEvent);
        this.off("close", onClose);
        if (fault) reject(fault);
        else resolve();
      };
      const onEvent = (name: string, data: Record<string, unknown>) => test(name, data) && done();
      const onClose = () => done(new QmpError("QEMU ended"));
      const timer = setTimeout(() => done(new QmpError(`no event in ${limitMs} ms`)), limitMs);
      this.on("event", onEvent);
      this.on("close", onClose);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(text: string): void {
    this.#rest += text;
    for (let end = this.#rest.indexOf("\n"); end >= 0; end = this.#rest.indexOf("\n")) {
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + 1);
      const message = Message.parse(JSON.parse(line));
      if (message.event !== undefined) this.emit("event", message.event, message.data ?? {});
      if (message.id === undefined) continue;
      const waiting = this.#waiting.get(message.id);
      if (!waiting) continue;
      this.#waiting.delete(message.id);
      clearTimeout(waiting.timer);
      if (message.error) waiting.reject(new QmpError(`${waiting.command}: ${message.error.desc}`));
      else waiting.resolve(message.return);
    }
  }

  #end(): void {
    this.closed = true;
    for (const waiting of this.#waiting.values()) {
      clearTimeout(waiting.timer);
      waiting.reject(new QmpError(`${waiting.command}: QEMU ended`));
    }
    this.#waiting.clear();
    this.emit("close");
  }
}

/** Connect to a unix socket that may not be there yet. */
export async function connectUnix(path: string, limitMs: number): Promise<Socket> {
  const end = performance.now() + limitMs;
  for (;;) {
    try {
      return await new Promise<Socket>((resolve, reject) => {
        const socket = connect(path);
        socket.once("connect", () => resolve(socket));
        socket.once("error", reject);
      });
    } catch (fault) {
      if (performance.now() > end) throw new QmpError(`no socket at ${path} in ${limitMs} ms`, { cause: fault });
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}
