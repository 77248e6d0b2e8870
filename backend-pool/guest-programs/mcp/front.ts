/** What a client of the gateway talks to: one server, or all as one. Made for each request; what lasts is behind it. */
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import type { RequestHandlerExtra } from "@modelcontextprotocol/sdk/shared/protocol.js";
import {
  CallToolRequestSchema,
  CallToolResultSchema,
  ErrorCode,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  type Prompt,
  type ServerNotification,
  type ServerRequest,
  type Tool as ListedTool,
} from "@modelcontextprotocol/sdk/types.js";
import { innerName, outerName } from "./names.ts";
import type { Upstream } from "./upstream.ts";

/** A call of a server ends after so long without any word of it, milliseconds. */
const CALL_MS = 600_000;
const PAGES_MAX = 50;

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>;
type Has = "tools" | "prompts" | "resources";

export function front(upstreams: readonly Upstream[]): Server {
  const several = upstreams.length > 1;
  const server = new Server(
    { name: several ? "rouse-mcp" : (upstreams[0]?.name ?? "rouse-mcp"), version: "0.1.0" },
    { capabilities: { tools: {}, prompts: {}, resources: {} } },
  );

  /** Of all servers that run; a server alone says why it does not. */
  const fromAll = async <T>(
    has: Has,
    list: (client: Client) => Promise<T[]>,
    named: (one: T, server: string) => T = (one) => one,
  ): Promise<T[]> => {
    const lists = upstreams.map(async (upstream) => {
      const client = await upstream.client();
      if (!client.getServerCapabilities()?.[has]) return [];
      return (await list(client)).map((one) => named(one, upstream.name));
    });
    if (!several) return (await Promise.all(lists)).flat();
    const settled = await Promise.allSettled(lists);
    return settled.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  };
  const prefixed = <T extends { name: string }>(one: T, server: string): T => ({
    ...one,
    name: outerName(server, one.name, several),
  });
  const find = (outer: string): { upstream: Upstream; name: string } => {
    const [only] = upstreams;
    if (!several && only) return { upstream: only, name: outer };
    const parts = innerName(outer);
    const upstream = upstreams.find(({ name }) => name === parts?.server);
    if (!parts || !upstream) throw new McpError(ErrorCode.InvalidParams, `There is no server of ${outer}`);
    return { upstream, name: parts.inner };
  };

  server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: await fromAll<ListedTool>("tools", (client) => pages((page) => client.listTools(page), "tools"), prefixed),
  }));
  server.setRequestHandler(ListPromptsRequestSchema, async () => ({
    prompts: await fromAll<Prompt>(
      "prompts",
      (client) => pages((page) => client.listPrompts(page), "prompts"),
      prefixed,
    ),
  }));
  server.setRequestHandler(ListResourcesRequestSchema, async () => ({
    resources: await fromAll("resources", (client) => pages((page) => client.listResources(page), "resources")),
  }));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, async () => ({
    resourceTemplates: await fromAll("resources", (client) =>
      pages((page) => client.listResourceTemplates(page), "resourceTemplates"),
    ),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const { upstream, name } = find(params.name);
    const client = await upstream.client();
    const { _meta: _, ...rest } = params;
    // Passed on as it is: whether it fits is between the server and its client.
    return client.request({ method: "tools/call", params: { ...rest, name } }, CallToolResultSchema, options(extra));
  });
  server.setRequestHandler(GetPromptRequestSchema, async ({ params }, extra) => {
    const { upstream, name } = find(params.name);
    return (await upstream.client()).getPrompt({ ...params, name }, options(extra));
  });
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params }, extra) => {
    // Addresses name no server: the first that has it answers.
    let fault: unknown = new McpError(ErrorCode.InvalidParams, "No server has resources");
    for (const upstream of upstreams) {
      try {
        const client = await upstream.client();
        if (client.getServerCapabilities()?.resources) return await client.readResource(params, options(extra));
      } catch (found) {
        fault = found;
      }
    }
    throw fault;
  });
  return server;
}

/** A call ends with its client's, and its progress reaches it. */
function options(extra: Extra) {
  const progressToken = extra._meta?.progressToken;
  return {
    signal: extra.signal,
    timeout: CALL_MS,
    resetTimeoutOnProgress: true,
    ...(progressToken === undefined
      ? {}
      : {
          onprogress: (progress: { progress: number }) => {
            const params = { ...progress, progressToken };
            extra.sendNotification({ method: "notifications/progress", params }).catch(() => undefined);
          },
        }),
  };
}

async function pages<K extends string, T>(
  ask: (page: { cursor: string } | undefined) => Promise<{ [key in K]: T[] } & { nextCursor?: string | undefined }>,
  key: K,
): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const answer = await ask(cursor === undefined ? undefined : { cursor });
    all.push(...answer[key]);
    cursor = answer.nextCursor;
    if (cursor === undefined) break;
  }
  return all;
}
