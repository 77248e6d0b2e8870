/** The way out, taken a few times in a golden state: this agent plays its host's part as well. */
import { once } from "node:events";
import { request } from "node:http";
import { performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import { connect, type Socket } from "node:net";
import { TUNNEL_PATH, TUNNEL_PROTOCOL } from "../../sdk/contract/guest-tunnel.ts";
import { Names } from "./names.ts";
import { Proxy } from "./proxy.ts";
import { Resolver } from "./resolver.ts";
import type { HostTunnel } from "./tunnel.ts";

/** A query for the address of `warm.invalid`. */
const QUERY = Buffer.from("000101000001000000000000047761726d07696e76616c69640000010001", "hex");
/** What stands for an answer with one address: the question, and a record for its name. */
const RECORD = Buffer.from("c00c00010001000000010004cb007101", "hex");
const TUNNELS = 3;

/** @param agentSocket where an agent's server listens that takes tunnels for `tunnel` */
export async function warmWayOut(
  tunnel: HostTunnel,
  agentSocket: string,
  proxySocket: string,
  rounds: number,
): Promise<void> {
  const names = new Names();
  const proxy = new Proxy(tunnel, names);
  const resolver = new Resolver((query) => tunnel.fetch("POST", "/dns", query), names);
  proxy.http.listen(proxySocket);
  await once(proxy.http, "listening");
  try {
    for (let n = 0; n < TUNNELS; n++) {
      const session = await asHost(agentSocket);
      for (let round = 0; round < rounds; round++) {
        await resolver.answer(QUERY);
        const socket = connect(proxySocket);
        socket.write("CONNECT warm.invalid:443 HTTP/1.1\r\nhost: warm.invalid:443\r\n\r\n");
        await once(socket, "data");
        socket.write("warm");
        await once(socket, "data");
        socket.end();
        await once(socket.resume(), "close");
      }
      session.destroy();
    }
  } finally {
    proxy.http.close();
    proxy.http.closeAllConnections();
  }
}

async function asHost(agentSocket: string): Promise<ServerHttp2Session> {
  const headers = { connection: "upgrade", upgrade: TUNNEL_PROTOCOL, "content-length": 0 };
  const req = request({ socketPath: agentSocket, method: "POST", path: TUNNEL_PATH, headers, agent: false }).end();
  const [, socket, head] = (await once(req, "upgrade")) as [unknown, Socket, Buffer];
  if (head.length > 0) socket.unshift(head);
  const session = performServerHandshake(socket);
  session.on("stream", (stream: ServerHttp2Stream, asked) => {
    stream.on("error", () => undefined);
    stream.respond({ ":status": 200 });
    if (asked[":method"] === "CONNECT") stream.pipe(stream);
    else stream.once("data", (query: Buffer) => stream.end(answerTo(query)));
  });
  return session;
}

function answerTo(query: Buffer): Buffer {
  const answer = Buffer.concat([query, RECORD]);
  answer.writeUInt16BE(0x8180, 2);
  answer.writeUInt16BE(1, 6);
  return answer;
}
