/** Tools of the edge's MCP server that reach into a machine, with the real guest agent. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { tools } from "../../worker/tools/index.ts";
import { Api } from "../../worker/tools/tool.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { startAgent, type Agent } from "./agent.ts";

let agent: Agent;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(() => agent.stop());

/** Calls of the API, as the edge passes them on. */
const api = new Api(async (method, path, { headers, body }) => {
  const rest = path.replace(/^\/v1\/sandboxes\/box/, "").replace(/^:exec/, "/exec");
  const bytes = body === null ? {} : { bytes: Buffer.from(body) };
  const answer = await agent.call(method, rest, { ...bytes, headers: Object.fromEntries(headers) });
  return new Response(new Uint8Array(answer.bytes), { status: answer.status });
});

async function use(name: string, input: object): Promise<Record<string, unknown>> {
  const tool = tools.find((one) => one.name === name);
  if (!tool) throw new Error(`there is no tool ${name}`);
  return (await tool.run(api, parseOrFail(tool.input, { sandbox: "box", ...input }))).structured;
}

describe("exec", () => {
  it("answers what a command wrote and how it ended", async () => {
    expect(await use("exec", { command: "echo out; echo err >&2; exit 3" })).toMatchObject({
      ...{ state: "exited", exitCode: 3, stdout: "out\n", stderr: "err\n", complete: true, lostBytes: 0 },
    });
    expect(await use("exec", { argv: ["cat"], stdin: "given" })).toMatchObject({ stdout: "given" });
    expect(await use("exec", { command: "sleep 60", timeoutSeconds: 0.1 })).toMatchObject({ state: "timed_out" });
  });

  it("goes on with a long one, however much it writes", async () => {
    const first = await use("exec", {
      command: "seq 1 2000; read line; echo got $line",
      keepStdinOpen: true,
      maxOutputBytes: 1000,
    });
    expect(first).toMatchObject({ state: "running", complete: false, nextCursor: 1000 });
    const { processId } = first;
    const rest = await use("process_output", { processId, cursor: 1000, waitSeconds: 0.5 });
    expect(`${String(first["stdout"])}${String(rest["stdout"])}`.trim().split("\n")).toHaveLength(2000);
    expect(rest).toMatchObject({ state: "running", complete: false });
    expect(await use("process_write", { processId, text: "this\n" })).toEqual({ writtenBytes: 5 });
    const { nextCursor: cursor } = rest;
    expect(await use("process_output", { processId, cursor })).toMatchObject({ stdout: "got this\n", complete: true });
  });

  it("begins what runs on, lists it and ends it", async () => {
    const { processId } = await use("exec", { command: "exec sleep 300", waitSeconds: 0 });
    expect(await use("process_list", {})).toMatchObject({
      processes: expect.arrayContaining([expect.objectContaining({ id: processId, state: "running" })]) as object,
    });
    await use("process_signal", { processId, signal: "SIGTERM" });
    expect(await use("process_output", { processId })).toMatchObject({ complete: true, exitCode: -15 });
  });
});

describe("files", () => {
  it("are written, listed, read in parts and removed", async () => {
    const path = `${agent.home}/notes/a.txt`;
    const text = "naïve café\n".repeat(100);
    expect(await use("file_write", { path, text })).toMatchObject({ path });
    expect(await use("file_list", { path: `${agent.home}/notes` })).toMatchObject({
      entries: [{ path, type: "file" }],
    });
    let [read, offset] = ["", 0];
    for (let turn = 0; turn < 100; turn += 1) {
      // 100 falls into the middle of characters.
      const one = await use("file_read", { path, offset, maxBytes: 100 });
      read += String(one["text"]);
      if (one["nextOffset"] === null) break;
      offset = Number(one["nextOffset"]);
    }
    expect(read).toBe(text);
    await use("file_write", { path, base64: "/wD/" });
    expect(await use("file_read", { path })).toMatchObject({ base64: "/wD/", bytes: 3, nextOffset: null });
    expect(await use("file_remove", { path })).toEqual({ removed: true });
    await expect(use("file_read", { path })).rejects.toMatchObject({ code: "file_not_found" });
  });
});
