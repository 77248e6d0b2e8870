/**
 * MCP over HTTP (Streamable HTTP) without sessions: each request is answered by itself, so any of the edge's machines can
 * answer the next, and nothing is lost when one is replaced. The SDK checks headers and versions of the protocol.
 */
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import {
  CallToolRequestSchema,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type CallToolResult,
  type Tool as ListedTool,
} from "@modelcontextprotocol/sdk/types.js";
import { errorBody, RouseFailure } from "../../sdk/contract/error-codes.ts";
import { JSON_MAX } from "../api/input.ts";

export interface McpServerFacts {
  readonly name: string;
  readonly title?: string;
  readonly version: string;
  /** For the model: what these tools are for. */
  readonly instructions: string;
  readonly tools: () => ListedTool[];
  /** null: there is no such tool. @throws RouseFailure which the model is told */
  readonly call: (name: string, input: unknown) => Promise<CallToolResult> | null;
}

export async function serveMcp(request: Request, facts: McpServerFacts): Promise<Response> {
  const { name, title, version, instructions } = facts;
  const server = new Server(
    { name, version, ...(title === undefined ? {} : { title }) },
    {
      capabilities: { tools: {} },
      instructions,
      // It would check answers of clients, which are asked nothing.
      jsonSchemaValidator: {
        getValidator: () => () => ({ valid: false, data: undefined, errorMessage: "nothing was asked" }),
      },
    },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: facts.tools() }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => called(facts, params.name, params.arguments ?? {}));
  const transport = new WebStandardStreamableHTTPServerTransport({
    enableJsonResponse: true,
    maxRequestBodySize: JSON_MAX,
  });
  await server.connect(transport);
  return transport.handleRequest(request);
}

/** What can't be done is an answer for the model to read; an unknown tool is the client's fault. */
async function called({ call }: McpServerFacts, name: string, input: unknown): Promise<CallToolResult> {
  const answer = call(name, input);
  if (!answer) throw new McpError(ErrorCode.InvalidParams, `There is no tool ${name}.`);
  try {
    return await answer;
  } catch (fault) {
    if (!(fault instanceof RouseFailure)) throw fault;
    return { content: [{ type: "text", text: JSON.stringify(errorBody(fault)) }], isError: true };
  }
}
