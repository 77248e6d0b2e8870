/** Operations on the webhook inbox of a sandbox. */
import { z } from "zod";
import {
  CreateHook,
  DeletedHook,
  Hook,
  HookEvent,
  HookEventList,
  HookEventListQuery,
  HookEventQuery,
  HookList,
  NewHook,
  Receipt,
  Replayed,
  RotateHook,
  UpdateHook,
} from "../../sdk/contract/hook.ts";
import type { Operation } from "./operation.ts";

const Empty = z.strictObject({});
const NoQuery = z.strictObject({});
const ID = "/v1/sandboxes/{id}";
const H = `${ID}/hooks`;
const E = `${ID}/hook-events`;

export const hooks: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: H,
    summary: "Make a hook: a URL that takes webhooks while the sandbox sleeps. URL and secrets are shown once.",
    query: NoQuery,
    body: CreateHook,
    answer: NewHook,
  },
  { method: "GET", path: H, summary: "List hooks, the oldest first.", query: NoQuery, answer: HookList },
  { method: "GET", path: `${H}/{hook}`, summary: "Read a hook, by id or name.", query: NoQuery, answer: Hook },
  {
    method: "POST",
    path: `${H}/{hook}:update`,
    summary: "Change where it delivers, what it takes, or turn it on or off.",
    query: NoQuery,
    body: UpdateHook,
    answer: Hook,
  },
  {
    method: "POST",
    path: `${H}/{hook}:rotate`,
    summary: "Replace its secret (the one before counts for a day more), delivery secret or URL.",
    query: NoQuery,
    body: RotateHook,
    answer: NewHook,
  },
  {
    method: "POST",
    path: `${H}/{hook}:replay-dead`,
    summary: "Deliver all that was given up again.",
    query: NoQuery,
    body: Empty,
    answer: Replayed,
  },
  {
    method: "POST",
    path: `${H}/{hook}:delete`,
    summary: "Delete a hook with its events.",
    query: NoQuery,
    body: Empty,
    answer: DeletedHook,
  },
  {
    method: "DELETE",
    path: `${H}/{hook}`,
    summary: "Delete a hook with its events.",
    query: NoQuery,
    answer: DeletedHook,
  },
  {
    method: "GET",
    path: E,
    summary: "List events, the newest first.",
    query: HookEventListQuery,
    answer: HookEventList,
  },
  {
    method: "GET",
    path: `${E}/{event}`,
    summary: "Read an event with its timeline, and with body=1 its body.",
    query: HookEventQuery,
    answer: HookEvent,
  },
  {
    method: "POST",
    path: `${E}/{event}:replay`,
    summary: "Deliver an event again, under the same id.",
    query: NoQuery,
    body: Empty,
    answer: HookEvent,
  },
  {
    method: "GET",
    path: `${ID}/receipts/{event}`,
    summary: "What became of a request with Prefer: respond-async.",
    query: NoQuery,
    answer: Receipt,
  },
];
