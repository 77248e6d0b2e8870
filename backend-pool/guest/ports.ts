/** The agent's own way to a server in this guest, for those that the kernel's way does not reach. */
import { request, type IncomingMessage } from "node:http";
import { connect, type TcpNetConnectOpts } from "node:net";
import type { Duplex } from "node:stream";
import { errorBody, RouseFailure, statusOf } from "../../sdk/contract/error-codes.ts";
import type { Call } from "./http.ts";

interface Target {
  readonly port: number;
  readonly path: string;
}

/**
 * `/port/<port><path>`; null for other routes.
 * @throws RouseFailure `invalid_port`
 */
export function portTarget(url: string): Target | null {
  const match = /^\/port\/(\d+)(\/.*|\?.*|)$/.exec(url);
  if (!match) return null;
  const port = Number(match[1]);
  if (port < 1 || port > 65_535) throw new RouseFailure("invalid_port", `${match[1]} is not a port.`);
  const rest = match[2] ?? "";
  return { port, path: rest.startsWith("/") ? rest : `/${rest}` };
}

export function proxy({ req, res }: Call, target: Target): Promise<void> {
  return new Promise((resolve, reject) => {
    const { path } = target;
    const options = { path, method: req.method ?? "GET", headers: endToEnd(req.rawHeaders), agent: false };
    const upstream = request({ ...options, ...anyAddress(target.port, req.socket.localAddress) }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.statusMessage, endToEnd(answer.rawHeaders));
      // An event stream may have nothing to say for minutes.
      res.flushHeaders();
      answer.pipe(res);
      answer.on("error", () => res.destroy());
      answer.on("close", () => {
        if (!answer.complete) res.destroy();
        resolve();
      });
    });
    upstream.setNoDelay(true);
    upstream.on("error", (fault) => reject(failureOf(fault, target.port)));
    upstream.on("upgrade", (_answer, socket) => {
      socket.destroy();
      reject(new RouseFailure("upstream_closed", "The program in the sandbox switched protocols unasked."));
    });
    res.once("close", () => upstream.destroy());
    req.pipe(upstream);
  });
}

/** Upgraded connections are joined byte by byte, whatever they speak. */
export function proxyUpgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
  let target: Target | null;
  try {
    target = portTarget(req.url ?? "");
    if (!target) throw new RouseFailure("route_not_found", "Only ports of the sandbox take upgrades.");
  } catch (fault) {
    refuse(req, socket, fault);
    return;
  }
  const { port, path } = target;
  const upstream = connect({ ...anyAddress(port, req.socket.localAddress), noDelay: true });
  let joined = false;
  upstream.on("error", (fault) => {
    if (joined) socket.destroy();
    else refuse(req, socket, failureOf(fault, port));
  });
  socket.on("error", () => upstream.destroy());
  socket.once("close", () => upstream.destroy());
  upstream.once("connect", () => {
    joined = true;
    let lines = `${req.method} ${path} HTTP/1.1\r\n`;
    for (let i = 0; i + 1 < req.rawHeaders.length; i += 2)
      lines += `${req.rawHeaders[i]}: ${req.rawHeaders[i + 1]}\r\n`;
    upstream.write(`${lines}\r\n`);
    if (head.length > 0) upstream.write(head);
    socket.pipe(upstream);
    upstream.pipe(socket);
    upstream.once("close", () => socket.destroy());
  });
}

function refuse(req: IncomingMessage, socket: Duplex, fault: unknown): void {
  const failure = fault instanceof RouseFailure ? fault : new RouseFailure("guest_failed", "The guest agent failed.");
  const id = req.headers["x-request-id"];
  const text = JSON.stringify(errorBody(failure, typeof id === "string" ? id : undefined));
  socket.end(
    `HTTP/1.1 ${statusOf(failure.code)} Refused\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `content-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
  );
}

function failureOf(fault: Error, port: number): RouseFailure {
  const faults: unknown[] = fault instanceof AggregateError ? fault.errors : [fault];
  const nobody = faults.every((one) => /^(?:ECONNREFUSED|EADDRNOTAVAIL|ENETUNREACH|ETIMEDOUT)$/.test(codeOf(one)));
  return nobody
    ? new RouseFailure("port_not_listening", `Nothing in the sandbox listens on port ${port}.`, { details: { port } })
    : new RouseFailure("upstream_closed", "The program in the sandbox closed the connection before it answered.");
}

function codeOf(fault: unknown): string {
  return fault instanceof Error && "code" in fault ? String(fault.code) : "";
}

/** A server may be bound to either loopback, or to the guest's own address alone; a refusal goes on to the next. */
export function anyAddress(port: number, own: string | undefined): TcpNetConnectOpts {
  const addresses = [
    { address: "127.0.0.1", family: 4 },
    { address: "::1", family: 6 },
  ];
  if (own !== undefined && /^[\d.]+$/.test(own) && !own.startsWith("127.")) addresses.push({ address: own, family: 4 });
  return {
    host: "localhost",
    port,
    autoSelectFamily: true,
    lookup: (_host, _options, done) => done(null, addresses),
  };
}

const HOP_BY_HOP = new Set(["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"]);

/** Headers as they came, repeated ones and their order kept, without those of one connection. */
function endToEnd(raw: readonly string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] ?? "";
    if (!HOP_BY_HOP.has(name.toLowerCase())) out.push(name, raw[i + 1] ?? "");
  }
  return out;
}
