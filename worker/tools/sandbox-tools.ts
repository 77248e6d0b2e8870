/** Tools that make, show, change and delete sandboxes. */
import { z } from "zod";
import { CreateSandbox, DeletedSandbox, Sandbox, SandboxList, SandboxState } from "../../sdk/contract/sandbox.ts";
import { factsOf, SandboxFacts, WhichSandbox } from "./fields.ts";
import { at, query, tool, type Tool } from "./tool.ts";

const { shape } = CreateSandbox;
const OfOne = z.strictObject({ sandbox: WhichSandbox });

export const sandboxTools: readonly Tool[] = [
  tool({
    name: "sandbox_create",
    title: "Create or find a sandbox",
    description:
      "Create a Linux machine with a name, or find the one that has the name (awake, restarted if need be; `reused` says so). " +
      "It sleeps with its RAM when idle and wakes by itself with the next tool call, so nothing has to be kept open.",
    input: z.strictObject({
      name: shape.name.describe("Name, unique in the account; without one an unnamed sandbox is made"),
      mustBeNew: z.boolean().optional().describe("Fail with name_taken where the name exists, instead of finding it"),
      image: shape.image.describe("Image; the default one unless given"),
      snapshot: shape.snapshot.describe("Begin as this snapshot instead of with an image"),
      vcpu: shape.vcpu.describe("Virtual CPUs; 2 unless given"),
      memoryMiB: shape.memoryMiB.describe("Memory in MiB; 2048 unless given"),
      diskMiB: shape.diskMiB.describe("Disk in MiB; 8192 unless given"),
      idlePauseSeconds: shape.idlePauseSeconds.describe(
        "Sleep after so many idle seconds; 60 unless given, 0 for never",
      ),
      env: shape.env.describe("Variables of its processes"),
      labels: shape.labels.describe("Labels, to find it by"),
      network: shape.network.describe("What it may reach outside; everything public unless given"),
      secrets: shape.secrets.describe("Names of the account's secrets that it has"),
    }),
    output: SandboxFacts,
    readOnly: false,
    idempotent: true,
    async act(api, { mustBeNew = false, ...input }) {
      const body = { ...input, ...(input.name !== undefined && !mustBeNew ? { getOrCreate: true } : {}) };
      return factsOf(await api.json(Sandbox, "POST", "/v1/sandboxes", body));
    },
  }),
  tool({
    name: "sandbox_list",
    title: "List sandboxes",
    description: "List sandboxes with their states, the oldest first. Wakes none.",
    input: z.strictObject({
      state: SandboxState.optional().describe("Only in this state"),
      label: z.string().optional().describe("Only with this label, as key:value"),
      includeStopped: z.boolean().optional().describe("Also those that can't run again"),
      limit: z.int().min(1).max(100).optional().describe("At most so many; 50 unless given"),
      cursor: z.string().optional().describe("nextCursor of the page before"),
    }),
    output: z.object({ sandboxes: z.array(SandboxFacts), nextCursor: z.string().nullable() }),
    readOnly: true,
    async act(api, { limit = 50, ...filter }) {
      const page = await api.json(SandboxList, "GET", `/v1/sandboxes${query({ ...filter, limit })}`);
      return { sandboxes: page.data.map(factsOf), nextCursor: page.nextCursor };
    },
  }),
  tool({
    name: "sandbox_get",
    title: "Look at a sandbox",
    description: "State, size, URL and cost of a sandbox. Never wakes it.",
    input: OfOne,
    output: SandboxFacts,
    readOnly: true,
    async act(api, { sandbox }) {
      return factsOf(await api.json(Sandbox, "GET", at(sandbox)));
    },
  }),
  tool({
    name: "sandbox_pause",
    title: "Put a sandbox to sleep",
    description:
      "Save RAM, processes and disk, and stop paying for CPU and memory. Any later call wakes it where it was.",
    input: OfOne,
    output: SandboxFacts,
    readOnly: false,
    async act(api, { sandbox }) {
      return factsOf(await api.json(Sandbox, "POST", at(sandbox, ":pause"), {}));
    },
  }),
  tool({
    name: "sandbox_wake",
    title: "Wake a sandbox",
    description: "Wake a sleeping sandbox. Seldom needed: exec, files and run_code wake it by themselves.",
    input: OfOne,
    output: SandboxFacts,
    readOnly: false,
    async act(api, { sandbox }) {
      return factsOf(await api.json(Sandbox, "POST", at(sandbox, ":wake"), {}));
    },
  }),
  tool({
    name: "sandbox_delete",
    title: "Delete a sandbox",
    description: "Delete a sandbox with its disk, its RAM and what it kept outside of its machine.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      graceSeconds: z.int().min(0).optional().describe("It can be taken back for so long; 0, not at all, unless given"),
    }),
    output: DeletedSandbox.pick({ id: true, name: true, state: true, deletedAt: true, undeleteUntil: true }).strip(),
    readOnly: false,
    destructive: true,
    idempotent: true,
    act: (api, { sandbox, graceSeconds }) => api.json(DeletedSandbox, "DELETE", at(sandbox) + query({ graceSeconds })),
  }),
];
