/** What an API operation is, and which one a request means. Pure. */
import type { z } from "zod";

/** Who does the work: the guest agent, or the handler of that name at the edge. */
export type Work =
  | "guest"
  | "account"
  | "keys"
  | "operator"
  | "sandbox"
  | "copies"
  | "preview"
  | "links"
  | "sessions"
  | "agents"
  | "mcp"
  | "sockets"
  | "volumes"
  | "hooks"
  | "schedules"
  | "domains"
  | "network"
  | "secrets"
  | "sandboxSecrets"
  | "events"
  | "state"
  | "memory"
  | "sharedMemory"
  | "sharedState"
  | "stores"
  | "checkpoints"
  | "drills"
  | "queues"
  | "objects";

export interface Operation {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE";
  /** With `{id}` and other parameters in braces. `{key*}` at the end runs on over slashes and colons. */
  readonly path: string;
  readonly summary: string;
  readonly work: Work;
  readonly query?: z.ZodType;
  /** A schema, or raw bytes. */
  readonly body?: z.ZodType | "bytes";
  /** A schema, raw bytes, or what the guest agent says without a fixed shape. */
  readonly answer: z.ZodType | "bytes" | "any";
  /** Another media type that the request may ask for, as text. */
  readonly also?: string;
  /** Lines of a stream (`application/x-ndjson`) where the request asks for one. */
  readonly lines?: z.ZodType;
  /** It is a WebSocket; only its messages count as use of the machine, or the open connection as well. */
  readonly socket?: "messages" | "connection";
  /** Of a file watch: it does not wake the machine, and does not keep it awake. */
  readonly quiet?: true;
}

export interface Match {
  readonly operation: Operation;
  /** Decoded path parameters in order; the first is the sandbox. */
  readonly params: readonly string[];
}

interface Compiled {
  readonly operation: Operation;
  readonly pattern: RegExp;
}

export type Matcher = (method: string, pathname: string) => Match | "method_not_allowed" | "bad_encoding" | null;

/** The first parameter runs to the last colon of its segment that is not escaped: before a verb, or to its end. */
export function matcher(operations: readonly Operation[]): Matcher {
  const compiled: Compiled[] = operations.map((operation) => ({ operation, pattern: patternOf(operation.path) }));
  return (method, pathname) => {
    let known = false;
    for (const { operation, pattern } of compiled) {
      const match = pattern.exec(pathname);
      if (!match) continue;
      known = true;
      if (operation.method !== method) continue;
      try {
        return { operation, params: match.slice(1).map(decodeURIComponent) };
      } catch {
        return "bad_encoding";
      }
    }
    return known ? "method_not_allowed" : null;
  };
}

function patternOf(path: string): RegExp {
  const source = path
    .split("/")
    .map((segment) => {
      // A parameter with a verb after it may hold colons of its own; one without may not.
      if (segment.endsWith("*}")) return "(.+)";
      if (!segment.startsWith("{")) return segment.replace(/[.*+?^$()[\]\\|]/g, "\\$&");
      return segment.includes("}:") ? segment.replace(/\{\w+\}/, "([^/]+)") : "([^/:]+)";
    })
    .join("/");
  return new RegExp(`^${source}$`);
}
