/** Sandboxes that are deleted. */
import { RouseError } from "./errors.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/** Take back a deletion. An answer that was lost must not make the next try fail, as there is nothing to take back then. */
export async function undelete(remote: Remote, options: RequestOptions): Promise<unknown> {
  try {
    return await remote.post(":undelete", {}, options);
  } catch (error) {
    if (!(error instanceof RouseError) || error.code !== "conflict") throw error;
    return await remote.get("", { signal: options.signal, timeoutMs: options.timeoutMs });
  }
}
