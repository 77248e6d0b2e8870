/** The real guest agent as a child process of a test; its answers are checked against the contract. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { request, type ClientRequest, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { z } from "zod";
import { assertDocumented } from "../support/documented.ts";
import { ExecResult, OutputEvent, OutputPage, Process } from "../../sdk/contract/guest.ts";

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly bytes: Buffer;
  /** The body as JSON. */
  readonly body: Record<string, unknown>;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly bytes?: Buffer;
  readonly key?: string;
  readonly headers?: Record<string, string>;
}

export class Agent {
  readonly port: number;
  readonly home: string;
  readonly pid: number;
  readonly #stop: () => Promise<void>;
  readonly #errors: () => string;

  constructor(port: number, home: string, pid: number, errors: () => string, stop: () => Promise<void>) {
    this.port = port;
    this.home = home;
    this.pid = pid;
    this.#errors = errors;
    this.#stop = stop;
  }

  /** What the agent wrote to stderr: faults nobody waited for are told there. */
  get errors(): string {
    return this.#errors();
  }

  /** End the processes that still run, then the agent. */
  async stop(): Promise<void> {
    const running = Process.array()
      .parse((await this.call("GET", "/processes").catch(() => ({ body: { data: [] } }))).body["data"])
      .filter(({ state }) => state === "running");
    await Promise.all(running.map(({ id }) => this.signal(id, "SIGKILL")));
    await this.#stop();
  }

  /** End the agent at once, whoever may call it. */
  end(): Promise<void> {
    return this.#stop();
  }

  /** A request whose body and answer are the test's to handle. */
  open(method: string, path: string, headers: Record<string, string> = {}): ClientRequest {
    return request({ host: "127.0.0.1", port: this.port, method, path, headers, agent: false });
  }

  async call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const answer = await this.answer(method, path, options);
    const chunks: Buffer[] = [];
    for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const status = answer.statusCode ?? 0;
    const type = answer.headers["content-type"];
    const json = () => JSON.parse(bytes.toString()) as unknown;
    const below = path.replace(/\?.*/s, "");
    // `/exec` of the agent is the verb `:exec` of the API.
    for (const pathname of [`/v1/sandboxes/a${below}`, `/v1/sandboxes/a:${below.slice(1)}`])
      await assertDocumented({ method, pathname, status, type, json }, ({ work }) => work !== "guest");
    return {
      status,
      headers: answer.headers,
      bytes,
      get body() {
        return JSON.parse(bytes.toString()) as Record<string, unknown>;
      },
    };
  }

  /** The answer as it arrives. */
  answer(method: string, path: string, { body, bytes, key, headers }: CallOptions = {}): Promise<IncomingMessage> {
    const req = this.open(method, path, { ...headers, ...(key === undefined ? {} : { "idempotency-key": key }) });
    const data = bytes ?? (body === undefined ? undefined : Buffer.from(JSON.stringify(body)));
    return new Promise((resolve, reject) => {
      req.once("response", resolve);
      req.once("error", reject);
      req.end(data);
    });
  }

  async exec(body: string | Record<string, unknown>): Promise<z.infer<typeof ExecResult>> {
    const answer = await this.call("POST", "/exec", { body: typeof body === "string" ? { command: body } : body });
    if (answer.status !== 200) throw new Error(answer.bytes.toString());
    return ExecResult.parse(answer.body);
  }

  async spawn(body: Record<string, unknown>): Promise<z.infer<typeof Process>> {
    return Process.parse((await this.call("POST", "/processes", { body })).body);
  }

  async process(id: string): Promise<z.infer<typeof Process>> {
    return Process.parse((await this.call("GET", `/processes/${id}`)).body);
  }

  async page(id: string, query = ""): Promise<z.infer<typeof OutputPage>> {
    return OutputPage.parse((await this.call("GET", `/processes/${id}/output${query}`)).body);
  }

  /** A stream of the output from a cursor on. */
  output(id: string, cursor: number): Promise<IncomingMessage> {
    return this.answer("GET", `/processes/${id}/output?follow=true&cursor=${cursor}`);
  }

  /** Read on by pages until the text is there. */
  async textOf(id: string, wanted: string): Promise<string> {
    let text = "";
    for (let cursor = 0; !text.includes(wanted);) {
      const page = await this.page(id, `?cursor=${cursor}&waitMs=8000`);
      text += page.chunks.map((chunk) => chunk.text).join("");
      if (page.process?.state !== "running" && page.chunks.length === 0) throw new Error(`only: ${text}`);
      cursor = page.nextCursor;
    }
    return text;
  }

  signal(id: string, signal: string): Promise<Answer> {
    return this.call("POST", `/processes/${id}:signal`, { body: { signal } });
  }

  /** All events of a streamed exec. */
  async stream(body: Record<string, unknown>): Promise<Event[]> {
    return collect(followed(this, await this.answer("POST", "/exec", { body: { ...body, stream: true } })));
  }
}

