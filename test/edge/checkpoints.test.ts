/** The mirror of a sandbox's checkpoints: what it keeps, from inside and outside, while the machine sleeps. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { checkpointsObject } from "../../durable/checkpoints/api.ts";
import {
  CheckpointList,
  decodeCheckpoint,
  encodeCheckpoint,
  type CheckpointInfo,
} from "../../sdk/contract/checkpoint.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import { INSIDE_TICKET_HEADER } from "../../sdk/contract/egress.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { API, ask, call, created, edge, eventually, fake, faultOf, heartbeat, paused } from "./client.ts";
import { roots } from "./secrets.ts";

beforeEach(async () => {
  await heartbeat();
});

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();

async function container(version: number, value: unknown, savedAt = at(version), name = "job"): Promise<Uint8Array> {
  const body = new Uint8Array(new TextEncoder().encode(JSON.stringify(value)));
  const about = { name, version, savedAt, type: "json" as const, step: version, meta: { by: "a test" } };
  return (await encodeCheckpoint(about, body)) ?? new Uint8Array();
}

function put(sandbox: string, whole: Uint8Array, name = "job"): Promise<Response> {
  return send("PUT", `/v1/sandboxes/${sandbox}/checkpoints/${name}`, whole);
}

function send(method: string, path: string, body: Uint8Array, headers = {}): Promise<Response> {
  const authorization = `Bearer ${env.ROUSE_BOOTSTRAP_KEY ?? ""}`;
  return edge(API + path, { method, headers: { authorization, ...headers }, body: new Uint8Array(body) });
}

async function valueOf(response: Response): Promise<unknown> {
  const read = await decodeCheckpoint(new Uint8Array(await response.arrayBuffer()));
  return read.ok ? JSON.parse(new TextDecoder().decode(read.body)) : read.fault;
}

async function value(sandbox: string, query = "", name = "job"): Promise<unknown> {
  return valueOf(await call("GET", `/v1/sandboxes/${sandbox}/checkpoints/${name}${query}`));
}

async function list(sandbox: string): Promise<CheckpointInfo[]> {
  const { body } = await ask<CheckpointList>("GET", `/v1/sandboxes/${sandbox}/checkpoints`);
  return CheckpointList.parse(body).data;
}

const versions = async (sandbox: string) => (await list(sandbox))[0]?.versions.map(({ version }) => version);

describe("the mirror of checkpoints", () => {
  it("has what was put, while the machine sleeps on", async () => {
    const { name, id } = await paused();
    expect(await list(name)).toEqual([]);
    expect((await faultOf(await call("GET", `/v1/sandboxes/${name}/checkpoints/job`))).code).toBe(
      "checkpoint_not_found",
    );
    const made = await put(name, await container(1, { step: 1 }));
    expect(await made.json()).toMatchObject({ version: 1, step: 1, savedAt: at(1), meta: { by: "a test" } });
    await put(name, await container(2, { step: 2 }));
    expect([await value(name), await value(name, "?version=1")]).toEqual([{ step: 2 }, { step: 1 }]);
    await evictDurableObject(env.CHECKPOINTS.getByName(`default/${name}`));
    expect(await value(id)).toEqual({ step: 2 });
    expect(await list(name)).toMatchObject([{ kind: "checkpoint", sandboxId: id, name: "job", versions: [{}, {}] }]);
    expect((await ask("GET", `/v1/sandboxes/${name}`)).body.state).toBe("paused");
    const object = checkpointsObject(env.CHECKPOINTS, "default", name);
    expect(await object.last(id)).toEqual({ name: "job", version: 2, step: 2, savedAt: at(2) });
  });

  it("keeps the newest five, whatever order they come in, each once", async () => {
    const { name } = await created();
    for (const version of [3, 1, 2]) await put(name, await container(version, version));
    const twice = await container(4, 4);
    expect((await Promise.all([put(name, twice), put(name, twice)])).map(({ status }) => status)).toEqual([200, 200]);
    for (const version of [5, 6, 7]) await put(name, await container(version, version));
    expect(await versions(name)).toEqual([7, 6, 5, 4, 3]);
    await put(name, await container(2, 2));
    expect(await versions(name)).toEqual([7, 6, 5, 4, 3]);
    expect((await faultOf(await call("GET", `/v1/sandboxes/${name}/checkpoints/job?version=2`))).code).toBe(
      "checkpoint_not_found",
    );
  });

  it("follows a disk that went back to an earlier point", async () => {
    const { name } = await created();
    for (const version of [1, 2, 3, 4, 5, 6, 7]) await put(name, await container(version, `first ${version}`));
    await put(name, await container(5, "second 5", at(50)));
    expect([await versions(name), await value(name)]).toEqual([[5, 4, 3], "second 5"]);
    // One of the given-up past that comes late is a late one still.
    await put(name, await container(5, "first 5"));
    expect(await value(name)).toBe("second 5");
    await put(name, await container(2, "third 2", at(60)));
    expect([await versions(name), await value(name)]).toEqual([[2], "third 2"]);
  });

  it("takes 16 MiB, in parts, and no more", async () => {
    const { name } = await created();
    const body = new Uint8Array(16 * 1_048_576).fill(7);
    const about = { name: "job", version: 1, savedAt: at(1), type: "bytes" as const, step: null, meta: {} };
    const whole = await encodeCheckpoint(about, body);
    expect((await put(name, whole ?? body)).status).toBe(200);
    const back = await decodeCheckpoint(
      new Uint8Array(await (await call("GET", `/v1/sandboxes/${name}/checkpoints/job`)).arrayBuffer()),
    );
    expect(back).toMatchObject({ ok: true, header: { bytes: body.length } });
    const larger = await encodeCheckpoint({ ...about, version: 2 }, new Uint8Array(16 * 1_048_576 + 70_000));
    expect((await faultOf(await put(name, larger ?? body))).code).toBe("payload_too_large");
  });

  it("refuses what does not verify, or is another's", async () => {
    const { name } = await created();
    const whole = await container(1, 1);
    for (const [given, called] of [
      [whole.subarray(0, -1), "job"],
      [new Uint8Array(), "job"],
      [whole, "other"],
      [whole, "..%2Fjob"],
      [whole, "x".repeat(129)],
    ] as const)
      expect((await faultOf(await put(name, given, called))).code).toBe("invalid_request");
    const query = await call("GET", `/v1/sandboxes/${name}/checkpoints/job?version=0&more=1`);
    expect((await faultOf(query)).details?.issues?.length).toBe(2);
    expect(await list(name)).toEqual([]);
  });

  it("says when it is full, and keeps what it has", async () => {
    const { name, id } = await created();
    await put(name, await container(1, 1));
    const stub = env.CHECKPOINTS.getByName(`default/${name}`) as DurableObjectStub;
    await runInDurableObject(stub, (_object: object, { storage }) => {
      storage.sql.exec("UPDATE versions SET bytes = 1024 * 1048576");
    });
    expect(await faultOf(await put(name, await container(2, 2)))).toMatchObject({ code: "storage_full", status: 507 });
    expect(await value(name)).toBe(1);
    const object = checkpointsObject(env.CHECKPOINTS, "default", name);
    expect(await object.last(id)).toMatchObject({ version: 1 });
  });

  it("is of one sandbox: not another's, nor a later one's of the name; deleted, it is gone", async () => {
    const { name, id } = await created();
    const { name: other } = await created();
    await put(name, await container(1, 1));
    expect(await list(other)).toEqual([]);
    await put(name, await container(1, 1, at(1), "second"), "second");
    expect((await ask("DELETE", `/v1/sandboxes/${name}/checkpoints/second`)).body).toMatchObject({ deleted: true });
    expect((await list(name)).map((one) => one.name)).toEqual(["job"]);
    const object = checkpointsObject(env.CHECKPOINTS, "default", name);
    await object.purge("other~abcdefghijkl");
    expect(await object.list(id)).toHaveLength(1);
    await ask("DELETE", `/v1/sandboxes/${id}?graceSeconds=0`);
    await eventually(
      () => object.last(id),
      (last) => last === null,
    );
  });

  it("is the machine's own from inside, by its ticket alone", async () => {
    const { name, id } = await created();
    const key = await signingKey(env.ROUSE_SECRET, "inside");
    const ticketOf = (generation: number) =>
      sign(key, { a: "default", s: id, n: name, g: generation, e: Date.now() + 60_000 });
    const ticket = await ticketOf(2);
    const asHost = `Bearer ${await hostKey(roots.host, "fake-1", FIRST_EPOCH)}`;
    const inside = (method: string, path: string, body?: Uint8Array, own = ticket) =>
      edge(`${API}/internal/inside${path}`, {
        method,
        headers: { authorization: asHost, [INSIDE_TICKET_HEADER]: own },
        ...(body ? { body: new Uint8Array(body) } : {}),
      });
    expect((await inside("PUT", "/checkpoints/job", await container(1, "in"))).status).toBe(200);
    expect([await valueOf(await inside("GET", "/checkpoints/job")), await value(name)]).toEqual(["in", "in"]);
    expect((await inside("GET", "/checkpoints/job", undefined, `${ticket}x`)).status).toBe(401);
    // A run that is over, and whose machine does not know yet, changes nothing.
    const stale = await inside("PUT", "/checkpoints/job", await container(2, "old"), await ticketOf(1));
    expect((await faultOf(stale)).code).toBe("stale_generation");
    expect(await value(name)).toBe("in");
    expect((await fake.state(name)).log.filter((line) => line.startsWith("wake"))).toEqual([]);
  });
});
