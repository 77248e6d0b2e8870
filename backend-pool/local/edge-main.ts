/** `node edge-main.ts`: the edge as a process of its own, until it is told to end. Settings: ROUSE_HOME, ROUSE_STATE, ROUSE_EDGE_LISTEN. */
import { join } from "node:path";
import { defaultHome } from "../config.ts";
import { startEdge } from "./edge.ts";

const [host, port] = (process.env["ROUSE_EDGE_LISTEN"] ?? "127.0.0.1:8787").split(":");
const homeDir = defaultHome();
const edge = await startEdge({
  homeDir,
  storageDir: join(process.env["ROUSE_STATE"] ?? join(homeDir, "state"), "edge"),
  host: host ?? "127.0.0.1",
  port: Number(port),
});
process.stdout.write(`${JSON.stringify({ url: edge.url })}\n`);
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => void edge.stop().then(() => process.exit(0)));
}
