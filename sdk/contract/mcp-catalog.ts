/** The MCP servers that are there without installing anything, as data. */
import { McpCatalog, type GatewayServer, type McpCatalogEntry } from "./mcp.ts";

interface Entry extends McpCatalogEntry {
  /** How the gateway runs it. `{option}` stands for an option; one alone in an argument is split at `:`. */
  readonly runs:
    | { readonly kind: "bundled"; readonly program: string; readonly args: readonly string[] }
    | { readonly kind: "builtin"; readonly program: string }
    | { readonly kind: "http"; readonly url: string };
}

const CHECKED = "2026-11-30";
const OURS = { license: "Apache-2.0", source: "rouse", version: "0.1.0", checked: CHECKED } as const;
const REFERENCE = { license: "MIT", version: "2026.8.31", checked: CHECKED } as const;

export const mcpCatalog: readonly Entry[] = [
  {
    ...{ id: "memory", title: "Memory", ...OURS },
    description: "What the agent remembers, outside of the machine: every acknowledged entry is kept.",
    ...{ env: [], options: [], egress: [] },
    runs: { kind: "http", url: "http://rouse.internal/memory/mcp" },
  },
  {
    ...{ id: "filesystem", title: "Files", ...REFERENCE },
    source: "npm:@modelcontextprotocol/server-filesystem",
    description: "Read, write, move and search files below some folders.",
    env: [],
    options: [{ name: "paths", description: "Folders that it may use, with : between them", default: "/workspace" }],
    egress: [],
    runs: { kind: "bundled", program: "filesystem", args: ["{paths}"] },
  },
  {
    ...{ id: "sequential-thinking", title: "Sequential thinking", ...REFERENCE },
    source: "npm:@modelcontextprotocol/server-sequential-thinking",
    description: "Think in steps that can be revised and branched.",
    ...{ env: [], options: [], egress: [] },
    runs: { kind: "bundled", program: "sequential-thinking", args: [] },
  },
  {
    ...{ id: "fetch", title: "Fetch", ...OURS },
    description: "Read a page of the web as text, as far as the sandbox's network rules let it.",
    env: [],
    options: [],
    egress: ["*"],
    runs: { kind: "builtin", program: "fetch" },
  },
  {
    ...{ id: "git", title: "Git", ...OURS },
    description: "Look at a repository and change it: status, diff, log, show, add, commit, branches.",
    env: [],
    options: [{ name: "repository", description: "The repository's folder", default: "/workspace" }],
    egress: [],
    runs: { kind: "builtin", program: "git" },
  },
  {
    ...{ id: "time", title: "Time", ...OURS },
    description: "What time it is, and what a time is elsewhere.",
    ...{ env: [], options: [], egress: [] },
    runs: { kind: "builtin", program: "time" },
  },
];

/** The catalog as it is shown. */
export function shownCatalog(): McpCatalogEntry[] {
  return McpCatalog.parse({ data: mcpCatalog }).data;
}

/** A server of the catalog, as the gateway runs it. @returns what is wrong with the options, or null for no such id */
export function catalogServer(
  name: string,
  id: string,
  given: Readonly<Record<string, string>> = {},
): GatewayServer | readonly string[] | null {
  const entry = mcpCatalog.find((one) => one.id === id);
  if (!entry) return null;
  const known = new Map(entry.options.map((option) => [option.name, option]));
  const unknown = Object.keys(given).filter((option) => !known.has(option));
  if (unknown.length > 0)
    return unknown.map((option) => `${id} has no option ${option}; it has ${[...known.keys()].join(", ") || "none"}`);
  const options: Record<string, string> = {};
  for (const option of entry.options) {
    const value = given[option.name] ?? option.default;
    if (value !== null) options[option.name] = value;
  }
  const { runs } = entry;
  if (runs.kind === "http") return { name, ...runs };
  if (runs.kind === "builtin") return { name, ...runs, options };
  const args = runs.args.flatMap((arg) => {
    const option = /^\{(\w+)\}$/.exec(arg)?.[1];
    return option === undefined ? [arg] : (options[option] ?? "").split(":").filter((part) => part !== "");
  });
  return { name, ...runs, args };
}
