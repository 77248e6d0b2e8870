/** Runtime's client, pointed here: TCP connections to ports of a sandbox, frame by frame. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startAgent, type Agent } from "../guest/agent.ts";
import { Breach, type Frames } from "../support/runtime-client.ts";
import { created, fault, stage } from "./runtimes.ts";
import { eventually } from "./test-edge.ts";

/** What that client has on its way at most, and in one frame, bytes. */
const WINDOW = 1_048_576;
const PIECE = 65_536;

let agent: Agent;
let id: string;
let server: Server;
let port: number;
let programs: Socket[] = [];
const on = stage(async () => {
  agent = await startAgent();
  return agent.port;
});
beforeAll(async () => {
  id = (await created(on)).id;
  server = createServer({ allowHalfOpen: true }, (socket) => {
    programs.push(socket);
    socket.on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ({ port } = server.address() as AddressInfo);
});
beforeEach(() => {
  programs = [];
});
afterAll(async () => {
  server.close();
  await agent.stop();
});

const open = () => Tunnel.open(`${on.runtime.path(id)}/tunnel`);
const program = () =>
  eventually(
    () => programs.at(-1),
    (one) => one !== undefined,
  ) as Promise<Socket>;

interface Stream {
  isOpen: boolean;
  /** It sends no more. */
  isOver: boolean;
  /** Why it was closed; null: it was not. */
  reason: string | null;
  readonly data: Buffer[];
}

/** The client's end: streams by number, and what the server has taken. */
class Tunnel {
  readonly #frames: Frames;
  readonly #streams = new Map<number, Stream>();
  #last = 0;
  #sent = 0;
  #taken = 0;
  #more = Promise.withResolvers<void>();
  /** What the server says of the whole. */
  readonly told: unknown[] = [];
  isOver = false;
  readonly closed: Promise<number>;

  private constructor(frames: Frames) {
    this.#frames = frames;
    this.closed = frames.closed;
  }

  static async open(path: string): Promise<Tunnel> {
    const frames = await on.runtime.socket(path);
    const first = JSON.stringify(await frames.next());
    if (first !== '{"type":"ready"}') throw new Breach(`a tunnel begins with ${first}`);
    const tunnel = new Tunnel(frames);
    void tunnel.#read();
    return tunnel;
  }

  /** A stream that was opened or refused. */
  async stream(target: string): Promise<{ number: number; stream: Stream }> {
    const number = ++this.#last;
    const stream: Stream = { isOpen: false, isOver: false, reason: null, data: [] };
    this.#streams.set(number, stream);
    this.#say("o", number, Buffer.from(target));
    await this.until(() => stream.isOpen || stream.reason !== null);
    return { number, stream };
  }

  /** As much at a time as the window lets. */
  async send(number: number, data: Buffer): Promise<void> {
    for (let at = 0; at < data.length; at += PIECE) {
      const piece = data.subarray(at, at + PIECE);
      await this.until(() => this.#sent + piece.length - this.#taken <= WINDOW);
      this.#sent += piece.length;
      this.#say("d", number, piece);
    }
  }

  end(number: number): void {
    this.#say("e", number);
  }

  drop(number: number): void {
    this.#say("c", number);
  }

  /** All that was sent has been taken. */
  allTaken(): Promise<void> {
    return this.until(() => this.#taken === this.#sent);
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      if (this.isOver) throw new Error(`the tunnel closed: ${JSON.stringify(this.told)}`);
      await this.#more.promise;
    }
  }

  close(): Promise<number> {
    return this.#frames.close();
  }

  #say(kind: string, number: number, payload: Buffer = Buffer.alloc(0)): void {
    const head = Buffer.alloc(5);
    head.write(kind, 0, "latin1");
    head.writeUInt32BE(number, 1);
    this.#frames.send(Buffer.concat([head, payload]));
  }

  async #read(): Promise<void> {
    for (;;) {
      const frame = await this.#frames.next();
      if (frame === null) break;
      if (Buffer.isBuffer(frame)) this.#take(frame);
      else this.told.push(frame);
      this.#wake();
    }
    this.isOver = true;
    this.#wake();
  }

  #take(frame: Buffer): void {
    if (frame.length < 5) throw new Breach(`a frame of ${frame.length} bytes`);
    const kind = frame.toString("latin1", 0, 1);
    const number = frame.readUInt32BE(1);
    const payload = frame.subarray(5);
    if (kind === "a") {
      if (number !== 0 || payload.length !== 8) throw new Breach("a count that is none");
      const taken = Number(payload.readBigUInt64BE());
      if (taken < this.#taken || taken > this.#sent) throw new Breach(`${taken} of ${this.#sent} bytes were taken`);
      this.#taken = taken;
      return;
    }
    const stream = this.#streams.get(number);
    if (!stream || stream.reason !== null) throw new Breach(`${kind} for a stream that is none`);
    if (kind === "o" && !stream.isOpen) stream.isOpen = true;
    else if (kind === "d" && stream.isOpen && !stream.isOver) stream.data.push(payload);
    else if (kind === "e" && stream.isOpen && !stream.isOver) stream.isOver = true;
    else if (kind === "c") stream.reason = payload.toString();
    else throw new Breach(`${kind} where it can't be`);
  }

  #wake(): void {
    this.#more.resolve();
    this.#more = Promise.withResolvers();
  }
}

