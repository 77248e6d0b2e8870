/** Hermes Agent, in Python. */
import { AGENT_FOLDER, PRESET_FOLDER, type AgentPreset } from "../agent-preset.ts";

const STATE = "/workspace/.hermes";
const PORT = 8642;
const API_KEY = `${AGENT_FOLDER}/api-key`;
const START = `${PRESET_FOLDER}/hermes-start.sh`;
const python = `${PRESET_FOLDER}/venv/bin`;

export const hermes: AgentPreset = {
  id: "hermes",
  title: "Hermes Agent",
  version: "0.19.0",
  source: { registry: "pypi", package: "hermes-agent", homepage: "https://github.com/NousResearch/hermes-agent" },
  recipe: {
    files: [
      {
        path: START,
        mode: "755",
        content: `#!/bin/sh\n# The key is the sandbox's own, made before the first start.\nAPI_SERVER_KEY="$(cat ${API_KEY})" exec ${python}/hermes gateway run\n`,
      },
    ],
    commands: [
      `python3 -m venv ${PRESET_FOLDER}/venv`,
      `${python}/pip install --no-cache-dir hermes-agent==0.19.0`,
      `ln -sfn ${python}/hermes /usr/local/bin/hermes`,
    ],
    sizeMiB: 5120,
    golden: "prepared",
    seal: [`rm -rf ${AGENT_FOLDER} ${STATE}/.env ${STATE}/logs`],
  },
  identity: {
    command:
      `umask 077; mkdir -p ${AGENT_FOLDER}; [ -s ${API_KEY} ] && exit 0; ` +
      `openssl rand -hex 32 > ${API_KEY}.new && mv ${API_KEY}.new ${API_KEY}`,
  },
  start: [START],
  env: { HERMES_HOME: STATE, API_SERVER_ENABLED: "true", API_SERVER_PORT: String(PORT) },
  port: PORT,
  health: { path: "/health" },
  ready: { path: "/health", timeoutSeconds: 600 },
  stop: { seconds: 30 },
  state: { folders: [STATE], caches: [`${STATE}/logs`] },
  providers: {
    anthropic: { env: "ANTHROPIC_API_KEY", baseUrlEnv: "ANTHROPIC_BASE_URL" },
    openai: { env: "OPENAI_API_KEY", baseUrlEnv: "OPENAI_BASE_URL" },
    gemini: { env: "GEMINI_API_KEY" },
    openrouter: { env: "OPENROUTER_API_KEY" },
  },
  trigger: {
    path: "/v1/runs",
    tokenFile: API_KEY,
    headers: { "idempotency-key": "{{id}}" },
    body: { input: "{{message}}" },
    timeoutSeconds: 60,
  },
  minMemoryMiB: 2048,
  memoryMiB: 4096,
  diskMiB: 8192,
  proved: false,
  note: "Its packages were out of reach where this was made: installed and run by nobody here. Ports, paths and variables are those of its documentation.",
};
