/** Operations on what a sandbox may reach outside. */
import { z } from "zod";
import { Network, SetNetwork } from "../../sdk/contract/network-settings.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const PATH = "/v1/sandboxes/{id}/network";

export const network: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: PATH,
    summary: "Read the network rules of a sandbox, whether they are in force, and what was refused lately.",
    query: NoQuery,
    answer: Network,
  },
  {
    method: "PUT",
    path: PATH,
    summary: "Set the network rules: at once while it runs, with its next run else. A list that is not given stays.",
    query: NoQuery,
    body: SetNetwork,
    answer: Network,
  },
];
