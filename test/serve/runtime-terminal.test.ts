/** Runtime's client, pointed here: a terminal, frame by frame. Its client looks at one again by the process's id. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { startAgent, type Agent } from "../guest/agent.ts";
import { created, fault, stage } from "./runtimes.ts";

let agent: Agent;
let path: string;
const on = stage(async () => {
  agent = await startAgent();
  return agent.port;
});
beforeAll(async () => {
  path = on.runtime.path((await created(on)).id);
});
afterAll(() => agent.stop());

it("says ready, takes bytes and sizes, is looked at again, and says its exit", async () => {
  const query = { cols: 100, rows: 30, command: "echo size $(stty size); exec bash --norc", cwd: "/tmp" };
  const first = await on.runtime.socket(`${path}/terminal`, query);
  const ready = await first.next();
  expect(ready).toMatchObject({ type: "ready", processId: expect.any(String) });
  await first.until("size 30 100");
  first.send({ type: "resize", cols: 120, rows: 40 });
  first.send(Buffer.from("echo now $(stty size)\n"));
  await first.until("now 40 120");
  expect(await first.close()).toBe(1000);
  const { processId } = ready as { processId: string };
  const second = await on.runtime.socket(`${path}/terminal`, { processId });
  expect(await second.next()).toMatchObject({ type: "ready", processId });
  second.send(Buffer.from("echo again; exit 7\n"));
  await second.until("again");
  for (let frame = await second.next(); ; frame = await second.next()) {
    if (Buffer.isBuffer(frame)) continue;
    expect(frame).toMatchObject({ type: "exit", exitCode: 7 });
    break;
  }
  expect(await second.closed).toBe(1000);
});

it("outlives a sleep: its socket is closed without an exit, and a look at it wakes", async () => {
  const first = await on.runtime.socket(`${path}/terminal`, { command: "exec bash --norc" });
  const { processId } = (await first.next()) as { processId: string };
  first.send(Buffer.from("mark=kept\n"));
  await first.until("mark=kept");
  await on.runtime.call("POST", `${path}:pause`, { json: {}, wait: 60 });
  for (let frame = await first.next(); frame !== null; frame = await first.next()) expect(frame).toBeInstanceOf(Buffer);
  expect(await first.closed).not.toBe(1000);
  const second = await on.runtime.socket(`${path}/terminal`, { processId });
  expect(await second.next()).toMatchObject({ type: "ready", processId });
  second.send(Buffer.from("echo it is $mark\n"));
  await second.until("it is kept");
  expect(await on.runtime.call("GET", path)).toMatchObject({ state: "running" });
  second.send(Buffer.from("exit\n"));
  await second.closed;
});

it("refuses what is none, by a frame or before", async () => {
  const none = await on.runtime.socket(`${path}/terminal`, { processId: "none" });
  expect(await none.next()).toMatchObject({
    type: "error",
    error: { code: "process_not_found", message: expect.any(String) },
  });
  expect(await none.next()).toBeNull();
  const wrong = on.runtime.socket(`${path}/terminal`, { cols: 0 });
  expect(await fault(wrong)).toMatchObject({ status: 400, code: "invalid_request" });
});

it("a process may have one, and is resized by a call", async () => {
  const json = { command: "sleep 60", pty: { cols: 90, rows: 20 } };
  const process = await on.runtime.call("POST", `${path}/processes`, { json });
  expect(process).toMatchObject({ pty: true, state: "running" });
  const of = `${path}/processes/${String(process["id"])}`;
  await on.runtime.call("POST", `${of}:resize`, { json: { cols: 10, rows: 5 } });
  await on.runtime.call("POST", `${of}:signal`, { json: { signal: "SIGKILL" } });
});
