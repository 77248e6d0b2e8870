/** Operations on agent presets. */
import { z } from "zod";
import { ShownPresetList } from "../../sdk/contract/agent-preset.ts";
import type { Operation } from "./operation.ts";

export const agents: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: "/v1/agent-presets",
    summary: "List the agent runtimes that come with it, and whether a host that is up has their image.",
    query: z.strictObject({}),
    answer: ShownPresetList,
  },
];
