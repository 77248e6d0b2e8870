import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { z } from "zod";
import { Context, Execution, GuestFacts, RunEvent } from "../../sdk/contract/guest.ts";
import { KERNEL_PYTHON, NO_KERNEL } from "../support/kernel-python.ts";
import { codeOf, isAlive, lines, startAgent, type Agent } from "./agent.ts";

let agent: Agent;
beforeAll(async () => {
  agent = await startAgent("--python", KERNEL_PYTHON);
});
afterAll(async () => {
  await agent.stop();
});
beforeEach((context) => {
  if (NO_KERNEL !== null) context.skip(NO_KERNEL);
});

type Body = Record<string, unknown>;

const post = (body: Body, key?: string) =>
  agent.call("POST", "/interpreter:run", { body, ...(key === undefined ? {} : { key }) });
async function run(code: string, more: Body = {}): Promise<z.infer<typeof Execution>> {
  return Execution.parse((await post({ code, ...more })).body);
}
async function stream(body: Body): Promise<z.infer<typeof RunEvent>[]> {
  const all: z.infer<typeof RunEvent>[] = [];
  const answer = await agent.answer("POST", "/interpreter:run", { body: { ...body, stream: true } });
  for await (const line of lines(answer)) all.push(RunEvent.parse(line));
  return all;
}
const contexts = async () => Context.array().parse((await agent.call("GET", "/interpreter/contexts")).body["data"]);
const facts = async () => GuestFacts.parse((await agent.call("GET", "/facts")).body);
const create = async (body: Body) => Context.parse((await agent.call("POST", "/interpreter/contexts", { body })).body);
const mainText = ({ results }: z.infer<typeof Execution>) => results.find(({ main }) => main)?.data["text/plain"];
const busy = (id = "python") =>
  expect.poll(async () => (await contexts()).find((one) => one.id === id)?.state, { timeout: 60_000 }).toBe("busy");

test("the first run starts the context; variables stay", async () => {
  const first = await run("x = 41\nprint('hello')");
  expect(first).toMatchObject({
    contextId: "python",
    language: "python",
    status: "ok",
    stdout: "hello\n",
    stderr: "",
    results: [],
    error: null,
    contextStarted: true,
    lostBytes: 0,
    overflow: [],
  });
  const second = await run("x + 1");
  expect(second).toMatchObject({ status: "ok", contextStarted: false });
  expect(mainText(second)).toBe("42");
  expect(second.executionCount).toBe((first.executionCount ?? 0) + 1);
}, 90_000);

test("stdout and stderr are apart, and characters whole", async () => {
  const result = await run("import sys\nprint('ä😀', end='')\nprint('oops', file=sys.stderr)");
  expect([result.stdout, result.stderr]).toEqual(["ä😀", "oops\n"]);
});

test("code runs in the home folder with the sandbox's environment", async () => {
  const result = await run("import os\nprint(os.getcwd(), os.environ['HOME'])");
  expect(result.stdout).toBe(`${agent.home} ${agent.home}\n`);
});

test("a plot is an image", async () => {
  const { status, results } = await run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()");
  expect(status).toBe("ok");
  const png = results.flatMap(({ data }) => (typeof data["image/png"] === "string" ? [data["image/png"]] : []));
  expect(png).toHaveLength(1);
  expect(
    Buffer.from(png[0] ?? "", "base64")
      .subarray(1, 4)
      .toString(),
  ).toBe("PNG");
}, 60_000);

test("a table is given as text and as HTML", async () => {
  const result = await run("import pandas\npandas.DataFrame({'a': [1, 2]})");
  expect(result.results.at(-1)?.data["text/html"]).toContain("<table");
  expect(mainText(result)).toContain("a");
});

test("an error has name, value and a traceback without colours, and what came before it", async () => {
  const result = await run("print('before')\ndef f():\n  return 1 / 0\nf()");
  expect(result).toMatchObject({ status: "error", stdout: "before\n", error: { name: "ZeroDivisionError" } });
  expect(result.error?.value).toBe("division by zero");
  expect(result.error?.traceback).toContain("return 1 / 0");
  expect(result.error?.traceback).not.toContain("\u001b");
  expect((await run("def")).error?.name).toBe("SyntaxError");
});

