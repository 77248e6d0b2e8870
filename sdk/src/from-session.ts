/** Sandboxes of programs that have a session token, and no key. */
import { transportOf } from "./client.ts";
import type { Transport } from "./transport.ts";

/** What {@link Sessions.create} answered, or the parts of it that a program needs. */
export interface FromSession {
  /**
   * The token, or where tokens come from: asked before the first call, and again once the one that it gave is over, so
   * that a page goes on for as long as its server lets it.
   */
  token: string | (() => string | Promise<string>);
  sandboxId: string;
  /** Origin of the API; as for {@link Rouse} unless given. */
  apiUrl?: string | undefined;
  /** The sandbox's named URL, for {@link Sandbox.url} and {@link Sandbox.fetch}; read when it is needed unless given. */
  url?: string | undefined;
  /** Used in place of the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** Calls with the session's tokens, to its own API. */
export function transportOfSession({ token, apiUrl, fetch }: FromSession): Transport {
  const credential = typeof token === "function" ? { freshToken: token } : { apiKey: token };
  return transportOf({ fetch, baseUrl: apiUrl, ...credential });
}
