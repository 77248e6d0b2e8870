/** What a client has open to a real machine, over its sleep: terminals, file watches, forwarded ports. */
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Sandbox, Terminal, TerminalEvent } from "rouse";
import { freshName, machine, rouse, settle } from "./support.ts";

/** Reads a terminal as it writes. */
class Reader {
  readonly events: TerminalEvent[] = [];
  readonly done: Promise<void>;

  constructor(terminal: Terminal) {
    this.done = (async () => {
      for await (const event of terminal.events()) this.events.push(event);
    })();
    this.done.catch(() => undefined);
  }

  get text(): string {
    return Buffer.concat(
      this.events.map((event) => (event.type === "output" ? event.data : Buffer.alloc(0))),
    ).toString();
  }

  async until(text: string): Promise<void> {
    await vi.waitUntil(() => this.text.includes(text), { timeout: 60_000, interval: 50 });
  }
}

const stateOf = async (sandbox: Sandbox) => (await sandbox.refresh()).state;

describe("a terminal", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await rouse.sandboxes.create({
      name: freshName("terminal"),
      idlePauseSeconds: 10,
      env: { GIVEN: "from-above" },
    });
  });
  afterAll(() => sandbox.delete());

  it("is the user's, and the same after a pause: its variable, and what it wrote since the last byte that was read", async () => {
    const terminal = await sandbox.terminal.open({ cols: 111, rows: 37 });
    const reader = new Reader(terminal);
    await terminal.write("stty size; whoami; tty; word=kept; echo $GIVEN-$word\r");
    await reader.until("from-above-kept");
    expect(reader.text).toMatch(/37 111\r\nruntime\r\n\/dev\/pts\/\d+\r\n/);
    await terminal.write("for i in 1 2 3 4 5 6; do sleep 0.5; echo tick-$i; done; echo through-$word\r");
    await reader.until("tick-1\r\n");
    const { cursor } = terminal;
    terminal.detach();
    await reader.done;
    await sandbox.pause();
    await settle(sandbox, "local");
    // Coming back wakes it.
    const back = await sandbox.terminal.attach(terminal.id, { cursor });
    const rest = new Reader(back);
    await rest.until("through-kept\r\n");
    expect(await stateOf(sandbox)).toBe("running");
    expect(rest.text).toContain("tick-6\r\n");
    expect(rest.text).not.toContain("tick-1\r\n");
    back.resize(60, 20);
    await back.write("stty size; exit 9\r");
    await rest.done;
    expect(rest.text).toContain("20 60\r\n");
    expect(await back.wait()).toEqual({ exitCode: 9 });
  });

  it("that is looked at and idle lets its machine sleep, and a key wakes it", async () => {
    const terminal = await sandbox.terminal.open();
    const reader = new Reader(terminal);
    await terminal.write("word=slept; echo ready\r");
    await reader.until("ready\r\n");
    await expect.poll(() => stateOf(sandbox), { timeout: 150_000, interval: 1000 }).toBe("paused");
    const { generation } = await machine(sandbox);
    await delay(8000);
    expect([await stateOf(sandbox), (await machine(sandbox)).generation]).toEqual(["paused", generation]);
    await terminal.write("echo $word-well\r");
    await reader.until("slept-well\r\n");
    expect((await machine(sandbox)).generation).toBe(generation + 1);
    expect(reader.events.some(({ type }) => type === "truncated")).toBe(false);
    await terminal.kill();
    expect(await terminal.wait()).toEqual({ exitCode: -1 });
  }, 400_000);

  it("a file watch tells what happened before a sleep and after it, and reading it wakes nothing", async () => {
    const watch = await sandbox.files.watch("/workspace", { recursive: true, events: ["create"] });
    const paths: string[] = [];
    const reading = (async () => {
      for await (const event of watch.events()) if (event.type === "create") paths.push(event.path);
    })();
    await sandbox.exec("mkdir -p deep/er && touch deep/er/before");
    await expect.poll(() => paths, { timeout: 60_000 }).toContain("/workspace/deep/er/before");
    // Nobody has read this when it goes to sleep.
    await sandbox.exec("(sleep 1; touch deep/er/unread) >/dev/null 2>&1 &");
    await delay(1500);
    await sandbox.pause();
    await delay(6000);
    expect(await stateOf(sandbox)).toBe("paused");
    await sandbox.exec("mkdir deep/new && touch deep/new/after");
    await expect.poll(() => paths, { timeout: 90_000 }).toContain("/workspace/deep/new/after");
    expect(paths.filter((path) => path === "/workspace/deep/er/unread")).toHaveLength(1);
    await watch.stop();
    await reading;
  }, 400_000);

  it("a forwarded port wakes it and reaches a program that listens on ::1 alone", async () => {
    const server =
      "import socketserver as s, socket\ns.TCPServer.address_family=socket.AF_INET6\nclass H(s.StreamRequestHandler):\n  def handle(self): self.wfile.write(self.rfile.readline().upper())\ns.TCPServer(('::1',7007),H).serve_forever()";
    await sandbox.spawn(["python3", "-c", server]);
    await expect
      .poll(async () => (await sandbox.exec("ss -ltn | grep -c 7007")).stdout, { timeout: 60_000 })
      .toBe("1\n");
    await using forward = await sandbox.forward(7007, { localPort: 0 });
    await sandbox.pause();
    const socket = connect(forward.localPort, forward.address);
    socket.write("hello\n");
    const chunks: Buffer[] = [];
    for await (const chunk of socket as AsyncIterable<Buffer>) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe("HELLO\n");
    expect(await stateOf(sandbox)).toBe("running");
  });
});
