import { beforeEach, describe, expect, it, vi } from "vitest";
import { NewHost, type Host } from "../../sdk/contract/host.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import {
  API,
  ask,
  beatOf,
  call,
  edge,
  fake,
  faultOf,
  freshName,
  heartbeat,
  hostUrl,
  paused,
  secrets,
} from "./client.ts";
import { roots } from "./secrets.ts";

beforeEach(async () => {
  await heartbeat();
});

describe("hosts", () => {
  it("are listed with what they last said, and are not live when silent", async () => {
    await heartbeat({ acceleratorReason: "naïve \u2014 名前" });
    const live = (await ask<{ data: Host[] }>("GET", "/v1/hosts")).body.data;
    expect(live).toMatchObject([
      { hostId: "fake-1", url: hostUrl, live: true, accelerator: "fake", acceleratorReason: "naïve \u2014 名前" },
    ]);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 16_000);
    try {
      expect((await ask<{ data: Host[] }>("GET", "/v1/hosts")).body.data[0]?.live).toBe(false);
      expect((await ask("POST", "/v1/sandboxes", { name: freshName() })).body.error.code).toBe("no_host");
    } finally {
      vi.useRealTimers();
    }
  });

  it("need the secret, in the right place", async () => {
    const answer = await edge(`${API}/internal/hosts/fake-1/heartbeat`, {
      method: "POST",
      body: "{}",
      headers: { authorization: `Bearer ${secrets.apiKey}` },
    });
    expect(answer.status).toBe(401);
    expect((await heartbeat({ hostId: "Bad Host" })).status).toBe(401);
    const key = await hostKey(roots.host, "fake-1", FIRST_EPOCH);
    const beat = (hostId: string, bearer: string) =>
      edge(`${API}/internal/hosts/${hostId}/heartbeat`, {
        method: "POST",
        headers: { authorization: `Bearer ${bearer}` },
        body: JSON.stringify({ ...beatOf(hostId) }),
      });
    expect((await faultOf(await beat("other", key))).code).toBe("forbidden");
    expect((await beat("fake-1", `${key.slice(0, -1)}${key.endsWith("A") ? "B" : "A"}`)).status).toBe(401);
    expect((await beat("fake-1", key)).status).toBe(200);
  });

  it("that drain take no new machines, and go on with those they have", async () => {
    const { id } = await paused();
    const drained = await ask<Host>("POST", "/v1/hosts/fake-1:drain", {});
    expect(drained.body).toMatchObject({ hostId: "fake-1", draining: true, live: true });
    const beat = await heartbeat();
    expect(await beat.json()).toMatchObject({ ok: true, draining: true });
    expect((await ask("POST", "/v1/sandboxes", { name: freshName() })).body.error.code).toBe("no_host");
    expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body.state).toBe("running");
    expect((await ask<Host>("POST", "/v1/hosts/fake-1:drain", { draining: false })).body.draining).toBe(false);
    expect((await ask("POST", "/v1/sandboxes", { name: freshName() })).status).toBe(200);
  });

  it("that are full refuse with a time to come back, and nothing is made", async () => {
    await heartbeat({ freeMemoryMiB: 1000 });
    const name = freshName();
    const answer = await call("POST", "/v1/sandboxes", { name });
    expect(answer.status).toBe(409);
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await faultOf(answer)).code).toBe("no_capacity");
    expect((await call("GET", `/v1/sandboxes/${name}`)).status).toBe(410);
    expect((await fake.state(name)).machines).toEqual([]);
    await heartbeat();
    expect((await ask("POST", "/v1/sandboxes", { name })).status).toBe(200);
  });

  it("can be forgotten once they are silent, and are back when they report", async () => {
    await heartbeat({ hostId: "old-1", url: "http://127.0.0.1:9" });
    expect((await faultOf(await call("DELETE", "/v1/hosts/old-1"))).code).toBe("conflict");
    vi.useFakeTimers({ toFake: ["Date"] });
    // Silent, but within its lease: it may still run machines.
    vi.setSystemTime(Date.now() + 44_000);
    try {
      expect((await faultOf(await call("DELETE", "/v1/hosts/old-1"))).code).toBe("conflict");
      vi.setSystemTime(Date.now() + 2000);
      expect((await ask("DELETE", "/v1/hosts/old-1")).body).toEqual({ hostId: "old-1", removed: true });
      expect((await call("DELETE", "/v1/hosts/old-1")).status).toBe(404);
    } finally {
      vi.useRealTimers();
    }
    expect((await ask<{ data: Host[] }>("GET", "/v1/hosts")).body.data.map((one) => one.hostId)).toEqual(["fake-1"]);
    for (const path of ["/v1/hosts/nobody:drain", "/v1/hosts/..%2F:drain"])
      expect((await call("POST", path, {})).status).toBe(404);
    expect((await call("POST", "/v1/hosts/fake-1:drain", { draining: "yes" })).status).toBe(400);
  });

  it("get secrets of their own, and those of before are over when they are made anew", async () => {
    const add = async () => NewHost.parse((await ask("POST", "/v1/hosts", { hostId: "rack-7" })).body);
    const beat = async (key: string) =>
      edge(`${API}/internal/hosts/rack-7/heartbeat`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify(beatOf("rack-7")),
      });
    const first = await add();
    expect(await (await beat(first.hostKey)).json()).toMatchObject({ ok: true, leaseSeconds: 40 });
    const second = await add();
    expect(second.controlSecret).toBe(first.controlSecret);
    expect((await beat(first.hostKey)).status).toBe(401);
    expect((await beat(second.hostKey)).status).toBe(200);
    for (const hostId of ["", "-x", "A", "a_b", 7])
      expect((await call("POST", "/v1/hosts", { hostId })).status).toBe(400);
  });

  it("that turn out to be full are passed over, and a wake that finds its host full changes nothing", async () => {
    const name = freshName();
    const full = { code: "no_capacity", message: "full" } as const;
    await heartbeat({ hostId: "spare-1" });
    await fake.plan({ label: name, action: "create", fail: full });
    const made = await ask("POST", "/v1/sandboxes", { name });
    expect(made.body.state).toBe("running");
    expect((await fake.state(name)).log).toEqual(["create 1", "create 1"]);
    await ask("POST", `/v1/sandboxes/${name}:pause`, {});
    await fake.plan({ label: name, action: "wake", fail: full });
    const woken = await call("POST", `/v1/sandboxes/${name}:wake`, {});
    expect(woken.status).toBe(409);
    expect((await faultOf(woken)).code).toBe("no_capacity");
    expect((await ask("GET", `/v1/sandboxes/${name}`)).body).toMatchObject({
      state: "paused",
      stopReason: "requested",
    });
    expect((await ask("POST", `/v1/sandboxes/${name}:wake`, {})).body).toMatchObject({
      state: "running",
      memoryRestored: true,
    });
    // All full: the last refusal is the answer, and nothing is made.
    const other = freshName();
    for (let i = 0; i < 4; i++) await fake.plan({ label: other, action: "create", fail: full });
    expect((await ask("POST", "/v1/sandboxes", { name: other })).body.error.code).toBe("no_capacity");
    expect((await fake.state(other)).machines).toEqual([]);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 46_000);
    try {
      await call("DELETE", "/v1/hosts/spare-1");
    } finally {
      vi.useRealTimers();
    }
  });
});
