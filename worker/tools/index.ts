/** The tools of the edge's MCP server, in the order that they are listed. */
import { codeTools } from "./code-tools.ts";
import { commandTools } from "./command-tools.ts";
import { copyTools } from "./copy-tools.ts";
import { fileTools } from "./file-tools.ts";
import { sandboxTools } from "./sandbox-tools.ts";
import type { Tool } from "./tool.ts";
import { wayInTools } from "./way-in-tools.ts";

export const tools: readonly Tool[] = [
  ...sandboxTools,
  ...commandTools,
  ...fileTools,
  ...codeTools,
  ...copyTools,
  ...wayInTools,
];
