/**
 * What the edge itself adds: a program of this process behind the real edge and a real host agent, whose machines are
 * processes here, next to a Worker that does nothing but pass on to the same host agent.
 */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { Rouse } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { freePort, launch, type System } from "../../backend-pool/local/launcher.ts";
import { ticketSecret } from "../../sdk/contract/host-secrets.ts";
import { hostHeaders, hostPaths } from "../../sdk/contract/host.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { timed } from "./floor.ts";

const CONNECTIONS = [1, 32, 256] as const;
const MIB = 1_048_576;

export interface EdgeMeasure {
  /** By connections: milliseconds of each request, and requests a second of each round. */
  readonly load: Readonly<Record<number, { readonly own: Load; readonly bare: Load }>>;
  /** MiB a second. */
  readonly download: Pair;
  readonly upload: Pair;
  /** Milliseconds until a webhook for a machine that sleeps is acknowledged. */
  readonly webhook: readonly number[];
}

interface Load {
  readonly latency: number[];
  readonly rate: number[];
}

interface Pair {
  readonly own: number[];
  readonly bare: number[];
}

interface Way {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** @param bodyMiB of the large bodies */
export async function measureEdge(requests: number, bodyMiB: number): Promise<EdgeMeasure> {
  const stateDir = await mkdtemp(join(tmpdir(), "rouse-bench-edge-"));
  const program = await startProgram();
  const env = { ROUSE_DRIVER: "fake", ROUSE_ARCHIVE_SECONDS: "off", ROUSE_RATE_LIMIT: "1000000:1000000" };
  const system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, env });
  let bare: Miniflare | null = null;
  try {
    const rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url });
    const sandbox = await rouse.sandboxes.create({ name: `edge-${process.pid}`, idlePauseSeconds: 0 });
    const { port } = program.address() as AddressInfo;
    const own: Way = {
      port: Number(new URL(system.url).port),
      path: "/",
      headers: { host: new URL(sandbox.url(port)).host, authorization: `Bearer ${system.apiKey}` },
    };
    const barePort = await freePort();
    const { generation } = (await sandbox.refresh()).info;
    bare = await passOn(system, sandbox.id, generation, port, barePort);
    const ways = { own, bare: { port: barePort, path: "/", headers: {} } } as const;

    const load: Record<number, { own: Load; bare: Load }> = {};
    for (const connections of CONNECTIONS) {
      const measured = { own: { latency: [], rate: [] }, bare: { latency: [], rate: [] } } as { own: Load; bare: Load };
      for (let round = 0; round < 4; round++) {
        for (const name of ["own", "bare"] as const) {
          const { latency, rate } = await burst(ways[name], connections, Math.max(requests, connections * 4));
          // The first warms up.
          if (round === 0) continue;
          measured[name].latency.push(...latency);
          measured[name].rate.push(rate);
        }
      }
      load[connections] = measured;
    }
    const [download, upload]: [Pair, Pair] = [
      { own: [], bare: [] },
      { own: [], bare: [] },
    ];
    for (let round = 0; round < 3; round++) {
      for (const name of ["own", "bare"] as const) {
        const way = ways[name];
        const down = await timed(() => send({ ...way, path: `/down/${bodyMiB}` }, null, bodyMiB));
        download[name].push(bodyMiB / (down / 1000));
        const up = await timed(() => send({ ...way, path: "/up" }, bodyMiB, null));
        upload[name].push(bodyMiB / (up / 1000));
      }
    }
    const webhook: number[] = [];
    const hook = await sandbox.hooks.create({ name: "bench", provider: "none", port });
    const agent = new Agent({ keepAlive: true });
    for (let round = 0; round < 20; round++) {
      await sandbox.pause();
      const at = new URL(hook.url ?? "");
      const headers = { host: at.host, "content-type": "application/json", "webhook-id": randomUUID() };
      webhook.push(await timed(() => post({ port: own.port, path: at.pathname, headers }, agent)));
      await sandbox.wake();
    }
    agent.destroy();
    return { load, download, upload, webhook };
  } finally {
    await bare?.dispose();
    await system.stop();
    program.closeAllConnections();
    program.close();
    await rm(stateDir, { recursive: true, force: true });
  }
}

