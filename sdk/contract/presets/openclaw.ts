/** OpenClaw: a personal agent's gateway, on one port. */
import { AGENT_FOLDER, PRESET_FOLDER, TRUST_MODULE, type AgentPreset } from "../agent-preset.ts";

const STATE = "/workspace/.openclaw";
const CONFIG = `${STATE}/openclaw.json`;
const GATEWAY_TOKEN = `${AGENT_FOLDER}/gateway-token`;
const HOOK_TOKEN = `${AGENT_FOLDER}/hook-token`;
const PORT = 18_789;

/** Tokens of the image's state: whoever has the image knows them, so no sandbox keeps them. */
const IMAGE_TOKEN = "image-".padEnd(48, "0");
const IMAGE_HOOK_TOKEN = "image-hook-".padEnd(48, "0");

const config = {
  gateway: {
    ...{ mode: "local", port: PORT, bind: "loopback", auth: { mode: "token", token: IMAGE_TOKEN } },
    // Where requests from outside come from, with the client's address in X-Forwarded-For as the edge saw it.
    trustedProxies: ["10.0.2.2"],
  },
  hooks: { enabled: true, token: IMAGE_HOOK_TOKEN, path: "/hooks", allowedAgentIds: ["main"] },
  plugins: { entries: { "admin-http-rpc": { enabled: true } } },
  agents: { defaults: { model: { primary: "anthropic/claude-sonnet-4-6" } } },
  update: { checkOnStart: false },
  telemetry: { enabled: false },
};

/*
 * The scripts are ES modules that run in the machine.
 */

/**
 * Gives the sandbox tokens of its own. The gateway takes up new ones from its file while it runs; nothing is let in
 * before it knows the new one and refuses the image's.
 */
const identity = `
const { randomBytes } = process.getBuiltinModule("node:crypto");
const { mkdirSync, readFileSync, renameSync, writeFileSync } = process.getBuiltinModule("node:fs");
const own = (path) => {
  try { return readFileSync(path, "utf8"); } catch {}
  const token = randomBytes(32).toString("hex");
  writeFileSync(path, token, { mode: 0o600 });
  return token;
};
mkdirSync("${AGENT_FOLDER}", { recursive: true, mode: 0o700 });
const token = own("${GATEWAY_TOKEN}");
const hookToken = own("${HOOK_TOKEN}");
const before = readFileSync("${CONFIG}", "utf8");
const config = JSON.parse(before);
config.gateway.auth = { ...config.gateway.auth, mode: "token", token };
config.hooks = { ...config.hooks, token: hookToken };
const model = process.env.ROUSE_AGENT_MODEL;
if (model) config.agents = { ...config.agents, defaults: { ...config.agents?.defaults, model: { primary: model } } };
const after = JSON.stringify(config, null, 2);
if (JSON.stringify(JSON.parse(before)) !== JSON.stringify(config)) {
  writeFileSync("${CONFIG}.new", after, { mode: 0o600 });
  renameSync("${CONFIG}.new", "${CONFIG}");
}
// A method that there is not: all that counts is whether the token is let in.
const ask = async (bearer) => {
  const options = { method: "POST", headers: { authorization: "Bearer " + bearer, "content-type": "application/json" },
    body: JSON.stringify({ method: "none" }), signal: AbortSignal.timeout(20000) };
  try { return (await fetch("http://127.0.0.1:${PORT}/api/v1/admin/rpc", options)).status; }
  catch (fault) { return fault.cause?.code === "ECONNREFUSED" ? 0 : -1; }
};
const end = Date.now() + 540000;
for (;;) {
  const now = await ask(token);
  if (now === 0) break; // It is not running: it starts with the new ones.
  if (now === 400 && (await ask("${IMAGE_TOKEN}")) === 401) break;
  if (Date.now() > end) throw new Error("the gateway did not take up its token: it answers " + now);
  await new Promise((resolve) => setTimeout(resolve, 100));
}
`;

