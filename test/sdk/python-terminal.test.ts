/** Terminals of the Python SDK, in both halves: a real guest agent behind an edge that sleeps, cuts and refuses. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { PythonEdge } from "./python-edge.ts";
import { NO_PYTHON, halves, stopPython } from "./python-run.ts";

let at: PythonEdge;
beforeAll(async () => {
  at = await PythonEdge.start();
});
afterAll(async () => {
  stopPython();
  await at[Symbol.asyncDispose]();
});
beforeEach((context) => {
  at.edge.state = "running";
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
});

const SHELL = `SHELL = "PS1='$ ' exec bash --norc --noprofile -i"\n`;

describe.each(halves)("%s", (half) => {
  const run = (body: string) => at.run(half, `${SHELL}${body}`);

  test("is typed at and read, gets another size, and ends with its code", async () => {
    const found = await run(`
async with await sandbox.terminal.open(command=SHELL, cols=90, rows=25, env={"MINE": "given"}) as terminal:
    reader = Reader(terminal)
    await terminal.write("stty size; echo $MINE-$TERM\\r")
    await until(lambda: b"25 90" in reader.data and b"given-xterm-256color" in reader.data)
    terminal.resize(71, 31)
    await terminal.write(b"sleep 0.3; stty size\\r")
    await until(lambda: b"31 71" in reader.data)
    listed = terminal.id in [one["id"] for one in await sandbox.terminal.list()]
    await terminal.write("exit 5\\r")
    end = await terminal.wait()
    await reader.done()
info = await sandbox.terminal.get(terminal.id)
return {
    "listed": listed, "end": end, "last": reader.events[-1], "info": [info["state"], info["exitCode"], info["pty"]],
    "late": (await failure(lambda: terminal.write("x")))["code"],
    "again": await terminal.wait(), "cursor": terminal.cursor == len(reader.data),
}`);
    expect(found).toEqual({
      ...{ listed: true, end: { exit_code: 5 }, last: { type: "exit", exitCode: 5 }, info: ["exited", 5, true] },
      ...{ late: "not_running", again: { exit_code: 5 }, cursor: true },
    });
  });

  test("is the same after connections that break, without loss or repetition of either direction", async () => {
    const found = await run(`
terminal = await sandbox.terminal.open(command="stty raw -echo; echo go; head -c 400000 | cat")
reader = Reader(terminal)
await until(lambda: b"go\\n" in reader.data)
data = (b"0123456789abcdefghi" * 21_053)[:400_000]
for begin in range(0, len(data), 20_000):
    typing = beside(lambda: terminal.write(data[begin : begin + 20_000]))
    if begin % 60_000 == 0:
        await pause(0.002)
        edge("cut")
    await result_of(typing)
end = await terminal.wait()
await reader.done()
truncated = [event for event in reader.events if event["type"] == "truncated"]
return {"end": end, "truncated": truncated, "whole": bytes(reader.data) == b"go\\n" + data}`);
    expect(found).toEqual({ end: { exit_code: 0 }, truncated: [], whole: true });
  }, 60_000);

  test("a program that answers megabytes while megabytes are typed waits for nobody that waits for it", async () => {
    const found = await run(`
terminal = await sandbox.terminal.open(command="stty raw -echo; echo go; head -c 3000000 | cat")
reader = Reader(terminal)
await until(lambda: b"go\\n" in reader.data)
data = bytes(range(32, 132)) * 30_000
await terminal.write(data)
end = await terminal.wait()
await reader.done()
return [end, bytes(reader.data) == b"go\\n" + data]`);
    expect(found).toEqual([{ exit_code: 0 }, true]);
  }, 120_000);

  test("is come back to at the byte that was read last, from the middle of what had arrived", async () => {
    const found = await run(`
from contextlib import aclosing
terminal = await sandbox.terminal.open(command="stty raw -echo; seq 1 60000; read; seq 60001 100000")
first, rest = bytearray(), bytearray()
async with aclosing(terminal.events()) as events:
    async for event in events:
        first += event["data"]
        if len(first) > 100_000:
            break
terminal.detach()
cursor = terminal.cursor
gone = [await failure(lambda: terminal.write("x")), await failure(terminal.wait)]
edge("cut")
back = await sandbox.terminal.attach(terminal.id, cursor=cursor)
await back.write("\\n")
async for event in back.events():
    rest += event["data"] if event["type"] == "output" else b""
whole = "".join(f"{n}\\n" for n in range(1, 100_001)).encode()
late = await sandbox.terminal.attach(terminal.id, cursor=len(whole) - 7)
tail = [event async for event in late.events()]
return {
    "cursor": cursor == len(first), "whole": bytes(first + rest) == whole, "tail": [tail[0]["data"], tail[0]["offset"] == len(whole) - 7],
    "gone": [one["code"] for one in gone], "end": await back.wait(),
}`);
    expect(found).toEqual({
      ...{ cursor: true, whole: true, tail: [Buffer.from("100000\n").toString("hex"), true] },
      ...{ gone: ["not_running", "not_running"], end: { exit_code: 0 } },
    });
  });

  test("what is kept no more is told, and the rest follows", async () => {
    const found = await run(`
terminal = await sandbox.terminal.open(command="stty raw -echo; head -c 3000000 /dev/zero; echo end")
terminal.detach()
async def has_ended():
    return (await sandbox.terminal.get(terminal.id))["state"] == "exited"
while not await has_ended():
    await pause(0.05)
back = await sandbox.terminal.attach(terminal.id, cursor=1000)
reader = Reader(back)
await reader.done()
gap, first = reader.events[0], reader.events[1]
kept = await sandbox.terminal.attach(terminal.id)
begin = [event async for event in kept.events()][0]
return {
    "gap": gap["type"], "sum": 1000 + gap["droppedBytes"] + len(reader.data), "joined": gap["resumeAt"] == first["offset"],
    "end": bytes(reader.data[-4:]), "kept": begin["offset"] == gap["resumeAt"],
}`);
    expect(found).toEqual({ gap: "truncated", sum: 3_000_004, joined: true, end: "656e640a", kept: true });
  }, 60_000);

  test("two look at one: both see all of it, both type, and the size is what was set last", async () => {
    const found = await run(`
one = await sandbox.terminal.open(command=SHELL, cols=90, rows=25)
readers = [Reader(one)]
await until(lambda: b"$ " in readers[0].data)
two = await sandbox.terminal.attach(one.id, cols=70, rows=20)
readers.append(Reader(two))
await one.write("echo by-one; stty size\\r")
await until(lambda: all(b"by-one\\r\\n" in each.data and b"20 70" in each.data for each in readers))
await two.write("echo by-two; exit\\r")
for each in readers:
    await each.done()
return [readers[0].data == readers[1].data, b"by-two\\r\\n" in readers[0].data, [each.events[-1] for each in readers]]`);
    const exit = { type: "exit", exitCode: 0 };
    expect(found).toEqual([true, true, [exit, exit]]);
  });

  test("lets the machine sleep: nothing wakes it but what is typed, and what was missed comes then", async () => {
    const found = await run(`
terminal = await sandbox.terminal.open(command=SHELL)
reader = Reader(terminal)
await terminal.write("word=kept\\r")
await until(lambda: b"word=kept" in reader.data)
await terminal.write("sleep 0.5; echo missed-$word\\r")
before = edge("facts")["wakes"]
edge("sleep")
await pause(5)
asleep = edge("facts")
terminal.resize(80, 20)
await pause(0.3)
still = edge("facts")
await terminal.write("stty size; echo typed-$word\\r")
await until(lambda: b"typed-kept\\r\\n" in reader.data)
woken = edge("facts")
seen = [word in reader.data for word in (b"missed-kept\\r\\n", b"20 80")]
# Woken by somebody else, it is read again without a key.
edge("sleep")
await pause(0.1)
edge("wake")
other = await sandbox.terminal.attach(terminal.id)
await other.write("echo by-another\\r")
await until(lambda: b"by-another\\r\\n" in reader.data)
await terminal.kill()
return {
    "asleep": [asleep["state"], asleep["wakes"] - before], "still": [still["state"], still["wakes"] - before],
    "woken": [woken["state"], woken["wakes"] - before], "seen": seen, "end": await terminal.wait(),
}`);
    expect(found).toEqual({
      ...{ asleep: ["paused", 0], still: ["paused", 0], woken: ["running", 1] },
      ...{ seen: [true, true], end: { exit_code: -1 } },
    });
  }, 60_000);

  test("goes on after refusals, and after a time in which nothing is reached, asleep or awake", async () => {
    const found = await run(`
terminal = await sandbox.terminal.open(command=SHELL)
reader = Reader(terminal)
edge("refuse")
edge("cut")
await terminal.write("echo still\\r")
await until(lambda: b"still\\r\\n" in reader.data)
refusals = edge("facts")["refusals"]
edge("down")
edge("cut")
typing = beside(lambda: terminal.write("echo through\\r"))
await pause(6)
edge("up")
await result_of(typing)
await until(lambda: b"through\\r\\n" in reader.data)
before = edge("facts")["wakes"]
edge("sleep")
edge("down")
await pause(8)
edge("up")
await pause(6)
asleep = edge("facts")
await terminal.write("exit 3\\r")
return [refusals, asleep["state"], asleep["wakes"] - before, await terminal.wait()]`);
    expect(found).toEqual([0, "paused", 0, { exit_code: 3 }]);
  }, 120_000);

  test("says why it can't be had", async () => {
    const found = await run(`
terminals = sandbox.terminal
refused = [
    await failure(lambda: terminals.attach("p-0-none")),
    await failure(lambda: terminals.attach("x", cols=0, rows=5)),
    await failure(lambda: terminals.open(cwd="/no/such/folder")),
]
terminal = await terminals.open(command=SHELL)
reader = Reader(terminal)
async def resized(cols, rows):
    terminal.resize(cols, rows)
sizes = [await failure(lambda: resized(*size)) for size in ((0, 5), (80, 2001), ("80", 24), (80.5, 24))]
await terminal.write("")
await terminal.write("echo alive\\r")
await until(lambda: b"alive\\r\\n" in reader.data)
edge("stop")
edge("cut")
ends = [await failure(reader.done), await failure(terminal.wait), await failure(lambda: terminal.write("x"))]
edge("wake")
await terminals.kill(terminal.id)
return [[(one["class"], one["code"]) for one in group] for group in (refused, sizes, ends)]`);
    expect(found).toEqual([
      [
        ["NotFoundError", "process_not_found"],
        ["InvalidRequestError", "invalid_request"],
        ["NotFoundError", "file_not_found"],
      ],
      Array.from({ length: 4 }, () => ["InvalidRequestError", "invalid_argument"]),
      Array.from({ length: 3 }, () => ["NotFoundError", "process_not_found"]),
    ]);
  });

  test("a program that ends while it looks leaves nothing behind that is told of", async () => {
    const found = await run(`
terminal = await sandbox.terminal.open(command=SHELL)
reader = Reader(terminal)
await until(lambda: b"$ " in reader.data)
return terminal.id`);
    expect((await at.edge.agent.process(String(found))).state).toBe("running");
    await at.edge.agent.signal(String(found), "SIGKILL");
  });
});
