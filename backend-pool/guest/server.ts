/** The agent's HTTP server: which route is whose. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { Archives } from "./archives.ts";
import { Commands } from "./commands.ts";
import { bootId, listeningPorts } from "./facts.ts";
import { Fields } from "./fields.ts";
import { Files } from "./files.ts";
import { serveForwards } from "./forwards.ts";
import { Call, readJson, sendFailure, sendJson } from "./http.ts";
import type { Interpreter } from "./interpreter.ts";
import { portTarget, proxy, proxyUpgrade } from "./ports.ts";
import type { Processes } from "./processes.ts";
import type { Services } from "./services.ts";
import { TerminalSockets } from "./terminal-socket.ts";
import type { Timers } from "./timers.ts";
import type { Renewal } from "./renewal.ts";
import type { HostTunnel } from "./tunnel.ts";
import { Uploads } from "./uploads.ts";
import type { Watches } from "./watches.ts";
import { warmUp } from "./warm-up.ts";

export interface Agent {
  readonly home: string;
  /** A place of the agent's own. */
  readonly folder: string;
  /** Changes with the agent's code. */
  readonly version: string;
  /** Only connections from this address are taken; undefined: all. */
  readonly allowFrom: string | undefined;
  readonly processes: Processes;
  readonly interpreter: Interpreter;
  readonly timers: Timers;
  readonly services: Services;
  readonly tunnel: HostTunnel;
  /** null: it is not replaced while it runs. */
  readonly renewal: Renewal | null;
  /** Told of variables that processes are given from now on. */
  readonly configured: (env: Record<string, string>) => void;
  readonly watches: Watches;
}

type Handler = (call: Call, id: string) => void | Promise<void>;

/** Collections whose second segment is an id; a verb or a part may follow it. */
const ITEM =
  /^(\/processes|\/files\/watches|\/uploads|\/files\/archive\/uploads|\/interpreter\/contexts|\/ports|\/timers|\/services)\/([^/:]+)([:/].*)?$/;

export function agentServer(agent: Agent): Server {
  const route = router(routesOf(agent));
  const server = serve((call) => {
    const target = portTarget(call.req.url ?? "");
    return target ? proxy(call, target) : route(call);
  });
  server.on("connection", (socket) => {
    if (agent.allowFrom !== undefined && socket.remoteAddress !== agent.allowFrom) socket.destroy();
  });
  const openSocket = socketsOf(agent);
  server.on("upgrade", (req, socket, head) => {
    if (!agent.tunnel.accept(req, socket, head) && !openSocket(req, socket, head)) proxyUpgrade(req, socket, head);
  });
  return server;
}

/** Longest message of a client, bytes. */
const MESSAGE_MAX = 1_048_576;

/** WebSockets that the agent itself speaks; what is none of them is not taken. */
function socketsOf({ processes }: Agent): (req: IncomingMessage, socket: Duplex, head: Buffer) => boolean {
  const server = new WebSocketServer({ noServer: true, clientTracking: false, maxPayload: MESSAGE_MAX });
  const terminals = new TerminalSockets(processes);
  return (req, socket, head) => {
    const { pathname, searchParams } = new URL(req.url ?? "/", "http://agent");
    if (pathname !== "/terminal" && pathname !== "/forward") return false;
    const id = req.headers["x-request-id"];
    server.handleUpgrade(req, socket, head, (opened) => {
      if (pathname === "/forward") serveForwards(opened, req.socket.localAddress);
      else void terminals.serve(opened, searchParams, typeof id === "string" ? id : undefined);
    });
    return true;
  };
}

/** For programs in this machine, whoever they are: nothing but timers. */
export function insideServer(timers: Timers): Server {
  const route = router(timerRoutes(timers));
  return serve((call) => {
    // A browser in the machine carries what strangers' pages ask for.
    if (call.req.headers.origin !== undefined) throw new RouseFailure("forbidden", "Pages may not come here.");
    return route(call);
  });
}

function router(routes: Record<string, Handler>): (call: Call) => void | Promise<void> {
  const byPath = new Map<string, Map<string, Handler>>();
  for (const [route, handler] of Object.entries(routes)) {
    const [method = "", path = ""] = route.split(" ");
    byPath.set(path, (byPath.get(path) ?? new Map<string, Handler>()).set(method, handler));
  }
  return (call) => {
    let methods = byPath.get(call.path);
    let id = "";
    if (!methods) {
      const match = ITEM.exec(call.path);
      methods = match ? byPath.get(`${match[1]}/*${match[3] ?? ""}`) : undefined;
      id = idOf(match?.[2] ?? "");
    }
    if (!methods) throw new RouseFailure("route_not_found", `There is no route ${call.path}.`);
    const handler = methods.get(call.method);
    if (!handler) throw new RouseFailure("method_not_allowed", `${call.method} does not apply to ${call.path}.`);
    return handler(call, id);
  };
}

function serve(handle: (call: Call) => void | Promise<void>): Server {
  // No timer looks after connections: an idle guest has nothing that ticks.
  const limits = {
    keepAliveTimeout: 600_000,
    requestTimeout: 0,
    headersTimeout: 0,
    connectionsCheckingInterval: 2 ** 30,
  };
  const server = createServer(limits, (req, res) => {
    const call = new Call(req, res);
    const handled = async () => handle(call);
    handled().catch((fault: unknown) => {
      if (!isExpected(fault) && !res.destroyed) console.error(fault);
      sendFailure(call, fault);
    });
  });
  server.on("connection", (socket) => socket.setNoDelay(true));
  return server;
}

