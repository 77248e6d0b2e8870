/** What a key may do with an operation, and which sandboxes it may see. */
import { accessFor, may, type Deed } from "../../durable/account/key.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { isPlainName } from "../../sdk/contract/names.ts";
import type { Operation } from "../api/operation.ts";
import { isOfSession, type Caller } from "./auth.ts";
import { mustBeInScope } from "./scope.ts";

/** What an operation does. null: everybody with a key may. */
export function deedOf({ work, method, path }: Operation): Deed | null {
  switch (work) {
    case "guest":
      return "use_sandboxes";
    case "state":
    case "checkpoints":
    case "queues":
    case "objects":
      // What programs keep is seen by those who see their files; how much it is, by all.
      return method === "GET" && path.endsWith("/state") ? "read" : "use_sandboxes";
    case "memory":
    case "sharedMemory":
    case "sharedState":
      // As with state: what agents noted is seen by those who see their files.
      return path.endsWith(":usage") ? "read" : "use_sandboxes";
    case "copies":
      // It tells what files there are, as those of the guest do.
      return method === "GET" && !path.endsWith("/diff") ? "read" : "use_sandboxes";
    case "sandbox":
    case "preview":
    case "hooks":
    case "schedules":
    case "domains":
    case "network":
    case "sandboxSecrets":
    case "links":
    case "sessions":
    case "agents":
    case "mcp":
    case "sockets":
    case "stores":
    case "volumes":
      return method === "GET" ? "read" : "use_sandboxes";
    case "secrets":
      // Of the whole account; who may use sandboxes gives those that are there to them.
      return method === "GET" ? "read" : "administer";
    case "events":
      // Whoever makes an endpoint has what happens in the whole account sent away.
      return method === "GET" ? "read" : "administer";
    case "drills":
      // A kill is the business of who answers for it.
      return method === "GET" ? "read" : "administer";
    case "keys":
      return method === "GET" ? "read" : "administer";
    case "operator":
      return method === "GET" ? "read" : "administer";
    case "account":
      return path === "/v1/me" ? null : "read_money";
  }
}

const partial: ReadonlySet<Operation["work"]> = new Set([
  "guest",
  "sandbox",
  "copies",
  "preview",
  "hooks",
  "schedules",
  "domains",
  "network",
  "sandboxSecrets",
  "links",
  "sessions",
  "agents",
  "mcp",
  "sockets",
  "state",
  "memory",
  "checkpoints",
  "drills",
  "queues",
  "objects",
]);

/** @throws RouseFailure `permission_denied` */
export function mustMay(caller: Caller, operation: Operation): void {
  if (isOfSession(caller)) mustBeInScope(caller.session, operation);
  const deed = deedOf(operation);
  if (deed === null) return;
  if (!may(caller.access, deed)) {
    const message = `A key with the access "${caller.access}" may not do that.`;
    throw new RouseFailure("permission_denied", message, { details: { access: accessFor(deed) } });
  }
  // Keys of a part of the account see that part's sandboxes, and nothing of the whole.
  if (caller.namePrefix !== null && !partial.has(operation.work))
    throw new RouseFailure("permission_denied", "A key limited to a name prefix may use sandboxes only.", {
      details: { namePrefix: caller.namePrefix },
    });
}

/** A sandbox that the key may not see is as one that is not there. @throws RouseFailure `not_found` */
export async function mustSee(env: Env, caller: Caller, label: string, id: string | null): Promise<void> {
  const { namePrefix, account } = caller;
  if (namePrefix === null) return;
  if (await isNamed(env, account, label, id, namePrefix)) return;
  throw new RouseFailure("not_found", "There is no such sandbox.");
}

async function isNamed(env: Env, account: string, label: string, id: string | null, prefix: string): Promise<boolean> {
  // A plain name is its own label, and no other name has that label.
  if (isPlainName(label)) return label.startsWith(prefix);
  const found = await sandboxObject(env.SANDBOX, account, label).get({ id });
  return found.ok && found.sandbox.name !== null && found.sandbox.name.startsWith(prefix);
}
