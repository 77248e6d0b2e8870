/** The servers that are a part of the gateway. */
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type CallToolResult,
} from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { fetchTools } from "./fetch.ts";
import { gitTools } from "./git.ts";
import { timeTools } from "./time.ts";
import type { Tool } from "./tool.ts";

type Options = Readonly<Record<string, string>>;

const programs: Readonly<Record<string, (options: Options) => readonly Tool[]>> = {
  fetch: fetchTools,
  git: gitTools,
  time: timeTools,
};

export function builtin(program: string, options: Options): Server {
  const tools = programs[program]?.(options);
  if (!tools) throw new Error(`there is no server ${program}`);
  const server = new Server({ name: program, version: "0.1.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: tools.map(({ name, description, input, readOnly }) => ({
      ...{ name, description },
      inputSchema: z.toJSONSchema(input, { io: "input" }) as { type: "object" },
      annotations: { readOnlyHint: readOnly },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }): Promise<CallToolResult> => {
    const tool = tools.find(({ name }) => name === params.name);
    if (!tool) throw new McpError(ErrorCode.InvalidParams, `There is no tool ${params.name}`);
    const input = tool.input.safeParse(params.arguments ?? {});
    if (!input.success) {
      const faults = input.error.issues.map(({ path, message }) => `${path.join(".") || "input"}: ${message}`);
      return { content: [{ type: "text", text: faults.join("; ") }], isError: true };
    }
    try {
      return { content: [{ type: "text", text: await tool.run(input.data, signal) }] };
    } catch (fault) {
      // What can't be done is for the model to read.
      return {
        content: [{ type: "text", text: fault instanceof Error ? fault.message : String(fault) }],
        isError: true,
      };
    }
  });
  return server;
}
