/** A program in a machine whose state is in RAM alone: each request counts. */
import type { Sandbox } from "rouse";

const PROGRAM = `
import http.server
n = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global n
        n += 1
        body = str(n).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
http.server.HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`;

const TRIES = 60;

/** Start it, and answer when it counts. */
export async function startCounter(sandbox: Sandbox): Promise<void> {
  await sandbox.files.write("/workspace/counter.py", PROGRAM);
  await sandbox.spawn("python3 /workspace/counter.py");
  for (let tries = 0; ; tries++) {
    try {
      await count(sandbox);
      return;
    } catch (fault) {
      if (tries > TRIES) throw fault;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

/** One request; what it counted. */
export async function count(sandbox: Sandbox): Promise<number> {
  const answer = await sandbox.fetch("/");
  if (!answer.ok) throw new Error(`the counter answered ${answer.status}`);
  return Number(await answer.text());
}

export async function bootId(sandbox: Sandbox): Promise<string> {
  return (await sandbox.exec("cat /proc/sys/kernel/random/boot_id")).stdout.trim();
}

/** The middle one of some durations. */
export function median(values: readonly number[]): number {
  return Math.round(values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0);
}
