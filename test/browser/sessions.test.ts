/**
 * The packed SDK in a page of another origin than the API, with a session token: what a page may do it does, and a page
 * that may not is told so.
 */
import { spawnSync } from "node:child_process";
import { copyFile, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type { NewSession } from "../../sdk/contract/session.ts";
import type { Sandbox } from "../../sdk/src/sandbox.ts";
import type { SessionOptions } from "../../sdk/src/sessions.ts";
import { cleanProject } from "../sdk/clean-project.ts";
import { freshName, noBrowser, World } from "./browser.ts";

const ALL = ["exec", "files", "interpreter", "terminal", "http"] as const;
/** Of the program in the sandbox, whose machine is a process here: a port that nothing else has. */
const PORT = 18_231;

/** The machine is a process here, and has what this machine has. */
const hasKernel = () => spawnSync("python3", ["-c", "import zmq, ipykernel"]).status === 0;

describe.skipIf(noBrowser)("a page with a session token", () => {
  let world: World;
  let sandbox: Sandbox;
  let folder: string;
  let server: Server;
  /** The page's own server, and the same one under a name that is another origin. */
  let app: string;
  let other: string;
  let page: Page;
  const complaints: string[] = [];

  beforeAll(async () => {
    folder = await cleanProject();
    const entry = join(folder, "app/page.mjs");
    await copyFile(join(import.meta.dirname, "session-page.mjs"), entry);
    const { outputFiles } = await build({
      ...{ entryPoints: [entry], bundle: true, write: false, format: "esm", platform: "browser", target: "chrome120" },
      // Only programs with a file system get to them.
      external: ["node:*"],
    });
    const script = outputFiles[0]?.contents ?? new Uint8Array();
    server = createServer((request, response) => {
      const isScript = request.url === "/page.js";
      response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
      response.end(
        isScript ? script : '<!doctype html><title>app</title><script type="module" src="/page.js"></script>',
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    app = `http://127.0.0.1:${port}`;
    other = `http://localhost:${port}`;
    world = await World.begin(inject("url"), inject("apiKey"));
    sandbox = await world.made({ labels: { customer: "c-7" } });
    page = await opened(app);
  }, 600_000);
  afterAll(async () => {
    await world.end();
    server.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function opened(origin: string): Promise<Page> {
    const look = await world.look();
    look.page.on("console", (message) => {
      if (message.type() === "error") complaints.push(message.text());
    });
    await look.page.goto(origin);
    await look.page.waitForFunction("globalThis.steps !== undefined");
    return look.page;
  }

  const begin = (options: SessionOptions = {}, of = sandbox): Promise<NewSession> =>
    of.sessions.create({ origins: [app], scopes: [...ALL], ...options });

  const step = (name: string, session: NewSession, args: readonly unknown[] = [], on = page): Promise<unknown> =>
    on.evaluate(
      ([called, ...given]) => {
        const { steps } = globalThis as unknown as { steps: Record<string, (...all: unknown[]) => unknown> };
        return steps[called as string]?.(...given);
      },
      [name, session, ...args] as unknown[],
    );

  it("is on another origin than the API", () => {
    expect(new URL(app).origin).not.toBe(new URL(inject("url")).origin);
    expect(page.url()).toBe(`${app}/`);
  });

  it("runs commands", async () => {
    expect(await step("commands", await begin())).toEqual({
      ...{ stdout: "typed\nhello\n/workspace\n", stderr: "oops\n", exitCode: 3, list: "a b\n" },
      checked: ["CommandError", "command_failed"],
    });
  });

  it("follows a command while it runs, and ends it", async () => {
    const session = await begin();
    expect(await step("stream", session)).toEqual({
      ...{ stdout: "line 1\nline 2\nline 3\n", stderr: "end\n", exit: 5, spread: true },
    });
    expect(await step("cancelled", session)).toBe("cancelled");
  });

  it("starts processes, writes to them, and kills them", async () => {
    expect(await step("processes", await begin())).toEqual({
      ...{ exitCode: 0, stdout: "got input\n", listed: true, killed: -15 },
    });
  });

  it("reads and writes files, small and large, and has their errors", async () => {
    const path = `/workspace/page-${freshName()}`;
    expect(await step("files", await begin(), [path])).toEqual({
      ...{ text: "größer\n", bytes: [0, 255, 10], large: [3_000_000, true], mode: "0640", gone: false, removed: true },
      names: ["bytes", "large", "renamed.txt"],
      missing: expect.objectContaining({ typed: true, name: "NotFoundError", code: "file_not_found", status: 404 }),
    });
  });

  it("watches files", async () => {
    const path = `/workspace/page-${freshName()}`;
    expect(await step("watch", await begin(), [path])).toContain("a.txt");
  });

  it("runs code, where the machine has a kernel for it", async () => {
    expect(await step("code", await begin())).toEqual(
      hasKernel()
        ? { contexts: [], printed: "computed\n", result: "42", error: "ZeroDivisionError" }
        : { contexts: [], refused: ["ServiceUnavailableError", "interpreter_failed"] },
    );
  });

  it("has a terminal, and finds it again", async () => {
    const session = await begin({ scopes: ["terminal"] });
    expect(await step("terminal", session)).toEqual({ exitCode: 4, size: true, sum: true });
    expect(await step("attached", session)).toBe(true);
  });

  it("reaches a program on a port, and no further", async () => {
    const name = `server-${freshName()}.js`;
    await sandbox.files.write(
      `/workspace/${name}`,
      `require("node:http").createServer(async (request, response) => {
        if (request.url === "/away") return response.writeHead(302, { location: "https://elsewhere.example/" }).end();
        const body = Buffer.concat(await request.toArray()).toString();
        const { url, method, headers } = request;
        response.end(JSON.stringify({ url, method, body, own: headers["x-own"], names: Object.keys(headers) }));
      }).listen(${PORT}, "127.0.0.1");`,
    );
    const program = await sandbox.spawn([process.execPath, name], { cwd: "/workspace" });
    const session = await begin({ scopes: ["http"] });
    const seen = (await step("program", session, [PORT])) as { body: { names: string[] } };
    expect(seen).toMatchObject({
      ...{ status: 200, body: { url: "/hello?a=b", method: "POST", body: "sent", own: "1" } },
      ...{ url: sandbox.url(PORT), redirected: "connection_error" },
    });
    expect(seen.body.names).not.toContain("x-rouse-token");
    expect(seen.body.names).not.toContain("authorization");
    await program.kill();
    await sandbox.files.remove(`/workspace/${name}`);
  });

  it("knows its sandbox's state, and wakes it", async () => {
    expect(await step("state", await begin())).toEqual({
      ...{ before: "invalid_argument", id: sandbox.id, state: "running", labels: {} },
    });
    const sleeper = await world.made();
    await sleeper.pause();
    expect(await step("wakes", await begin({}, sleeper))).toEqual({
      ...{ before: "paused", stdout: "awake\n", after: "running" },
    });
  });

  it("may neither look after the sandbox nor see the account: the browser or the API refuses", async () => {
    const seen = (await step("beyond", await begin())) as Record<string, string>;
    expect(Object.keys(seen)).toHaveLength(11);
    // No preflight is answered for what no session token may do.
    for (const [deed, code] of Object.entries(seen)) expect([deed, code]).toEqual([deed, "connection_error"]);
    expect((await sandbox.refresh()).state).toBe("running");
  });

  it("is told what its scopes lack", async () => {
    const session = await begin({ scopes: ["files:read"] });
    expect(await step("exec", session)).toMatchObject({
      ...{ typed: true, name: "PermissionDeniedError", code: "permission_denied", status: 403 },
      details: { scopes: ["exec"] },
    });
    expect(await step("openTerminal", session)).toMatchObject({ code: "permission_denied" });
  });

  it("of another origin is refused, in words that it can read, and its terminal is, too", async () => {
    const session = await begin();
    const wrong = await opened(other);
    const refused = { typed: true, name: "PermissionDeniedError", code: "origin_not_allowed", status: 403 };
    expect(await step("exec", session, [], wrong)).toMatchObject({ ...refused, details: { origin: other } });
    expect(await step("openTerminal", session, [], wrong)).toMatchObject(refused);
    // Nor does it come in by a token that is for servers.
    const forServers = await begin({ origins: [], servers: true });
    expect(await step("exec", forServers, [], wrong)).toMatchObject(refused);
    // The same token, the same browser: it is the page.
    expect(await step("exec", session)).toEqual({ answered: "hi\n" });
  });

  it("has no use for an API key, and is told what there is instead", async () => {
    const seen = await step("withKey", await begin(), [world.apiKey]);
    expect(seen).toMatchObject({ typed: true, code: "origin_not_allowed", status: 403 });
    expect((seen as { hint: string }).hint).toContain("session token");
  });

  it("is over with its session, and goes on with the next one that its server gives", async () => {
    const [first, second] = [await begin(), await begin()];
    await sandbox.sessions.revoke(first.id);
    expect(await step("exec", first)).toMatchObject({
      ...{ typed: true, name: "AuthenticationError", code: "unauthorized", status: 401 },
    });
    const seen = await step("renewed", first, [[first.token, second.token]]);
    expect(seen).toEqual({ outputs: ["1\n", "2\n", "3\n"], asked: 2 });
    await sandbox.sessions.revoke(second.id);
    expect(await step("renewed", first, [[first.token, second.token]]).catch(String)).toContain("session token");
  });

  it("sends no cookies of the API's, and reads nothing without a token", async () => {
    const session = await begin();
    const signedIn = await world.signedIn();
    await signedIn.page.goto(app);
    await signedIn.page.waitForFunction("globalThis.steps !== undefined");
    // Somebody is signed in to the dashboard in this browser.
    const seen = await step("plainly", session, ["", { credentials: "include" }], signedIn.page);
    expect(seen).toEqual({ refused: "TypeError" });
    expect(await step("plainly", session, [""], signedIn.page)).toEqual({ status: 401, code: "unauthorized" });
  });

  it("leaves no token where it is logged: it is in no URL", async () => {
    const session = await begin();
    const urls: string[] = [];
    const listen = (request: { url(): string }) => urls.push(request.url());
    page.on("request", listen);
    page.on("websocket", listen as (socket: { url(): string }) => void);
    await step("terminal", session);
    await step("exec", session);
    page.off("request", listen);
    expect(urls.some((url) => url.startsWith("ws:"))).toBe(true);
    expect(urls.filter((url) => url.includes(session.token.slice(-43)))).toEqual([]);
  });
});
