/** Saved logins: where they are looked for, who may read them, and which installation gets which key. */
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { findBaseUrl, findCredentials } from "../../sdk/src/credentials.ts";
import { AuthenticationError } from "../../sdk/src/index.ts";
import { forgetLogin, loginsPath, readLogins, saveLogin } from "../../sdk/src/logins.ts";

const HERE = "http://localhost:8787";
const THERE = "https://rouse.example.com";
const ELSEWHERE = "https://other.example.com";

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-test-"));
  for (const name of ["ROUSE_API_KEY", "ROUSE_API_URL"]) vi.stubEnv(name, undefined);
  vi.stubEnv("XDG_CONFIG_HOME", join(folder, "config"));
  vi.stubEnv("ROUSE_HOME", join(folder, "home"));
  vi.stubEnv("HOME", folder);
  file = join(folder, "config/rouse/credentials.json");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

describe("the file", () => {
  test("is this user's alone, and keeps one login for each installation", async () => {
    expect(await readLogins()).toBeNull();
    expect(await saveLogin(HERE, { apiKey: "k1", account: "default" })).toBe(file);
    await saveLogin(THERE, { apiKey: "k2", account: "acme" });
    await saveLogin(THERE, { apiKey: "k3", account: "acme" });
    expect([await modeOf(file), await modeOf(dirname(file))]).toEqual(["600", "700"]);
    expect(JSON.parse(await readFile(file, "utf8"))).toEqual({
      version: 1,
      current: THERE,
      logins: {
        [HERE]: { apiKey: "k1", account: "default", savedAt: expect.any(String) as unknown },
        [THERE]: { apiKey: "k3", account: "acme", savedAt: expect.any(String) as unknown },
      },
    });
    // Nothing of the writing is left.
    expect(await readdir(dirname(file))).toEqual(["credentials.json"]);
  });

  test("is made private in a folder that was open", async () => {
    await mkdir(dirname(file), { recursive: true, mode: 0o755 });
    await saveLogin(HERE, { apiKey: "k", account: "default" });
    expect([await modeOf(file), await modeOf(dirname(file))]).toEqual(["600", "700"]);
  });

  test("is in ~/.config without XDG_CONFIG_HOME", async () => {
    vi.stubEnv("XDG_CONFIG_HOME", undefined);
    expect(await loginsPath()).toBe(join(folder, ".config/rouse/credentials.json"));
  });

  test("keeps what a later version added", async () => {
    await saveLogin(HERE, { apiKey: "k", account: "default" });
    await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, "utf8")), extra: { a: 1 } }));
    await saveLogin(THERE, { apiKey: "k", account: "acme" });
    await forgetLogin(THERE);
    expect(JSON.parse(await readFile(file, "utf8"))).toMatchObject({ extra: { a: 1 } });
  });

  test.each([
    ["others can read", async () => chmod(file, 0o644), "open to others"],
    ["others can write", async () => chmod(file, 0o602), "open to others"],
    [
      "is a link",
      async () => {
        await rename(file, join(folder, "real.json"));
        await symlink(join(folder, "real.json"), file);
      },
      "symbolic link",
    ],
    [
      "is a folder",
      async () => {
        await rm(file);
        await mkdir(file, { mode: 0o700 });
      },
      "no file",
    ],
    ["is not JSON", async () => writeFile(file, "{"), "not JSON"],
    ["is of another version", async () => writeFile(file, '{"version":2,"logins":{}}'), "version"],
    [
      "holds a key that is none",
      async () =>
        writeFile(
          file,
          JSON.stringify({
            version: 1,
            logins: { [HERE]: { apiKey: "s3cret key", account: "a", savedAt: "2031-01-01T00:00:00Z" } },
          }),
        ),
      "apiKey",
    ],
  ])("that %s is refused, for reading and for writing, and stays", async (_what, spoil, says) => {
    await saveLogin(HERE, { apiKey: "k", account: "default" });
    await spoil();
    for (const act of [
      () => findCredentials({ baseUrl: HERE }),
      () => findCredentials({}),
      () => saveLogin(THERE, { apiKey: "k2", account: "acme" }),
      () => forgetLogin(HERE),
    ]) {
      const failure = await act().catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(AuthenticationError);
      expect(failure).toMatchObject({ code: "credentials_file", message: expect.stringContaining(says) as unknown });
      expect(String(failure)).toContain(file);
      expect(String(failure)).not.toContain("s3cret");
    }
    // Who brings a key does not need the file.
    expect(await findCredentials({ apiKey: "mine", baseUrl: HERE })).toMatchObject({ source: "option" });
  });
});

