/** Files that differ between two points of a sandbox's history, as the edge has hosts find out. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import type { Host } from "../../sdk/contract/host.ts";
import type { Diff } from "../../sdk/contract/snapshot.ts";
import { placeAlike, type Point } from "../../durable/sandbox/archive.ts";
import type { SandboxRecord } from "../../durable/sandbox/record.ts";
import { readVaultTicket } from "../../durable/vault/tickets.ts";
import { ask, beatOf, fake, heartbeat, paused, type Fault } from "./client.ts";
import { COMPATIBILITY, store, type Stored } from "./stored.ts";

beforeEach(async () => {
  await heartbeat({ compatibility: COMPATIBILITY });
  for (const hostId of ["spare-1", "rack-7"])
    await heartbeat({ hostId, freeMemoryMiB: 0, compatibility: COMPATIBILITY });
});

const made = { path: "/workspace/new", change: "added", kind: "file", sizeBefore: null, sizeAfter: 7 };

/** A sandbox that slept so often, each time with another state. */
async function slept(times: number): Promise<{ id: string; name: string; states: Stored[] }> {
  const { id, name } = await paused({ keepPauses: times - 1 });
  const states = [await store(id, 1)];
  for (let generation = 2; generation <= times; generation++) {
    await ask("POST", `/v1/sandboxes/${id}:wake`, {});
    await ask("POST", `/v1/sandboxes/${id}:pause`, {});
    states.push(await store(id, generation));
  }
  return { id, name, states };
}

const diff = async (id: string, query = "") =>
  (await ask<Diff & { error: Fault }>("GET", `/v1/sandboxes/${id}/diff${query}`)).body;

it("are those of the two newest points, unless others are named; the sandbox is left alone", async () => {
  const { id, name, states } = await slept(3);
  const before = await fake.state(name);
  expect(await diff(id)).toEqual({ from: "p2", to: "p3", data: [made], truncated: false });
  const [asked] = await fake.diffs(states[2]?.manifest.id ?? "");
  expect(asked).toMatchObject({
    shape: { image: "default" },
    from: { manifest: states[1]?.manifest.id, key: states[1]?.permit.key, vault: states[1]?.permit.vault },
    to: { manifest: states[2]?.manifest.id, key: states[2]?.permit.key },
  });
  expect(await readVaultTicket(env, asked?.from.ticket ?? "")).toMatchObject({ host: "fake-1", write: false });
  expect(await diff(id, "?to=p2")).toMatchObject({ from: "p1", to: "p2" });
  expect(await diff(id, "?from=p1")).toMatchObject({ from: "p1", to: "p3" });
  // Also backwards.
  expect(await diff(id, "?from=p3&to=p1")).toMatchObject({ from: "p3", to: "p1" });
  expect(await diff(id, "?from=p2&to=p2")).toEqual({ from: "p2", to: "p2", data: [], truncated: false });
  expect(await fake.state(name)).toEqual(before);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body).toMatchObject({ state: "paused", generation: 3 });
  // While it runs as well.
  await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  expect(await diff(id)).toMatchObject({ from: "p2", to: "p3", data: [made] });
});

it("need two points that are kept and stored", async () => {
  const { id } = await paused({ keepPauses: 1 });
  expect((await diff(id)).error).toMatchObject({ code: "point_not_found" });
  await store(id, 1);
  expect((await diff(id)).error).toMatchObject({ code: "point_not_found", message: "No point before p1 is kept." });
  expect((await diff(id, "?from=p9&to=p1")).error).toMatchObject({ code: "point_not_found", details: { point: "p9" } });
  expect((await diff(id, "?to=p7")).error).toMatchObject({ code: "point_not_found", details: { point: "p7" } });
  expect((await diff(id, "?until=p7")).error.code).toBe("invalid_request");
  await ask("DELETE", `/v1/sandboxes/${id}`);
  expect((await diff(id)).error.code).toBe("sandbox_gone");
});

it("are found by another host when the sandbox's own has no room or is away", async () => {
  const { id, states } = await slept(2);
  const manifest = states[1]?.manifest.id ?? "";
  await fake.plan({ label: manifest, action: "diff", fail: { code: "no_capacity", message: "full" } });
  // No other has room either.
  expect((await diff(id)).error).toMatchObject({ code: "no_capacity", message: "full" });
  await heartbeat({ hostId: "rack-7", compatibility: COMPATIBILITY });
  await fake.plan({ label: manifest, action: "diff", fail: { code: "no_capacity", message: "full" } });
  expect(await diff(id)).toMatchObject({ data: [made] });
  await fake.plan({ label: manifest, action: "diff", drop: "before" });
  expect(await diff(id)).toMatchObject({ data: [made] });
  const tickets = await Promise.all((await fake.diffs(manifest)).map(({ to }) => readVaultTicket(env, to.ticket)));
  expect(tickets.map((ticket) => ticket?.host)).toEqual(["fake-1", "fake-1", "rack-7", "fake-1", "rack-7"]);
  // What is wrong with a point is so on every host.
  await fake.plan({ label: manifest, action: "diff", fail: { code: "state_damaged", message: "rotten" } });
  expect((await diff(id)).error).toMatchObject({ code: "state_damaged", message: "rotten" });
  // One that is of another kind by now is not asked.
  await heartbeat({ compatibility: "another/kind" });
  expect(await diff(id)).toMatchObject({ data: [made] });
  const last = (await fake.diffs(manifest)).at(-1);
  expect(await readVaultTicket(env, last?.to.ticket ?? "")).toMatchObject({ host: "rack-7" });
});

it("are not for a host of another kind", () => {
  const host: Host = { ...beatOf("h"), live: true, draining: false, lastSeenAt: "", compatibility: "other" };
  const record = { shape: { image: "default", vcpu: 1, memoryMiB: 512, diskMiB: 4096 } } as SandboxRecord;
  const point = { compatibility: COMPATIBILITY } as Point;
  const place = (...hosts: Host[]) => placeAlike(hosts, record, point, "none");
  expect(place(host)).toMatchObject({ failure: { code: "incompatible_host", message: "none" } });
  expect(place({ ...host, live: false })).toMatchObject({ failure: { code: "no_host" } });
  expect(place(host, { ...host, compatibility: COMPATIBILITY, freeMemoryMiB: 1 })).toMatchObject({
    failure: { code: "no_capacity" },
  });
});

it("are for keys that may use sandboxes: they tell what files there are", async () => {
  const { id } = await slept(2);
  const key = async (access: string) =>
    (await ask<{ key: string }>("POST", "/v1/keys", { name: access, access })).body.key;
  const as = async (access: string, path: string) =>
    (await ask("GET", `/v1/sandboxes/${id}${path}`, undefined, { authorization: `Bearer ${await key(access)}` }))
      .status;
  expect([await as("read", "/history"), await as("read", "/diff"), await as("sandboxes", "/diff")]).toEqual([
    200, 403, 200,
  ]);
});
