/** Verbs for volumes and their backups. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CliBench } from "./cli-bench.ts";
import {
  ATTACHMENT,
  ATTACHMENT_ID,
  BACKUP,
  BACKUP_ID,
  VOLUME,
  VOLUME_ID,
  attachmentAnswer,
  backupAnswer,
  volumeAnswer,
} from "./volume-answers.ts";
import { sandboxInfo, type WireServer } from "./wire-server.ts";

let bench: CliBench;
let server: WireServer;
const rouse: CliBench["run"] = (words, env, input) => bench.run(words, env, input);

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  server
    .on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()))
    .on("GET /v1/volumes/data", (_request, reply) => reply.json(volumeAnswer()));
});
afterEach(() => bench[Symbol.asyncDispose]());

/** Bodies of the requests that are not reads. */
function sent(): unknown[] {
  return server.requests.filter(({ method }) => method === "POST").map((request) => request.json());
}

test("create and restore print the id, and say how it is used", async () => {
  server.on("POST /v1/volumes", (_request, reply) => reply.json(volumeAnswer()));
  const words = ["--size-mib", "10240", "--name", "data", "--label", "a=b"];
  const made = await rouse(["volume", "create", ...words]);
  expect([made.code, made.stdout]).toEqual([0, `${VOLUME_ID}\n`]);
  expect(made.stderr).toContain("rouse create --volume data:/data");
  const json = await rouse(["volume", "create", "--size-mib", "64", "--json"]);
  expect([JSON.parse(json.stdout), json.stderr]).toEqual([volumeAnswer(), ""]);
  expect((await rouse(["volume", "restore", BACKUP_ID, ...words])).stdout).toBe(`${VOLUME_ID}\n`);
  expect((await rouse(["volume", "restore", BACKUP_ID])).code).toBe(0);
  expect(sent()).toEqual([
    { sizeMiB: 10_240, name: "data", labels: { a: "b" } },
    { sizeMiB: 64 },
    { sizeMiB: 10_240, name: "data", labels: { a: "b" }, fromBackup: BACKUP_ID },
    { fromBackup: BACKUP_ID },
  ]);
});

