/** Whole programs of the Python SDK: examples as people know them, agents, objects, logins, and the package itself. */
import { execFile } from "node:child_process";
import { readFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { Rouse, VERSION } from "../../sdk/src/index.ts";
import { NO_PYTHON, PYTHON, PYTHON_FOLDER, halves, python, pythonText, stopPython } from "./python-run.ts";
import { volumeAnswer } from "./volume-answers.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const run = promisify(execFile);
const execution = {
  ...{ id: "e1", contextId: "python", language: "python", executionCount: 1, status: "ok", stdout: "", stderr: "" },
  results: [{ main: true, data: { "text/plain": "['prefers weekly summaries']" }, refs: {} }],
  ...{ error: null, overflow: [], durationMs: 2, contextStarted: false, lostBytes: 0 },
};
const volume = volumeAnswer({ name: "memory-u-42" });

let server: WireServer;
afterAll(stopPython);
beforeEach((context) => {
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
});
beforeEach(async () => {
  server = await WireServer.start();
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

/** The two Python programs of the seed; the name of the package is all that is another. */
const AGENT_FOR = `from withruntime import Sandbox

def agent_for(user_id: str):
    return Sandbox.get_or_create(
        f"agent-{user_id}",
        idle_pause_seconds=600,  # pause after ten quiet minutes
        labels={"kind": "assistant", "user": user_id},
    )

monday = agent_for("u-42")
monday.interpreter.run("import pandas as pd\\nnotes = ['prefers weekly summaries']")

thursday = agent_for("u-42")
recall = thursday.interpreter.run("notes")
print(thursday.info.get("reused"), recall["results"][0]["data"]["text/plain"])
`;
const MEMORY = `from withruntime import Runtime

runtime = Runtime()
memory = runtime.volumes.create(size_mib=1024, name="memory-u-42")

with runtime.sandboxes.create(volumes=[{"volume_id": memory["id"], "path": "/memory"}],
                              labels={"user": "u-42"}) as sbx:
    sbx.exec("sudo chown runtime /memory")
    sbx.exec("echo '- prefers weekly summaries' >> /memory/facts.md && sync")
`;

test("the seed's programs run with only the import changed", async () => {
  const env = { ROUSE_API_KEY: TEST_KEY, ROUSE_API_URL: server.url };
  server.on("POST /v1/sandboxes", (_request, reply, count) => reply.json(sandboxInfo({ reused: count > 0 })));
  server.on(`POST ${SANDBOX}/interpreter:run`, (_request, reply) => reply.lines([{ k: "execution", execution }]));
  server.on("POST /v1/volumes", (_request, reply) => reply.json(volume));
  server.on(`POST ${SANDBOX}:stop`, (_request, reply) => reply.json(sandboxInfo({ state: "stopped" })));
  server.on(`POST ${SANDBOX}:exec`, (_request, reply) =>
    reply.json({
      ...{ exitCode: 0, stdout: "", stderr: "", timedOut: false, stdoutTruncated: false, stderrTruncated: false },
      ...{ durationMs: 3, processId: "p1" },
    }),
  );
  const changed = (text: string) => text.replace("from withruntime import", "from rouse import");
  expect(await pythonText(changed(AGENT_FOR), [], { env })).toBe("True ['prefers weekly summaries']\n");
  expect(await pythonText(changed(MEMORY), [], { env })).toBe("");
  expect(server.of("POST /v1/sandboxes").map((request) => request.json())).toEqual([
    ...[0, 1].map(() => ({
      ...{ name: "agent-u-42", getOrCreate: true, idlePauseSeconds: 600 },
      labels: { kind: "assistant", user: "u-42" },
    })),
    { volumes: [{ volumeId: volume.id, path: "/memory" }], labels: { user: "u-42" } },
  ]);
  expect(server.of(`POST ${SANDBOX}:exec`)).toHaveLength(2);
  expect(server.of(`POST ${SANDBOX}:stop`)).toHaveLength(1);
});

describe.each(halves)("%s", (half) => {
  test("an agent is made of the same as by the TypeScript SDK", async () => {
    const rouse = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY });
    const labels = { "rouse/agent": "openclaw", "rouse/agent-setup": "pending", team: "a" };
    server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ labels })));
    server.on(`PUT ${SANDBOX}/secrets/anthropic`, (_request, reply) => reply.error("quota_exceeded"));
    for (const runtime of ["openclaw", "hermes", "paperclip", "opensre"]) {
      const same = { name: "ada", runtime, keys: {}, labels: { team: "a" }, vcpu: 1 };
      server.on(`GET ${SANDBOX}/hooks`, (_request, reply) => reply.error("forbidden"));
      await rouse.agents.create(same).catch(() => undefined);
      await python(
        half,
        server.url,
        `return await failure(lambda: rouse.agents.create(name="ada", runtime="${runtime}", keys={}, labels={"team": "a"}, vcpu=1))`,
      );
      const [theirs, ours] = server.of("POST /v1/sandboxes").slice(-2);
      expect(ours?.json()).toEqual(theirs?.json());
    }
    expect(server.of("POST /v1/sandboxes")).toHaveLength(8);
    const found = await python(
      half,
      server.url,
      `return [
    await failure(lambda: rouse.agents.create(name="ada", runtime="nobody")),
    await failure(lambda: rouse.agents.create(name="ada", runtime="openclaw", keys={"mistral": "k3y"})),
    await failure(lambda: rouse.agents.create(name="ada", runtime="openclaw", memory_mib=512)),
]`,
    );
    expect(found).toMatchObject([{ code: "unknown_preset" }, { code: "wrong_provider" }, { code: "invalid_request" }]);
    expect(JSON.stringify(found)).not.toContain("k3y");
  });

  test("objects: one PUT, or parts; a range; bytes as they come", async () => {
    const object = { key: "a/b", bytes: 3, etag: "e", sha256: "s", contentType: "text/plain", updatedAt: "x", by: "k" };
    const upload = { id: "up-1", key: "a/b", contentType: "text/plain", parts: [], expiresAt: "x", createdAt: "x" };
    const route = `${SANDBOX}/objects/a%2Fb`;
    const sizes: number[] = [];
    server.on(`PUT ${route}`, (_request, reply) => reply.json(object));
    server.on(`GET ${route}`, (request, reply) => reply.raw(request.headers.range ?? "abc"));
    server.on(`POST ${SANDBOX}/object-uploads`, (_request, reply) => reply.json(upload));
    for (const part of [1, 2])
      server.on(`PUT ${SANDBOX}/object-uploads/up-1/parts/${part}`, (request, reply) => {
        sizes.push(request.body.length);
        reply.json(upload);
      });
    server.on(`POST ${SANDBOX}/object-uploads/up-1:complete`, (_request, reply) => reply.json(object));
    const found = await python(
      half,
      server.url,
      `
sandbox = await rouse.sandboxes.get("demo~abcdefghijkl")
await sandbox.objects.put("a/b", "abc", content_type="text/plain", if_etag=None)
await sandbox.objects.put("a/b", [b"x" * 1_000_000] * 34)
streamed = b"".join([chunk async for chunk in sandbox.objects.get_stream("a/b")])
return [await sandbox.objects.get_text("a/b", range=(2, 3)), streamed]`,
    );
    expect(found).toEqual(["bytes=2-4", Buffer.from("abc").toString("hex")]);
    expect(server.of(`PUT ${route}`)[0]?.headers).toMatchObject({ "if-none-match": "*", "content-type": "text/plain" });
    expect(sizes).toEqual([32 * 1_048_576, 34_000_000 - 32 * 1_048_576]);
  });

  test("a login: the code is shown, the wait goes on until it is approved", async () => {
    server.onOpen("POST /oauth/device_authorization", (_request, reply) =>
      reply.json({
        ...{ device_code: "d", user_code: "ABCD-EFGH", verification_uri: "https://rouse.example.com/device" },
        ...{ expires_in: 60, interval: 0 },
      }),
    );
    server.onOpen("POST /oauth/token", (_request, reply, count) =>
      count < 2
        ? reply.json({ error: "authorization_pending" }, 400)
        : reply.json({ access_token: "rouse_k", account: "acme" }),
    );
    const name = half === "async" ? "async_device_login" : "device_login";
    const found = await python(
      half,
      server.url,
      `
seen = []
result = await ${name}(base_url=url, client_name="test", on_code=lambda code: seen.append(code.user_code))
return [seen, result]`,
    );
    expect(found).toEqual([["ABCD-EFGH"], { api_key: "rouse_k", account: "acme" }]);
    expect(server.of("POST /oauth/token")[0]?.body.toString()).toContain("device_code=d");
  });
});

test("it is installed from its folder without a network or another package", async (context) => {
  const hasPip = await run(PYTHON, ["-c", "import ensurepip, venv"]).then(
    () => true,
    () => false,
  );
  if (!hasPip) context.skip(`${PYTHON} has no venv with a pip; on Debian: apt-get install python3-venv`);
  const folder = await mkdtemp(join(tmpdir(), "rouse-pip-"));
  try {
    await run(PYTHON, ["-m", "venv", folder]);
    const python3 = join(folder, "bin/python");
    const pip = ["-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-cache-dir", "-q"];
    await run(python3, [...pip, PYTHON_FOLDER]);
    const text = "import rouse, rouse._sync.sandbox; print(rouse.__version__, rouse.__file__)";
    const { stdout } = await run(python3, ["-I", "-c", text], { cwd: folder });
    expect(stdout).toMatch(new RegExp(`^${VERSION} ${folder}`));
  } finally {
    await rm(folder, { recursive: true });
  }
  expect(await readFile(join(PYTHON_FOLDER, "pyproject.toml"), "utf8")).toContain(`version = "${VERSION}"`);
}, 120_000);
