/** Verbs for checkpoints, and the mirror as the SDK reads it. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { decodeCheckpoint, encodeCheckpoint } from "../../sdk/contract/checkpoint.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo } from "./wire-server.ts";

let bench: CliBench;
let kept: Uint8Array<ArrayBuffer> | null;

beforeEach(async () => {
  kept = null;
  bench = await CliBench.start();
  bench.server
    .on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()))
    .on(`GET ${SANDBOX}/checkpoints/job`, (_request, reply) =>
      kept ? reply.raw(Buffer.from(kept)) : reply.error("checkpoint_not_found"),
    )
    .on(`PUT ${SANDBOX}/checkpoints/job`, async (request, reply) => {
      kept = new Uint8Array(request.body);
      reply.json(await header());
    })
    .on(`GET ${SANDBOX}/checkpoints`, async (_request, reply) => {
      const info = { kind: "checkpoint", sandboxId: "demo~abcdefghijkl", name: "job", versions: [await header()] };
      reply.json({ data: kept ? [info] : [] });
    });
});
afterEach(() => bench[Symbol.asyncDispose]());

async function header(): Promise<unknown> {
  const read = kept && (await decodeCheckpoint(kept));
  return read?.ok === true ? read.header : null;
}

test("what is put is listed, and got as it was: JSON as a value, all else as bytes", async () => {
  expect((await bench.run(["checkpoint", "ls", "demo"])).stdout).toBe("No checkpoints.\n");
  const file = join(bench.folder, "state");
  await writeFile(file, '{ "step": 7 }');
  expect((await bench.run(["checkpoint", "put", "demo", "job", file, "--step", "7"])).stdout).toBe("job: version 1\n");
  expect((await bench.run(["checkpoint", "get", "demo", "job"])).stdout).toBe('{"step":7}\n');
  const rows = (await bench.run(["checkpoint", "ls", "demo"])).stdout.trimEnd().split("\n");
  expect(rows[1]).toMatch(/^job +1 +7 +\d+ ?\w* ago +10 bytes$/);
  await writeFile(file, "\0raw");
  expect((await bench.run(["checkpoint", "put", "demo", "job", file])).stdout).toBe("job: version 2\n");
  expect((await bench.run(["checkpoint", "get", "demo", "job"])).stdout).toBe("\0raw");
  const json = JSON.parse((await bench.run(["checkpoint", "get", "demo", "job", "--json"])).stdout) as object;
  expect(json).toMatchObject({ version: 2, type: "bytes", value: "AHJhdw==" });
});

test("what does not verify on its way is no answer", async () => {
  const about = { name: "job", version: 1, savedAt: new Date(0).toISOString(), type: "json" as const };
  kept = await encodeCheckpoint({ ...about, step: null, meta: {} }, new TextEncoder().encode('"whole"'));
  kept = kept && kept.slice(0, -1);
  await expect(bench.refusal(["checkpoint", "get", "demo", "job"])).rejects.toThrow(/6 of 7 bytes/);
});