test("ls says how large each is, who has it, and when it was backed up", async () => {
  const backups = { daily: true, retentionDays: 7, lastReadyAt: new Date(Date.now() - 7_200_000).toISOString() };
  const reading = ["att-1123456789abcdefghij", "att-2123456789abcdefghij"].map((id) =>
    attachmentAnswer({ id, mode: "snapshot", sandboxId: "other~abcdefghijkl" }),
  );
  const stored = { storedAt: "2031-01-02T03:05:00.000Z", storedBytes: 1_572_864, backups };
  const leaving = attachmentAnswer({ state: "detaching" });
  server.on("GET /v1/volumes", (request, reply) =>
    reply.json(
      request.query.has("cursor")
        ? { data: [volumeAnswer({ name: null, attachments: [leaving, ...reading], ...stored })], nextCursor: null }
        : { data: [volumeAnswer(), volumeAnswer({ attachments: [attachmentAnswer()] })], nextCursor: "2" },
    ),
  );
  const rows = (await rouse(["volume", "ls", "--name", "data", "--state", "ready"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^VOLUME +NAME +STATE +SIZE +STORED +SANDBOX +BACKUP +AGE$/);
  expect(rows[1]).toMatch(/^vol-\S+ +data +ready +10\.0 GiB +- +- +- +\S+$/);
  expect(rows[2]).toMatch(/^vol-\S+ +data +ready +10\.0 GiB +- +demo~abcdefghijkl +- +\S+$/);
  expect(rows[3]).toMatch(
    /^vol-\S+ +- +ready +\S+ GiB +1\.5 MiB +demo~abcdefghijkl \(detaching\), 2 reading +2h +\S+$/,
  );
  expect(server.requests[0]?.query.toString()).toBe("name=data&state=ready&limit=100");
  server.on("GET /v1/volumes", (_request, reply) => reply.json({ data: [], nextCursor: null }));
  expect((await rouse(["volume", "ls"])).stdout).toBe("No volumes.\n");
  expect(JSON.parse((await rouse(["volume", "ls", "--json"])).stdout)).toEqual({ data: [] });
});

test("get shows, update renames, resize grows, rm deletes", async () => {
  server
    .on("POST /v1/volumes/data:update", (request, reply) => {
      const { name = "data" } = request.json() as { name?: string | null };
      reply.json(volumeAnswer({ name }));
    })
    .on("POST /v1/volumes/data:resize", (_request, reply) => reply.json(volumeAnswer({ sizeMiB: 20_480 })))
    .on("POST /v1/volumes/data:delete", (_request, reply) => reply.json(volumeAnswer({ state: "deleted" })));
  expect((await rouse(["volume", "get", "data"])).stdout).toMatch(/^sizeMiB +10240$/m);
  const renamed = await rouse(["volume", "update", "data", "--name", "x", "--label", "a=b"]);
  expect(renamed.stdout).toBe("data: named x\n");
  expect((await rouse(["volume", "update", "data", "--no-name"])).stdout).toBe("data: without a name\n");
  expect((await rouse(["volume", "resize", "data", "--size-mib", "20480"])).stdout).toBe("data: 20.0 GiB\n");
  expect((await rouse(["volume", "rm", "data"])).stdout).toBe("data: deleted\n");
  expect(sent()).toEqual([{ name: "x", labels: { a: "b" } }, { name: null }, { sizeMiB: 20_480 }, {}]);
  server.on("POST /v1/volumes/data:delete", (_request, reply) => reply.error("volume_attached"));
  expect((await rouse(["volume", "rm", "data"])).code).toBe(1);
  server.on("GET /v1/volumes/data", (_request, reply) => reply.error("volume_not_found"));
  expect((await rouse(["volume", "get", "data"])).code).toBe(3);
});

test("attach says where it is", async () => {
  server.on("POST /v1/volumes/data:attach", (request, reply) => reply.json(attachmentAnswer(request.json() as object)));
  expect((await rouse(["volume", "attach", "data", "demo", "/data"])).stdout).toBe("data: rw at /data of demo\n");
  const read = await rouse(["volume", "attach", "data", "demo", "/old", "--mode", "snapshot", "--json"]);
  expect(JSON.parse(read.stdout)).toMatchObject({ mode: "snapshot", path: "/old", state: "active" });
  expect(sent()).toEqual([
    { sandboxId: "demo", path: "/data" },
    { sandboxId: "demo", path: "/old", mode: "snapshot" },
  ]);
});

describe("detach", () => {
  const other = attachmentAnswer({
    id: "att-1123456789abcdefghij",
    sandboxId: "other~abcdefghijkl",
    mode: "snapshot",
  });

  beforeEach(() => {
    server
      .on(`POST ${ATTACHMENT}:detach`, (_request, reply) => reply.json(attachmentAnswer({ state: "detaching" })))
      .on(`GET ${ATTACHMENT}`, (_request, reply) => reply.json(attachmentAnswer({ state: "detached" })));
  });

  test("of a volume that one sandbox has needs no more words, and waits", async () => {
    server.on("GET /v1/volumes/data", (_request, reply) =>
      reply.json(volumeAnswer({ attachments: [attachmentAnswer()] })),
    );
    expect((await rouse(["volume", "detach", "data"])).stdout).toBe("data: detached from demo~abcdefghijkl\n");
    const quick = await rouse(["volume", "detach", "data", "--no-wait"]);
    expect(quick.stdout).toBe("data: detaching from demo~abcdefghijkl\n");
  });

  test("of a volume that several have needs the sandbox, or the attachment", async () => {
    server.on("GET /v1/volumes/data", (_request, reply) =>
      reply.json(volumeAnswer({ attachments: [other, attachmentAnswer()] })),
    );
    const unsaid = await bench.refusal(["volume", "detach", "data"]);
    expect(unsaid?.message).toContain("attached 2 times");
    expect(unsaid?.message).toContain(`${ATTACHMENT_ID} (demo~abcdefghijkl, rw, active)`);
    for (const word of ["demo", "demo~abcdefghijkl", ATTACHMENT_ID]) {
      if (word === ATTACHMENT_ID)
        server.on(`GET /v1/volumes/data/attachments/${word}`, (_request, reply) => reply.json(attachmentAnswer()));
      expect((await rouse(["volume", "detach", "data", word])).code).toBe(0);
    }
    expect(server.of(`POST ${ATTACHMENT}:detach`)).toHaveLength(3);
  });

  test("of a volume that nobody has, or not that one, is refused", async () => {
    expect((await bench.refusal(["volume", "detach", "data"]))?.message).toBe("data is not attached");
    server.on("GET /v1/volumes/data", (_request, reply) => reply.json(volumeAnswer({ attachments: [other] })));
    expect((await bench.refusal(["volume", "detach", "data", "demo"]))?.message).toBe("data is not attached to demo");
    expect(sent()).toEqual([]);
  });
});

test("backup prints the id once it is stored", async () => {
  server
    .on("POST /v1/volumes/data:backup", (_request, reply) => reply.json(backupAnswer({ state: "pending" })))
    .on(`GET ${BACKUP}`, (_request, reply) => reply.json(backupAnswer()));
  const words = ["--name", "nightly", "--label", "by=cron", "--retention-days", "30"];
  const taken = await rouse(["volume", "backup", "data", ...words]);
  expect([taken.code, taken.stdout]).toEqual([0, `${BACKUP_ID}\n`]);
  expect(taken.stderr).toContain(`rouse volume restore ${BACKUP_ID}`);
  expect(server.of(`GET ${BACKUP}`)).toHaveLength(1);
  const quick = await rouse(["volume", "backup", "data", "--no-wait", "--json"]);
  expect(JSON.parse(quick.stdout)).toMatchObject({ id: BACKUP_ID, state: "pending" });
  expect(sent()).toEqual([{ name: "nightly", labels: { by: "cron" }, retentionDays: 30 }, {}]);
  server.on(`GET ${BACKUP}`, (_request, reply) => reply.json(backupAnswer({ state: "failed", error: "store full" })));
  const failed = await rouse(["volume", "backup", "data"]);
  expect([failed.code, failed.stdout]).toEqual([1, ""]);
  expect(failed.stderr).toContain("store full");
});

test("backups are listed, of a volume by its name too, and deleted", async () => {
  server
    .on("GET /v1/volume-backups", (_request, reply) =>
      reply.json({
        data: [backupAnswer({ trigger: "daily" }), backupAnswer({ name: "b", state: "pending" })],
        nextCursor: null,
      }),
    )
    .on(`POST ${BACKUP}:delete`, (_request, reply) => reply.json(backupAnswer({ state: "deleted" })));
  const rows = (await rouse(["volume", "backups", "data", "--state", "ready"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^BACKUP +NAME +VOLUME +TRIGGER +STATE +STORED +AGE +KEPT UNTIL$/);
  expect(rows[1]).toMatch(/^bak-\S+ +- +vol-\S+ +daily +ready +50\.0 MiB +\S+ +2031-01-09$/);
  expect(rows[2]).toMatch(/^bak-\S+ +b +vol-\S+ +manual +pending +- /);
  // A volume that is deleted has no name any more, and its backups are still there.
  expect((await rouse(["volume", "backups", VOLUME_ID])).code).toBe(0);
  expect(JSON.parse((await rouse(["volume", "backups", "--json"])).stdout)).toMatchObject({
    data: [{ id: BACKUP_ID }, {}],
  });
  expect(server.of(`GET ${VOLUME}`)).toEqual([]);
  expect(server.of("GET /v1/volume-backups").map(({ query }) => query.toString())).toEqual([
    `volumeId=${VOLUME_ID}&state=ready&limit=100`,
    `volumeId=${VOLUME_ID}&limit=100`,
    "limit=100",
  ]);
  expect((await rouse(["volume", "backup-rm", BACKUP_ID])).stdout).toBe(`${BACKUP_ID}: deleted\n`);
  expect((await rouse(["volume", "backup-rm", "data"])).code).toBe(2);
});

test("backup-policy says what holds now", async () => {
  server.on("POST /v1/volumes/data:backup-policy", (request, reply) => {
    const { daily = true, retentionDays = 7 } = request.json() as { daily?: boolean; retentionDays?: number };
    reply.json(volumeAnswer({ backups: { daily, retentionDays, lastReadyAt: null } }));
  });
  const off = await rouse(["volume", "backup-policy", "data", "--daily", "off"]);
  expect(off.stdout).toBe("data: no daily backups, kept 7 days\n");
  const long = await rouse(["volume", "backup-policy", "data", "--daily", "on", "--retention-days", "30"]);
  expect(long.stdout).toBe("data: a backup a day, kept 30 days\n");
  expect(sent()).toEqual([{ daily: false }, { daily: true, retentionDays: 30 }]);
});

test("create takes volumes by id or name, for writing or reading", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo()));
  const read = "vol-1123456789abcdefghij";
  const words = ["--volume", "data:/data", "--volume", `${read}:/models/a:snapshot`, "--volume", `${read}:/x:y:rw`];
  expect((await rouse(["create", ...words])).code).toBe(0);
  expect((await rouse(["create", "--name", "demo", "--get-or-create", "--volume", `${read}:/a:b/c`])).code).toBe(0);
  expect((await rouse(["create"])).code).toBe(0);
  expect(sent()).toEqual([
    {
      volumes: [
        { volumeId: VOLUME_ID, path: "/data" },
        { volumeId: read, path: "/models/a", mode: "snapshot" },
        { volumeId: read, path: "/x:y", mode: "rw" },
      ],
    },
    { name: "demo", getOrCreate: true, volumes: [{ volumeId: read, path: "/a:b/c" }] },
    {},
  ]);
  server.on("GET /v1/volumes/data", (_request, reply) => reply.error("volume_not_found"));
  expect((await rouse(["create", "--volume", "data:/data"])).code).toBe(3);
});

test("the help has every verb, and the summary of the group", async () => {
  const { stdout } = await rouse(["volume", "--help"]);
  const verbs = ["create", "ls", "get", "update", "resize", "attach", "detach", "rm"];
  for (const verb of [...verbs, "backup", "backups", "backup-rm", "restore", "backup-policy"])
    expect(stdout).toMatch(new RegExp(`^volume ${verb} `, "m"));
  expect((await rouse(["help"])).stdout).toContain("disks that outlive sandboxes");
});

describe("refuses before any request", () => {
  test.each([
    [["volume", "create"], "needs --size-mib"],
    [["volume", "create", "--size-mib", "63"], "--size-mib"],
    [["volume", "create", "--size-mib", "10g"], "--size-mib"],
    [["volume", "create", "data", "--size-mib", "64"], "one word too many"],
    [["volume", "ls", "--state", "deleted"], "--state"],
    [["volume", "get"], "needs <volume>"],
    [["volume", "update", "data"], "needs --name"],
    [["volume", "update", "data", "--name", "x", "--no-name"], "not both"],
    [["volume", "resize", "data"], "needs --size-mib"],
    [["volume", "attach", "data", "demo"], "needs <volume> <sandbox> <path>"],
    [["volume", "attach", "data", "demo", "/data", "--mode", "ro"], "--mode"],
    [["volume", "detach"], "needs <volume>"],
    [["volume", "backup", "data", "--retention-days", "366"], "--retention-days"],
    [["volume", "backup", "data", "--size-mib", "64"], "no option --size-mib"],
    [["volume", "backup-policy", "data"], "needs --daily"],
    [["volume", "backup-policy", "data", "--daily", "yes"], "--daily"],
    [["volume", "data"], "no verb"],
    [["create", "--volume", "data"], "not a volume and a path"],
    [["create", "--volume", ":/data"], "not a volume and a path"],
    [["create", "--volume", "data:data"], "not a volume and a path"],
    [["create", "--volume", "data:/data:ro"], "not a mode"],
    [["create", "--volume", "data:/data", "--snapshot", "snap-0123456789abcdefghij"], "not both"],
  ])("%j", async (words, says) => {
    expect((await bench.refusal(words))?.message).toContain(says);
    expect(server.requests).toEqual([]);
  });
});
