/** What a request must be, whatever the program wants of it: said before anything wakes. */
import { RouseFailure } from "../../sdk/contract/error-codes.ts";

/** A WebSocket key is 16 bytes in base64. */
const KEY = /^[A-Za-z0-9+/]{22}==$/;
/** Longest headers with the path, characters: hosts take 16 KiB, of which some is what the edge adds. */
const REQUEST_MAX = 14_336;

export interface Issue {
  readonly path: string;
  readonly message: string;
}

/** What is wrong with it as the beginning of a WebSocket. What calls the Worker without a network shows neither header. */
export function upgradeIssues({ method, headers }: Pick<Request, "method" | "headers">): Issue[] {
  const issues: Issue[] = [];
  if (method !== "GET") issues.push({ path: "method", message: "a WebSocket begins with GET" });
  const version = headers.get("sec-websocket-version");
  const key = headers.get("sec-websocket-key");
  if (version === null && key === null) return issues;
  if (version !== "13") issues.push({ path: "sec-websocket-version", message: "13" });
  if (key === null || !KEY.test(key)) issues.push({ path: "sec-websocket-key", message: "16 bytes in base64" });
  return issues;
}

/**
 * @param headers for the program
 * @throws RouseFailure `invalid_request` for what is longer than a host takes, or no upgrade though it says so
 */
export function mustBeWellFormed(request: Request, upgrade: boolean, headers: Headers, pathAndQuery: string): void {
  const issues = upgrade ? upgradeIssues(request) : [];
  if (lengthOf(headers, pathAndQuery) > REQUEST_MAX)
    issues.push({ path: "headers", message: `at most ${REQUEST_MAX} characters with the path` });
  if (issues.length === 0) return;
  const faults = issues.map(({ path, message }) => `${path}: ${message}`).join("; ");
  throw new RouseFailure("invalid_request", `The request is not well formed: ${faults}`, { details: { issues } });
}

export function lengthOf(headers: Headers, pathAndQuery: string): number {
  return pathAndQuery.length + [...headers].reduce((sum, [name, value]) => sum + name.length + value.length, 0);
}