export type Event = z.infer<typeof OutputEvent>;

/** The lines of an answer, each checked against the contract. */
export async function* events(answer: IncomingMessage): AsyncGenerator<Event> {
  for await (const line of lines(answer)) yield OutputEvent.parse(line);
}

/** All events of a process, over as many slices as it takes. */
export async function* followed(agent: Agent, answer: IncomingMessage): AsyncGenerator<Event> {
  for (let slice: IncomingMessage | null = answer; slice;) {
    const from: IncomingMessage = slice;
    slice = null;
    for await (const event of events(from)) {
      if (event.type !== "continue") yield event;
      else slice = await agent.output(event.processId, event.cursor);
    }
  }
}

export function allEvents(answer: IncomingMessage): Promise<Event[]> {
  return collect(events(answer));
}

export async function collect<T>(from: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of from) all.push(one);
  return all;
}

export async function* lines(answer: IncomingMessage): AsyncGenerator<unknown> {
  let rest = "";
  answer.setEncoding("utf8");
  for await (const chunk of answer as AsyncIterable<string>) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) yield JSON.parse(part);
  }
  if (rest !== "") throw new Error(`the answer ends inside a line: ${rest.slice(0, 100)}`);
}

/** The raw bytes of output events, which must follow each other without a gap. */
export function bytesOf(all: readonly Event[], from = 0): { stdout: Buffer; stderr: Buffer; end: number } {
  const parts: Record<"stdout" | "stderr", Buffer[]> = { stdout: [], stderr: [] };
  let at = from;
  for (const event of all) {
    if (event.type !== "stdout" && event.type !== "stderr") continue;
    if (event.offset !== at) throw new Error(`offset ${event.offset} where ${at} was due`);
    const data = event.base64 === undefined ? Buffer.from(event.data) : Buffer.from(event.base64, "base64");
    parts[event.type].push(data);
    at += data.length;
  }
  return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr), end: at };
}

export function codeOf(answer: Answer): unknown {
  return (answer.body["error"] as { code?: unknown } | undefined)?.code;
}

/** A process that ended and that nobody asked about, a zombie, is not alive. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !/^\) [ZX]/.test(stat.slice(stat.lastIndexOf(")")));
  } catch {
    return false;
  }
}

export async function startAgent(...flags: string[]): Promise<Agent> {
  const home = await mkdtemp(join(tmpdir(), "rouse-guest-"));
  const main = fileURLToPath(new URL("../../backend-pool/guest/main.ts", import.meta.url));
  const child = spawn(process.execPath, [main, "--listen", "127.0.0.1:0", "--home", home, ...flags], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NODE_NO_WARNINGS: "1" },
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const port = await new Promise<number>((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", (line) =>
      resolve((JSON.parse(line) as { listening: number }).listening),
    );
    void exited.then(() => reject(new Error(`the agent ended: ${errors}`)));
  });
  const { pid } = child;
  if (pid === undefined) throw new Error("the agent has no pid");
  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
    await rm(home, { recursive: true, force: true });
  };
  return new Agent(port, home, pid, () => errors, stop);
}
