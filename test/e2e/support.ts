/** What the tests of a whole system share: a client, named requests, the host's own view. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { request, type IncomingHttpHeaders } from "node:http";
import { join } from "node:path";
import { inject } from "vitest";
import { Rouse, type Sandbox } from "rouse";
import { HostSecrets } from "../../sdk/contract/host-secrets.ts";
import { hostPaths, Machine, type SleepDepth } from "../../sdk/contract/host.ts";
export { freshName } from "./fresh-name.ts";

export const system = inject("system");
export const rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url });

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** A request to a named URL by its host name, as anybody sends it. `key: null` sends no credential. */
export function named(
  sandbox: Sandbox,
  path: string,
  options: {
    port?: number;
    method?: string;
    body?: Buffer;
    headers?: Record<string, string>;
    key?: string | null;
  } = {},
): Promise<Answer> {
  const edge = new URL(system.url);
  const { host } = new URL(sandbox.url(options.port));
  const key = options.key === undefined ? system.apiKey : options.key;
  const headers = {
    host,
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    ...(options.body ? { "content-length": String(options.body.length) } : {}),
    ...options.headers,
  };
  return new Promise((resolve, reject) => {
    const req = request(
      { host: "127.0.0.1", port: edge.port, path, method: options.method ?? "GET", headers, agent: false },
      (res) => {
        const chunks: Buffer[] = [];
        res.on("data", (chunk: Buffer) => chunks.push(chunk));
        res.on("error", reject);
        res.on("end", () =>
          resolve({ status: res.statusCode ?? 0, headers: res.headers, text: Buffer.concat(chunks).toString() }),
        );
      },
    );
    req.on("error", reject);
    req.end(options.body);
  });
}

/** What the host says of a machine. */
export async function machine(sandbox: Sandbox): Promise<Machine> {
  return Machine.parse(await control("GET", hostPaths.machine(sandbox.id)));
}

/** Send a sleeper to a depth, so that a test wakes it from there. */
export async function settle(sandbox: Sandbox, depth: SleepDepth): Promise<void> {
  await control("POST", hostPaths.act(sandbox.id, "settle"), { depth });
}

export async function control(method: string, path: string, body?: object): Promise<unknown> {
  const file = join(system.stateDir, "host-secrets.json");
  const { controlSecret } = HostSecrets.parse(JSON.parse(readFileSync(file, "utf8")));
  const answer = await fetch(system.hostUrl + path, {
    method,
    headers: { authorization: `Bearer ${controlSecret}`, "content-type": "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** A counter server in the guest: counts requests, and answers their length and SHA-256. */
export const COUNTER_SERVER = `
import hashlib, http.server, itertools, json
# next() on a counter is one step; threads that add and then read could give one number twice.
counts = itertools.count(1)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        count = next(counts)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        text = json.dumps({"count": count, "size": len(body), "sha256": hashlib.sha256(body).hexdigest(),
                           "host": self.headers.get("host"), "authorization": self.headers.get("authorization")}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_GET = do_POST = do_PUT = answer
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`;

/** Start a Python program in the background and wait until its port answers. */
export async function serve(sandbox: Sandbox, source: string, port = 8080): Promise<void> {
  await sandbox.files.write(`/workspace/server-${port}.py`, source);
  await sandbox.exec(`nohup python3 /workspace/server-${port}.py >/workspace/server-${port}.log 2>&1 &`);
  await sandbox.exec(
    `for i in $(seq 600); do python3 -c 'import socket; socket.create_connection(("127.0.0.1", ${port}))' 2>/dev/null && exit 0; sleep 0.1; done; cat server-${port}.log; exit 1`,
    { check: true },
  );
}

export function sha256(data: Uint8Array | string): string {
  return createHash("sha256").update(data).digest("hex");
}