/** \`prepare\` exits 1 while the gateway is at work, and 0 where it is not running or does not say. */
const suspend = `
const { readFileSync, rmSync, writeFileSync } = process.getBuiltinModule("node:fs");
const file = "${AGENT_FOLDER}/suspension";
const rpc = async (method, params) => {
  const token = readFileSync("${GATEWAY_TOKEN}", "utf8");
  const answer = await fetch("http://127.0.0.1:${PORT}/api/v1/admin/rpc", {
    method: "POST", headers: { authorization: "Bearer " + token, "content-type": "application/json" },
    body: JSON.stringify({ method, params }), signal: AbortSignal.timeout(25000) });
  return await answer.json();
};
try {
  if (process.argv[2] === "prepare") {
    const { payload } = await rpc("gateway.suspend.prepare", { requestId: "rouse-pause" });
    if (payload?.status === "busy") {
      console.error("at work: " + payload.blockers.map((one) => one.message ?? one.kind).join("; "));
      process.exit(1);
    }
    if (payload?.suspensionId) writeFileSync(file, payload.suspensionId, { mode: 0o600 });
  } else {
    const suspensionId = readFileSync(file, "utf8");
    const { ok, payload, error } = await rpc("gateway.suspend.resume", { suspensionId });
    if (ok) rmSync(file, { force: true });
    console.log(JSON.stringify(payload ?? error));
  }
} catch (fault) {
  console.error(String(fault));
}
`;

/** Starts it for the first time, gives it a message that no model gets, and ends it. */
const first = `
const { spawn } = process.getBuiltinModule("node:child_process");
const child = spawn("openclaw", ["gateway", "--port", "${PORT}", "--bind", "loopback"], { stdio: "inherit" });
child.on("exit", (code) => process.exit(code ?? 1));
const at = "http://127.0.0.1:${PORT}";
while (!(await fetch(at + "/readyz").then((answer) => answer.ok, () => false)))
  await new Promise((resolve) => setTimeout(resolve, 200));
await import(new URL("openclaw-warm.mjs", import.meta.url).href);
child.kill("SIGTERM");
`;

/** A message that no model gets: what a first one loads and compiles is in the state, so that a sandbox's first is quick. */
const warm = `
const deadline = Date.now() + 400000;
for (let n = 0; n < 3 && Date.now() < deadline; n++) {
  const options = { method: "POST", signal: AbortSignal.timeout(150000),
    headers: { authorization: "Bearer ${IMAGE_HOOK_TOKEN}", "content-type": "application/json" },
    body: JSON.stringify({ message: "This image is being made.", name: "Rouse", agentId: "main", deliver: false, waitForCompletion: true }) };
  const answer = await fetch("http://127.0.0.1:${PORT}/hooks/agent", options).catch((fault) => fault);
  console.log(answer.status ?? String(answer));
  if (answer.status === 200) break;
}
`;

/**
 * Ends leases of another host name: a process of the image had them, or one of the sandbox that this is a copy of. It
 * can't be seen from here whether that one lives, so the gateway would wait five minutes until they are over.
 */
const unlock = `
const { isMainThread } = process.getBuiltinModule("node:worker_threads");
const { existsSync } = process.getBuiltinModule("node:fs");
const file = "${STATE}/state/openclaw.sqlite";
if (isMainThread && process.argv[2] === "gateway" && existsSync(file)) {
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const { hostname } = process.getBuiltinModule("node:os");
  try {
    const state = new DatabaseSync(file, { timeout: 10000 });
    state.prepare("delete from state_leases where json_extract(payload_json, '$.owner.host') <> ?").run(hostname());
    state.close();
  } catch (fault) {
    console.error(String(fault));
  }
}
`;

/** What the first start made that signs for this installation: the next start, or the next use, makes it anew. */
const seal = `
const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
const { rmSync } = process.getBuiltinModule("node:fs");
const state = new DatabaseSync("${STATE}/state/openclaw.sqlite");
for (const table of ["device_identities", "config_revision_keys"]) state.exec("delete from " + table);
state.exec("pragma wal_checkpoint(truncate)");
rmSync("${STATE}/config-journal-fingerprint.key", { force: true });
`;

