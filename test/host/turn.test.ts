/** One process at a time makes a thing; who is killed at it holds nobody up. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { inTurn } from "../../backend-pool/images/turn.ts";

async function cache(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "rouse turns-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test("works on one path follow each other, those on others do not wait", async () => {
  const at = await cache();
  const seen: string[] = [];
  const gate = Promise.withResolvers<undefined>();
  const first = inTurn(
    at,
    "image",
    () => undefined,
    async () => {
      seen.push("first begins");
      await gate.promise;
      seen.push("first ends");
    },
  );
  await expect.poll(() => seen).toEqual(["first begins"]);
  const waits: string[] = [];
  const second = inTurn(
    at,
    "image",
    (part) => waits.push(part),
    async () => void seen.push("second"),
  );
  await inTurn(
    at,
    "other",
    () => undefined,
    async () => void seen.push("other"),
  );
  await expect.poll(() => waits, { timeout: 5000 }).toHaveLength(1);
  expect(seen).toEqual(["first begins", "other"]);
  gate.resolve(undefined);
  await Promise.all([first, second]);
  expect(seen).toEqual(["first begins", "other", "first ends", "second"]);
});

test("a fault is handed on, and the next one has its turn; one whose process is killed frees it", async () => {
  const at = await cache();
  await expect(
    inTurn(
      at,
      "image",
      () => undefined,
      () => Promise.reject(new Error("full")),
    ),
  ).rejects.toThrow("full");
  const program = `
    import { inTurn } from ${JSON.stringify(new URL("../../backend-pool/images/turn.ts", import.meta.url).href)};
    await inTurn(process.argv[1], "image", () => {}, () => new Promise(() => { console.log("in"); setInterval(() => {}, 1000); }));`;
  const other = spawn(process.execPath, ["--input-type=module", "-e", program, at], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(other.stdout, "data");
  let done = false;
  const mine = inTurn(
    at,
    "image",
    () => undefined,
    async () => void (done = true),
  );
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(done).toBe(false);
  other.kill("SIGKILL");
  await mine;
  expect(done).toBe(true);
});
