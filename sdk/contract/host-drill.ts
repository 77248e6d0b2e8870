/** Edge -> host agent: ending something on purpose, for a drill. Internal. Control routes, with the host's secret. */
import { z } from "zod";
import { DrillId } from "./drill.ts";
import { Generation } from "./names.ts";

export const drillPaths = {
  /** `POST`, `KillMachine`: the machine's process is ended. Of another generation, nothing is. */
  machine: (id: string) => `/machines/${encodeURIComponent(id)}:kill`,
  /** `POST`, `KillPart`, answered with `KillTaken`: done a moment after the answer, once for each drill. `GET`: `KillTaken`. */
  parts: "/drills",
} as const;

export const KillMachine = z.object({ generation: Generation, drill: DrillId });
export type KillMachine = z.infer<typeof KillMachine>;

export const KillPart = z.object({ drill: DrillId, part: z.enum(["host", "edge"]) });
export type KillPart = z.infer<typeof KillPart>;

/** `survived`: the drill that this host agent was started again after; null for none. */
export const KillTaken = z.object({ survived: DrillId.nullable() });
export type KillTaken = z.infer<typeof KillTaken>;