describe("which key goes where", () => {
  test("a login's key goes to its own installation only", async () => {
    await saveLogin(THERE, { apiKey: "k2", account: "acme" });
    await saveLogin(HERE, { apiKey: "k1", account: "default" });
    expect(await findCredentials({ baseUrl: THERE })).toEqual({ baseUrl: THERE, apiKey: "k2", source: "login" });
    vi.stubEnv("ROUSE_API_URL", `${THERE}/`);
    expect(await findCredentials({})).toEqual({ baseUrl: THERE, apiKey: "k2", source: "login" });
    await expect(findCredentials({ baseUrl: ELSEWHERE })).rejects.toMatchObject({ code: "missing_api_key" });
  });

  test("without an address the last login counts, and option and environment before it", async () => {
    await saveLogin(HERE, { apiKey: "k1", account: "default" });
    await saveLogin(THERE, { apiKey: "k2", account: "acme" });
    expect(await findCredentials({})).toEqual({ baseUrl: THERE, apiKey: "k2", source: "login" });
    expect(await findBaseUrl()).toBe(THERE);
    // A key without an address is not sent to wherever the last login was.
    expect(await findCredentials({ apiKey: "mine" })).toEqual({ baseUrl: HERE, apiKey: "mine", source: "option" });
    vi.stubEnv("ROUSE_API_KEY", "env");
    expect(await findCredentials({})).toEqual({ baseUrl: HERE, apiKey: "env", source: "environment" });
    expect(await findCredentials({ baseUrl: THERE })).toEqual({ baseUrl: THERE, apiKey: "env", source: "environment" });
    vi.stubEnv("ROUSE_API_URL", ELSEWHERE);
    expect(await findBaseUrl()).toBe(ELSEWHERE);
  });

  test("the local key comes after a login, and for this machine only", async () => {
    await mkdir(join(folder, "home"));
    await writeFile(join(folder, "home/local-key"), JSON.stringify({ apiKey: "local", url: "http://localhost:9999" }));
    expect(await findCredentials({})).toEqual({ baseUrl: "http://localhost:9999", apiKey: "local", source: "local" });
    await saveLogin(HERE, { apiKey: "k1", account: "default" });
    expect(await findCredentials({})).toEqual({ baseUrl: HERE, apiKey: "k1", source: "login" });
    expect((await findCredentials({ baseUrl: "http://localhost:9999" })).source).toBe("local");
    expect(await forgetLogin(HERE)).toMatchObject({ apiKey: "k1" });
    expect(await forgetLogin(HERE)).toBeNull();
    expect((await findCredentials({})).source).toBe("local");
    await expect(findCredentials({ baseUrl: THERE })).rejects.toMatchObject({
      code: "missing_api_key",
      hint: expect.stringContaining("rouse login") as unknown,
    });
  });

  test("a last login in the clear is refused", async () => {
    await saveLogin("http://rouse.example.com", { apiKey: "k", account: "acme" });
    await expect(findCredentials({})).rejects.toMatchObject({ code: "invalid_base_url" });
  });

  test("a login that is forgotten does not take the last one with it", async () => {
    await saveLogin(HERE, { apiKey: "k1", account: "default" });
    await saveLogin(THERE, { apiKey: "k2", account: "acme" });
    await forgetLogin(HERE);
    expect((await findCredentials({})).baseUrl).toBe(THERE);
    await saveLogin(HERE, { apiKey: "k1", account: "default" });
    await forgetLogin(HERE);
    expect(await findBaseUrl()).toBe("http://localhost:8787");
    expect((await findCredentials({ baseUrl: THERE })).apiKey).toBe("k2");
  });
});
