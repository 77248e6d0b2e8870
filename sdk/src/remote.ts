/** One sandbox as the target of calls, and the reading of answers by the contract. */
import type { z } from "zod";
import { invalidArgument } from "./errors.ts";
import { unexpectedAnswer } from "./transport.ts";
import type { Call, Transport } from "./transport.ts";

/** What a call adds to method and path. */
export type CallExtras = Omit<Call, "method" | "path">;

export class Remote {
  readonly transport: Transport;
  readonly id: string;

  constructor(transport: Transport, id: string) {
    this.transport = transport;
    this.id = id;
  }

  /** Path of something below the sandbox: a verb (`:exec`) or a sub-path (`/processes`). */
  path(suffix = ""): string {
    return `/v1/sandboxes/${encodeURIComponent(this.id)}${suffix}`;
  }

  get(suffix: string, extras: CallExtras = {}): Promise<unknown> {
    return this.transport.json({ method: "GET", path: this.path(suffix), ...extras });
  }

  post(suffix: string, json: unknown, extras: CallExtras = {}): Promise<unknown> {
    return this.transport.json({ method: "POST", path: this.path(suffix), json, ...extras });
  }

  put(suffix: string, json: unknown, extras: CallExtras = {}): Promise<unknown> {
    return this.transport.json({ method: "PUT", path: this.path(suffix), json, ...extras });
  }

  delete(suffix: string, extras: CallExtras = {}): Promise<unknown> {
    return this.transport.json({ method: "DELETE", path: this.path(suffix), ...extras });
  }
}

/** Some names would make a path that means something else. @throws InvalidRequestError `invalid_argument` */
export function addressable(idOrName: string, what: "sandbox" | "volume" = "sandbox"): string {
  if (idOrName === "") throw invalidArgument(`The ${what}'s id or name is empty.`);
  if (idOrName === "." || idOrName === "..")
    throw invalidArgument(`A path cannot hold the name ${idOrName}.`, `Use the ${what}'s id.`);
  return idOrName;
}

/** An answer by the contract. @throws RouseError `unexpected_answer` */
export function parseAnswer<T extends z.ZodType>(schema: T, answer: unknown): z.infer<T> {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(
    (issue) => `${issue.path.map(String).join(".") || "answer"}: ${issue.message}`,
  );
  throw unexpectedAnswer(faults.join("; "), parsed.error);
}
