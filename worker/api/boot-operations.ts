/** Operations on what a sandbox starts with. */
import { z } from "zod";
import { Resume, ServiceLogs, ServiceStatus } from "../../sdk/contract/boot.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const Empty = z.strictObject({});
const SERVICE = "/v1/sandboxes/{id}/services/{service}";

/** Of the sandbox's object. */
export const resumes: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: "/v1/sandboxes/{id}:resume",
    summary: "How its newest run began, and whether there is something to go on with. Never wakes it.",
    query: NoQuery,
    answer: Resume,
  },
];

/** Of its guest agent. */
export const services: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: `${SERVICE}:restart`,
    summary: "Stop a service and start it again.",
    body: Empty,
    answer: ServiceStatus,
  },
  {
    method: "GET",
    path: `${SERVICE}/logs`,
    summary: "The last that a service wrote, 64 KiB at most.",
    answer: ServiceLogs,
  },
];
