/** Copies of disks, when QEMU ends in the middle of them: it is played by a socket here. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { endLeftMirrors } from "../../backend-pool/machine/qemu/mirrors.ts";
import { Qmp } from "../../backend-pool/machine/qemu/qmp.ts";

const answers: Record<string, unknown> = { "query-block-jobs": [{ device: "copy-1" }], "query-named-block-nodes": [] };

function play(socket: Socket): void {
  socket.on("error", () => undefined);
  createInterface({ input: socket }).on("line", (line) => {
    const { execute, id } = JSON.parse(line) as { execute: string; id: number };
    if (execute === "block-job-cancel") socket.destroy();
    else socket.write(`${JSON.stringify({ id, return: answers[execute] ?? {} })}\n`);
  });
}

// A rejection that nobody hears ends a host agent, and fails this run.
test("a copy whose QEMU ends while it is let go of is over, and no rejection is left", async () => {
  const dir = await mkdtemp(join(tmpdir(), "rouse-mirrors-"));
  const server = createServer(play).listen(join(dir, "qmp"));
  await once(server, "listening");
  onTestFinished(async () => {
    server.close();
    await rm(dir, { recursive: true, force: true });
  });
  const qmp = await Qmp.open(join(dir, "qmp"));
  await expect(endLeftMirrors(qmp)).resolves.toBeUndefined();
  expect(qmp.closed).toBe(true);
  await new Promise((resolve) => setImmediate(resolve));
});
