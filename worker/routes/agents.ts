/** Agent presets, as data of the installation. */
import { imageOf, providersOf, sizeOf, type AgentPreset, type ShownPreset } from "../../sdk/contract/agent-preset.ts";
import { agentPresets } from "../../sdk/contract/presets/index.ts";
import { readBoard } from "../../durable/hosts/board-facade.ts";
import { readQuery } from "../api/input.ts";
import type { Context } from "./context.ts";

export async function agentRoute({ env, operation, url }: Context): Promise<Response> {
  if (operation.query) readQuery(operation.query, url.searchParams);
  const { hosts } = await readBoard(env);
  const images = new Set(hosts.filter(({ live }) => live).flatMap((host) => host.images));
  return Response.json({ data: agentPresets.map((preset) => shown(preset, images)) });
}

function shown(preset: AgentPreset, images: ReadonlySet<string>): ShownPreset {
  const { id, title, version, source, port, trigger, minMemoryMiB, proved, note } = preset;
  const { memoryMiB, diskMiB } = sizeOf(preset);
  const image = imageOf(preset);
  return {
    ...{ id, kind: "agent_preset", title, version, homepage: source.homepage ?? null, image },
    ...{ available: images.has(image), providers: providersOf(preset), port, takesMessages: trigger !== undefined },
    ...{ minMemoryMiB, memoryMiB, diskMiB, proved, note: note ?? null },
  };
}
