/** Terminals, tunnels and file watches on their way through the edge: who gets in, what wakes, and what reaches the host. */
import { beforeEach, describe, expect, it } from "vitest";
import { hostHeaders } from "../../sdk/contract/host.ts";
import {
  API,
  ask,
  call,
  created,
  edge,
  eventually,
  fake,
  faultOf,
  freshName,
  heartbeat,
  paused,
  secrets,
} from "./client.ts";

const key = { authorization: `Bearer ${secrets.apiKey}` };
const upgrade = { upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": btoa("0123456789abcdef") };
const open = (label: string, query = "", headers: Record<string, string> = { ...key, ...upgrade }) =>
  edge(`${API}/v1/sandboxes/${label}/terminal${query}`, { headers });

function accept(response: Response) {
  const socket = response.webSocket;
  if (!socket) throw new Error(`no socket: ${response.status}`);
  socket.binaryType = "arraybuffer";
  const messages: unknown[] = [];
  const closed = new Promise<number>((resolve) => socket.addEventListener("close", ({ code }) => resolve(code)));
  socket.addEventListener("message", ({ data }) => {
    messages.push(typeof data === "string" ? data : [...new Uint8Array(data as ArrayBuffer)]);
  });
  socket.accept();
  return { socket, messages, closed };
}

beforeEach(async () => {
  await heartbeat();
});

describe("a terminal's socket", () => {
  it("wakes a sleeper and reaches its guest agent, which is told what was asked and nothing of the key", async () => {
    const { name, id } = await paused();
    const query = "?cols=120&rows=40&processId=p-1-abc&cursor=77&client=c-1";
    const response = await open(name, query);
    expect(response.status).toBe(101);
    expect(response.headers.get("x-rouse-state")).toBe("woken");
    const { socket, messages, closed } = accept(response);
    socket.send(new Uint8Array([27, 255, 0]));
    socket.send('{"type":"resize","cols":1,"rows":2}');
    await eventually(
      async () => messages.length,
      (count) => count === 2,
    );
    expect(messages).toEqual([[27, 255, 0], '{"type":"resize","cols":1,"rows":2}']);
    const [seen] = await fake.sockets(name);
    expect(seen).toMatchObject({ target: "agent", path: `/terminal${query}` });
    // Only what is said counts as use.
    expect(seen?.headers).toMatchObject({ [hostHeaders.byMessage]: "1" });
    expect(seen?.headers["authorization"]).toBeUndefined();
    await fake.orders(name, { close: { code: 4001, reason: "the machine rests" } });
    expect(await closed).toBe(4001);
    expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("running");
  });

  it("lets a client come back to the same terminal after another sleep", async () => {
    const { name, id } = await created();
    const first = accept(await open(name, "?processId=p-1-a"));
    await ask("POST", `/v1/sandboxes/${id}:pause`, {});
    expect([1006, 4001]).toContain(await first.closed);
    const again = await open(id, "?processId=p-1-a&cursor=5");
    expect([again.status, again.headers.get("x-rouse-state")]).toEqual([101, "woken"]);
    accept(again).socket.close(1000);
    const paths = (await fake.sockets(name)).map(({ path }) => path);
    expect(paths).toEqual(["/terminal?processId=p-1-a", "/terminal?processId=p-1-a&cursor=5"]);
  });
});

describe("a tunnel", () => {
  it("wakes a sleeper, and counts as use while it is open", async () => {
    const { name } = await paused();
    const response = await edge(`${API}/v1/sandboxes/${name}/tunnel`, { headers: { ...key, ...upgrade } });
    expect([response.status, response.headers.get("x-rouse-state")]).toEqual([101, "woken"]);
    const { socket, messages } = accept(response);
    socket.send(new Uint8Array([0x6f, 0, 0, 0, 1]));
    await eventually(
      async () => messages.length,
      (count) => count === 1,
    );
    expect(messages).toEqual([[0x6f, 0, 0, 0, 1]]);
    const [seen] = await fake.sockets(name);
    // Between host and guest agent, a tunnel is the way out.
    expect(seen).toMatchObject({ target: "agent", path: "/forward" });
    expect(seen?.headers[hostHeaders.byMessage]).toBeUndefined();
    socket.close(1000);
  });
});

describe("a file watch", () => {
  const watches = (label: string) => `/v1/sandboxes/${label}/files/watches`;

  it("is read without waking its sandbox, which says so, and to go on from the same place", async () => {
    const { name, id } = await paused();
    const page = await ask<object>("GET", `${watches(name)}/w-1/events?cursor=12&waitMs=10`);
    const notice = { k: "paused", cursor: 12 };
    expect(page).toEqual({
      status: 200,
      body: { events: [], notices: [notice], nextCursor: 12, lostBytes: 0, ended: false },
    });
    const stream = await call("GET", `${watches(name)}/w-1/events?cursor=12&follow=true`);
    expect(stream.headers.get("content-type")).toBe("application/x-ndjson");
    expect(await stream.text()).toBe(`${JSON.stringify(notice)}\n`);
    expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
    expect((await fake.state(name)).requests).toBe(0);
  });

  it("of a sandbox that is stopped is over, and does not look like one that sleeps", async () => {
    const { name } = await created();
    await ask("POST", `/v1/sandboxes/${name}:stop`, {});
    for (const query of ["?cursor=0", "?cursor=0&follow=true"]) {
      const response = await call("GET", `${watches(name)}/w-1/events${query}`);
      expect([response.status, (await faultOf(response)).code]).toEqual([409, "sandbox_stopped"]);
    }
  });

  it("does not keep a machine awake by being read; beginning and ending one wakes it", async () => {
    const { name } = await created();
    const read = await ask<{ path: string; headers: Record<string, string> }>(
      "GET",
      `${watches(name)}/w-1/events?cursor=0`,
    );
    expect(read.body.path).toBe("/files/watches/w-1/events?cursor=0");
    expect(read.body.headers[hostHeaders.noKeep]).toBe("1");
    await ask("POST", `/v1/sandboxes/${name}:pause`, {});
    expect((await call("POST", watches(name), { path: "src", recursive: true })).status).toBe(200);
    expect((await ask("GET", `/v1/sandboxes/${name}`)).body.state).toBe("running");
  });

  it.each([
    ["an event that is none", { path: "src", events: ["born"] }],
    ["no path", {}],
    ["a path upwards", { path: "../x" }],
    ["more than is there", { path: "src", webhook: "https://x.test" }],
  ])("never wakes for %s", async (_, body) => {
    const { name, id } = await paused();
    const response = await call("POST", watches(name), body);
    expect([response.status, (await faultOf(response)).code]).toEqual([400, "invalid_request"]);
    expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  });
});

describe("never wakes", () => {
  it.each<[string, (label: string) => Promise<Response>, number, string]>([
    ["no key", (label) => open(label, "", upgrade), 401, "unauthorized"],
    ["no upgrade", (label) => open(label, "", key), 400, "invalid_request"],
    [
      "a wrong upgrade",
      (label) => open(label, "", { ...key, ...upgrade, "sec-websocket-version": "8" }),
      400,
      "invalid_request",
    ],
    ["a wrong size", (label) => open(label, "?cols=0&rows=2001"), 400, "invalid_request"],
    ["a field that is none", (label) => open(label, "?colums=80"), 400, "invalid_request"],
    ["a path upwards", (label) => open(label, "?cwd=../etc"), 400, "invalid_request"],
    [
      "a process without a size",
      (label) => call("POST", `/v1/sandboxes/${label}/processes/p-1:resize`, { cols: 5 }),
      400,
      "invalid_request",
    ],
    [
      "a size of a process that is none",
      (label) => call("POST", `/v1/sandboxes/${label}/processes`, { command: "true", pty: { cols: -1 } }),
      400,
      "invalid_request",
    ],
    ["another method", (label) => call("POST", `/v1/sandboxes/${label}/terminal`, {}), 405, "method_not_allowed"],
  ])("%s", async (_, attempt, status, code) => {
    const { name, id } = await paused();
    const response = await attempt(name);
    expect([response.status, (await faultOf(response)).code]).toEqual([status, code]);
    expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
    expect(await fake.sockets(name)).toEqual([]);
  });

  it("a key that may only read, or only see others", async () => {
    const { name, id } = await paused();
    const keyOf = async (input: object) =>
      (await ask<{ key: string }>("POST", "/v1/keys", { name: "k", ...input })).body.key;
    const reader = await open(name, "", { ...upgrade, authorization: `Bearer ${await keyOf({ access: "read" })}` });
    expect([reader.status, (await faultOf(reader)).code]).toEqual([403, "permission_denied"]);
    const other = await open(name, "", {
      ...upgrade,
      authorization: `Bearer ${await keyOf({ access: "sandboxes", namePrefix: "other-" })}`,
    });
    expect([other.status, (await faultOf(other)).code]).toEqual([404, "not_found"]);
    expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  });

  it("a sandbox that is not there", async () => {
    const response = await open(freshName());
    expect([response.status, (await faultOf(response)).code]).toEqual([404, "not_found"]);
  });
});
