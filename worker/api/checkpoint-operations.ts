/** Operations on the mirror of a sandbox's checkpoints. */
import { z } from "zod";
import {
  CheckpointList,
  CheckpointQuery,
  CheckpointVersion,
  DeletedCheckpoint,
} from "../../sdk/contract/checkpoint.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const C = "/v1/sandboxes/{id}/checkpoints";
const ONE = `${C}/{name}`;

export const checkpoints: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: C,
    summary: "List what the machine's programs saved, with the newest five versions of each. It sleeps on.",
    query: NoQuery,
    answer: CheckpointList,
  },
  {
    method: "GET",
    path: ONE,
    summary: "Read the newest version, or another: its container, which verifies itself.",
    query: CheckpointQuery,
    answer: "bytes",
  },
  {
    method: "PUT",
    path: ONE,
    summary: "Keep a version: its container, at most 16 MiB beside the header.",
    query: NoQuery,
    body: "bytes",
    answer: CheckpointVersion,
  },
  {
    method: "DELETE",
    path: ONE,
    summary: "Delete all versions of a checkpoint from the mirror; those on the machine's disk stay.",
    query: NoQuery,
    answer: DeletedCheckpoint,
  },
];