async function startProgram(): Promise<Server> {
  const block = Buffer.alloc(MIB, "x");
  const server = createServer((req, res) => {
    const down = /^\/down\/(\d+)$/.exec(req.url ?? "");
    if (!down) {
      req.resume();
      return void req.once("end", () => res.writeHead(200, { "content-length": 3 }).end("ok\n"));
    }
    let left = Number(down[1]);
    const more = (): void => {
      while (left-- > 0) if (!res.write(block)) return void res.once("drain", more);
      res.end();
    };
    more();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

async function passOn(system: System, id: string, generation: number, port: number, at: number): Promise<Miniflare> {
  const key = await signingKey(await ticketSecret(system.home.secrets.signingSecret, "local"), "ticket");
  const ticket = await sign(key, { m: id, g: generation, e: Date.now() + 3_600_000 });
  const host = new URL(system.hostUrl + hostPaths.port(id, port));
  const script = `export default { fetch(request) {
    const headers = new Headers(request.headers);
    headers.set("${hostHeaders.ticket}", "${ticket}");
    const { pathname } = new URL(request.url);
    return fetch("${host.href}" + pathname, { method: request.method, headers, body: request.body });
  } }`;
  const worker = { name: "bare", modules: true, compatibilityDate: "2026-11-01", cf: false, script } as const;
  const bare = new Miniflare(convertV4MiniflareOptions({ ...worker, port: at, host: "127.0.0.1" }));
  await bare.ready;
  return bare;
}

/** So many requests over so many connections, each of which asks again once it is answered. */
async function burst(way: Way, connections: number, requests: number): Promise<{ latency: number[]; rate: number }> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const latency: number[] = [];
  let left = requests;
  const took = await timed(() =>
    Promise.all(
      Array.from({ length: connections }, async () => {
        while (left-- > 0) latency.push(await timed(() => one(way, agent)));
      }),
    ),
  );
  agent.destroy();
  return { latency, rate: requests / (took / 1000) };
}

function one(way: Way, agent: Agent): Promise<void> {
  return ended(request({ host: "127.0.0.1", ...way, agent }), (req) => req.end());
}

function post(way: Way, agent: Agent): Promise<void> {
  return ended(request({ host: "127.0.0.1", ...way, method: "POST", agent }), (req) => req.end('{"n":1}'));
}

/** One large body, in either direction. @throws Error when what comes down is not as much */
async function send(way: Way, upMiB: number | null, downMiB: number | null): Promise<void> {
  const method = upMiB === null ? "GET" : "POST";
  const block = Buffer.alloc(MIB, "x");
  const bytes = await received(request({ host: "127.0.0.1", ...way, method, agent: false }), (req) => {
    let left = upMiB ?? 0;
    const more = (): void => {
      while (left-- > 0) if (!req.write(block)) return void req.once("drain", more);
      req.end();
    };
    more();
  });
  if (downMiB !== null && bytes !== downMiB * MIB) throw new Error(`${bytes} bytes came of ${downMiB} MiB`);
}

async function ended(req: ReturnType<typeof request>, begin: (req: ReturnType<typeof request>) => void): Promise<void> {
  await received(req, begin);
}

function received(req: ReturnType<typeof request>, begin: (req: ReturnType<typeof request>) => void): Promise<number> {
  return new Promise((resolve, reject) => {
    req.on("response", (res) => {
      let bytes = 0;
      if ((res.statusCode ?? 500) >= 300) reject(new Error(`${req.path}: ${res.statusCode}`));
      res.on("data", (chunk: Buffer) => (bytes += chunk.length));
      res.once("end", () => resolve(bytes));
      res.once("error", reject);
    });
    req.once("error", reject);
    begin(req);
  });
}
