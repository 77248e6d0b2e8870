/** Runtime's client, pointed here: who may call, what there is none of, and what belongs to an account. */
import { describe, expect, it } from "vitest";
import { CLIENT, RuntimeClient, type Json } from "../support/runtime-client.ts";
import { codeOf, created, fault, logOf, originOf, stage, UUID } from "./runtimes.ts";
import { freshName } from "./test-edge.ts";

const on = stage();

describe("who calls", () => {
  it("a key that is none gets 401 for every kind of call, and nothing wakes", async () => {
    const { id, name } = await created(on);
    await on.runtime.act(id, "pause", {}, 60);
    const stranger = new RuntimeClient(originOf(on.edge), `rouse_default_${"a".repeat(12)}_${"b".repeat(32)}`);
    const path = on.runtime.path(id);
    const calls: (() => Promise<unknown>)[] = [
      () => stranger.call("GET", path),
      () => stranger.call("GET", "/v1/sandboxes"),
      () => stranger.act(id, "exec", { command: "true" }),
      () => stranger.act(id, "wake"),
      () => stranger.bytes(`${path}/files/content`, { path: "/etc/passwd" }),
      () => stranger.call("GET", "/v1/images"),
      () => stranger.socket(`${path}/terminal`),
      () => stranger.socket(`${path}/tunnel`),
    ];
    for (const call of calls) expect(await fault(call())).toMatchObject({ status: 401, code: "unauthorized" });
    expect(await logOf(on, name)).toEqual(["create 1", "pause 1"]);
  });

  it("says who has the key, what was used, and what is left", async () => {
    const me = await on.runtime.call("GET", "/v1/me");
    expect(me).toMatchObject({ orgId: "default", apiVersion: "0.2.0", role: "owner" });
    for (const field of ["principalId", "credentialId", "orgName"]) expect(me[field]).toEqual(expect.any(String));
    const usage = await on.runtime.call("GET", "/v1/usage");
    expect(usage).toMatchObject({ unit: "microdollars", trial: null, resources: [] });
    for (const field of ["credited", "spent", "held", "expired", "available", "takenBack"])
      expect(usage[field]).toMatch(/^-?\d+$/);
    const none = { limitMicros: null, usedMicros: 0, remainingMicros: null, window: "24h" };
    expect(await on.runtime.call("GET", "/v1/limits")).toEqual({ access: "full", daily: none, trial: null });
  });
});

describe("what is not there", () => {
  const unoffered: readonly (readonly [string, string, object?])[] = [
    ["POST", "/v1/images", { image: "debian" }],
    ["GET", "/v1/images/resolve?ref=base"],
    ["POST", "/v1/jobs", { name: "a" }],
    ["GET", "/v1/secrets?limit=100"],
    ["POST", "/v1/webhooks", { url: "https://a.test" }],
    ["GET", "/v1/otel-exports"],
    ["GET", "/v1/domains"],
    ["POST", "/v1/domains/a.test:verify"],
    ["GET", "/v1/ports"],
    ["GET", "/v1/network/private"],
    ["GET", "/v1/usage/requests?range=24h"],
    ["GET", "/v1/audit"],
    ["POST", "/v1/feedback", { text: "good" }],
    ["POST", "ID/mounts", {}],
    ["POST", "ID/browser:start", {}],
    ["POST", "ID/desktop:stop"],
    ["GET", "ID/metrics?range=1h"],
    ["POST", "ID:switch-image", { image: "a", keep: "workspace" }],
    ["POST", "ID:resize", { vcpu: 4, restart: true }],
  ];
  it("answers 503 unavailable, which that client never tries again, and says what there is instead", async () => {
    const { id, name } = await created(on);
    await on.runtime.act(id, "pause", {}, 60);
    const before = on.runtime.sent;
    for (const [method, path, json] of unoffered) {
      const asked = on.runtime.call(method, path.replace("ID", on.runtime.path(id)), json ? { json } : {});
      const { status, code, hint, message } = await fault(asked);
      expect([path, status, code, hint, message]).toEqual([
        path,
        503,
        "unavailable",
        expect.any(String),
        expect.any(String),
      ]);
    }
    expect(on.runtime.sent - before).toBe(unoffered.length);
    expect(await logOf(on, name)).toEqual(["create 1", "pause 1"]);
  });

  it("refuses fields that ask for it, and only then", async () => {
    const create = (json: Json) => on.runtime.call("POST", "/v1/sandboxes", { json });
    expect(await fault(create({ tailscale: { authKeySecret: "ts" } }))).toMatchObject({
      code: "unavailable",
      status: 503,
    });
    expect(await fault(create({ cpu: "reserved" }))).toMatchObject({ details: { field: "cpu" } });
    expect(await codeOf(on.runtime.call("POST", "/v1/volumes", { json: { sizeMiB: 64, shared: true } }))).toBe(
      "unavailable",
    );
    expect(await create({ cpu: "shared", tailscale: null })).toMatchObject({ cpu: "shared" });
  });
});

