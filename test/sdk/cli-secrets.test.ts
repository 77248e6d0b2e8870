/** Verbs for secrets and network rules, and the SDK that they go by. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Network } from "../../sdk/contract/network-settings.ts";
import type { Secret } from "../../sdk/contract/secret.ts";
import { NotFoundError, Rouse } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo, TEST_KEY, type WireServer } from "./wire-server.ts";

let bench: CliBench;
let server: WireServer;
const rouse: CliBench["run"] = (words, env, input) => bench.run(words, env, input);
const client = () => new Rouse({ baseUrl: server.url, apiKey: TEST_KEY });

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo({ secrets: ["one"] })));
  server.on(`POST ${SANDBOX}:update`, (request, reply) => reply.json(sandboxInfo(request.json() as object)));
});
afterEach(() => bench[Symbol.asyncDispose]());

const AT = "2031-01-02T03:04:05.000Z";

function secret(changes: Partial<Secret> = {}): Secret {
  return {
    ...{ name: "anthropic", kind: "secret", sandboxId: null, mode: "broker", hosts: ["api.anthropic.com"] },
    ...{ header: "x-api-key", format: "{value}", rules: [], envName: "ANTHROPIC_API_KEY", placeholder: null },
    ...{ version: 2, valueBytes: 9, createdAt: AT, updatedAt: AT, lastUsedAt: null },
    ...changes,
  };
}

function rules(changes: Partial<Network> = {}): Network {
  return {
    ...{ sandboxId: "demo~abcdefghijkl", internet: true, allow: ["a.example.com"], deny: [], connect: [], version: 3 },
    ...{
      enforced: true,
      enforcedVersion: 3,
      ports: [],
      connectAllowed: false,
      connectReason: "no",
      forbiddenPorts: [],
    },
    ...{ updatedAt: AT, bytesOut: 2048, bytesIn: 5, refusals: [] },
    ...changes,
  };
}

test("a value comes from standard input, and is in no word, answer or line", async () => {
  server.on("PUT /v1/secrets/anthropic", (_request, reply) => reply.json({ ...secret(), enforced: true }));
  const set = await rouse(["secret", "set", "anthropic", "--provider", "anthropic"], {}, "sk-canary\n");
  expect(server.requests.at(-1)?.json()).toEqual({ value: "sk-canary", provider: "anthropic" });
  expect(set).toEqual({ code: 0, stdout: "anthropic: version 2, broker, for api.anthropic.com\n", stderr: "" });
  // Only one line's end is not of the value.
  await rouse(["secret", "set", "anthropic", "--mode", "env"], {}, "a\nb\n\n");
  expect(server.requests.at(-1)?.json()).toEqual({ value: "a\nb\n", mode: "env" });
  const none = await rouse(["secret", "set", "anthropic", "--mode", "env"]);
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("no value on standard input")]);
  for (const words of [["--value", "sk-canary"], ["sk-canary"]]) {
    const before = server.requests.length;
    const refused = await rouse(["secret", "set", "anthropic", ...words]);
    expect([refused.code, server.requests.length]).toEqual([2, before]);
  }
});

test("options of set are the fields of a secret; --sandbox is for one of its own", async () => {
  const path = `${SANDBOX}/secrets/api`;
  server.on(`PUT ${path}`, (_request, reply) =>
    reply.json({ ...secret({ name: "api", sandboxId: "demo~abcdefghijkl" }), enforced: false }),
  );
  const words = ["secret", "set", "api", "--sandbox", "demo", "--host", "a.example.com", "--host", "*.b.example.com"];
  const set = await rouse(
    [
      ...words,
      "--header",
      "x-key",
      "--format",
      "k {value}",
      "--env",
      "API",
      "--rule",
      "GET,POST /v1/* /v2/**",
      "--rule",
      "/x",
    ],
    {},
    "v",
  );
  expect(server.requests.at(-1)?.json()).toEqual({
    ...{
      value: "v",
      hosts: ["a.example.com", "*.b.example.com"],
      header: "x-key",
      format: "k {value}",
      envName: "API",
    },
    rules: [{ methods: ["GET", "POST"], paths: ["/v1/*", "/v2/**"] }, { paths: ["/x"] }],
  });
  expect(set.stderr).toContain("told until they do");
  expect((await rouse(["secret", "set", "api", "--rule", "GET; /x"], {}, "v")).stderr).toContain("is no rule");
  expect((await rouse(["secret", "set", "api", "--mode", "other"], {}, "v")).stderr).toContain(
    "broker, placeholder, env",
  );
});

test("ls, rm, attach and detach do what they say", async () => {
  server
    .on("GET /v1/secrets", (_request, reply) =>
      reply.json({ data: [secret(), secret({ name: "db", mode: "env", hosts: [], envName: "DB" })] }),
    )
    .on("DELETE /v1/secrets/db", (_request, reply) =>
      reply.json({ name: "db", sandboxId: null, deleted: true, enforced: true }),
    );
  const rows = (await rouse(["secret", "ls"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^SECRET +MODE +VERSION +HOSTS +VARIABLE +USED +AGE$/);
  expect(rows[1]).toMatch(/^anthropic +broker +2 +api\.anthropic\.com +ANTHROPIC_API_KEY +never /);
  expect(rows[2]).toMatch(/^db +env +2 +- +DB +- /);
  expect((await rouse(["secret", "rm", "db"])).stdout).toBe("db: deleted\n");
  const attached = await rouse(["secret", "attach", "demo", "anthropic", "db"]);
  expect(server.requests.at(-1)?.json()).toEqual({ secrets: ["one", "anthropic", "db"] });
  expect(attached.stdout).toBe("demo: one anthropic db\n");
  await rouse(["secret", "detach", "demo", "one"]);
  expect(server.requests.at(-1)?.json()).toEqual({ secrets: [] });
  server.on("DELETE /v1/secrets/x", (_request, reply) => reply.error("secret_not_found"));
  expect((await rouse(["secret", "rm", "x"])).code).toBe(3);
});

test("network shows the rules, and sets them", async () => {
  const refusals = [{ rule: "internet-off", target: "x.example.com:443", count: 4, lastAt: AT }];
  server
    .on(`GET ${SANDBOX}/network`, (_request, reply) => reply.json(rules({ refusals })))
    .on(`PUT ${SANDBOX}/network`, (request, reply) =>
      reply.json(rules({ ...(request.json() as object), enforced: false })),
    );
  const shown = (await rouse(["network", "demo"])).stdout;
  expect(shown).toContain("internet  on\nallow     a.example.com\n");
  expect(shown).toContain("2.0 KiB out, 5 B in");
  expect(shown).toMatch(/x\.example\.com:443 +internet-off +4 /);
  const off = await rouse(["network", "demo", "--off", "--allow", "b.example.com", "--deny", "10.0.0.0/8"]);
  expect(server.requests.at(-1)?.json()).toEqual({
    ...{ internet: false, allow: ["a.example.com", "b.example.com"], deny: ["10.0.0.0/8"] },
  });
  expect(off.stderr).toContain("not in force yet");
  await rouse(["network", "demo", "--reset", "--deny", "*.x.com"]);
  expect(server.requests.at(-1)?.json()).toEqual({ internet: true, allow: [], deny: ["*.x.com"] });
  expect((await rouse(["network", "demo", "--on", "--off"])).code).toBe(2);
});

test("create takes rules and secrets", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo()));
  await rouse(["create", "--no-internet", "--allow", "a.example.com", "--deny", "b.example.com", "--secret", "s"]);
  expect(server.requests[0]?.json()).toEqual({
    network: { internet: false, allow: ["a.example.com"], deny: ["b.example.com"] },
    secrets: ["s"],
  });
});

test("the SDK sets, reads and deletes, of the account and of a sandbox", async () => {
  const own = `${SANDBOX}/secrets`;
  server
    .on("PUT /v1/secrets/anthropic", (_request, reply) => reply.json({ ...secret(), enforced: true }))
    .on(`GET ${own}`, (_request, reply) => reply.json({ data: [secret()] }))
    .on(`GET ${own}/none`, (_request, reply) => reply.error("secret_not_found"))
    .on(`GET ${SANDBOX}/network`, (_request, reply) => reply.json(rules()))
    .on(`PUT ${SANDBOX}/network`, (request, reply) => reply.json(rules(request.json() as object)));
  const { secrets, sandboxes } = client();
  expect(await secrets.set("anthropic", { value: "v", provider: "anthropic" })).toMatchObject({ version: 2 });
  expect(server.requests.at(-1)?.headers["idempotency-key"]).toBeTruthy();
  await expect(secrets.get("..")).rejects.toThrow("no name");
  const sandbox = await sandboxes.get("demo");
  expect((await sandbox.secrets.list()).map(({ name }) => name)).toEqual(["anthropic"]);
  await expect(sandbox.secrets.get("none")).rejects.toBeInstanceOf(NotFoundError);
  expect(await sandbox.secrets.attach("two")).toEqual(["one", "two"]);
  await sandbox.network.off();
  expect(server.requests.at(-1)?.json()).toEqual({ internet: false });
  expect((await sandbox.network.on()).internet).toBe(true);
  await sandbox.network.allow("b.example.com");
  expect(server.requests.at(-1)?.json()).toEqual({ internet: true, allow: ["a.example.com", "b.example.com"] });
  await sandbox.network.deny("c.example.com");
  expect(server.requests.at(-1)?.json()).toEqual({ internet: true, deny: ["c.example.com"] });
  expect(await sandbox.network.reset()).toMatchObject({ internet: true, allow: [], deny: [] });
});
