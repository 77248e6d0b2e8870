/** Webhooks come in for a machine that sleeps, each twice: they are acknowledged at once, and run once each. */
import { createHmac, randomUUID } from "node:crypto";
import { Rouse, type Sandbox } from "rouse";
import { NewHook } from "../../../sdk/contract/hook.ts";
import { eventually } from "./eventually.ts";
import type { Stage } from "./tell.ts";

const ROUNDS = 3;
const EVENTS = 10;
const TRIES = 240;

/** Counts deliveries by the id that they carry, in memory. */
const RECEIVER = `
import http.server, json
seen = {}
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        name = self.headers["webhook-id"]
        seen[name] = seen.get(name, 0) + 1
        self.answer(204)
    def do_GET(self):
        self.answer(200, json.dumps(seen).encode())
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`;

export interface WebhookResult {
  readonly sent: number;
  readonly accepted: number;
  readonly ranOnce: number;
  readonly ackMsP99: number;
  readonly asleepAtArrival: boolean;
}

/** @throws Error when an event is lost, or runs twice */
export async function tellWebhook(stage: Omit<Stage, "accelerator">, rounds = ROUNDS): Promise<WebhookResult> {
  const { say } = stage;
  const rouse = new Rouse({ apiKey: stage.apiKey, baseUrl: stage.url });
  say("A machine is made, with a program that counts webhooks in memory ...");
  const sandbox = await rouse.sandboxes.create({ name: `hooked-${process.pid}`, idlePauseSeconds: 0 });
  await sandbox.files.write("/workspace/receiver.py", RECEIVER);
  await sandbox.spawn("python3 /workspace/receiver.py");
  await eventually(() => seen(sandbox).then(() => true), TRIES);
  const hook = await newHook(stage, sandbox.id);

  const acks: number[] = [];
  const accepted = new Set<string>();
  let asleep = 0;
  for (let round = 1; round <= rounds; round++) {
    await sandbox.pause();
    if ((await sandbox.refresh()).info.state === "paused") asleep++;
    say(`Round ${round}: it sleeps, and ${EVENTS} webhooks come in, each twice at once ...`);
    const ids = Array.from({ length: EVENTS }, () => `msg_${randomUUID()}`);
    await Promise.all(
      ids
        .flatMap((id) => [id, id])
        .map(async (id) => {
          const began = performance.now();
          const answer = await post(hook, id);
          acks.push(performance.now() - began);
          accepted.add(answer);
        }),
    );
    await eventually(async () => Object.keys(await seen(sandbox)).length >= round * EVENTS, TRIES);
  }
  const counts = Object.entries(await seen(sandbox));
  const ranOnce = counts.filter(([id, n]) => n === 1 && accepted.has(id)).length;
  const sent = rounds * EVENTS;
  const ackMsP99 = Math.round(acks.toSorted((a, b) => a - b)[Math.ceil(acks.length * 0.99) - 1] ?? Number.NaN);
  say(`${accepted.size} events were accepted in at most ${ackMsP99} ms each, and ${ranOnce} ran once`);
  await sandbox.delete();
  if (accepted.size < sent || ranOnce < sent) throw new Error("not every event ran once");
  return { sent, accepted: accepted.size, ranOnce, ackMsP99, asleepAtArrival: asleep === rounds };
}

async function newHook({ url, apiKey }: Pick<Stage, "url" | "apiKey">, id: string): Promise<NewHook> {
  const answer = await fetch(`${url}/v1/sandboxes/${encodeURIComponent(id)}/hooks`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "demo", provider: "standard", path: "/hook" }),
  });
  if (!answer.ok) throw new Error(`the hook was answered ${answer.status}: ${await answer.text()}`);
  return NewHook.parse(await answer.json());
}

/** As a sender of Standard Webhooks does. Answers the id of the event. */
async function post({ url, secret }: NewHook, id: string): Promise<string> {
  const body = JSON.stringify({ type: "demo", id });
  const at = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from((secret ?? "").replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64");
  const answer = await fetch(url ?? "", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": at,
      "webhook-signature": `v1,${signature}`,
    },
    body,
  });
  if (!answer.ok) throw new Error(`a webhook was answered ${answer.status}: ${await answer.text()}`);
  return ((await answer.json()) as { id: string }).id;
}

async function seen(sandbox: Sandbox): Promise<Record<string, number>> {
  const answer = await sandbox.fetch("/");
  if (!answer.ok) throw new Error(`the program was answered ${answer.status}`);
  return (await answer.json()) as Record<string, number>;
}
