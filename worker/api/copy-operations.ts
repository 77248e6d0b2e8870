/** Operations on copies of sandboxes: snapshots, forks, points of their history. */
import { z } from "zod";
import { Sandbox } from "../../sdk/contract/sandbox.ts";
import {
  CreateSnapshot,
  Diff,
  DiffQuery,
  ExtendSnapshot,
  Forks,
  ForkSandbox,
  History,
  Rollback,
  Snapshot,
  SnapshotList,
  SnapshotListQuery,
  UpdateSnapshot,
} from "../../sdk/contract/snapshot.ts";
import type { Operation } from "./operation.ts";

const Empty = z.strictObject({});
const NoQuery = z.strictObject({});
const ID = "/v1/sandboxes/{id}";
const N = "/v1/snapshots";

export const copies: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: `${ID}:snapshot`,
    summary: "Take a snapshot of a sandbox that runs, and runs on, or that sleeps.",
    query: NoQuery,
    body: CreateSnapshot,
    answer: Snapshot,
  },
  {
    method: "POST",
    path: `${ID}:fork`,
    summary: "Copy a sandbox with its RAM and processes, up to 16 times; the source goes on.",
    query: NoQuery,
    body: ForkSandbox,
    answer: Forks,
  },
  {
    method: "GET",
    path: `${ID}/history`,
    summary: "States that the sandbox slept with and that are stored, the newest first.",
    query: NoQuery,
    answer: History,
  },
  {
    method: "GET",
    path: `${ID}/diff`,
    summary: "Files that differ between two points of its history, at most 10,000; volumes are not compared.",
    query: DiffQuery,
    answer: Diff,
  },
  {
    method: "POST",
    path: `${ID}:rollback`,
    summary: "Make the sandbox what it was at a point of its history.",
    query: NoQuery,
    body: Rollback,
    answer: Sandbox,
  },
  {
    method: "GET",
    path: N,
    summary: "List snapshots, the newest first.",
    query: SnapshotListQuery,
    answer: SnapshotList,
  },
  { method: "GET", path: `${N}/{snapshot}`, summary: "Read a snapshot.", query: NoQuery, answer: Snapshot },
  {
    method: "POST",
    path: `${N}/{snapshot}:update`,
    summary: "Change name and labels.",
    query: NoQuery,
    body: UpdateSnapshot,
    answer: Snapshot,
  },
  {
    method: "POST",
    path: `${N}/{snapshot}:extend`,
    summary: "Keep it so many days from now.",
    query: NoQuery,
    body: ExtendSnapshot,
    answer: Snapshot,
  },
  {
    method: "POST",
    path: `${N}/{snapshot}:delete`,
    summary: "Delete a snapshot; sandboxes that were made of it stay.",
    query: NoQuery,
    body: Empty,
    answer: Snapshot,
  },
  {
    method: "DELETE",
    path: `${N}/{snapshot}`,
    summary: "Delete a snapshot; sandboxes that were made of it stay.",
    query: NoQuery,
    answer: Snapshot,
  },
];
