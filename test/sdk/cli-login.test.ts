/** Logging in from the command line, and what the saved login is good for. */
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CliBench } from "./cli-bench.ts";
import { TEST_KEY, sandboxInfo, type WireServer } from "./wire-server.ts";

const KEYLESS = { ROUSE_API_KEY: undefined };

let bench: CliBench;
let server: WireServer;
beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
});
afterEach(() => bench[Symbol.asyncDispose]());

/** Runs without a key in the environment. */
const rouse = (words: string[], env: Record<string, string | undefined> = {}) =>
  bench.run(words, { ...KEYLESS, ...env });

const linkOf = () => `${server.url}/connect?code=BCDF-GHJK`;
const savedFile = () => join(bench.folder, "config/rouse/credentials.json");

/** A login that ends as said after one poll that it is pending. */
function offerLogin(end: "approved" | "access_denied" | "expired_token"): void {
  server
    .onOpen("POST /oauth/device_authorization", (_request, reply) =>
      reply.json({
        device_code: "BCDFGHJK.secret",
        user_code: "BCDF-GHJK",
        verification_uri: `${server.url}/connect`,
        verification_uri_complete: linkOf(),
        expires_in: 900,
        interval: 0,
      }),
    )
    .onOpen("POST /oauth/token", (_request, reply, count) => {
      if (count % 2 === 0) return reply.json({ error: "authorization_pending" }, 400);
      if (end !== "approved") return reply.json({ error: end }, 400);
      return reply.json({ access_token: TEST_KEY, token_type: "bearer", account: "default" });
    })
    .on("GET /v1/me", (_request, reply) =>
      reply.json({
        orgId: "default",
        principalId: "default",
        credentialId: "aaaaaaaaaaaa",
        apiVersion: "0.2.0",
        orgName: "default",
        role: "owner",
        access: "full",
        namePrefix: null,
      }),
    );
}

const asked = () => new URLSearchParams(server.of("POST /oauth/device_authorization")[0]?.body.toString());

describe("login", () => {
  test("shows link and code, saves the key, and is used from then on until the logout", async () => {
    offerLogin("approved");
    const login = await rouse(["login", "--no-browser", "--name", "my laptop"]);
    expect([login.code, login.stdout]).toEqual([0, `Logged in to ${server.url}, account default\n`]);
    expect(login.stderr).toContain(linkOf());
    expect(login.stderr).toContain("BCDF-GHJK");
    expect(login.stdout + login.stderr).not.toContain(TEST_KEY);
    expect([asked().get("client_name"), asked().get("scope")]).toEqual(["my laptop", null]);
    expect((await stat(savedFile())).mode & 0o777).toBe(0o600);

    // Also without an address: the last login's counts.
    const who = await rouse(["whoami"], { ROUSE_API_URL: undefined });
    expect(who.stdout).toMatch(/account +default\n/);
    expect(who.stdout).toMatch(/key +aaaaaaaaaaaa, from a saved login\n/);
    expect(who.stdout).toContain(server.url);

    const logout = await rouse(["logout"], { ROUSE_API_URL: undefined });
    expect([logout.code, logout.stdout]).toEqual([0, `Logged out of ${server.url}\n`]);
    expect(logout.stderr).toContain("rouse keys rm aaaaaaaaaaaa");
    expect((await rouse(["whoami"])).code).toBe(4);
    expect(await readFile(savedFile(), "utf8")).not.toContain(TEST_KEY);
  });

  test("as JSON prints the link as one line on stderr, and never the key", async () => {
    offerLogin("approved");
    const login = await rouse(["login", "--no-browser", "--trial", "--json"]);
    expect(JSON.parse(login.stdout)).toEqual({ account: "default", baseUrl: server.url });
    expect(JSON.parse(login.stderr)).toEqual({
      login: { url: linkOf(), code: "BCDF-GHJK", expiresAt: expect.any(String) as unknown },
    });
    expect(asked().get("scope")).toBe("trial");
    expect(asked().get("client_name")).toMatch(/^rouse on ./);
    expect(JSON.parse((await rouse(["whoami", "--json"])).stdout)).toMatchObject({
      orgName: "default",
      source: "login",
    });
    const logout = await rouse(["logout", "--json"]);
    expect(JSON.parse(logout.stdout)).toMatchObject({ forgotten: true, keyId: "aaaaaaaaaaaa" });
    expect(JSON.parse((await rouse(["logout", "--json"])).stdout)).toMatchObject({ forgotten: false, keyId: null });
  });

  test.each(["access_denied", "expired_token"] as const)("that ends with %s saves nothing and exits 4", async (end) => {
    offerLogin(end);
    const login = await rouse(["login", "--no-browser", "--json"]);
    expect([login.code, login.stdout]).toEqual([4, ""]);
    expect(JSON.parse(login.stderr.trimEnd().split("\n").at(-1) ?? "")).toMatchObject({ error: { code: end } });
    await expect(stat(savedFile())).rejects.toThrow("ENOENT");
  });

  test.each([{ CI: "true" }, { ROUSE_NO_LOGIN: "1" }])("does not begin where nobody looks: %j", async (env) => {
    offerLogin("approved");
    for (const words of [
      ["login", "--json"],
      ["create", "--trial", "--json"],
    ]) {
      const refused = await rouse(words, env);
      expect([refused.code, refused.stdout]).toEqual([4, ""]);
      expect(JSON.parse(refused.stderr)).toMatchObject({ error: { code: "login_disabled" } });
    }
    expect(server.requests).toEqual([]);
  });

  test("does not begin where the saved logins can't be used", async () => {
    offerLogin("approved");
    await mkdir(join(bench.folder, "config/rouse"), { recursive: true });
    await writeFile(savedFile(), '{"version":1,"logins":{}}');
    await chmod(savedFile(), 0o644);
    const refused = await rouse(["login", "--no-browser"]);
    expect(refused.code).toBe(4);
    expect(refused.stderr).toContain(`chmod 600 ${savedFile()}`);
    expect(server.requests).toEqual([]);
  });

  test("says when a key in the environment counts before it; wrong use is 2", async () => {
    offerLogin("approved");
    const login = await rouse(["login", "--no-browser"], { ROUSE_API_KEY: "rouse_other" });
    expect(login.code).toBe(0);
    expect(login.stderr).toContain("ROUSE_API_KEY is set");
    expect((await rouse(["login", "now"])).code).toBe(2);
  });

  test("opens the link in a browser where there is a display, and bears that there is none", async (ctx) => {
    if (process.platform !== "linux") return ctx.skip("xdg-open is Linux's");
    offerLogin("approved");
    const bin = join(bench.folder, "bin");
    await mkdir(bin);
    expect((await rouse(["login"], { DISPLAY: ":99", PATH: bin })).code).toBe(0);
    await writeFile(join(bin, "xdg-open"), '#!/bin/sh\nprintf %s "$1" > opened.part && /bin/mv opened.part opened\n', {
      mode: 0o755,
    });
    expect((await rouse(["login"], { DISPLAY: ":99", PATH: bin })).code).toBe(0);
    await vi.waitFor(async () => expect(await readFile(join(bench.folder, "opened"), "utf8")).toBe(linkOf()), 10_000);
  });
});

