/** Who listens in this guest, and the agent's own way to them, for servers that the kernel's way does not reach. */
import { readFile } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { connect, type TcpNetConnectOpts } from "node:net";
import type { Duplex } from "node:stream";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { Call } from "./http.ts";

/** TCP ports with a listener, in order. */
export async function listeningPorts(): Promise<number[]> {
  const ports = new Set<number>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const lines = (await readFile(table, "utf8").catch(() => "")).split("\n").slice(1);
    for (const line of lines) {
      const [, local, , state] = line.trim().split(/\s+/);
      if (state === "0A" && local) ports.add(Number.parseInt(local.split(":")[1] ?? "", 16));
    }
  }
  return [...ports].toSorted((a, b) => a - b);
}

/** `/port/<port><path>`. */
export function portTarget(url: string): { port: number; path: string } | null {
  const match = /^\/port\/(\d{1,5})(\/.*|\?.*|)$/.exec(url);
  if (!match) return null;
  const rest = match[2] ?? "";
  return { port: Number(match[1]), path: rest.startsWith("/") ? rest : `/${rest}` };
}

export function proxy(call: Call, target: { port: number; path: string }): Promise<void> {
  const { req, res } = call;
  return new Promise((resolve, reject) => {
    const upstream = request(
      {
        ...anyAddress(target.port),
        path: target.path,
        method: req.method ?? "GET",
        headers: req.headers,
        agent: false,
      },
      (answer) => {
        res.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
        res.flushHeaders();
        answer.pipe(res);
        answer.on("close", () => {
          if (!answer.complete) res.destroy();
          resolve();
        });
      },
    );
    upstream.on("error", (fault: NodeJS.ErrnoException) => {
      const refused = fault.code === "ECONNREFUSED" || fault instanceof AggregateError;
      reject(
        refused
          ? new RouseFailure("port_not_listening", `Nothing in the sandbox listens on port ${target.port}.`, {
              details: { port: target.port },
            })
          : new RouseFailure("upstream_closed", "The program in the sandbox closed the connection before it answered."),
      );
    });
    res.once("close", () => upstream.destroy());
    req.pipe(upstream);
  });
}

export function proxyUpgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
  const target = portTarget(req.url ?? "");
  if (!target) {
    socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    return;
  }
  const upstream = connect({ ...anyAddress(target.port), noDelay: true });
  upstream.on("error", () => socket.destroy());
  socket.on("error", () => upstream.destroy());
  upstream.once("connect", () => {
    let lines = `${req.method} ${target.path} HTTP/1.1\r\n`;
    for (let i = 0; i + 1 < req.rawHeaders.length; i += 2)
      lines += `${req.rawHeaders[i]}: ${req.rawHeaders[i + 1]}\r\n`;
    upstream.write(`${lines}\r\n`);
    if (head.length > 0) upstream.write(head);
    socket.pipe(upstream);
    upstream.pipe(socket);
  });
}

/** Loopback by whichever family answers. */
function anyAddress(port: number): TcpNetConnectOpts {
  return { host: "localhost", port, autoSelectFamily: true };
}
