/** What an operation is called in the document, where it belongs there, and which headers it heeds. Pure. */
import type { Operation, Work } from "./operation.ts";

const titles: Record<Work, string> = {
  account: "Account",
  keys: "Keys and members",
  operator: "Operator",
  agents: "Agents",
  sandbox: "Sandboxes",
  copies: "Snapshots, forks and history",
  preview: "Ports",
  links: "Share links",
  sessions: "Session tokens",
  hooks: "Webhooks",
  schedules: "Schedules",
  domains: "Domains",
  network: "Network",
  sandboxSecrets: "Secrets",
  secrets: "Secrets",
  events: "Event endpoints",
  drills: "Drills",
  mcp: "MCP servers",
  sockets: "Held sockets",
  volumes: "Volumes",
  state: "State",
  queues: "Queues",
  objects: "Objects",
  memory: "Memory",
  stores: "Shared stores",
  sharedMemory: "Shared stores",
  sharedState: "Shared stores",
  checkpoints: "Checkpoints",
  guest: "Commands and processes",
};

/** The part of the reference that an operation is in. */
export function titleOf({ work, path }: Operation): string {
  if (work !== "guest") return titles[work];
  if (path.includes("/interpreter")) return "Interpreter";
  if (path.includes("/services")) return "Services";
  return path.includes("/files") || path.includes("/uploads") ? "Files" : titles.guest;
}

/** Parts of the reference in their order. */
export const parts: readonly string[] = [
  ...[
    "Sandboxes",
    "Commands and processes",
    "Files",
    "Interpreter",
    "Services",
    "Ports",
    "Share links",
    "Session tokens",
  ],
  ...["Snapshots, forks and history", "Volumes", "Network", "Secrets", "Domains", "Held sockets"],
  ...["Webhooks", "Schedules", "Event endpoints", "Drills", "Agents", "MCP servers"],
  ...["State", "Queues", "Objects", "Memory", "Checkpoints", "Shared stores"],
  ...["Account", "Keys and members", "Operator", "Without a key"],
];

/** Such as `sandboxes.hooks.create`: the words of the path, and what is done. */
export function idOf({ method, path }: Operation): string {
  const segments = path.split("/").slice(2);
  const [last = "", verb] = (segments.at(-1) ?? "").split(":");
  const words = [...segments.slice(0, -1), last].filter((word) => !word.startsWith("{")).map(camel);
  // There is a DELETE beside it.
  const done = verb === "delete" ? "remove" : verb;
  return [...words, done === undefined ? deed(method, last) : camel(done)].join(".");
}

function deed(method: string, last: string): string {
  const isOne = last.startsWith("{");
  switch (method) {
    case "GET":
      return !isOne && (last.endsWith("s") || last === "memory") ? "list" : "get";
    case "POST":
      return last === "sql" || last === "mcp" ? "call" : "create";
    default:
      return method.toLowerCase();
  }
}

function camel(word: string): string {
  return word.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** Changes of these are made once per Idempotency-Key, whatever their verb. */
const once: ReadonlySet<Work> = new Set([
  "sandbox",
  "copies",
  "volumes",
  "network",
  "mcp",
  "schedules",
  "sandboxSecrets",
]);
/** Of these, what makes, changes or deletes one. */
const onceMade: ReadonlySet<Work> = new Set([
  "hooks",
  "domains",
  "events",
  "links",
  "sessions",
  "drills",
  "secrets",
  "memory",
]);

export function takesIdempotencyKey({ method, path, work }: Operation): boolean {
  if (method === "GET" || method === "HEAD") return false;
  if (once.has(work)) return true;
  if (onceMade.has(work)) return !path.includes(":") || /:(update|rotate)$/.test(path);
  if (work === "keys" || work === "operator") return method === "POST" && !path.startsWith("/v1/hosts");
  if (work === "guest") return /(:exec|\/processes|\/uploads)$/.test(path);
  return work === "queues" && path.endsWith("/tasks");
}

/** Changes that are answered before they are done, unless the client waits. */
export function takesPrefer({ method, work }: Operation): boolean {
  return method !== "GET" && (work === "sandbox" || work === "copies" || work === "volumes");
}
