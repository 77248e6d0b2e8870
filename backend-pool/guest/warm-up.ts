/**
 * Takes the paths of first requests a few times, on a server of its own, so that machines cloned from this one have
 * the code compiled and the programs in memory. Nothing of it is seen afterwards.
 */
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { request, type Server } from "node:http";
import { join } from "node:path";
import { Processes } from "./processes.ts";
import type { TerminalTools } from "./terminal.ts";
import { HostTunnel } from "./tunnel.ts";
import { warmWayOut } from "./warm-way-out.ts";

const ROUNDS = 8;
const FILE_BYTES = 65_536;

/** `serve`: an agent's server with those processes and that way out. `folder`: a place of the agent's own. */
export async function warmUp(
  serve: (processes: Processes, tunnel: HostTunnel) => Server,
  home: string,
  folder: string,
  terminals: TerminalTools,
): Promise<void> {
  const place = join(folder, "warm-up");
  mkdirSync(place, { recursive: true, mode: 0o700 });
  const socketPath = join(place, "socket");
  const tunnel = new HostTunnel();
  const server = serve(new Processes(home, place, terminals), tunnel).listen(socketPath);
  try {
    await once(server, "listening");
    const file = `path=${encodeURIComponent(join(place, "file"))}`;
    for (let round = 0; round < ROUNDS; round++) {
      await ask(socketPath, "POST", "/exec", JSON.stringify({ command: "true" }));
      await ask(socketPath, "POST", "/exec", JSON.stringify({ command: "echo warm", stream: true }));
      await ask(socketPath, "PUT", `/files/content?${file}`, "x".repeat(FILE_BYTES));
      await ask(socketPath, "GET", `/files/content?${file}`);
      await ask(socketPath, "GET", `/files/stat?${file}`);
      await ask(socketPath, "GET", "/processes");
      await ask(socketPath, "GET", "/timers");
    }
    // Its helper is read from the disk at the first one.
    await ask(socketPath, "POST", "/processes", JSON.stringify({ argv: ["true"], pty: {} }));
    await warmWayOut(tunnel, socketPath, join(place, "proxy"), ROUNDS);
  } finally {
    server.close();
    server.closeAllConnections();
    rmSync(place, { recursive: true, force: true });
  }
}

/** @throws Error when the answer is a failure: then a clone's first request would fail as well */
function ask(socketPath: string, method: string, path: string, body?: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    const req = request({ socketPath, method, path, headers, agent: false }, (res) => {
      res.resume();
      res.once("error", reject);
      res.once("end", () =>
        res.statusCode === 200 ? resolve() : reject(new Error(`warm-up: ${method} ${path} answers ${res.statusCode}`)),
      );
    });
    req.once("error", reject);
    req.end(body);
  });
}
