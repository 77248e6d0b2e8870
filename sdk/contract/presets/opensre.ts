/** OpenSRE (Tracer-Cloud/opensre, not the other project of that name), in Python. */
import { PRESET_FOLDER, type AgentPreset } from "../agent-preset.ts";

const STATE = "/workspace/.opensre";
const PORT = 8000;
const python = `${PRESET_FOLDER}/venv/bin`;

export const opensre: AgentPreset = {
  id: "opensre",
  title: "OpenSRE",
  version: "2026.4.5",
  source: { registry: "pypi", package: "opensre", homepage: "https://github.com/Tracer-Cloud/opensre" },
  recipe: {
    commands: [
      `python3 -m venv ${PRESET_FOLDER}/venv`,
      `${python}/pip install --no-cache-dir opensre==2026.4.5`,
      `ln -sfn ${python}/opensre /usr/local/bin/opensre`,
    ],
    sizeMiB: 5120,
    golden: "prepared",
    seal: [`rm -f ${STATE}/credentials.json`],
  },
  start: [`${python}/opensre`, "gateway", "start", "--foreground"],
  // Without a token it takes alerts from the loopback alone, which is where deliveries come from.
  env: { OPENSRE_HOME: STATE, OPENSRE_DISABLE_KEYRING: "1", MODE: "gateway", PORT: String(PORT) },
  port: PORT,
  health: { path: "/health" },
  ready: { path: "/ok", timeoutSeconds: 600 },
  stop: { seconds: 30 },
  state: { folders: [STATE] },
  providers: {
    anthropic: { env: "ANTHROPIC_API_KEY" },
    openai: { env: "OPENAI_API_KEY" },
    gemini: { env: "GEMINI_API_KEY" },
  },
  trigger: { path: "/alerts", body: { message: "{{message}}", id: "{{id}}" }, timeoutSeconds: 60 },
  minMemoryMiB: 2048,
  memoryMiB: 4096,
  diskMiB: 8192,
  proved: false,
  note: "Its packages were out of reach where this was made, and its published package is older than its documentation: installed and run by nobody here.",
};