describe("network, secrets, volumes, tools, events", () => {
  it("rules of the network", async () => {
    const { id } = await created(on, { network: { internet: false, allow: ["api.test"] } });
    const path = `${on.runtime.path(id)}/network`;
    const shape = {
      sandboxId: id,
      deny: [],
      connect: [],
      ports: [],
      connectAllowed: false,
      forbiddenPorts: expect.any(Array),
    };
    expect(await on.runtime.call("GET", path)).toMatchObject({ ...shape, internet: false, allow: ["api.test"] });
    const set = await on.runtime.call("PUT", path, { json: { internet: true } });
    expect(set).toMatchObject({
      internet: true,
      version: expect.any(Number),
      enforced: true,
      updatedAt: expect.any(String),
    });
    await on.runtime.call("PUT", path, { json: { internet: false, allow: [], deny: ["*.bad.test"], connect: [] } });
    expect(await on.runtime.call("GET", path)).toMatchObject({ internet: false, allow: [], deny: ["*.bad.test"] });
  });

  it("secrets for requests, which every sandbox has that is made afterwards", async () => {
    const put = await on.runtime.call("PUT", "/v1/egress-secrets/API_TOKEN", {
      json: { value: "s3cret-value", hosts: ["api.test"], rules: [{ methods: ["GET"], paths: ["/v1/*"] }] },
    });
    expect(put).toMatchObject({
      name: "API_TOKEN",
      hosts: ["api.test"],
      valueBytes: 12,
      placeholder: expect.any(String),
    });
    expect(JSON.stringify(put)).not.toContain("s3cret");
    const json = { value: "k", hosts: ["b.test"], header: "x-key", format: "Key {value}" };
    expect(await on.runtime.call("PUT", "/v1/egress-secrets/B", { json })).toMatchObject({
      header: "x-key",
      format: "Key {value}",
    });
    await on.edge.ask("PUT", "/v1/secrets/of-programs", { value: "x", mode: "env" });
    const { secrets } = await on.runtime.call<{ secrets: Json[] }>("GET", "/v1/egress-secrets");
    expect(secrets.map((one) => one["name"])).toEqual(["API_TOKEN", "B"]);
    const { name } = await created(on);
    const told = await on.edge.ask<{ secrets: string[] }>("GET", `/v1/sandboxes/${name}`);
    expect(told.body.secrets).toEqual(["API_TOKEN", "B"]);
    expect(await on.runtime.call("DELETE", "/v1/egress-secrets/B")).toMatchObject({ name: "B", deleted: true });
    await on.runtime.call("DELETE", "/v1/egress-secrets/API_TOKEN");
  });

  it("volumes", async () => {
    const name = freshName();
    const json = { sizeMiB: 1024, name, labels: { a: "b" }, region: "us-east", shared: false };
    const volume = await on.runtime.call("POST", "/v1/volumes", { json, wait: 10 });
    expect(volume).toMatchObject({
      ...{ kind: "volume", state: "ready", status: "ready", name, sizeMiB: 1024, filesystem: "ext4", usedMiB: null },
      ...{ measuredAt: null, backedUp: false, restoredFrom: null, attachments: [], error: null },
      backups: { daily: expect.any(Boolean), retentionDays: expect.any(Number), lastReadyAt: null },
    });
    const path = `/v1/volumes/${String(volume["id"])}`;
    const { id } = await created(on, { volumes: [{ volumeId: volume["id"], path: "/data", mode: "rw" }] });
    const held = await on.runtime.call<{ attachments: Json[] }>("GET", path);
    expect(held.attachments).toMatchObject([{ sandboxId: id, mode: "rw", path: "/data" }]);
    expect(await on.runtime.all("/v1/volumes", { name, state: "ready" })).toHaveLength(1);
    const other = (await created(on)).id;
    const taken = on.runtime.call("POST", `${path}:attach`, { json: { sandboxId: other, path: "/x" }, wait: 10 });
    expect(await fault(taken)).toMatchObject({ code: "volume_attached", details: { sandboxId: id } });
    await on.runtime.call("DELETE", on.runtime.path(id));
    const policy = await on.runtime.call("POST", `${path}:backup-policy`, { json: { daily: true, retentionDays: 3 } });
    expect(policy["backups"]).toMatchObject({ daily: true, retentionDays: 3 });
    expect(await on.runtime.call("POST", `${path}:resize`, { json: { sizeMiB: 2048 }, wait: 10 })).toMatchObject({
      sizeMiB: 2048,
    });
  });

  it("attaches a volume to a sandbox by its UUID", async () => {
    const { id } = await created(on);
    const volume = await on.runtime.call("POST", "/v1/volumes", { json: { sizeMiB: 64 }, wait: 10 });
    const json = { sandboxId: id, path: "/data" };
    const attachment = await on.runtime.call("POST", `/v1/volumes/${String(volume["id"])}:attach`, { json, wait: 10 });
    expect(attachment).toMatchObject({ volumeId: volume["id"], sandboxId: id, path: "/data", mode: "rw" });
  });

  it("MCP servers", async () => {
    const { data } = await on.runtime.call<{ data: Json[] }>("GET", "/v1/mcp/catalog");
    expect(data.length).toBeGreaterThan(5);
    for (const one of data)
      for (const field of ["id", "title", "description", "license", "source", "version", "env", "options", "egress"])
        expect(one).toHaveProperty(field);
    const { id } = await created(on);
    expect(await on.runtime.call("GET", `${on.runtime.path(id)}/mcp`)).toMatchObject({ running: false, servers: [] });
    expect(await on.runtime.call("DELETE", `${on.runtime.path(id)}/mcp`)).toEqual({ stopped: true });
  });

  it("what happened to a sandbox", async () => {
    const { id } = await created(on);
    await on.runtime.act(id, "pause", {}, 60);
    const events = await on.runtime.all("/v1/events", { resourceId: id, limit: 2 });
    expect(events.map((one) => one["type"])).toEqual(["sandbox.created", "sandbox.running", "sandbox.paused"]);
    for (const one of events)
      expect(one).toMatchObject({ resourceId: id, createdAt: expect.any(String), data: expect.any(Object) });
    const paused = await on.runtime.all("/v1/events", { resourceId: id, type: "sandbox.paused" });
    expect(paused).toHaveLength(1);
    expect(await codeOf(on.runtime.call("GET", "/v1/events"))).toBe("unavailable");
  });

  it("says nothing of ids to those who did not ask for UUIDs", async () => {
    const { name } = await created(on);
    const plain = new RuntimeClient(originOf(on.edge), on.edge.apiKey, null);
    expect((await plain.call("GET", plain.path(name)))["id"]).toMatch(new RegExp(`^${name}~`));
    const raw = new RuntimeClient(originOf(on.edge), on.edge.apiKey, "http/2026-10-04");
    expect((await raw.call("GET", raw.path(name)))["id"]).toMatch(UUID);
    expect(CLIENT).toMatch(/^sdk-js/);
  });
});
