/** What the edge, and a sandbox's object, may ask of the object that holds a sandbox's sockets. */
import type { ClosedSocket, HeldSocket } from "../../sdk/contract/socket.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { Cause } from "../../sdk/contract/timeline.ts";
import type { Result } from "../result.ts";
import type { Pass, SocketRecord } from "./record.ts";

/** With an upgrade that is to be held: header of the request to the object, JSON, percent-encoded. */
export const HOLD_HEADER = "x-hold";
/** In an answer of the object: a failure, as JSON in the body. */
export const FAILED_HEADER = "x-hold-failed";
/** In an answer of the object: it woke the sandbox. */
export const WOKEN_HEADER = "x-hold-woken";

/** An upgrade of a client that was let in. */
export interface Hold {
  readonly sandboxId: string;
  readonly port: number;
  /** Without the query. */
  readonly path: string;
  readonly pass: Pass;
  readonly rule: SocketRecord["rule"];
  readonly wake: boolean;
  readonly userAgent: string;
  readonly cause: Cause;
}

export interface SocketsApi {
  /** The oldest first. */
  list(sandboxId: string): Promise<HeldSocket[]>;
  /** Close one, on both sides. @returns `socket_not_found` */
  close(sandboxId: string, socketId: string): Promise<Result<{ readonly socket: ClosedSocket }>>;
  /**
   * The sandbox runs, is deleted, or lets other people in: whatever follows from how it is now is done. Repeatable;
   * thrown failures are tried again by the caller.
   */
  changed(sandboxId: string): Promise<void>;
  /** Those credentials are over: sockets that they let in end, and no more are held. */
  revoke(credentials: readonly string[]): Promise<void>;
}

export function socketsObject(
  namespace: DurableObjectNamespace<never>,
  account: string,
  label: string,
): SocketsApi & { fetch(request: Request): Promise<Response> } {
  return namespace.getByName(`${account}/${label}`) as unknown as SocketsApi & {
    fetch(request: Request): Promise<Response>;
  };
}

/** Open a socket that is held. */
export async function holdSocket(
  namespace: DurableObjectNamespace<never>,
  { account, label }: { readonly account: string; readonly label: string },
  upgrade: { readonly path: string; readonly headers: Headers },
  hold: Hold,
): Promise<{ readonly response: Response; readonly woken: boolean } | { readonly failure: Failure }> {
  const headers = new Headers(upgrade.headers);
  headers.set(HOLD_HEADER, encodeURIComponent(JSON.stringify(hold)));
  const request = new Request(`http://sockets${upgrade.path}`, { headers });
  const response = await socketsObject(namespace, account, label).fetch(request);
  if (response.headers.has(FAILED_HEADER)) return { failure: await response.json<Failure>() };
  return { response, woken: response.headers.has(WOKEN_HEADER) };
}
