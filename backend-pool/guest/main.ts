/**
 * The guest agent: one file inside every machine, run as the guest's user.
 *
 * Flags: --listen HOST:PORT (port 0: a free one, told on stdout), --allow-from ADDRESS (refuse others), --home FOLDER,
 * --version-id TEXT, --python PROGRAM, --preload-interpreter.
 */
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { WORKSPACE } from "../../sdk/contract/guest-limits.ts";
import { Commands } from "./commands.ts";
import { Files } from "./files.ts";
import { readJson, record, sendFailure, sendJson, type Call } from "./http.ts";
import { Interpreter } from "./interpreter.ts";
import { listeningPorts, portTarget, proxy, proxyUpgrade } from "./ports.ts";
import { Processes } from "./processes.ts";
import { Uploads } from "./uploads.ts";

const { values: flags } = parseArgs({
  options: {
    listen: { type: "string", default: "127.0.0.1:0" },
    "allow-from": { type: "string" },
    home: { type: "string", default: WORKSPACE },
    "version-id": { type: "string", default: "unknown" },
    python: { type: "string", default: "/usr/bin/python3" },
    "preload-interpreter": { type: "boolean", default: false },
  },
});

const processes = new Processes(flags.home);
const commands = new Commands(processes);
const files = new Files(flags.home);
const uploads = new Uploads(files);
const interpreter = new Interpreter(processes, flags.python, fileURLToPath(new URL("interpreter.py", import.meta.url)));

type Handler = (call: Call, id: string) => void | Promise<void>;

/** Method and path; `*` stands for one segment, which the handler is given, and a verb may follow it. */
const routes: Record<string, Handler> = {
  "POST /exec": (call) => commands.exec(call),
  "POST /processes": (call) => commands.spawn(call),
  "GET /processes": (call) => commands.list(call),
  "GET /processes/*": (call, id) => commands.get(call, id),
  "GET /processes/*/output": (call, id) => commands.output(call, id),
  "POST /processes/*:write": (call, id) => commands.write(call, id),
  "POST /processes/*:signal": (call, id) => commands.signal(call, id),
  "GET /files/content": (call) => files.read(call),
  "PUT /files/content": (call) => files.write(call),
  "GET /files/list": (call) => files.list(call),
  "GET /files/stat": (call) => files.stat(call),
  "POST /files:mkdir": (call) => files.mkdir(call),
  "POST /files:remove": (call) => files.remove(call),
  "POST /files:rename": (call) => files.rename(call),
  "POST /files:chmod": (call) => files.chmod(call),
  "POST /uploads": (call) => uploads.begin(call),
  "PUT /uploads/*": (call, id) => uploads.chunk(call, id),
  "POST /uploads/*:commit": (call, id) => uploads.commit(call, id),
  "POST /uploads/*:abort": (call, id) => uploads.abort(call, id),
  "POST /interpreter:run": (call) => interpreter.run(call),
  "GET /interpreter/contexts": (call) => interpreter.list(call),
  "POST /interpreter/contexts": (call) => interpreter.create(call),
  "POST /interpreter/contexts/*:restart": (call, id) => interpreter.restart(call, id),
  "POST /interpreter/contexts/*:interrupt": (call, id) => interpreter.interrupt(call, id),
  "DELETE /interpreter/contexts/*": (call, id) => interpreter.remove(call, id),
  "GET /facts": async (call) =>
    sendJson(call, {
      version: flags["version-id"],
      bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
      running: processes.running,
      runs: interpreter.runs,
      listening: await listeningPorts(),
      interpreterReady: interpreter.ready,
    }),
  "PUT /configure": async (call) => {
    processes.env = record((await readJson(call))["env"]) ?? {};
    sendJson(call, {});
  },
};

const server = createServer(
  { keepAliveTimeout: 600_000, requestTimeout: 0, headersTimeout: 0, connectionsCheckingInterval: 2 ** 30 },
  (req, res) => {
    const call = callOf(req, res);
    handle(call).catch((fault: unknown) => {
      if (!(fault instanceof RouseFailure) && fault instanceof Error && !("code" in fault)) console.error(fault);
      sendFailure(call, fault);
    });
  },
);
server.on("connection", (socket) => {
  const allowed = flags["allow-from"];
  if (allowed !== undefined && socket.remoteAddress !== allowed) socket.destroy();
  socket.setNoDelay(true);
});
server.on("upgrade", proxyUpgrade);

const colon = flags.listen.lastIndexOf(":");
server.listen(Number(flags.listen.slice(colon + 1)), flags.listen.slice(0, colon), () => {
  process.stdout.write(`${JSON.stringify({ listening: (server.address() as AddressInfo).port })}\n`);
});
if (flags["preload-interpreter"]) interpreter.preload().catch((fault: unknown) => console.error(fault));
// A fault nobody waited for must not end the agent and with it everything it watches over.
process.on("uncaughtException", (fault) => console.error(fault));

async function handle(call: Call): Promise<void> {
  const target = portTarget(call.req.url ?? "");
  if (target) return proxy(call, target);
  const exact = routes[`${call.method} ${call.path}`];
  if (exact) return exact(call, "");
  // "/processes/p-1:signal" and "/processes/p-1/output" both name p-1.
  const match = /^(\/processes|\/uploads|\/interpreter\/contexts)\/([^/:]+)([:/].*)?$/.exec(call.path);
  const handler = match ? routes[`${call.method} ${match[1]}/*${match[3] ?? ""}`] : undefined;
  if (handler && match?.[2]) return handler(call, decodeURIComponent(match[2]));
  const others = Object.keys(routes).some((route) => route.split(" ")[1] === call.path);
  if (others) throw new RouseFailure("method_not_allowed", `${call.method} does not apply to ${call.path}.`);
  throw new RouseFailure("route_not_found", `There is no ${call.method} ${call.path}.`);
}

function callOf(req: IncomingMessage, res: ServerResponse): Call {
  const url = req.url ?? "/";
  const mark = url.indexOf("?");
  const gone = new AbortController();
  res.once("close", () => gone.abort());
  return {
    req,
    res,
    method: req.method ?? "GET",
    path: mark < 0 ? url : url.slice(0, mark),
    query: new URLSearchParams(mark < 0 ? "" : url.slice(mark + 1)),
    gone: gone.signal,
  };
}
