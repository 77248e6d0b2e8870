/** The seed's last line, as its user types it: a trial by one approval, and the same machine the next time. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, it } from "vitest";
import { system } from "./support.ts";

let home: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "rouse-login-"));
});
afterAll(() => rm(home, { recursive: true, force: true }));

const program = fileURLToPath(new URL("../../sdk/cli/main.ts", import.meta.url));

/** Run the CLI in an empty home; `onLink` is called with the link that it shows. */
async function rouse(args: string[], onLink?: (link: string) => void): Promise<{ code: number; stdout: string }> {
  const { ROUSE_API_KEY: _, CI: _ci, ...env } = process.env;
  const child = spawn(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", "--conditions=rouse-source", program, ...args],
    {
      env: {
        ...env,
        HOME: home,
        XDG_CONFIG_HOME: home,
        XDG_DATA_HOME: home,
        ROUSE_HOME: home,
        ROUSE_API_URL: system.url,
      },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let stdout = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString();
    const link = /https?:\/\/\S+\/connect\?code=\S+/.exec(said)?.[0];
    if (link) onLink?.(link);
  });
  const [code] = await once(child, "close");
  return { code: Number(code), stdout: stdout.trim() };
}

it("begins a trial with one approval, and prints the same id tomorrow", async ({ expect }) => {
  const line = ["sandbox", "create", "--trial", "--no-browser", "--name", "agent-demo", "--get-or-create"];
  line.push("--idle-pause", "600");
  let approved = "";
  const first = await rouse(line, (link) => {
    if (approved !== "") return;
    approved = link;
    const { origin, searchParams } = new URL(link);
    const body = new URLSearchParams({ code: searchParams.get("code") ?? "", decision: "trial" });
    void fetch(`${origin}/connect`, { method: "POST", body });
  });
  expect(approved).not.toBe("");
  expect(first.code).toBe(0);
  expect(first.stdout).toMatch(/^agent-demo~[a-z2-7]{12}$/);
  expect(await rouse(line)).toEqual(first);
  const { stdout } = await rouse(["exec", "agent-demo", "--", "echo", "it runs"]);
  expect(stdout).toBe("it runs");
  expect((await rouse(["rm", "agent-demo"])).code).toBe(0);
});
