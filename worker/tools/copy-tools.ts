/** Tools that copy sandboxes and go back in their history. */
import { z } from "zod";
import { Sandbox } from "../../sdk/contract/sandbox.ts";
import { CreateSnapshot, ForkSandbox, Forks, History, Rollback, Snapshot } from "../../sdk/contract/snapshot.ts";
import { factsOf, SandboxFacts, WhichSandbox } from "./fields.ts";
import { at, tool, type Tool } from "./tool.ts";

export const copyTools: readonly Tool[] = [
  tool({
    name: "sandbox_snapshot",
    title: "Take a snapshot",
    description:
      "Keep the sandbox as it is now, with RAM and processes or its disk alone. sandbox_create can begin from it.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      mode: CreateSnapshot.shape.mode.describe("memory: RAM, processes and disk, the default. disk: the disk alone"),
      name: CreateSnapshot.shape.name.describe("For people"),
      retentionDays: CreateSnapshot.shape.retentionDays.describe("Days that it is kept; 365 unless given"),
    }),
    output: Snapshot.pick({
      id: true,
      name: true,
      mode: true,
      state: true,
      sourceSandboxId: true,
      createdAt: true,
      expiresAt: true,
      error: true,
    }).strip(),
    readOnly: false,
    act: (api, { sandbox, ...input }) => api.json(Snapshot, "POST", at(sandbox, ":snapshot"), input),
  }),
  tool({
    name: "sandbox_fork",
    title: "Fork a sandbox",
    description:
      "Copy a sandbox with its RAM and running processes, up to 16 times. The source goes on; each copy has a URL of its own.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      count: ForkSandbox.shape.count.describe("How many; 1 unless given"),
      name: ForkSandbox.shape.name.describe("Name of the copy; of several, name-1, name-2, ..."),
    }),
    output: z.object({ sandboxes: z.array(SandboxFacts), frozenMs: Forks.shape.frozenMs }),
    readOnly: false,
    async act(api, { sandbox, ...input }) {
      const { sandboxes, frozenMs } = await api.json(Forks, "POST", at(sandbox, ":fork"), input);
      return { sandboxes: sandboxes.map(factsOf), frozenMs };
    },
  }),
  tool({
    name: "sandbox_history",
    title: "List points to go back to",
    description: "States that the sandbox slept with and that are still stored, the newest first.",
    input: z.strictObject({ sandbox: WhichSandbox }),
    output: z.object({ points: History.shape.data }),
    readOnly: true,
    async act(api, { sandbox }) {
      return { points: (await api.json(History, "GET", at(sandbox, "/history"))).data };
    },
  }),
  tool({
    name: "sandbox_rollback",
    title: "Go back to a point",
    description:
      "Make the sandbox what it was at a point of its history. What it is now is lost unless it has been stored as a point itself.",
    input: z.strictObject({ sandbox: WhichSandbox, point: Rollback.shape.point.describe("Of sandbox_history") }),
    output: SandboxFacts,
    readOnly: false,
    destructive: true,
    async act(api, { sandbox, point }) {
      return factsOf(await api.json(Sandbox, "POST", at(sandbox, ":rollback"), { point }));
    },
  }),
];
