/** The guide to a pool of one's own, done as its reader does it, with an edge and hosts of its own. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { defaultHome } from "../../backend-pool/config.ts";
import { freePort } from "../../backend-pool/local/launcher.ts";
import { doGuide } from "../support/guide.ts";
import { allPages, root } from "../support/markdown.ts";

let home: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "rouse-pool-"));
});
afterAll(async () => {
  const pool = join(home, "pool");
  for (const name of await readdir(pool).catch(() => [])) {
    if (!name.endsWith(".pid")) continue;
    try {
      process.kill(Number(await readFile(join(pool, name), "utf8")), "SIGTERM");
    } catch {
      // It is gone, as the guide says.
    }
  }
  await rm(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 500 });
});

it("docs/guides/a-pool-of-your-own.md does what it says", async () => {
  const guide = allPages().find(({ path }) => path === "docs/guides/a-pool-of-your-own.md");
  const ports = new Map<string, string>();
  for (const port of ["8787", "8791", "8792"]) ports.set(port, String(await freePort()));
  const { faults, compared } = await doGuide(guide?.blocks ?? [], {
    ...{ folder: root, scripts: home },
    env: { ...process.env, HOME: home, ROUSE_HOME: defaultHome(), ROUSE_API_KEY: undefined, ROUSE_API_URL: undefined },
    // The ports of the guide may be somebody else's here.
    change: (text) =>
      text
        .replaceAll("8787", ports.get("8787") ?? "")
        .replaceAll(
          "127.0.0.1:879$n",
          `127.0.0.1:$([ $n = 1 ] && echo ${ports.get("8791")} || echo ${ports.get("8792")})`,
        ),
  });
  expect(faults).toEqual([]);
  expect(compared).toBe(4);
}, 600_000);
