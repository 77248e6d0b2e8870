import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ConflictError, NotFoundError, Rouse, ServiceUnavailableError } from "../../sdk/src/index.ts";
import type { Sandbox } from "../../sdk/src/index.ts";
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
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const CREATE = "POST /v1/volumes";
const ATTACH = `POST ${VOLUME}:attach`;
const DETACH = `POST ${ATTACHMENT}:detach`;
const TAKE_BACKUP = `POST ${VOLUME}:backup`;
const OTHER = "other~abcdefghijkl";

let server: WireServer;
let rouse: Rouse;

beforeEach(async () => {
  server = await WireServer.start();
  rouse = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY });
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

/** What was asked for, in order. */
function asked(): string[] {
  return server.requests.map(({ method, path }) => `${method} ${path}`);
}

/** What a promise is rejected with. */
function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => null,
    (error: unknown) => error,
  );
}

describe("a volume", () => {
  test("is made as asked for, once however often the answer is lost", async () => {
    server.on(CREATE, (_request, reply, count) => (count === 0 ? reply.cut() : reply.json(volumeAnswer())));
    const input = { name: "data", sizeMiB: 10_240, labels: { a: "b" } };
    expect(await rouse.volumes.create(input)).toEqual(volumeAnswer());
    expect(server.requests.map((request) => request.json())).toEqual([input, input]);
    expect(new Set(server.requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
    expect(server.requests[0]?.headers["prefer"]).toBe("wait=60");
  });

  test("is waited for until it is ready, unless told not to", async () => {
    server
      .on(CREATE, (_request, reply) => reply.json(volumeAnswer({ state: "creating" })))
      .on(`GET ${VOLUME}`, (_request, reply) => reply.json(volumeAnswer()));
    expect((await rouse.volumes.create({ sizeMiB: 64 })).state).toBe("ready");
    expect(asked()).toEqual([CREATE, `GET ${VOLUME}`]);
    server.requests.length = 0;
    expect((await rouse.volumes.create({ sizeMiB: 64 }, { wait: false })).state).toBe("creating");
    expect(asked()).toEqual([CREATE]);
    expect(server.requests[0]?.headers["prefer"]).toBeUndefined();
  });

  test("that fails says why", async () => {
    server.on(CREATE, (_request, reply) => reply.json(volumeAnswer({ state: "failed", error: "no store" })));
    const error = await failure(rouse.volumes.create({ sizeMiB: 64 }));
    expect(error).toBeInstanceOf(ServiceUnavailableError);
    expect(error).toMatchObject({
      code: "volume_failed",
      message: expect.stringContaining("no store") as unknown,
      details: { volumeId: VOLUME_ID },
    });
  });

  test("that takes too long is named in the error", async () => {
    server
      .on(CREATE, (_request, reply) => reply.json(volumeAnswer({ state: "creating" })))
      .on(`GET ${VOLUME}`, (_request, reply) => reply.json(volumeAnswer({ state: "creating" })));
    await expect(rouse.volumes.create({ sizeMiB: 64 }, { timeoutMs: 200 })).rejects.toMatchObject({
      code: "timeout",
      details: { volumeId: VOLUME_ID },
    });
  });

  test("is begun from a backup, as large as that unless said", async () => {
    server.on(CREATE, (_request, reply) => reply.json(volumeAnswer({ restoredFrom: BACKUP_ID })));
    expect((await rouse.volumes.restore(BACKUP_ID)).restoredFrom).toBe(BACKUP_ID);
    await rouse.volumes.restore(BACKUP_ID, { name: "again", sizeMiB: 20_480, labels: { a: "b" } });
    await rouse.volumes.create({ fromBackup: BACKUP_ID });
    expect(server.requests.map((request) => request.json())).toEqual([
      { fromBackup: BACKUP_ID },
      { name: "again", sizeMiB: 20_480, labels: { a: "b" }, fromBackup: BACKUP_ID },
      { fromBackup: BACKUP_ID },
    ]);
  });

  test("is read, renamed, grown and deleted by id or name, each change under a key", async () => {
    server
      .on(`GET ${VOLUME}`, (_request, reply) => reply.json(volumeAnswer()))
      .on("GET /v1/volumes/my%20data%2F1", (_request, reply) => reply.json(volumeAnswer({ name: "my data/1" })))
      .on(`POST ${VOLUME}:update`, (_request, reply) => reply.json(volumeAnswer({ name: null })))
      .on(`POST ${VOLUME}:resize`, (_request, reply) => reply.json(volumeAnswer({ sizeMiB: 20_480 })))
      .on(`POST ${VOLUME}:backup-policy`, (_request, reply) => reply.json(volumeAnswer()))
      .on("POST /v1/volumes/data:delete", (_request, reply) => reply.json(volumeAnswer({ state: "deleted" })));
    expect((await rouse.volume.get(VOLUME_ID)).id).toBe(VOLUME_ID);
    expect((await rouse.volumes.get("my data/1")).name).toBe("my data/1");
    server.requests.length = 0;
    expect((await rouse.volumes.update(VOLUME_ID, { name: null, labels: {} })).name).toBeNull();
    expect((await rouse.volumes.resize(VOLUME_ID, 20_480)).sizeMiB).toBe(20_480);
    expect((await rouse.volumes.setBackupPolicy(VOLUME_ID, { daily: false, retentionDays: 30 })).id).toBe(VOLUME_ID);
    await rouse.volumes.delete("data");
    expect(server.requests.map((request) => request.json())).toEqual([
      { name: null, labels: {} },
      { sizeMiB: 20_480 },
      { daily: false, retentionDays: 30 },
      {},
    ]);
    expect(new Set(server.requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(4);
    server.on(`POST ${VOLUME}:resize`, (_request, reply) => reply.error("disk_too_small"));
    await expect(rouse.volumes.resize(VOLUME_ID, 64)).rejects.toMatchObject({ code: "disk_too_small" });
    server.on(`GET ${VOLUME}`, (_request, reply) => reply.error("volume_not_found"));
    await expect(rouse.volumes.get(VOLUME_ID)).rejects.toBeInstanceOf(NotFoundError);
  });

  test("and its backups are listed page by page with the same filter", async () => {
    server
      .on("GET /v1/volumes", (request, reply) => {
        const at = Number(request.query.get("cursor") ?? 0);
        reply.json({ data: [volumeAnswer({ name: `n${at}` })], nextCursor: at < 2 ? String(at + 1) : null });
      })
      .on("GET /v1/volume-backups", (request, reply) => {
        const last = request.query.has("cursor");
        reply.json({ data: [backupAnswer({ name: last ? "b" : "a" })], nextCursor: last ? null : "2" });
      });
    const names: (string | null)[] = [];
    for await (const { name } of await rouse.volumes.list({ name: "n", state: "ready", limit: 1 })) names.push(name);
    expect(names).toEqual(["n0", "n1", "n2"]);
    expect(server.requests.at(-1)?.query.toString()).toBe("name=n&state=ready&limit=1&cursor=2");
    const page = await rouse.volumes.backups({ volumeId: VOLUME_ID, state: "ready", limit: 1 });
    expect((await page.toArray()).map(({ name }) => name)).toEqual(["a", "b"]);
    expect(server.requests.at(-1)?.query.toString()).toBe(`volumeId=${VOLUME_ID}&state=ready&limit=1&cursor=2`);
    expect((await rouse.volumes.backups()).hasMore).toBe(true);
  });

  test.each(["", ".", ".."])("has no name %j that could mean another path", async (name) => {
    await expect(rouse.volumes.get(name)).rejects.toMatchObject({
      code: "invalid_argument",
      message: expect.not.stringContaining("sandbox") as unknown,
    });
    await expect(rouse.volumes.delete(name)).rejects.toMatchObject({ code: "invalid_argument" });
    expect(server.requests).toEqual([]);
  });
});

describe("a backup", () => {
  test("is waited for until it is stored", async () => {
    server
      .on(TAKE_BACKUP, (_request, reply) => reply.json(backupAnswer({ state: "pending" }), 202))
      .on(`GET ${BACKUP}`, (_request, reply, count) =>
        reply.json(backupAnswer({ state: count === 0 ? "pending" : "ready" })),
      );
    const options = { name: "nightly", labels: { by: "cron" }, retentionDays: 30 };
    expect(await rouse.volumes.backup(VOLUME_ID, options)).toEqual(backupAnswer());
    expect(asked()).toEqual([TAKE_BACKUP, `GET ${BACKUP}`, `GET ${BACKUP}`]);
    expect(server.requests[0]?.json()).toEqual(options);
    expect(server.requests[0]?.headers["prefer"]).toBe("wait=60");
  });

  test("without wait is answered while it is being stored", async () => {
    server.on(TAKE_BACKUP, (_request, reply) => reply.json(backupAnswer({ state: "pending" }), 202));
    expect((await rouse.volumes.backup(VOLUME_ID, { wait: false, idempotencyKey: "b-1" })).state).toBe("pending");
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.json()).toEqual({});
    expect(server.requests[0]?.headers["idempotency-key"]).toBe("b-1");
    expect(server.requests[0]?.headers["prefer"]).toBeUndefined();
  });

  test("that fails says why, and is not tried again", async () => {
    server
      .on(TAKE_BACKUP, (_request, reply) => reply.json(backupAnswer({ state: "pending" })))
      .on(`GET ${BACKUP}`, (_request, reply) =>
        reply.json(backupAnswer({ state: "failed", error: "the host was lost" })),
      );
    const error = await failure(rouse.volumes.backup(VOLUME_ID));
    expect(error).toBeInstanceOf(ServiceUnavailableError);
    expect(error).toMatchObject({
      code: "backup_failed",
      message: expect.stringContaining("the host was lost") as unknown,
      details: { backupId: BACKUP_ID, volumeId: VOLUME_ID, state: "failed" },
    });
    expect(server.of(TAKE_BACKUP)).toHaveLength(1);
  });

  test("that takes too long is named in the error, and can be given up", async () => {
    const giveUp = new AbortController();
    server
      .on(TAKE_BACKUP, (_request, reply) => reply.json(backupAnswer({ state: "pending" })))
      .on(`GET ${BACKUP}`, (_request, reply) => reply.json(backupAnswer({ state: "pending" })));
    await expect(rouse.volumes.backup(VOLUME_ID, { timeoutMs: 200 })).rejects.toMatchObject({
      code: "timeout",
      retryable: true,
      details: { backupId: BACKUP_ID },
    });
    server.on(`GET ${BACKUP}`, (_request, reply) => {
      giveUp.abort();
      reply.json(backupAnswer({ state: "pending" }));
    });
    const options = { signal: giveUp.signal, timeoutMs: 0 };
    await expect(rouse.volumes.backup(VOLUME_ID, options)).rejects.toMatchObject({ code: "cancelled" });
  });

  test("is read and deleted by its id", async () => {
    server
      .on(`GET ${BACKUP}`, (_request, reply) => reply.json(backupAnswer()))
      .on(`POST ${BACKUP}:delete`, (_request, reply) => reply.json(backupAnswer({ state: "deleted" })));
    expect((await rouse.volumes.getBackup(BACKUP_ID)).storedBytes).toBe(52_428_800);
    await rouse.volumes.deleteBackup(BACKUP_ID);
    server.on(`GET ${BACKUP}`, (_request, reply) => reply.error("backup_not_found"));
    await expect(rouse.volumes.getBackup(BACKUP_ID)).rejects.toBeInstanceOf(NotFoundError);
  });

  test.each(["", "..", "bak-1", VOLUME_ID, `${BACKUP_ID}/..`])("has no id %j", async (id) => {
    await expect(rouse.volumes.getBackup(id)).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(rouse.volumes.deleteBackup(id)).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(rouse.volumes.restore(id)).rejects.toMatchObject({ code: "invalid_argument" });
    expect(server.requests).toEqual([]);
  });
});

describe("attaching", () => {
  let sandbox: Sandbox;
  const mount = {
    attachmentId: ATTACHMENT_ID,
    volumeId: VOLUME_ID,
    path: "/data",
    mode: "rw",
    sizeMiB: 10_240,
  } as const;

  beforeEach(async () => {
    server.on(`GET ${SANDBOX}`, (_request, reply, count) =>
      reply.json(count === 0 ? sandboxInfo() : sandboxInfo({ volumes: [mount] })),
    );
    sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
    server.requests.length = 0;
  });

  test("is waited for until the volume is there, and the sandbox shows it", async () => {
    server
      .on(ATTACH, (_request, reply) => reply.json(attachmentAnswer({ state: "attaching" })))
      .on(`GET ${ATTACHMENT}`, (_request, reply) => reply.json(attachmentAnswer()));
    expect(sandbox.volumes).toEqual([]);
    expect((await sandbox.attachVolume(VOLUME_ID, "/data")).state).toBe("active");
    expect(sandbox.volumes).toEqual([mount]);
    expect(asked()).toEqual([ATTACH, `GET ${ATTACHMENT}`, `GET ${SANDBOX}`]);
    expect(server.requests[0]?.json()).toEqual({ sandboxId: sandbox.id, path: "/data" });
    expect(server.requests[0]?.headers["prefer"]).toBe("wait=60");
  });

  test("takes a sandbox as a handle or a word, and a volume as an answer or a word", async () => {
    server
      .on(ATTACH, (_request, reply) => reply.json(attachmentAnswer()))
      .on("POST /v1/volumes/data:attach", (_request, reply) => reply.json(attachmentAnswer()));
    await rouse.volumes.attach("data", { sandbox: "demo", path: "/data" });
    await rouse.volumes.attach(VOLUME_ID, { sandbox, path: "/data", mode: "rw" });
    await sandbox.attachVolume(volumeAnswer(), "/old", { mode: "snapshot" });
    expect(server.requests.filter(({ method }) => method === "POST").map((request) => request.json())).toEqual([
      { sandboxId: "demo", path: "/data" },
      { sandboxId: sandbox.id, path: "/data", mode: "rw" },
      { sandboxId: sandbox.id, path: "/old", mode: "snapshot" },
    ]);
  });

  test("waits for a volume that another is letting go, not for one that another has", async () => {
    server.on(ATTACH, (_request, reply, count) =>
      count < 6 ? reply.error("volume_releasing", { retryAfterMs: 1 }) : reply.json(attachmentAnswer()),
    );
    expect((await sandbox.attachVolume(VOLUME_ID, "/data")).state).toBe("active");
    expect(server.of(ATTACH)).toHaveLength(7);
    expect(new Set(server.of(ATTACH).map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
    server.on(ATTACH, (_request, reply) => reply.error("volume_attached", { details: { sandboxId: OTHER } }));
    const error = await failure(sandbox.attachVolume(VOLUME_ID, "/data"));
    expect(error).toBeInstanceOf(ConflictError);
    expect(error).toMatchObject({ code: "volume_attached", retryable: false, details: { sandboxId: OTHER } });
    expect(server.of(ATTACH)).toHaveLength(8);
  });

  test("that fails says why, and is not tried again", async () => {
    server.on(ATTACH, (_request, reply) => reply.error("volume_failed", { message: "no such file system" }));
    await expect(sandbox.attachVolume(VOLUME_ID, "/data")).rejects.toMatchObject({
      code: "volume_failed",
      message: "no such file system",
      retryable: false,
    });
    server.on(ATTACH, (_request, reply) => reply.json(attachmentAnswer({ state: "detached", error: "it stopped" })));
    await expect(sandbox.attachVolume(VOLUME_ID, "/data")).rejects.toMatchObject({
      code: "volume_failed",
      message: expect.stringContaining("it stopped") as unknown,
      details: { attachmentId: ATTACHMENT_ID, sandboxId: sandbox.id },
    });
    expect(server.of(ATTACH)).toHaveLength(2);
  });
});

test("a volume that a sandbox is letting go is backed up and deleted once it is free", async () => {
  server
    .on(TAKE_BACKUP, (_request, reply, count) =>
      count < 6 ? reply.error("volume_releasing", { retryAfterMs: 1 }) : reply.json(backupAnswer()),
    )
    .on(`POST ${VOLUME}:delete`, (_request, reply, count) =>
      count < 6 ? reply.error("volume_releasing", { retryAfterMs: 1 }) : reply.json(volumeAnswer({ state: "deleted" })),
    );
  expect((await rouse.volumes.backup(VOLUME_ID)).state).toBe("ready");
  await rouse.volumes.delete(VOLUME_ID);
  expect(server.requests).toHaveLength(14);
  server.on(`POST ${VOLUME}:delete`, (_request, reply) => reply.error("volume_attached"));
  await expect(rouse.volumes.delete(VOLUME_ID)).rejects.toMatchObject({ code: "volume_attached" });
  expect(server.requests).toHaveLength(15);
});

describe("detaching", () => {
  test("is waited for until what was written is stored", async () => {
    server
      .on(DETACH, (_request, reply) => reply.json(attachmentAnswer({ state: "detaching" })))
      .on(`GET ${ATTACHMENT}`, (_request, reply, count) =>
        reply.json(attachmentAnswer({ state: count === 0 ? "detaching" : "detached" })),
      );
    expect((await rouse.volumes.detach(VOLUME_ID, ATTACHMENT_ID)).state).toBe("detached");
    expect(asked()).toEqual([DETACH, `GET ${ATTACHMENT}`, `GET ${ATTACHMENT}`]);
    expect(server.requests[0]?.headers["prefer"]).toBe("wait=60");
    expect((await rouse.volumes.attachment(VOLUME_ID, ATTACHMENT_ID)).state).toBe("detached");
    server.requests.length = 0;
    expect((await rouse.volumes.detach(VOLUME_ID, ATTACHMENT_ID, { wait: false })).state).toBe("detaching");
    expect(asked()).toEqual([DETACH]);
  });

  test("that takes too long goes on", async () => {
    server
      .on(DETACH, (_request, reply) => reply.json(attachmentAnswer({ state: "detaching" })))
      .on(`GET ${ATTACHMENT}`, (_request, reply) => reply.json(attachmentAnswer({ state: "detaching" })));
    await expect(rouse.volumes.detach(VOLUME_ID, ATTACHMENT_ID, { timeoutMs: 200 })).rejects.toMatchObject({
      code: "timeout",
      details: { attachmentId: ATTACHMENT_ID },
    });
  });

  test("that does not come about is a failure: a program uses it, or it is attached still", async () => {
    server.on(DETACH, (_request, reply) => reply.error("volume_busy"));
    await expect(rouse.volumes.detach(VOLUME_ID, ATTACHMENT_ID)).rejects.toMatchObject({ code: "volume_busy" });
    server.on(DETACH, (_request, reply) => reply.json(attachmentAnswer({ error: "not unplugged" })));
    await expect(rouse.volumes.detach(VOLUME_ID, ATTACHMENT_ID)).rejects.toMatchObject({
      code: "volume_failed",
      message: expect.stringContaining("not unplugged") as unknown,
    });
  });

  test("by a sandbox takes its own attachment, the one that is not going already", async () => {
    const own = "att-1123456789abcdefghij";
    const attachments = [
      attachmentAnswer({ id: "att-2123456789abcdefghij", sandboxId: OTHER }),
      attachmentAnswer({ state: "detaching" }),
      attachmentAnswer({ id: own, mode: "snapshot" }),
    ];
    const detach = `POST ${VOLUME}/attachments/${own}:detach`;
    server
      .on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo({ volumes: [] })))
      .on("GET /v1/volumes/data", (_request, reply) => reply.json(volumeAnswer({ attachments })))
      .on(detach, (_request, reply) => reply.json(attachmentAnswer({ id: own, state: "detached" })));
    const sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
    server.requests.length = 0;
    expect((await sandbox.detachVolume("data")).state).toBe("detached");
    expect(asked()).toEqual(["GET /v1/volumes/data", detach, `GET ${SANDBOX}`]);
    server.on("GET /v1/volumes/data", (_request, reply) =>
      reply.json(volumeAnswer({ attachments: attachments.slice(0, 1) })),
    );
    await expect(sandbox.detachVolume("data")).rejects.toMatchObject({ code: "attachment_not_found", status: 404 });
  });

  test.each(["", "..", "demo", VOLUME_ID, `${ATTACHMENT_ID}/..`])("has no id %j", async (id) => {
    await expect(rouse.volumes.detach(VOLUME_ID, id)).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(rouse.volumes.attachment(VOLUME_ID, id)).rejects.toMatchObject({ code: "invalid_argument" });
    expect(server.requests).toEqual([]);
  });
});

describe("a sandbox", () => {
  const volumes = [{ volumeId: VOLUME_ID, path: "/data", mode: "snapshot" as const }];

  test("is made with volumes, once those that are being let go are free", async () => {
    server.on("POST /v1/sandboxes", (_request, reply, count) =>
      count < 6 ? reply.error("volume_releasing", { retryAfterMs: 1 }) : reply.json(sandboxInfo()),
    );
    expect((await rouse.sandboxes.create({ volumes })).state).toBe("running");
    expect(server.requests).toHaveLength(7);
    expect(new Set(server.requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
    expect(server.requests[0]?.json()).toEqual({ volumes });
  });

  test("is refused at once when nobody wants to wait, and when another writes", async () => {
    server.on("POST /v1/sandboxes", (_request, reply) => reply.error("volume_releasing", { retryAfterMs: 1 }));
    const hasty = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY, waitForCapacityMs: 0 });
    const refused = { code: "volume_releasing", retryable: true, retryAfterMs: 1 };
    await expect(hasty.sandboxes.create({ volumes })).rejects.toMatchObject(refused);
    server.on("POST /v1/sandboxes", (_request, reply) => reply.error("volume_attached"));
    await expect(rouse.sandboxes.create({ volumes })).rejects.toMatchObject({ code: "volume_attached" });
    expect(server.requests).toHaveLength(2);
  });
});