const LIMIT = "(LEASE_HEARTBEAT_START|HOOK_AGENT_START_ADMISSION)_TIMEOUT_MS ?= ?";
const WORK = "resolveTimerTimeoutMs\\\\([A-Za-z]+";
const program = `${PRESET_FOLDER}/node_modules/openclaw/openclaw.mjs`;
const script = (name: string) => `${PRESET_FOLDER}/openclaw-${name}.mjs`;

export const openclaw: AgentPreset = {
  id: "openclaw",
  title: "OpenClaw",
  version: "2026.9.6",
  source: { registry: "npm", package: "openclaw", homepage: "https://docs.openclaw.ai/" },
  recipe: {
    npm: ["openclaw@2026.9.6"],
    files: [
      { path: CONFIG, content: JSON.stringify(config, null, 2), mode: "600", owner: "runtime" },
      { path: script("identity"), content: identity },
      { path: script("suspend"), content: suspend },
      { path: script("first"), content: first },
      { path: script("warm"), content: warm },
      { path: script("seal"), content: seal },
      { path: script("unlock"), content: unlock },
    ],
    commands: [
      // Its first run as root does what its own scripts would; another user could not.
      `cd /tmp && HOME=/tmp node ${program} --version`,
      `ln -sfn ${program} /usr/local/bin/openclaw && chmod 755 ${program}`,
      // It gives a thread of its own 5 s to start and 60 s to do a task, and a message 15 s to begin; an emulated machine
      // takes longer.
      `cd ${PRESET_FOLDER}/node_modules/openclaw/dist && files=$(grep -rlE "${LIMIT}|${WORK}" .) && sed -i -E "s/(${LIMIT})1?5e3/\\112e4/; s/(${WORK}, ?)6e4/\\16e5/" $files`,
    ],
    firstRun: [`node ${script("first")}`],
    sizeMiB: 4096,
    golden: "running",
    seal: [
      `node ${script("warm")}`,
      `node --disable-warning=ExperimentalWarning ${script("seal")}`,
      "rm -rf /tmp/openclaw",
    ],
  },
  start: [
    ...["node", "--import", TRUST_MODULE, "--import", script("unlock")],
    ...[program, "gateway", "--port", String(PORT), "--bind", "loopback"],
  ],
  env: {
    OPENCLAW_NO_RESPAWN: "1",
    // What the first start compiled is in the image. It would make a folder of its own, below one that images leave out.
    NODE_COMPILE_CACHE: "/workspace/.cache/node",
    OPENCLAW_PACKAGED_COMPILE_CACHE_RESPAWNED: "1",
    OPENCLAW_DISABLE_BONJOUR: "1",
    OPENCLAW_EXEC_SHELL_SNAPSHOT: "0",
  },
  port: PORT,
  health: { path: "/healthz" },
  ready: { path: "/readyz", timeoutSeconds: 600 },
  identity: { command: ["node", script("identity")], timeoutSeconds: 600 },
  modelEnv: "ROUSE_AGENT_MODEL",
  stop: { seconds: 30 },
  freeze: { command: ["node", script("suspend"), "prepare"], timeoutSeconds: 30, required: true },
  thaw: { command: ["node", script("suspend"), "resume"], timeoutSeconds: 30 },
  state: { folders: [STATE], caches: [`${STATE}/cache`, `${STATE}/tmp`] },
  // With a variable for OpenRouter it would look for a plugin that it does not come with, at each start.
  providers: {
    anthropic: { env: "ANTHROPIC_API_KEY", model: "anthropic/claude-sonnet-4-6" },
    openai: { env: "OPENAI_API_KEY", model: "openai/gpt-5.2" },
    gemini: { env: "GEMINI_API_KEY", model: "google/gemini-3-pro-preview" },
  },
  trigger: {
    path: "/hooks/agent",
    tokenFile: HOOK_TOKEN,
    headers: { "idempotency-key": "{{id}}" },
    body: { message: "{{message}}", name: "Rouse", agentId: "main", deliver: false, waitForCompletion: true },
    timeoutSeconds: 300,
  },
  minMemoryMiB: 2048,
  diskMiB: 8192,
  proved: true,
  note: "Run in emulated machines of its image: woken by a message, its process killed, and asked again. Not tried on KVM.",
};
