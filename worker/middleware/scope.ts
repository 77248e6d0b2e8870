/** What a session token is good for. Pure. */
import { labelFor, labelOfId } from "../../sdk/contract/names.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { SessionGrant, SessionScope } from "../../sdk/contract/session.ts";
import { uuidOf } from "../../sdk/contract/uuid.ts";
import type { Operation } from "../api/operation.ts";

/** What a session needs for an operation: one of these; empty for what each may; null for what none may. */
export function scopesFor({ work, method, path }: Operation): readonly SessionScope[] | null {
  if (work === "sandbox") return isReadOfItself(method, path) ? [] : null;
  if (work === "preview") return method === "GET" ? ["http"] : null;
  if (work !== "guest") return null;
  const below = path.slice("/v1/sandboxes/{id}".length);
  if (below.startsWith("/interpreter")) return ["interpreter"];
  if (below === "/terminal" || below.endsWith(":resize")) return ["terminal"];
  // A tunnel reaches any port of the machine, with whatever speaks TCP.
  if (below === "/tunnel") return null;
  if (below.startsWith("/files/watches")) return ["files", "files:read"];
  if (below.startsWith("/files") || below.startsWith("/uploads"))
    return method === "GET" ? ["files", "files:read"] : ["files"];
  // A terminal is a process, and whoever has one runs what they like.
  if (below.startsWith("/processes")) return ["exec", "terminal"];
  return ["exec"];
}

/** @throws RouseFailure `permission_denied` */
export function mustBeInScope(session: SessionGrant, operation: Operation): void {
  const needed = scopesFor(operation);
  if (needed === null) throw new RouseFailure("permission_denied", "No session token may do that.");
  if (needed.length > 0) mustHaveScope(session, needed);
}

/** @param needed one of these. @throws RouseFailure `permission_denied` */
export function mustHaveScope({ scopes }: SessionGrant, needed: readonly SessionScope[]): void {
  if (needed.some((scope) => scopes.includes(scope))) return;
  const message = `The session token's scopes do not allow that: it needs ${needed.map((scope) => `"${scope}"`).join(" or ")}.`;
  throw new RouseFailure("permission_denied", message, { details: { scopes: needed } });
}

/**
 * The id of the session's sandbox, where a path names it: by its id, as a UUID, or by name. One of the same name that
 * came later is another.
 * @throws RouseFailure `forbidden` for any other, whether it is there or not
 */
export async function mustBeItsSandbox({ sandboxId }: SessionGrant, named: string): Promise<string> {
  if (named === sandboxId || named === uuidOf(sandboxId)) return sandboxId;
  if (labelOfId(named) === null && (await labelFor(named)) === labelOfId(sandboxId)) return sandboxId;
  throw new RouseFailure("forbidden", "This session token is good for another sandbox.");
}

function isReadOfItself(method: string, path: string): boolean {
  return method === "GET" && path === "/v1/sandboxes/{id}";
}
