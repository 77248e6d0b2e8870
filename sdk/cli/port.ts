/** A port that a word names, and the way to it. */
import type { Preview, Sandbox } from "../src/index.ts";
import { RouseError } from "../src/index.ts";
import { UsageError } from "./args.ts";

/** @throws UsageError for what is none */
export function portOf(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return port;
  throw new UsageError(`${JSON.stringify(text)} is not a port`, "Pass a port from 1 to 65535.");
}

/** The port as it is open, or opened by token: opening it anew would undo that it is public. */
export async function previewOf(sandbox: Sandbox, port: number, ttlSeconds?: number): Promise<Preview> {
  return sandbox.previews.get(port, { ttlSeconds }).catch((error: unknown) => {
    if (error instanceof RouseError && error.status === 404) return sandbox.previews.create(port, { ttlSeconds });
    throw error;
  });
}