describe("a tunnel", () => {
  it("carries streams apart from each other, each end for itself", async () => {
    const tunnel = await open();
    const first = await tunnel.stream(`tcp ${port}`);
    const one = await program();
    const second = await tunnel.stream(`tcp ${port}`);
    await eventually(
      () => programs.length,
      (count) => count === 2,
    );
    await tunnel.send(first.number, Buffer.from("question"));
    await tunnel.send(second.number, Buffer.from("other"));
    tunnel.end(first.number);
    let asked = "";
    one.setEncoding("utf8").on("data", (text: string) => (asked += text));
    await once(one, "end");
    expect(asked).toBe("question");
    one.end("answer");
    await tunnel.until(() => first.stream.reason !== null);
    expect([Buffer.concat(first.stream.data).toString(), first.stream.isOver]).toEqual(["answer", true]);
    expect([first.stream.reason, second.stream.reason]).toEqual(["done", null]);
    const two = programs[1];
    two?.resume();
    two?.write("still here");
    await tunnel.until(() => second.stream.data.length > 0);
    tunnel.drop(second.number);
    await eventually(
      () => two?.readableEnded === true || two?.destroyed === true,
      (isGone) => isGone,
    );
    await tunnel.allTaken();
    expect(await tunnel.close()).toBe(1000);
  });

  it("takes much data and counts it, so that a client never waits for good", async () => {
    const tunnel = await open();
    const { number, stream } = await tunnel.stream(`tcp ${port}`);
    const echo = await program();
    echo.pipe(echo);
    const data = randomBytes(5 * WINDOW + 3);
    await tunnel.send(number, data);
    tunnel.end(number);
    await tunnel.until(() => stream.reason !== null);
    expect(stream.reason).toBe("done");
    expect(Buffer.concat(stream.data).equals(data)).toBe(true);
    await tunnel.allTaken();
    // What is sent to one that is over counts as well.
    await tunnel.send(number, Buffer.from("late"));
    await tunnel.allTaken();
    await tunnel.close();
  });

  it("refuses a stream by the reasons that it knows, and goes on", async () => {
    const tunnel = await open();
    const closed = createServer().listen(0, "127.0.0.1");
    await once(closed, "listening");
    const { port: free } = closed.address() as AddressInfo;
    await new Promise((resolve) => closed.close(resolve));
    expect((await tunnel.stream(`tcp ${free}`)).stream.reason).toBe("closed");
    expect((await tunnel.stream("tcp 10800")).stream.reason).toBe("reserved");
    expect((await tunnel.stream("ssh ssh-ed25519 AAAAC3Nz me@here")).stream.reason).toBe("no-sshd");
    const { stream } = await tunnel.stream(`tcp ${port}`);
    (await program()).resetAndDestroy();
    await tunnel.until(() => stream.reason !== null);
    expect(stream.reason).not.toBe("done");
    await tunnel.close();
  });

  it("wakes a sleeper, and breaks when it sleeps", async () => {
    await on.runtime.act(id, "pause", {}, 60);
    const tunnel = await open();
    const { number, stream } = await tunnel.stream(`tcp ${port}`);
    (await program()).on("data", (data: Buffer) => programs.at(-1)?.write(data));
    await tunnel.send(number, Buffer.from("hi"));
    await tunnel.until(() => stream.data.length > 0);
    await on.runtime.act(id, "pause", {}, 60);
    expect(await tunnel.closed).not.toBe(1000);
    expect(await on.runtime.call("GET", on.runtime.path(id))).toMatchObject({ state: "paused" });
  });

  it("is refused where there is none", async () => {
    const none = on.runtime.socket(`${on.runtime.path("00000000-0000-8000-8000-000000000000")}/tunnel`);
    expect(await fault(none)).toMatchObject({ status: 404, code: "not_found" });
    const other = (await created(on)).id;
    await on.runtime.act(other, "stop", {}, 60);
    expect(await fault(on.runtime.socket(`${on.runtime.path(other)}/tunnel`))).toMatchObject({
      status: 409,
      code: "sandbox_stopped",
    });
  });
});
