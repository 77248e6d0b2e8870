/** Both halves of the Python SDK at a real edge, with a real guest agent; only the machine around it is none. */
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startAgent, type Agent } from "../guest/agent.ts";
import { NO_PYTHON, PYTHON, halves, python, stopPython } from "../sdk/python-run.ts";
import { freshName, TestEdge } from "./test-edge.ts";

let agent: Agent;
let edge: TestEdge;
beforeAll(async () => {
  agent = await startAgent("--python", PYTHON);
  edge = await TestEdge.begin("miniflare", {}, agent.port);
}, 300_000);
afterAll(async () => {
  stopPython();
  await edge?.end();
  await agent?.stop();
});
beforeEach((context) => {
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
});

describe.each(halves)("%s", (half) => {
  const run = (body: string) => {
    const url = `http://127.0.0.1:${edge.port}`;
    const head = `import socket, threading\nfrom rouse._${half}.driver import blocking\n`;
    return python(half, url, head + body, { key: edge.apiKey });
  };

  test("a sandbox from its creation to its end", async () => {
    const name = freshName();
    const found = await run(`
sandbox = await rouse.sandboxes.create(name="${name}", idle_pause_seconds=0, labels={"kind": "test"})
again = await rouse.sandboxes.get_or_create("${name}")
events = [event async for event in sandbox.exec_stream("echo one; sleep 0.2; echo two >&2; exit 3", env={"A": "b"})]
folder = (await sandbox.exec("mktemp -d")).stdout.strip()
large = bytes(range(256)) * 10_000
await sandbox.files.write(folder + "/small", "ü")
await sandbox.files.write(folder + "/large", large)
files = sorted([entry["name"] for entry in await sandbox.files.list(folder)])
same = [await sandbox.files.read_text(folder + "/small"), await sandbox.files.read(folder + "/large") == large]
await sandbox.exec(["rm", "-r", folder], check=True)
await sandbox.data.set("plan", {"step": 7})
version = (await sandbox.data.read("plan")).version
swapped = [await sandbox.data.cas("plan", version, {"step": 8}) is None, await sandbox.data.cas("plan", version, 0)]
async def advance(tx):
    tx.set("plan", {"step": (await tx.get("plan"))["step"] + 1})
await sandbox.data.transaction(advance)
await sandbox.data.sql("CREATE TABLE t (a TEXT)")
await sandbox.data.sql("INSERT INTO t VALUES (?)", ["x"])
rows = await sandbox.data.sql("SELECT a FROM t")
kept = await sandbox.memory.add({"text": "prefers weekly summaries"})
hits = (await sandbox.memory.search("weekly"))["data"]
await sandbox.pause()
states = [sandbox.state]
await sandbox.wake()
states.append(sandbox.state)
plan = await sandbox.data.get("plan")
wrong = await failure(lambda: sandbox.files.read("/no/such/file"))
await sandbox.delete()
gone = await failure(lambda: rouse.sandboxes.get("${name}"))
return {
    "reused": [again.id == sandbox.id, again.info.get("reused")],
    "events": [[event["type"], event.get("data"), event.get("exitCode")] for event in events],
    "files": files, "same": same, "swapped": swapped, "plan": plan, "rows": rows,
    "remembered": [hit["id"] for hit in hits] == [kept["id"]],
    "states": states, "wrong": wrong["code"], "gone": [gone["code"], gone["class"]],
}`);
    expect(found).toEqual({
      reused: [true, true],
      events: [
        ["start", null, null],
        ["stdout", "one\n", null],
        ["stderr", "two\n", null],
        ["exit", null, 3],
      ],
      files: ["large", "small"],
      same: ["ü", true],
      swapped: [false, null],
      plan: { step: 9 },
      rows: [{ a: "x" }],
      remembered: true,
      states: ["paused", "running"],
      wrong: "file_not_found",
      gone: ["sandbox_gone", "RouseError"],
    });
  });

  test("changes: from where they are asked for, waited for, and a name that is gone", async () => {
    const found = await run(`
name = "${freshName()}"
start = (await rouse.sandboxes.changes())["nextAfter"]
sandbox = await rouse.sandboxes.create(name=name)
async def next_of(after):
    while True:
        answer = await rouse.sandboxes.changes(after=after, wait_seconds=20)
        mine = [one for one in answer["data"] if one["label"] == name]
        if mine:
            return mine[-1]["sandbox"], answer["nextAfter"]
        after = answer["nextAfter"]
made, after = await next_of(start)
await sandbox.delete()
while True:
    gone, after = await next_of(after)
    if gone is None or gone["state"] == "deleted":
        break
wrong = await failure(lambda: rouse.sandboxes.changes(after=-1))
return {"same": made["id"] == sandbox.id, "grew": after > start, "wrong": wrong["code"]}`);
    expect(found).toEqual({ same: true, grew: true, wrong: "invalid_request" });
  });

  test("a terminal and a forwarded port, over a sleep and refusals", async () => {
    const name = freshName();
    const server = createServer({ allowHalfOpen: true }, (socket) => socket.on("error", () => undefined).pipe(socket));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const found = await run(`
sandbox = await rouse.sandboxes.create(name="${name}", idle_pause_seconds=0)
seen = bytearray()
async def read_until(terminal, text):
    async for event in terminal.events():
        seen.extend(event["data"] if event["type"] == "output" else b"")
        if text in seen:
            return
async with await sandbox.terminal.open(command="stty -echo; echo up; exec cat") as terminal:
    await read_until(terminal, b"up\\r\\n")
    await terminal.write("before\\n")
    await read_until(terminal, b"before\\r\\n")
await sandbox.pause()
asleep = (await sandbox.refresh()).state
async with await sandbox.terminal.attach(terminal.id, cursor=terminal.cursor) as again:
    awake = (await sandbox.refresh()).state
    again.resize(60, 20)
    await again.write("after\\n")
    await read_until(again, b"after\\r\\n")
    await again.kill()
    end = await again.wait()
data = os.urandom(3_000_000)
def echoed(at):
    with socket.create_connection(at) as there:
        threading.Thread(target=lambda: (there.sendall(data), there.shutdown(socket.SHUT_WR)), daemon=True).start()
        with there.makefile("rb") as answer:
            return answer.read()
async with await sandbox.forward(${port}, local_port=0) as forward:
    same = await blocking(lambda: echoed((forward.address, forward.local_port))) == data
none = await failure(lambda: sandbox.terminal.attach("p-0-none"))
wrong = AsyncSandbox(AsyncRouse(base_url=url, api_key="rouse_default_aaaaaaaaaaaa_" + "A" * 32)._transport, sandbox.info)
unknown = await failure(lambda: wrong.terminal.attach(terminal.id))
size = await failure(lambda: sandbox.terminal.attach(terminal.id, cols=0, rows=1))
await sandbox.stop()
stopped = await failure(lambda: sandbox.terminal.attach(terminal.id))
await sandbox.delete()
return {
    "states": [asleep, awake], "end": end.exit_code, "same": same, "text": bytes(seen).count(b"before") == 1,
    "refused": [[one["class"], one["code"]] for one in (none, unknown, size, stopped)],
}`);
    expect(found).toEqual({
      ...{ states: ["paused", "running"], end: -1, same: true, text: true },
      refused: [
        ["NotFoundError", "process_not_found"],
        ["AuthenticationError", "unauthorized"],
        ["InvalidRequestError", "invalid_request"],
        ["ConflictError", "sandbox_stopped"],
      ],
    });
    server.close();
  }, 120_000);
});
