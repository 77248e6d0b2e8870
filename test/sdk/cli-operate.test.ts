/** Verbs that look after what runs: holds, hosts, usage. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HostSecrets } from "../../sdk/contract/host-secrets.ts";
import type { UsageLine } from "../../sdk/contract/usage.ts";
import { usageAnswer } from "./account-answers.ts";
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
  unstored: 2,
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
  expect(rows[1]).toMatch(/^h-1 +live +kvm +3 +40 +2 +32\.0 GiB +100\.0 GiB/);
  expect(rows[2]).toMatch(/^h-2 +silent/);
  expect((await rouse(["host", "drain", "h-1"])).stdout).toBe("h-1: live, draining\n");
  expect((await rouse(["host", "undrain", "h-1"])).stdout).toBe("h-1: live\n");
  expect((await rouse(["host", "rm", "h-2"])).stdout).toBe("h-2: removed\n");
  expect((await rouse(["host", "drain"])).code).toBe(2);
  expect((await rouse(["host", "explode", "h-1"])).code).toBe(2);
});

test("host add prints the secrets file, and says what to do with it", async () => {
  const secrets = {
    hostKey: `rousehost_h-3_1_${"A".repeat(43)}`,
    controlSecret: "c".repeat(43),
    ticketSecret: "t".repeat(43),
  };
  server.on("POST /v1/hosts", (_request, reply) => reply.json({ hostId: "h-3", ...secrets }));
  const added = await rouse(["host", "add", "h-3"]);
  expect(JSON.parse(added.stdout)).toEqual(secrets);
  expect(HostSecrets.parse(JSON.parse(added.stdout))).toEqual(secrets);
  expect(added.stderr).toContain("0600");
  expect(added.stderr).toContain("ROUSE_SECRETS_FILE");
  expect(added.stderr).not.toContain(secrets.controlSecret);
  expect(server.of("POST /v1/hosts")[0]?.json()).toEqual({ hostId: "h-3" });
  const json = await rouse(["host", "add", "h-3", "--json"]);
  expect([JSON.parse(json.stdout), json.stderr]).toEqual([{ hostId: "h-3", ...secrets }, ""]);
  expect((await bench.refusal(["host", "add"]))?.message).toContain("needs <host>");
});

describe("usage", () => {
  const line: UsageLine = {
    month: "2026-11",
    kind: "sandbox",
    sandboxId: "demo~abcdefghijkl",
    name: "demo",
    labels: { team: "blue" },
    plan: "metered",
    cpu: "3600000000000",
    memory: "7372800000",
    stored: "1800000000000000",
    volume: "0",
    cpuMicros: 25_000,
    memoryMicros: 15_000,
    storedMicros: 55,
    flatMicros: 0,
    volumeMicros: 0,
    backup: "0",
    backupMicros: 0,
    totalMicros: 40_055,
  };

  beforeEach(() => {
    server.on("GET /v1/usage", (request, reply) => {
      const month = request.query.get("month") ?? "2026-11";
      const groups = [
        { key: null, totalMicros: 5, sandboxes: 1 },
        { key: "blue", totalMicros: 40_050, sandboxes: 2 },
      ];
      reply.json(
        usageAnswer({
          month,
          ...(month === "2020-01" ? {} : { lines: [line], totalMicros: 40_055 }),
          ...(request.query.has("by") ? { groups } : {}),
        }),
      );
    });
  });

  test("shows a month as a table, CSV or JSON", async () => {
    const rows = (await rouse(["usage"])).stdout.trimEnd().split("\n");
    expect(rows[1]).toMatch(/^demo~abcdefghijkl +1\.000 +2\.000 +0\.500 +\$0\.04$/);
    expect(rows[2]).toMatch(/^Total +\$0\.04$/);
    expect((await rouse(["usage", "--csv"])).stdout).toBe(
      "month,sandboxId,name,labels,plan,cpu,memory,stored,cpuMicros,memoryMicros,storedMicros,flatMicros,totalMicros,kind,volume,volumeMicros,backup,backupMicros\n" +
        "2026-11,demo~abcdefghijkl,demo,team=blue,metered,3600000000000,7372800000,1800000000000000,25000,15000,55,0,40055,sandbox,0,0,0,0\n",
    );
    expect(JSON.parse((await rouse(["usage", "--json"])).stdout)).toMatchObject({ lines: [line] });
    expect((await rouse(["usage", "--month", "2020-01"])).stdout).toBe("Nothing was used in 2020-01.\n");
  });

  test("shows volumes and backups in columns of their own, where there are any", async () => {
    const amounts = { volume: "7372800000", volumeMicros: 306, totalMicros: 306, cpu: "0", memory: "0", stored: "0" };
    const volume = { ...line, ...amounts, kind: "volume" as const, sandboxId: "vol-0" };
    const backup = { ...line, ...amounts, volume: "0", backup: "3600000000000000", kind: "backup" as const };
    server.on("GET /v1/usage", (_request, reply) => reply.json(usageAnswer({ lines: [line, volume, backup] })));
    const rows = (await rouse(["usage"])).stdout.trimEnd().split("\n");
    expect(rows[0]).toMatch(/^ID +VCPU-H +GIB-H +GB-H ASLEEP +GIB-H VOLUME +GB-H BACKUP +2026-11$/);
    expect(rows[1]).toMatch(/^demo~abcdefghijkl +1\.000 +2\.000 +0\.500 +0\.000 +0\.000 +\$0\.04$/);
    expect(rows[2]).toMatch(/^vol-0 +0\.000 +0\.000 +0\.000 +2\.000 +0\.000 +\$0\.00$/);
    expect(rows[3]).toMatch(/ +0\.000 +1\.000 +\$0\.00$/);
  });

  test("shows all months, and totals", async () => {
    const rows = (await rouse(["usage", "--month", "all"])).stdout.trimEnd().split("\n");
    expect(rows[0]).toMatch(/^MONTH +SANDBOX .* COST$/);
    expect(rows[1]).toMatch(/^2026-11 +demo~abcdefghijkl/);
    const totals = (await rouse(["usage", "--by", "label:team"])).stdout.trimEnd().split("\n");
    expect(totals[0]).toMatch(/^LABEL:TEAM +SANDBOXES +COST$/);
    expect(totals.slice(1).map((row) => row.split(/ +/)[0])).toEqual(["-", "blue", "Total"]);
    expect(server.requests.map(({ query }) => query.toString())).toEqual(["month=all", "by=label%3Ateam"]);
  });

  test.each([
    ["--month", "January"],
    ["--by", "color"],
    ["--by", "label:"],
    ["--by", "month", "--csv"],
  ])("refuses %s %s", async (...words) => {
    expect(await bench.refusal(["usage", ...words])).not.toBeNull();
    expect(server.requests).toEqual([]);
  });
});

test("rm gives a grace time, and undelete takes it back", async () => {
  const deleted = {
    id: "demo~abcdefghijkl",
    kind: "sandbox",
    name: "demo",
    labels: {},
    status: "deleted",
    state: "deleted",
    deletedAt: "2031-01-02T03:05:00.000Z",
    endedAt: null,
  };
  server
    .on("DELETE /v1/sandboxes/demo", (_request, reply) => reply.json(deleted))
    .on(`POST ${SANDBOX}:undelete`, (_request, reply) => reply.json(sandboxInfo({ state: "paused" })));
  const removed = await rouse(["rm", "demo", "--grace", "3600"]);
  expect(removed.stdout).toBe("demo: deleted\n");
  expect(removed.stderr).toContain("rouse undelete demo~abcdefghijkl");
  expect(server.of("DELETE /v1/sandboxes/demo")[0]?.query.get("graceSeconds")).toBe("3600");
  expect(await rouse(["undelete", "demo~abcdefghijkl"])).toEqual({
    code: 0,
    stdout: "demo~abcdefghijkl: paused\n",
    stderr: "",
  });
  server.on(`POST ${SANDBOX}:undelete`, (_request, reply) => reply.error("sandbox_gone"));
  expect((await rouse(["undelete", "demo~abcdefghijkl", "--json"])).code).toBe(3);
  expect((await bench.refusal(["rm", "demo", "--grace", "1.5"]))?.message).toContain("whole number");
});
