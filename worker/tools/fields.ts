/** Fields that several tools have. */
import { z } from "zod";
import { Sandbox } from "../../sdk/contract/sandbox.ts";

export const WhichSandbox = z.string().min(1).max(256).describe("Name or id of the sandbox");

/** What a model needs of a sandbox; the API has the rest. */
export const SandboxFacts = Sandbox.pick({
  id: true,
  name: true,
  state: true,
  url: true,
  access: true,
  image: true,
  vcpu: true,
  memoryMiB: true,
  diskMiB: true,
  labels: true,
  idlePauseSeconds: true,
  createdAt: true,
  lastActiveAt: true,
  pausedAt: true,
  endsAt: true,
  stopReason: true,
  memoryRestored: true,
  lastError: true,
  chargedMicros: true,
  reused: true,
})
  .strip()
  .meta({ description: "A sandbox; chargedMicros is what it has cost so far, in microdollars" });

/** Of what the API answered. */
export function factsOf(sandbox: z.infer<typeof Sandbox>): z.infer<typeof SandboxFacts> {
  return SandboxFacts.parse(sandbox);
}
