import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Terminal, TerminalEvent } from "../../sdk/src/index.ts";
import { GuestEdge } from "./guest-edge.ts";

let edge: GuestEdge;
beforeAll(async () => {
  edge = await GuestEdge.start();
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
});

const SHELL = "PS1='$ ' exec bash --norc --noprofile -i";

/** Reads a terminal's events as they come. */
class Reader {
  readonly events: TerminalEvent[] = [];
  readonly done: Promise<void>;
  readonly #chunks: Uint8Array[] = [];

  constructor(terminal: Terminal) {
    this.done = (async () => {
      for await (const event of terminal.events()) {
        this.events.push(event);
        if (event.type === "output") this.#chunks.push(event.data);
      }
    })();
    this.done.catch(() => undefined);
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString();
  }

  async until(text: string): Promise<void> {
    await vi.waitUntil(() => this.text.includes(text), { timeout: 20_000, interval: 20 });
  }
}

const open = async (command: string = SHELL) => {
  const terminal = await (await edge.sandbox).terminal.open({ command, cols: 90, rows: 25 });
  return { terminal, reader: new Reader(terminal) };
};

describe("a terminal", () => {
  test("is typed at and read, gets another size, and ends with its code", async () => {
    const { terminal, reader } = await open();
    await terminal.write("stty size\r");
    await reader.until("25 90");
    terminal.resize(71, 31);
    await terminal.write("sleep 0.5; stty size\r");
    await reader.until("31 71");
    const { terminal: terminals } = await edge.sandbox;
    expect((await terminals.list()).map(({ id }) => id)).toContain(terminal.id);
    await terminal.write("exit 5\r");
    expect(await terminal.wait()).toEqual({ exitCode: 5 });
    await reader.done;
    expect(reader.events.at(-1)).toEqual({ type: "exit", exitCode: 5 });
    expect(await terminals.get(terminal.id)).toMatchObject({ state: "exited", exitCode: 5 });
    await expect(terminal.write("x")).rejects.toMatchObject({ code: "not_running" });
  });

  test("is the same after connections that break, without loss or repetition of either direction", async () => {
    // Bash does not wait for the program that makes the hash.
    const { terminal, reader } = await open(
      "stty raw -echo; echo go; head -c 400000 | tee >(sha256sum >&2) | cat; sleep 1",
    );
    await reader.until("go\n");
    const data = Buffer.alloc(400_000, "0123456789abcdefghi");
    const typing = (async () => {
      for (let at = 0; at < data.length; at += 20_000) {
        const taken = terminal.write(data.subarray(at, at + 20_000));
        if (at % 60_000 === 0) edge.cut();
        await taken;
      }
    })();
    await typing;
    expect(await terminal.wait()).toEqual({ exitCode: 0 });
    await reader.done;
    expect(reader.events.filter(({ type }) => type === "truncated")).toEqual([]);
    expect(reader.text.startsWith("go\n")).toBe(true);
    const { hash } = await import("node:crypto");
    expect(reader.text).toContain(hash("sha256", data));
    const echoed = reader.text.slice(3).replace(/[0-9a-f]{64} {2}-\n/, "");
    expect(echoed === data.toString()).toBe(true);
  }, 60_000);

  test("a program that answers megabytes while megabytes are typed waits for nobody that waits for it", async () => {
    const { terminal, reader } = await open("stty raw -echo; echo go; head -c 6000000 | cat");
    await reader.until("go\n");
    const data = Buffer.alloc(3_000_000, "0123456789abcdefghi");
    await terminal.write(data);
    await terminal.write(data);
    expect(await terminal.wait()).toEqual({ exitCode: 0 });
    await reader.done;
    expect(reader.text === `go\n${data.toString().repeat(2)}`).toBe(true);
  }, 60_000);

  test("lets the machine sleep: nothing wakes it but what is typed, and what was missed comes then", async () => {
    const { terminal, reader } = await open();
    await terminal.write("word=kept\r");
    await reader.until("word=kept");
    await terminal.write("sleep 0.5; echo missed-$word\r");
    const before = edge.wakes;
    edge.sleep();
    await wait(5000);
    expect(edge.wakes).toBe(before);
    expect(edge.state).toBe("paused");
    terminal.resize(80, 20);
    await wait(300);
    expect(edge.wakes).toBe(before);
    await terminal.write("stty size; echo typed-$word\r");
    await reader.until("typed-kept\r\n");
    expect(edge.wakes).toBe(before + 1);
    expect(reader.text).toContain("missed-kept\r\n");
    expect(reader.text).toContain("20 80");
    // Woken by somebody else, it is read again without a key.
    edge.sleep();
    await wait(100);
    edge.state = "running";
    await (await edge.sandbox).terminal.list();
    await edge.agent.call("POST", `/processes/${terminal.id}:write`, {
      body: {
        base64: Buffer.from("echo by-another\r").toString("base64"),
        offset: (await edge.agent.process(terminal.id)).stdinOffset,
      },
    });
    await reader.until("by-another\r\n");
    await terminal.kill();
    expect(await terminal.wait()).toEqual({ exitCode: -1 });
  }, 60_000);

  test("goes on when it is looked away from, and is come back to by its id", async () => {
    const { terminal, reader } = await open();
    await reader.until("$ ");
    await terminal.write("word=again\r");
    await reader.until("word=again\r\n");
    const { cursor } = terminal;
    terminal.detach();
    await reader.done;
    await expect(terminal.write("x")).rejects.toMatchObject({ code: "not_running" });
    const back = await (await edge.sandbox).terminal.attach(terminal.id, { cursor });
    const rest = new Reader(back);
    await back.write("echo $word-there; exit\r");
    await rest.until("again-there");
    expect(rest.text).not.toContain("word=again");
    await rest.done;
  });

  test("what is not read is not fetched: the program waits, over a cut as well, and nothing of it is lost", async () => {
    const bytes = 4_000_000;
    const { terminal: terminals } = await edge.sandbox;
    const terminal = await terminals.open({ command: `stty raw -echo; head -c ${bytes} /dev/zero` });
    await vi.waitUntil(() => terminal.cursor > 500_000, { timeout: 10_000 });
    edge.cut();
    await wait(1000);
    expect(terminal.cursor).toBeLessThan(2_000_000);
    expect((await terminals.get(terminal.id)).state).toBe("running");
    const reader = new Reader(terminal);
    await reader.done;
    expect(reader.text).toHaveLength(bytes);
    expect(reader.events.filter(({ type }) => type === "truncated")).toEqual([]);
  });

  test("a new connection that is refused for a while is tried again", async () => {
    const { terminal, reader } = await open();
    edge.refusals = 3;
    edge.cut();
    await terminal.write("echo still\r");
    await reader.until("still\r\n");
    expect(edge.refusals).toBe(0);
    await terminal.kill();
    await reader.done;
  });

  test("says why it can't be had", async () => {
    const { terminal: terminals } = await edge.sandbox;
    await expect(terminals.attach("p-0-none")).rejects.toMatchObject({
      name: "NotFoundError",
      code: "process_not_found",
    });
    await expect(terminals.attach("x", { cols: 0, rows: 5 })).rejects.toMatchObject({ code: "invalid_request" });
    await expect(terminals.open({ cwd: "/no/such/folder" })).rejects.toMatchObject({ code: "file_not_found" });
    const { terminal, reader } = await open();
    edge.state = "stopped";
    edge.cut();
    await expect(reader.done).rejects.toMatchObject({ code: "process_not_found" });
    await expect(terminal.wait()).rejects.toMatchObject({ code: "process_not_found" });
    edge.state = "running";
    await terminals.kill(terminal.id);
  });

  test("a runtime without such sockets is told so", async () => {
    const { terminal: terminals } = await edge.sandbox;
    const { WebSocket: own } = globalThis;
    Object.assign(globalThis, { document: {} });
    try {
      await expect(terminals.attach("p-1")).rejects.toMatchObject({ code: "invalid_argument" });
    } finally {
      delete (globalThis as { document?: unknown }).document;
    }
    expect(globalThis.WebSocket).toBe(own);
  });
});