test("no name of ours is in the user's namespace", async () => {
  const result = await run("[n for n in ('np', 'numpy', 'pd', 'sys_', 'r', 'm') if n in dir()]", { context: "python" });
  expect(mainText(result)).toBe("[]");
});

test("a run beyond its time is interrupted, and the context goes on", async () => {
  await run("kept = 7");
  const late = await run("import time\nprint('started', flush=True)\ntime.sleep(600)", { timeoutMs: 1000 });
  expect(late).toMatchObject({ status: "timeout", stdout: "started\n" });
  const after = await run("kept");
  expect(after.contextStarted).toBe(false);
  expect(mainText(after)).toBe("7");
});

test("a run whose time is up before its turn never runs, and disturbs nothing", async () => {
  const first = run("import time\nlate_ran = False\ntime.sleep(2)\nlate_ran");
  await busy();
  const late = await run("late_ran = True", { timeoutMs: 200 });
  expect(late).toMatchObject({ status: "timeout", executionCount: null, results: [] });
  expect(late.durationMs).toBeLessThan(1500);
  expect(mainText(await first)).toBe("False");
  expect(mainText(await run("late_ran"))).toBe("False");
});

test("the start of a kernel counts, too", async () => {
  const other = await startAgent("--python", KERNEL_PYTHON);
  try {
    const go = async (body: object) => Execution.parse((await other.call("POST", "/interpreter:run", { body })).body);
    expect(await go({ code: "begun = True", timeoutMs: 1 })).toMatchObject({ status: "timeout", executionCount: null });
    expect(mainText(await go({ code: "'begun' in dir()" }))).toBe("False");
  } finally {
    await other.stop();
  }
});

test("a run can be interrupted by another call", async () => {
  const running = run("import time\ntime.sleep(600)");
  await busy();
  expect((await agent.call("POST", "/interpreter/contexts/python:interrupt", { body: {} })).body).toEqual({
    interrupted: true,
  });
  expect((await running).status).toBe("interrupted");
  expect((await agent.call("POST", "/interpreter/contexts/python:interrupt", { body: {} })).body).toEqual({
    interrupted: false,
  });
});

test("an interrupt is heard whenever it comes, and the context goes on", async () => {
  for (let round = 0; round < 12; round++) {
    const running = run("import time\ntime.sleep(600)");
    // At first it may be too early; the call says so.
    const interrupt = () => agent.call("POST", "/interpreter/contexts/python:interrupt", { body: {} });
    await expect.poll(async () => (await interrupt()).body["interrupted"], { interval: 1 + round }).toBe(true);
    expect((await running).status).toBe("interrupted");
    expect(await run("1 + 1")).toMatchObject({ status: "ok", contextStarted: false });
  }
});

test("a caller that goes interrupts its run when it asked for that", async () => {
  const body = { code: "import time\ntime.sleep(600)", interruptOnDisconnect: true, stream: true };
  const answer = await agent.answer("POST", "/interpreter:run", { body });
  await lines(answer).next();
  answer.destroy();
  expect(await run("'next'")).toMatchObject({ status: "ok" });
});

test("two runs at once are queued", async () => {
  const [one, two] = await Promise.all([
    run("import time\ntime.sleep(0.3)\norder = ['one']"),
    run("order.append('two')"),
  ]);
  expect([one.status, two.status]).toEqual(["ok", "ok"]);
  expect(mainText(await run("order"))).toBe("['one', 'two']");
});

test("facts count runs under way", async () => {
  const running = run("input_ = 0\nwhile not input_:\n  import os; input_ = os.path.exists('stop')");
  await busy();
  expect((await facts()).runs).toBe(1);
  await agent.exec("touch stop");
  await running;
  expect((await facts()).runs).toBe(0);
});