function timerRoutes(timers: Timers): Record<string, Handler> {
  return {
    "GET /timers": (call) => timers.list(call),
    "PUT /timers/*": (call, name) => timers.set(call, name),
    "DELETE /timers/*": (call, name) => timers.remove(call, name),
  };
}

/** Method and path; `*` stands for the id. */
function routesOf(agent: Agent): Record<string, Handler> {
  const { processes, interpreter, services, watches } = agent;
  const commands = new Commands(processes);
  const files = new Files(agent.home);
  const uploads = new Uploads(files);
  const archives = new Archives(files);
  return {
    "POST /exec": (call) => commands.exec(call),
    "POST /processes": (call) => commands.spawn(call),
    "GET /processes": (call) => commands.list(call),
    "GET /processes/*": (call, id) => commands.get(call, id),
    "GET /processes/*/output": (call, id) => commands.output(call, id),
    "POST /processes/*:write": (call, id) => commands.write(call, id),
    "POST /processes/*:signal": (call, id) => commands.signal(call, id),
    "POST /processes/*:resize": (call, id) => commands.resize(call, id),
    "GET /files/content": (call) => files.read(call),
    "PUT /files/content": (call) => files.write(call),
    "GET /files/list": (call) => files.list(call),
    "GET /files/stat": (call) => files.stat(call),
    "POST /files:mkdir": (call) => files.mkdir(call),
    "POST /files:remove": (call) => files.remove(call),
    "POST /files:rename": (call) => files.rename(call),
    "POST /files:chmod": (call) => files.chmod(call),
    "POST /files/watches": (call) => watches.create(call),
    "GET /files/watches": (call) => watches.list(call),
    "DELETE /files/watches/*": (call, id) => watches.stop(call, id),
    "GET /files/watches/*/events": (call, id) => watches.events(call, id),
    "POST /uploads": (call) => uploads.begin(call),
    "PUT /uploads/*": (call, id) => uploads.chunk(call, id),
    "POST /uploads/*:commit": (call, id) => uploads.commit(call, id),
    "POST /uploads/*:abort": (call, id) => uploads.abort(call, id),
    "GET /files/archive": (call) => archives.pack(call),
    "PUT /files/archive": (call) => archives.unpack(call),
    "POST /files/archive/uploads": (call) => archives.begin(call),
    "PUT /files/archive/uploads/*": (call, id) => archives.part(call, id),
    "POST /files/archive/uploads/*:commit": (call, id) => archives.commit(call, id),
    "POST /files/archive/uploads/*:abort": (call, id) => archives.abort(call, id),
    "POST /interpreter:run": (call) => interpreter.run(call),
    "GET /interpreter/contexts": (call) => interpreter.list(call),
    "POST /interpreter/contexts": (call) => interpreter.create(call),
    "POST /interpreter/contexts/*:restart": (call, id) => interpreter.restart(call, id),
    "POST /interpreter/contexts/*:interrupt": (call, id) => interpreter.interrupt(call, id),
    "DELETE /interpreter/contexts/*": (call, id) => interpreter.remove(call, id),
    ...timerRoutes(agent.timers),
    "PUT /services": (call) => services.put(call),
    "GET /services": (call) => services.read(call),
    "POST /services:freeze": (call) => services.freeze(call),
    "POST /services:thaw": (call) => services.thaw(call),
    "GET /services/*/logs": (call, name) => services.logs(call, name),
    "POST /services/*:restart": (call, name) => services.restart(call, name),
    "GET /ports/*": async (call, id) => {
      const port = /^\d{1,5}$/.test(id) ? Number(id) : 0;
      if (port < 1 || port > 65_535) throw new RouseFailure("invalid_port", `${id} is not a port.`);
      sendJson(call, { listening: (await listeningPorts()).includes(port) });
    },
    "GET /facts": async (call) => {
      const own = call.req.socket.localPort;
      sendJson(call, {
        version: agent.version,
        bootId: bootId(),
        running: processes.running,
        runs: interpreter.runs,
        listening: (await listeningPorts()).filter((port) => port !== own),
        interpreterReady: interpreter.ready,
        ...(agent.renewal ? { holds: agent.renewal.holds } : {}),
      });
    },
    "PUT /configure": async (call) => {
      const fields = new Fields(await readJson(call));
      const env = fields.env("env");
      if (env === undefined) fields.fault("env", "missing");
      fields.check();
      processes.env = env ?? {};
      agent.configured(processes.env);
      sendJson(call, {});
    },
    "POST /renew": async (call) => {
      if (!agent.renewal) throw new RouseFailure("conflict", "This agent is not replaced while it runs.");
      await agent.renewal.renew(call);
    },
    // For the host, before it keeps this machine as the origin of others.
    "POST /warm-up": async (call) => {
      const serve = (own: Processes, tunnel: HostTunnel) =>
        agentServer({ ...agent, allowFrom: undefined, processes: own, tunnel });
      await warmUp(serve, agent.home, agent.folder, processes.terminals);
      await interpreter.warm();
      sendJson(call, {});
    },
  };
}

function idOf(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new RouseFailure("invalid_request", `"${segment}" is not a well-formed part of a path.`);
  }
}

function isExpected(fault: unknown): boolean {
  if (fault instanceof RouseFailure) return fault.code !== "guest_failed";
  return fault instanceof Error && "code" in fault;
}
