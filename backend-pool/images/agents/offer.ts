/** The images of agents that a host's operator asked for, made before the host says that it is there. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { AgentPreset, imageOf, sizeOf } from "../../../sdk/contract/agent-preset.ts";
import { agentPresets, presetOf } from "../../../sdk/contract/presets/index.ts";
import { lineProgress } from "../../progress.ts";
import type { Config } from "../../config.ts";
import type { QemuDriver } from "../../machine/qemu/driver.ts";
import type { Image } from "../build.ts";
import { buildAgentImage } from "./image.ts";

const FILE_BYTES = 1_048_576;

/** An agent that can't be had keeps nothing else from starting: it is said, and the host has no image of it. */
export async function offerAgents(
  driver: QemuDriver,
  base: Image,
  { agents, imagesDir }: Pick<Config, "agents" | "imagesDir">,
  log: (entry: object) => void,
): Promise<void> {
  for (const agent of agents) {
    try {
      const preset = await readPreset(agent);
      const { recipe } = preset;
      if (recipe === undefined) throw new Error("it has no recipe: it needs no image of its own");
      driver.offer(await buildAgentImage({ ...preset, recipe }, base, imagesDir, lineProgress));
      const image = imageOf(preset);
      await driver.prepare({ image, ...sizeOf(preset) }).catch((fault: unknown) => {
        driver.withdraw(image);
        throw fault;
      });
      log({ message: "agent image", agent: preset.id, version: preset.version });
    } catch (fault) {
      process.stderr.write(`The image of the agent "${agent}" could not be made: ${text(fault)}\n`);
      log({ level: "error", message: "agent image", agent, fault: text(fault) });
    }
  }
}

/** @param idOrPath a preset's id, or the path of a JSON file @throws Error that says what is wrong with it */
export async function readPreset(idOrPath: string): Promise<AgentPreset> {
  if (!/[./]/.test(idOrPath)) {
    const known = presetOf(idOrPath);
    if (known) return known;
    throw new Error(`there is no such preset; there are ${agentPresets.map(({ id }) => id).join(", ")}`);
  }
  const file = await readFile(idOrPath);
  if (file.length > FILE_BYTES) throw new Error("the file is too large for a preset");
  const parsed = AgentPreset.safeParse(JSON.parse(file.toString()));
  if (!parsed.success) throw new Error(`it is no preset:\n${z.prettifyError(parsed.error)}`);
  if (presetOf(parsed.data.id)) throw new Error(`"${parsed.data.id}" is the id of a preset that comes with it`);
  return parsed.data;
}

function text(fault: unknown): string {
  return fault instanceof Error ? fault.message : String(fault);
}