test("a kernel that dies loses the run; the next one starts anew", async () => {
  await run("gone = 1");
  const lost = await run("import os\nprint('last', flush=True)\nos._exit(1)");
  expect(lost).toMatchObject({ status: "lost", contextStarted: false });
  const next = await run("'gone' in dir()");
  expect(next).toMatchObject({ status: "ok", contextStarted: true });
  expect(mainText(next)).toBe("False");
}, 60_000);

test("a streamed run gives events as they come and ends with the execution", async () => {
  const all = await stream({ code: "print('a')\nprint('b')\n6 * 7" });
  expect(all[0]?.k).toBe("start");
  const text = all.flatMap((event) => (event.k === "stdout" ? [event.text] : [])).join("");
  expect(text).toBe("a\nb\n");
  expect(all.filter(({ k }) => k === "result")).toMatchObject([{ main: true, data: { "text/plain": "42" } }]);
  expect(all.at(-2)?.k).toBe("end");
  expect(all.at(-1)).toMatchObject({ k: "execution", execution: { status: "ok", stdout: "a\nb\n" } });
});

test("a streamed run of an unknown context is told", async () => {
  const answer = await post({ code: "1", context: "none" });
  expect([answer.status, codeOf(answer)]).toEqual([404, "context_not_found"]);
});

test("a repeated key runs once; another body is refused", async () => {
  await run("counter = 0");
  const body = { code: "counter += 1\ncounter" };
  const answers = await Promise.all([post(body, "count"), post(body, "count")]);
  const again = await post(body, "count");
  for (const answer of [...answers, again]) expect(mainText(Execution.parse(answer.body))).toBe("1");
  expect(again.body["replayed"]).toBe(true);
  expect(codeOf(await post({ code: "counter" }, "count"))).toBe("idempotency_key_reused");
});

test("output beyond the limit keeps its beginning and tells what was dropped", async () => {
  const result = await run("for i in range(300): print('x' * 9999)");
  expect(result.stdout.length).toBe(1_048_576);
  expect(result.overflow).toEqual([{ stream: "stdout", path: null, bytes: 3_000_000, dropped: 3_000_000 - 1_048_576 }]);
});

test("what the code prints by the back door does not disturb the answer", async () => {
  const result = await run("import os\nos.system('echo {}; echo not json >&2')\nos.write(1, b'raw\\n')\n'fine'");
  expect(result.status).toBe("ok");
  expect(mainText(result)).toBe("'fine'");
});

test("configured variables reach a context that runs already", async () => {
  await agent.call("PUT", "/configure", { body: { env: { LATER: "yes" } } });
  expect(mainText(await run("import os\nos.environ.get('LATER')"))).toBe("'yes'");
  await agent.call("PUT", "/configure", { body: { env: {} } });
  expect(mainText(await run("os.environ.get('LATER', 'none')"))).toBe("'none'");
});

test("contexts are made, apart from each other, restarted and deleted", async () => {
  await agent.exec("mkdir -p sub");
  const made = await create({ id: "second", cwd: "sub", env: { MINE: "1" } });
  expect(made).toMatchObject({ id: "second", language: "python", state: "idle", cwd: `${agent.home}/sub` });
  expect((await contexts()).map(({ id }) => id).toSorted()).toEqual(["python", "second"]);
  const inside = await run("import os\nonly = 1\nos.getcwd(), os.environ['MINE']", { context: "second" });
  expect(mainText(inside)).toBe(`('${agent.home}/sub', '1')`);
  expect(mainText(await run("'only' in dir()"))).toBe("False");
  expect(codeOf(await agent.call("POST", "/interpreter/contexts", { body: { id: "second" } }))).toBe("conflict");

  const restarted = await agent.call("POST", "/interpreter/contexts/second:restart", { body: {} });
  expect(Context.parse(restarted.body)).toMatchObject({ id: "second", state: "idle" });
  expect(mainText(await run("'only' in dir()", { context: "second" }))).toBe("False");

  const pid = Number((await run("import os\nprint(os.getpid())", { context: "second" })).stdout);
  expect((await agent.call("DELETE", "/interpreter/contexts/second")).body).toEqual({ deleted: true });
  await expect.poll(() => isAlive(pid)).toBe(false);
  expect((await agent.call("DELETE", "/interpreter/contexts/second")).body).toEqual({ deleted: false });
  expect(codeOf(await post({ code: "1", context: "second" }))).toBe("context_not_found");
}, 90_000);

