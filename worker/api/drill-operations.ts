/** Operations on the drills of a sandbox. */
import { z } from "zod";
import { CreateDrill, Drill, DrillList } from "../../sdk/contract/drill.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const D = "/v1/sandboxes/{id}/drills";

export const drills: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: D,
    summary: "Kill a part of what the sandbox runs on, and compare what comes back. Answered at once.",
    query: NoQuery,
    body: CreateDrill,
    answer: Drill,
  },
  { method: "GET", path: D, summary: "List drills, the newest first.", query: NoQuery, answer: DrillList },
  { method: "GET", path: `${D}/{drill}`, summary: "Read a drill.", query: NoQuery, answer: Drill },
];
