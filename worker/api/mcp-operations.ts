/** Operations on MCP servers in sandboxes. */
import { z } from "zod";
import { McpCatalog, McpGateway, StartMcp, StoppedMcp } from "../../sdk/contract/mcp.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const MCP = "/v1/sandboxes/{id}/mcp";

export const mcp: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: "/v1/mcp/catalog",
    summary: "MCP servers that need no installation.",
    query: NoQuery,
    answer: McpCatalog,
  },
  {
    method: "POST",
    path: MCP,
    summary: "Start MCP servers in the sandbox, and wait until they are ready; wakes it.",
    query: NoQuery,
    body: StartMcp,
    answer: McpGateway,
  },
  {
    method: "GET",
    path: MCP,
    summary: "MCP servers of the sandbox, their URLs and token. Never wakes it.",
    query: NoQuery,
    answer: McpGateway,
  },
  {
    method: "DELETE",
    path: MCP,
    summary: "Stop the sandbox's MCP servers; their token opens nothing any more.",
    query: NoQuery,
    answer: StoppedMcp,
  },
];
