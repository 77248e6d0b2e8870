/** A machine whose guest agent is older than its host's sleeps with its host's, and its programs notice nothing. */
import { describe, it } from "vitest";
import type { Sandbox } from "rouse";
import { freshName, rouse } from "./support.ts";

const VERSION = "open('/usr/lib/rouse/version').read().strip()";
const STARTED = "subprocess.getoutput('pgrep -af [v]ersion-id')";
const SERVICE = "subprocess.getoutput('pgrep -fx \"sleep 1000\"')";
const POLLED = { timeout: 60_000, interval: 500 };
const AGENT = "[/]usr/lib/rouse/agent.mjs";
/** By no command of Rouse: what these leave behind keeps an agent. */
const shell = (command: string) =>
  `import subprocess; _ = subprocess.Popen(${JSON.stringify(command)}, shell=True, start_new_session=True)`;

async function valueOf(sandbox: Sandbox, code: string): Promise<unknown> {
  const { results, status, error } = await sandbox.interpreter.run(code);
  if (status !== "ok") throw new Error(`${status}: ${error?.value}`);
  return results.find(({ main }) => main)?.data["text/plain"];
}

describe("an older guest agent", () => {
  it("is replaced while its machine is idle; variables, services and settings stay", async ({ expect }) => {
    const services = [{ name: "app", command: "exec sleep 1000" }];
    const options = { idlePauseSeconds: 10, env: { WORD: "told" }, services };
    const sandbox = await rouse.sandboxes.create({ name: freshName("renewal"), ...options });
    await sandbox.interpreter.run("import os, subprocess; x = 41");
    const now = await valueOf(sandbox, VERSION);
    await expect.poll(() => valueOf(sandbox, SERVICE), POLLED).not.toBe("''");
    const service = await valueOf(sandbox, SERVICE);
    await sandbox.interpreter.run(
      shell(`sleep 1; echo older | sudo tee /usr/lib/rouse/version; sudo pkill -9 -f '${AGENT}'`),
    );
    await expect.poll(() => valueOf(sandbox, STARTED).catch(() => ""), POLLED).toContain("--version-id older");

    await sandbox.waitFor("paused", { timeoutSeconds: 120 });
    expect(await valueOf(sandbox, VERSION)).toBe(now);
    expect(await valueOf(sandbox, STARTED)).toContain(`--version-id ${String(now).replaceAll("'", "")}`);
    expect(await valueOf(sandbox, "x + 1, os.environ['WORD']")).toBe("(42, 'told')");
    expect(await valueOf(sandbox, SERVICE)).toBe(service);
    expect((await sandbox.exec("echo $WORD")).stdout).toBe("told\n");
    expect((await sandbox.resume()).services).toMatchObject([{ name: "app", state: "ready", restarts: 0 }]);
    await sandbox.delete();
  });

  it("comes back where a newer one does not come up", async ({ expect }) => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("renewal"), idlePauseSeconds: 0 });
    await sandbox.interpreter.run("import os, subprocess; x = 41");
    const [version, before] = [await valueOf(sandbox, VERSION), await valueOf(sandbox, STARTED)];
    // As the host does it, with programs that do not run.
    const broken = [
      "cd $(mktemp -d) && echo 'process.exit(1)' > agent.mjs && echo broken > version && tar -czf /tmp/broken.tgz agent.mjs version",
      "cd /usr/lib/rouse && sudo rm -rf .before && sudo mkdir .before && sudo cp -a agent.mjs version .before/",
      "sudo touch /run/rouse/agent/renewed && sudo tar -xzf /tmp/broken.tgz -C /usr/lib/rouse --no-same-owner",
      `sudo pkill -9 -f '${AGENT}'`,
    ];
    await sandbox.interpreter.run(shell(`sleep 1; ${broken.join(" && ")}`));
    await expect.poll(() => valueOf(sandbox, STARTED).catch(() => before), POLLED).not.toBe(before);
    expect(await valueOf(sandbox, VERSION)).toBe(version);
    expect(await valueOf(sandbox, "x")).toBe("41");
    await sandbox.delete();
  });
});
