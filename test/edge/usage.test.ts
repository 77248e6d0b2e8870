import { env } from "cloudflare:workers";
import { evictDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { Usage } from "../../sdk/contract/usage.ts";
import { ask, call, created, edge, API, freshName, heartbeat } from "./client.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import { roots } from "./secrets.ts";

const MIB_HOUR = 3_600_000;

async function report(reports: object[], secret?: string): Promise<Response> {
  const key = secret ?? (await hostKey(roots.host, "fake-1", FIRST_EPOCH));
  return edge(`${API}/internal/usage`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ reports }),
  });
}

const usage = async (query = "") => Usage.parse((await ask("GET", `/v1/usage${query}`)).body);

it("books what hosts report, once, at the rates of the first day, and survives an eviction", async () => {
  const id = newSandboxId(freshName());
  const base = { account: "default", id, generation: 1, cpu: "3600000000000", stored: "0" };
  // One vCPU-hour, and 4 GiB for ten hours.
  const full = { ...base, sequence: 2, memory: String(4096 * 10 * MIB_HOUR) };
  await report([{ ...base, sequence: 1, memory: String(4096 * MIB_HOUR) }]);
  expect(await (await report([full, full])).json()).toEqual({ ok: true, refused: 0 });
  await report([full]);
  await evictDurableObject(env.ACCOUNT.getByName("default"));
  // A sleep of 0.5 GB for ten days, in the next generation.
  await report([{ ...base, generation: 2, sequence: 1, cpu: "0", memory: "0", stored: String(5e8 * 864_000_000) }]);
  const line = (await usage()).lines.find(({ sandboxId }) => sandboxId === id);
  expect(line).toMatchObject({ cpuMicros: 25_000, memoryMicros: 300_000, storedMicros: 13_333, totalMicros: 338_333 });
  const month = new Date().toISOString().slice(0, 7);
  expect((await usage(`?month=${month}`)).lines).toContainEqual(line);
  expect((await usage("?month=2020-01")).lines).toEqual([]);
});

it("refuses amounts that went down, and changes nothing", async () => {
  const id = newSandboxId(freshName());
  const base = { account: "default", id, generation: 1, memory: "0", stored: "0" };
  await report([{ ...base, sequence: 5, cpu: "1000" }]);
  expect(await (await report([{ ...base, sequence: 6, cpu: "999" }])).json()).toEqual({ ok: true, refused: 1 });
  expect((await usage()).lines.find(({ sandboxId }) => sandboxId === id)?.cpu).toBe("1000");
});

it("takes no report without the host secret, none that is malformed, and asks for a month that is one", async () => {
  const good = {
    account: "default",
    id: newSandboxId(freshName()),
    generation: 1,
    sequence: 1,
    cpu: "1",
    memory: "1",
    stored: "1",
  };
  expect((await report([good], "wrong")).status).toBe(401);
  for (const wrong of [
    { cpu: "-1" },
    { cpu: 5 },
    { cpu: "1e9" },
    { sequence: 0 },
    { generation: 0 },
    { id: "x" },
    { account: "A!" },
  ])
    expect((await report([{ ...good, ...wrong }])).status).toBe(400);
  expect((await call("GET", "/v1/usage?month=2026-13")).status).toBe(400);
  expect((await call("GET", "/v1/usage?mont=2026-11")).status).toBe(400);
});

it("takes reports of a machine from the host that has it, and from no other", async () => {
  await heartbeat();
  const { id } = await created();
  const one = { account: "default", id, generation: 1, sequence: 1, cpu: "3600000000000", memory: "0", stored: "0" };
  const other = await hostKey(roots.host, "rack-9", FIRST_EPOCH);
  expect(await (await report([one], other)).json()).toEqual({ ok: true, refused: 1 });
  expect((await usage()).lines.find(({ sandboxId }) => sandboxId === id)).toBeUndefined();
  expect(await (await report([one])).json()).toEqual({ ok: true, refused: 0 });
  expect((await usage()).lines.find(({ sandboxId }) => sandboxId === id)?.totalMicros).toBe(25_000);
});
