/** The presets that come with it. */
import type { AgentPreset } from "../agent-preset.ts";
import { hermes } from "./hermes.ts";
import { openclaw } from "./openclaw.ts";
import { opensre } from "./opensre.ts";
import { paperclip } from "./paperclip.ts";

export const agentPresets: readonly AgentPreset[] = [openclaw, hermes, paperclip, opensre];

export function presetOf(id: string): AgentPreset | undefined {
  return agentPresets.find((preset) => preset.id === id);
}
