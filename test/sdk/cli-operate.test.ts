/** Verbs that look after what runs: holds, hosts, usage. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo, type WireServer } from "./wire-server.ts";

let bench: CliBench;
let server: WireServer;
const rouse: CliBench["run"] = (words, env, input) => bench.run(words, env, input);

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const HOST = {
  hostId: "h-1",
  url: "http://10.0.0.1:8788",
  accelerator: "kvm",
  acceleratorReason: "KVM: a guest kernel booted",
  qemuVersion: "10.0.2",
  images: ["default"],
  vcpus: 8,
  memoryMiB: 65_536,
  freeMemoryMiB: 32_768,
  freeDiskMiB: 102_400,
  running: 3,
  paused: 40,
  lastSeenAt: new Date().toISOString(),
  live: true,
  draining: false,
};

test("hold keeps awake under a name, and lets go", async () => {
  const expiresAt = "2031-01-02T04:04:05.000Z";
  server
    .on(`POST ${SANDBOX}:hold`, (_request, reply) => reply.json(sandboxInfo({ holds: [{ name: "cli", expiresAt }] })))
    .on(`POST ${SANDBOX}:release`, (_request, reply) => reply.json(sandboxInfo({ holds: [] })));
  expect((await rouse(["hold", "demo", "3600"])).stdout).toBe(`demo: cli until ${expiresAt}\n`);
  expect((await rouse(["hold", "demo", "--release", "--as", "build"])).stdout).toBe("demo: nothing holds it\n");
  expect(server.of(`POST ${SANDBOX}:hold`)[0]?.json()).toEqual({ name: "cli", seconds: 3600 });
  expect(server.of(`POST ${SANDBOX}:release`)[0]?.json()).toEqual({ name: "build" });
  for (const words of [["demo"], ["demo", "soon"], ["demo", "60", "--release"]])
    expect((await rouse(["hold", ...words])).code).toBe(2);
});

test("host lists, drains, takes back and forgets", async () => {
  server
    .on("GET /v1/hosts", (_request, reply) => reply.json({ data: [HOST, { ...HOST, hostId: "h-2", live: false }] }))
    .on("POST /v1/hosts/h-1:drain", (request, reply) =>
      reply.json({ ...HOST, draining: (request.json() as { draining: boolean }).draining }),
    )
    .on("DELETE /v1/hosts/h-2", (_request, reply) => reply.json({ hostId: "h-2", removed: true }));
  const rows = (await rouse(["host", "ls"])).stdout.trimEnd().split("\n");
  expect(rows[1]).toMatch(/^h-1 +live +kvm +3 +40 +32\.0 GiB +100\.0 GiB/);
  expect(rows[2]).toMatch(/^h-2 +silent/);
  expect((await rouse(["host", "drain", "h-1"])).stdout).toBe("h-1: live, draining\n");
  expect((await rouse(["host", "undrain", "h-1"])).stdout).toBe("h-1: live\n");
  expect((await rouse(["host", "rm", "h-2"])).stdout).toBe("h-2: removed\n");
  expect((await rouse(["host", "drain"])).code).toBe(2);
  expect((await rouse(["host", "explode", "h-1"])).code).toBe(2);
});

test("usage shows a month as a table, CSV or JSON", async () => {
  const line = {
    sandboxId: "demo~abcdefghijkl",
    cpu: "3600000000000",
    memory: "7372800000",
    stored: "1800000000000000",
    cpuMicros: 25_000,
    memoryMicros: 15_000,
    storedMicros: 55,
    totalMicros: 40_055,
  };
  server.on("GET /v1/usage", (request, reply) =>
    reply.json(
      request.query.get("month") === "2020-01"
        ? { month: "2020-01", lines: [], totalMicros: 0 }
        : { month: "2026-11", lines: [line], totalMicros: 40_055 },
    ),
  );
  const rows = (await rouse(["usage"])).stdout.trimEnd().split("\n");
  expect(rows[1]).toMatch(/^demo~abcdefghijkl +1\.000 +2\.000 +0\.500 +\$0\.04$/);
  expect(rows[2]).toMatch(/^Total +\$0\.04$/);
  expect((await rouse(["usage", "--csv"])).stdout).toBe(
    "month,sandboxId,cpu,memory,stored,cpuMicros,memoryMicros,storedMicros,totalMicros\n" +
      "2026-11,demo~abcdefghijkl,3600000000000,7372800000,1800000000000000,25000,15000,55,40055\n",
  );
  expect(JSON.parse((await rouse(["usage", "--json"])).stdout)).toMatchObject({ lines: [line] });
  expect((await rouse(["usage", "--month", "2020-01"])).stdout).toBe("Nothing was used in 2020-01.\n");
  expect((await rouse(["usage", "--month", "January"])).code).toBe(2);
});
