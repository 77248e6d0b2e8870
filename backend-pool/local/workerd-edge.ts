/**
 * `npm run edge -- --dir FOLDER [--listen HOST:PORT] [--domain DOMAIN] [--scheme https]`: the edge on plain workerd, without
 * Cloudflare. It bundles the Worker, writes workerd's configuration and becomes workerd: no other process stays.
 * Settings: docs/self-hosting-edge.md. The first line that it prints is JSON, and says that it listens. It exits with 75
 * when another edge has the folder.
 */
import { mkdir } from "node:fs/promises";
import { readEdgeConfig } from "./edge-config.ts";
import { become, underLock } from "./edge-lock.ts";

/** The process that holds the folder's lock. */
const LOCKED = "ROUSE_EDGE_LOCKED";

process.umask(0o077);
try {
  const config = readEdgeConfig(process.argv.slice(2), process.env);
  const dir = config.ROUSE_EDGE_DIR;
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const { [LOCKED]: holder, ...env } = process.env;
  if (holder !== String(process.pid)) {
    const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
    become(underLock(dir, again), { ...env, [LOCKED]: String(process.pid) });
  }
  // It would write a log into a home that a service does not have.
  process.env["WRANGLER_WRITE_LOGS"] = "false";
  // What takes time to load is loaded once, under the lock.
  const { prepareEdge } = await import("./workerd-preparation.ts");
  const { command, values } = await prepareEdge(config);
  // Node.js hands no lock on: it is taken anew, and whoever comes in between has it instead.
  become(underLock(dir, command), { ...env, ...values });
} catch (fault) {
  console.error(fault instanceof Error ? fault.message : fault);
  process.exit(1);
}
