/** Operations on ports of a sandbox that were opened to people without a key. */
import { z } from "zod";
import { CreatePreview, Preview, PreviewQuery } from "../../sdk/contract/sandbox.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const ID = "/v1/sandboxes/{id}";

export const previews: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: `${ID}/previews`,
    summary: "Open a port by link token, or to everybody.",
    query: NoQuery,
    body: CreatePreview,
    answer: Preview,
  },
  {
    method: "GET",
    path: `${ID}/previews`,
    summary: "List opened ports.",
    query: NoQuery,
    answer: z.object({ data: z.array(Preview) }),
  },
  {
    method: "GET",
    path: `${ID}/previews/{port}`,
    summary: "Read an opened port, with a fresh token.",
    query: PreviewQuery,
    answer: Preview,
  },
  {
    method: "POST",
    path: `${ID}/previews/{port}:rotate`,
    summary: "End all tokens of a port and answer a new one.",
    query: NoQuery,
    body: NoQuery,
    answer: Preview,
  },
  {
    method: "DELETE",
    path: `${ID}/previews/{port}`,
    summary: "Close a port.",
    query: NoQuery,
    answer: z.object({ id: z.string(), sandboxId: z.string(), port: z.int(), deleted: z.literal(true) }),
  },
];
