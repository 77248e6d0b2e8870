/** Verbs for session tokens. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { NewSession, Session } from "../../sdk/contract/session.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo } from "./wire-server.ts";

let bench: CliBench;

beforeEach(async () => {
  bench = await CliBench.start();
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const ID = `ses-${"0".repeat(20)}`;
const session: Session = {
  ...{ id: ID, sandboxId: "demo~abcdefghijkl", name: "editor", scopes: ["exec", "files"], servers: true },
  ...{ origins: ["https://app.example"], state: "active", createdBy: "k1", createdAt: "2031-01-02T03:04:05.000Z" },
  ...{ expiresAt: "2031-01-02T03:19:05.000Z", revokedAt: null, lastUsedAt: null },
};
const token = `rs_default_${"A".repeat(43)}`;
const made: NewSession = { ...session, token, apiUrl: "http://api.test", url: "http://demo.rouse.test/" };

test("session create prints the token alone, and says how it ends", async () => {
  bench.server.on(`POST ${SANDBOX}/sessions`, (_request, reply) => reply.json(made));
  const words = [
    "--origin",
    "https://app.example",
    "--origin",
    "http://localhost:3000",
    "--scope",
    "exec",
    "--servers",
  ];
  const run = await bench.run(["session", "create", "demo", ...words, "--ttl", "900", "--name", "editor"]);
  expect([run.code, run.stdout]).toEqual([0, `${token}\n`]);
  expect(run.stderr).toContain(`rouse session rm demo ${ID}`);
  expect(bench.server.requests.at(-1)?.json()).toEqual({
    ...{ name: "editor", scopes: ["exec"], origins: ["https://app.example", "http://localhost:3000"] },
    ...{ servers: true, ttlSeconds: 900 },
  });
  await bench.run(["session", "create", "demo"]);
  expect(bench.server.requests.at(-1)?.json()).toEqual({});
});

test("session ls and rm", async () => {
  bench.server.on(`GET ${SANDBOX}/sessions`, (_request, reply) => reply.json({ data: [session] }));
  bench.server.on(`POST ${SANDBOX}/sessions/${ID}:revoke`, (_request, reply) =>
    reply.json({ ...session, state: "revoked" }),
  );
  const rows = (await bench.run(["session", "ls", "demo"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^SESSION +NAME +SCOPES +ORIGINS +STATE +ENDS +USED$/);
  expect(rows[1]).toMatch(/^ses-0+ +editor +exec files +https:\/\/app\.example servers +active +2031-01-02T03:19/);
  expect((await bench.run(["session", "rm", "demo", ID])).stdout).toBe(`${ID} is revoked\n`);
});