describe("create --trial", () => {
  const words = ["--trial", "--name", "agent-demo", "--get-or-create", "--idle-pause", "600"];

  beforeEach(() => {
    offerLogin("approved");
    server.on("POST /v1/sandboxes", (_request, reply, count) =>
      reply.json(sandboxInfo({ name: "agent-demo", reused: count > 0 })),
    );
  });

  test("logs in where there is no key, and the same line prints the same id again", async () => {
    const first = await rouse(["sandbox", "create", ...words, "--no-browser"]);
    expect([first.code, first.stdout]).toEqual([0, "demo~abcdefghijkl\n"]);
    expect(first.stderr).toContain(linkOf());
    expect(asked().get("scope")).toBe("trial");
    // Tomorrow: no link, nothing but the id.
    expect(await rouse(["sandbox", "create", ...words])).toEqual({
      code: 0,
      stdout: "demo~abcdefghijkl\n",
      stderr: "",
    });
    expect(server.of("POST /oauth/device_authorization")).toHaveLength(1);
    expect(server.of("POST /v1/sandboxes").map((request) => request.json())).toEqual(
      Array.from({ length: 2 }, () => ({ name: "agent-demo", getOrCreate: true, idlePauseSeconds: 600 })),
    );
  });

  test("changes nothing where there is a key, good or bad", async () => {
    const run = await bench.run(["create", ...words]);
    expect(run).toEqual({ code: 0, stdout: "demo~abcdefghijkl\n", stderr: "" });
    expect((await rouse(["create", ...words], { ROUSE_API_KEY: "rouse_wrong" })).code).toBe(4);
    expect((await rouse(["create", ...words], { ROUSE_API_KEY: "white space" })).code).toBe(4);
    expect(server.of("POST /oauth/device_authorization")).toEqual([]);
  });

  test("makes nothing when the login is refused, or the line is wrong", async () => {
    expect(await bench.refusal(["create", ...words, "--max-total-cost", "lots"])).not.toBeNull();
    expect(server.requests).toEqual([]);
    offerLogin("access_denied");
    const refused = await rouse(["create", ...words, "--no-browser"]);
    expect([refused.code, refused.stdout]).toEqual([4, ""]);
    expect(server.of("POST /v1/sandboxes")).toEqual([]);
  });
});
