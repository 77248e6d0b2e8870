/** A real guest agent behind the fake host: requests go there as they come. */
import { request, type IncomingMessage, type ServerResponse } from "node:http";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { PulseSocket } from "../../backend-pool/http/pulse-socket.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";

export async function toAgent(port: number, path: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { method, headers } = req;
  const out = request({ host: "127.0.0.1", port, method, path, headers, agent: false });
  // Whoever asked is gone: so is the question.
  res.once("close", () => out.destroy());
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    out.once("response", resolve);
    out.once("error", reject);
  });
  pipeline(req, out).catch(() => undefined);
  const answer = await answered;
  res.writeHead(answer.statusCode ?? 502, answer.headers);
  await pipeline(answer, res).catch(() => res.destroy());
}

/** Answers what ends it as a host does whose machine goes to sleep. */
export function upgradeToAgent(
  port: number,
  path: string,
  req: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): () => void {
  const out = connect(port, "127.0.0.1");
  let cut = (): void => void socket.destroy();
  out.once("connect", () => {
    const lines = [`${req.method} ${path} HTTP/1.1`];
    for (let n = 0; n < req.rawHeaders.length; n += 2) lines.push(`${req.rawHeaders[n]}: ${req.rawHeaders[n + 1]}`);
    out.write(`${lines.join("\r\n")}\r\n\r\n`);
    if (req.headers[hostHeaders.byMessage] !== undefined) {
      const pulse = new PulseSocket({ client: socket, guest: out, onUse: () => undefined }, head);
      cut = () => pulse.rest();
      return;
    }
    out.write(head);
    out.pipe(socket).pipe(out);
  });
  out.on("error", () => socket.destroy());
  socket.on("error", () => out.destroy());
  out.once("close", () => socket.destroy());
  socket.once("close", () => out.destroy());
  return () => cut();
}
