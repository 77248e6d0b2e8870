/** Session tokens on the wire: who sends them where, and what follows when one is over. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { NewSession } from "../../sdk/contract/session.ts";
import { AuthenticationError, InvalidRequestError, Rouse, Sandbox } from "../../sdk/src/index.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const ID = `ses-${"0".repeat(20)}`;
const tokenOf = (letter: string) => `rs_default_${letter.repeat(43)}`;
const RESULT = {
  ...{ exitCode: 0, stdout: "hi\n", stderr: "", timedOut: false, durationMs: 3, processId: "p1" },
  ...{ stdoutTruncated: false, stderrTruncated: false },
};

let server: WireServer;
let session: NewSession;
beforeEach(async () => {
  server = await WireServer.start();
  session = {
    ...{ id: ID, sandboxId: "demo~abcdefghijkl", name: null, scopes: ["exec"], origins: ["https://app.example"] },
    ...{ servers: false, state: "active", createdBy: "k1", createdAt: "2031-01-02T03:04:05.000Z", revokedAt: null },
    ...{ expiresAt: "2031-01-02T03:19:05.000Z", lastUsedAt: null, token: tokenOf("A"), apiUrl: server.url },
    url: "http://demo.localhost:8787/",
  };
  server.credentials.add(session.token);
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
  server.on(`POST ${SANDBOX}:exec`, (_request, reply) => reply.json(RESULT));
});
afterEach(() => server[Symbol.asyncDispose]());

test("are made, listed and revoked with a key", async () => {
  server.on(`POST ${SANDBOX}/sessions`, (_request, reply) => reply.json(session));
  server.on(`GET ${SANDBOX}/sessions`, (_request, reply) => reply.json({ data: [session] }));
  server.on(`POST ${SANDBOX}/sessions/${ID}:revoke`, (_request, reply) => reply.json({ ...session, state: "revoked" }));
  const sandbox = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo~abcdefghijkl");
  const terms = { origins: ["https://app.example"], scopes: ["exec", "terminal"], ttlSeconds: 600, name: "a" } as const;
  expect((await sandbox.sessions.create(terms)).token).toBe(session.token);
  expect(server.of(`POST ${SANDBOX}/sessions`)[0]?.json()).toEqual(terms);
  expect((await sandbox.sessions.list()).map(({ id }) => id)).toEqual([ID]);
  expect((await sandbox.sessions.revoke(ID)).state).toBe("revoked");
});

test("let a program without a key use their sandbox, of which nothing is known before it asks", async () => {
  const sandbox = Sandbox.fromSession(session);
  expect(server.requests).toHaveLength(0);
  expect([sandbox.id, sandbox.url(3000)]).toEqual(["demo~abcdefghijkl", "http://3000-demo.localhost:8787/"]);
  for (const look of [() => sandbox.info, () => sandbox.state, () => sandbox.name, () => sandbox.volumes])
    expect(look).toThrow(InvalidRequestError);
  expect((await sandbox.exec("echo hi")).stdout).toBe("hi\n");
  expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${session.token}`);
  expect((await sandbox.refresh()).state).toBe("running");
  const { url: _url, ...bare } = session;
  expect(() => Sandbox.fromSession(bare).url()).toThrow(InvalidRequestError);
  expect(() => Sandbox.fromSession({ ...session, apiUrl: "http://example.com" })).toThrow(InvalidRequestError);
  expect(() => Sandbox.fromSession({ ...session, sandboxId: "" })).toThrow(InvalidRequestError);
});

test("reach programs by a header of their own, so that the caller's authorization is the program's", async () => {
  server.onOpen("GET /s/demo/8080/page", (_request, reply) => reply.raw("seen"));
  const { url: _url, ...bare } = session;
  for (const sandbox of [Sandbox.fromSession(session), Sandbox.fromSession(bare)]) {
    const answer = await sandbox.fetch("/page", { headers: { authorization: "Basic mine" } });
    expect(await answer.text()).toBe("seen");
  }
  for (const { headers } of server.of("GET /s/demo/8080/page"))
    expect(headers).toMatchObject({ authorization: "Basic mine", "x-rouse-token": session.token });
  // What the address is, was read once, where it was not known.
  expect(server.of(`GET ${SANDBOX}`)).toHaveLength(1);
});

test("that are over are followed by the next one that is given, for all calls at once", async () => {
  const given = [tokenOf("X"), session.token];
  let asked = 0;
  const token = async () => given[asked++] ?? "none";
  const sandbox = Sandbox.fromSession({ ...session, token });
  const all = await Promise.all([1, 2, 3].map(() => sandbox.exec("echo hi")));
  expect(all.map(({ stdout }) => stdout)).toEqual(["hi\n", "hi\n", "hi\n"]);
  expect(asked).toBe(2);
  // A change that is sent again with another token is the same change.
  const keys = server.of(`POST ${SANDBOX}:exec`).map(({ headers }) => headers["idempotency-key"]);
  expect(new Set(keys).size).toBe(3);
  server.credentials.delete(session.token);
  await expect(sandbox.exec("echo hi")).rejects.toBeInstanceOf(AuthenticationError);
  // Nothing is asked for without end.
  expect(asked).toBe(3);
});

test("for a program on a port are followed, too, but not for what the program itself refuses", async () => {
  const given = [tokenOf("X"), session.token];
  let asked = 0;
  const sandbox = Sandbox.fromSession({ ...session, token: () => given[asked++] ?? "none" });
  server.onOpen("GET /s/demo/8080/page", (request, reply) =>
    request.headers["x-rouse-token"] === session.token ? reply.raw("seen") : reply.error("unauthorized"),
  );
  expect(await (await sandbox.fetch("/page")).text()).toBe("seen");
  server.onOpen("GET /s/demo/8080/own", (_request, reply) => reply.json({ error: "log in" }, 401));
  expect((await sandbox.fetch("/own")).status).toBe(401);
  expect([asked, server.of("GET /s/demo/8080/own").length]).toEqual([2, 1]);
});

test("that nobody gives end the call with what went wrong", async () => {
  const token = () => Promise.reject(new Error("you are signed out"));
  const sandbox = Sandbox.fromSession({ ...session, token });
  await expect(sandbox.exec("echo hi")).rejects.toThrow("you are signed out");
  const single = Sandbox.fromSession({ ...session, token: tokenOf("X") });
  await expect(single.exec("echo hi")).rejects.toMatchObject({ code: "unauthorized", status: 401 });
  expect(server.of(`POST ${SANDBOX}:exec`)).toHaveLength(1);
});