test("a restart ends the run that is under way", async () => {
  await create({ id: "third" });
  const running = run("import time\ntime.sleep(600)", { context: "third" });
  await busy("third");
  await agent.call("POST", "/interpreter/contexts/third:restart", { body: {} });
  expect((await running).status).toBe("lost");
  expect((await run("1", { context: "third" })).status).toBe("ok");
  await agent.call("DELETE", "/interpreter/contexts/third");
}, 90_000);

test("a body that is not valid is refused", async () => {
  for (const body of [
    {},
    { code: 5 },
    { code: "1", timeoutMs: -1 },
    { code: "1", language: "ruby" },
    { code: "1", stream: 1 },
  ]) {
    expect(codeOf(await post(body))).toBe("invalid_request");
  }
  for (const body of [{ id: "Bad Id" }, { env: { A: 1 } }, { language: "ruby" }]) {
    expect(codeOf(await agent.call("POST", "/interpreter/contexts", { body }))).toBe("invalid_request");
  }
  expect(codeOf(await agent.call("POST", "/interpreter/contexts/none:restart", { body: {} }))).toBe(
    "context_not_found",
  );
});

test("an idle kernel has nothing that ticks", async () => {
  const pid = Number((await run("import os\nprint(os.getpid())")).stdout);
  const switches = async () => {
    const status = await agent.exec(`cat /proc/${pid}/task/*/status`);
    return [...status.stdout.matchAll(/^voluntary_ctxt_switches:\s+(\d+)/gm)].reduce(
      (sum, one) => sum + Number(one[1]),
      0,
    );
  };
  const second = () => new Promise((resolve) => setTimeout(resolve, 1000));
  await second();
  const before = await switches();
  await second();
  await second();
  expect((await switches()) - before).toBeLessThanOrEqual(2);
});

test("the agent told no fault meanwhile", () => {
  expect(agent.errors).toBe("");
});

test("a python that has no kernel is told, and does no harm", async () => {
  const other = await startAgent("--python", "/bin/false");
  try {
    const answer = await other.call("POST", "/interpreter:run", { body: { code: "1" }, key: "k" });
    expect([answer.status, codeOf(answer)]).toEqual([502, "interpreter_failed"]);
    expect((await other.exec("echo on")).stdout).toBe("on\n");
    expect(other.errors).toBe("");
  } finally {
    await other.stop();
  }
});

test("a preloaded interpreter is told by facts once its libraries are loaded", async () => {
  const ready = await startAgent("--python", KERNEL_PYTHON, "--preload-interpreter");
  try {
    await expect
      .poll(async () => GuestFacts.parse((await ready.call("GET", "/facts")).body).interpreterReady, {
        timeout: 80_000,
        interval: 250,
      })
      .toBe(true);
    const body = { code: "import sys\n'pandas' in sys.modules, 'pandas' in dir()" };
    const first = Execution.parse((await ready.call("POST", "/interpreter:run", { body })).body);
    expect(first).toMatchObject({ contextStarted: false, executionCount: 1 });
    expect(mainText(first)).toBe("(True, False)");
    // A warm-up counts as no execution, and leaves no name and no result.
    expect((await ready.call("POST", "/warm-up", { body: {} })).status).toBe(200);
    const seen = {
      code: "[n for n in dir() if n[0] != '_' and n not in ('In', 'Out', 'exit', 'quit', 'open', 'get_ipython', 'sys')], len(Out)",
    };
    const second = Execution.parse((await ready.call("POST", "/interpreter:run", { body: seen })).body);
    expect(second.executionCount).toBe(2);
    expect(mainText(second)).toBe("([], 1)");
  } finally {
    await ready.stop();
  }
}, 90_000);
