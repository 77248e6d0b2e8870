/** A server of one's own, as somebody may write it: says who it is, dies when told, reports progress. */
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

if (process.argv.includes("--broken")) {
  console.error("no configuration: give --config");
  process.exit(3);
}
const server = new Server({ name: "program", version: "1.0.0" }, { capabilities: { tools: {} } });
const names = ["whoami", "die", "count", "wait"];
server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: names.map((name) => ({ name, inputSchema: { type: "object" as const } })),
}));
let cancelled = 0;
server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal, sendNotification, _meta }) => {
  if (params.name === "die") process.exit(7);
  if (params.name === "count")
    for (const progress of [1, 2, 3])
      await sendNotification({
        method: "notifications/progress",
        params: { progress, progressToken: _meta?.progressToken ?? 0 },
      });
  if (params.name === "wait") {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    cancelled++;
  }
  const { GREETING, TAKEN, ROUSE_MCP } = process.env;
  const said = { pid: process.pid, cancelled, GREETING, TAKEN, ROUSE_MCP, given: params.arguments };
  return { content: [{ type: "text" as const, text: JSON.stringify(said) }] };
});
await server.connect(new StdioServerTransport());
