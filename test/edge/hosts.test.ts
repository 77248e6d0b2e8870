import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Host } from "../../sdk/contract/host.ts";
import { API, ask, call, edge, fake, faultOf, freshName, heartbeat, hostUrl, paused, secrets } from "./client.ts";

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
    expect((await heartbeat({ hostId: "Bad Host" })).status).toBe(400);
  });

  it("that drain take no new machines, and go on with those they have", async () => {
    const { id } = await paused();
    const drained = await ask<Host>("POST", "/v1/hosts/fake-1:drain", {});
    expect(drained.body).toMatchObject({ hostId: "fake-1", draining: true, live: true });
    await heartbeat();
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
    vi.setSystemTime(Date.now() + 16_000);
    try {
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
});
