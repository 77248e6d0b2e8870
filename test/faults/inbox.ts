/** A machine with a hook, and a program that counts in its memory what is delivered to it. */
import { createHmac } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { HookEvent, NewHook } from "../../sdk/contract/hook.ts";
import type { Stage } from "./point.ts";
import type { Witness } from "./witness.ts";

/** Longest that a delivery may take after a fault, milliseconds: its second try comes after some five seconds. */
const DELIVERY_MS = 90_000;
const SENDER_MS = 60_000;

/**
 * Counts by `webhook-id`. `/slow` has it take its time; a file `dies` has it end, once: `before` its next answer, or
 * `after` it, and in either case before it did anything.
 */
const PROGRAM = `
import http.server, json, os, time
seen = {}
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        try:
            dies = open("dies").read().strip()
            os.remove("dies")
        except FileNotFoundError:
            dies = ""
        if dies == "after":
            self.answer(202)
        if dies:
            os._exit(1)
        get = self.headers.get
        one = seen.setdefault(get("webhook-id"), {"runs": 0, "body": body})
        one.update(runs=one["runs"] + 1, at=get("webhook-timestamp"), signature=get("webhook-signature"), clock=time.time())
        if self.path == "/slow":
            time.sleep(2)
        self.answer(202)
    def do_GET(self):
        self.answer(200, json.dumps({"pid": os.getpid(), "seen": seen}).encode())
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`;

const Memory = z.object({
  pid: z.number(),
  seen: z.record(
    z.string(),
    z.object({
      runs: z.number(),
      body: z.string(),
      /** Of the delivery's headers. */
      at: z.string(),
      signature: z.string(),
      /** The machine's own clock at the delivery, Unix seconds. */
      clock: z.number(),
    }),
  ),
});
/** In the order of first delivery. */
export type Memory = z.infer<typeof Memory>;

export class Inbox {
  readonly stage: Stage;
  readonly witness: Witness;
  readonly hook: NewHook;
  #sent = 0;

  private constructor(stage: Stage, witness: Witness, hook: NewHook) {
    this.stage = stage;
    this.witness = witness;
    this.hook = hook;
  }

  /** @param path of the program; senders are those of `provider` */
  static async open(
    stage: Stage,
    { path = "/", provider = "standard" }: { path?: string; provider?: "standard" | "telegram" } = {},
  ): Promise<Inbox> {
    const witness = await stage.witness();
    const { patient } = witness;
    // One that saw another point may have it already.
    const isUp = await memoryOf(witness).catch(() => null);
    if (!isUp) {
      await patient.files.write("/workspace/receiver.py", PROGRAM);
      await patient.exec("(setsid sh -c 'while :; do python3 receiver.py; done' >receiver.log 2>&1 &)", {
        check: true,
      });
      await stage.until("the program listens", async () => (await memoryOf(witness)).pid > 0, DELIVERY_MS);
    }
    const hook = await patient.hooks.create({ name: `h-${stage.label}`, provider, port: 8080, path });
    return new Inbox(stage, witness, hook);
  }

  /** It sleeps from here on, as deep as the seed says. Whatever comes next may wake it. */
  async sleep(): Promise<void> {
    const { stage, witness } = this;
    await witness.pause();
    await stage.world.settle(witness.id, stage.random.weighted({ resident: 1, prestarted: 1, local: 2 }));
    witness.waking();
  }

  /** Send one, again and again until it is acknowledged, as providers do. Answers the event's id. */
  async sent(n = ++this.#sent): Promise<string> {
    const endsAt = performance.now() + SENDER_MS;
    for (;;) {
      const id = await this.#post(n);
      if (id !== null) return id;
      if (performance.now() > endsAt) throw new Error(`webhook ${n} is not acknowledged within ${SENDER_MS / 1000} s`);
      await delay(200);
    }
  }

  event(id: string): Promise<HookEvent> {
    return this.witness.patient.hooks.events.get(id);
  }

  async memory(): Promise<Memory> {
    return memoryOf(this.witness);
  }

  /** Each was accepted, so each is delivered. Answers them as they are then. */
  async delivered(ids: readonly string[]): Promise<HookEvent[]> {
    let events: HookEvent[] = [];
    const isDelivered = await this.stage.until(
      `${ids.length} events are delivered`,
      async () => {
        events = await Promise.all(ids.map((id) => this.event(id)));
        return events.every(({ state }) => state === "delivered");
      },
      DELIVERY_MS,
    );
    if (!isDelivered) this.stage.complain(JSON.stringify(events.map(({ id, timeline }) => ({ id, timeline }))));
    return events;
  }

  /** Each is delivered and ran: once, or as often as a try broke off in which the program may have seen it, in order. */
  async ran(ids: readonly string[], once = true): Promise<void> {
    const { stage } = this;
    const events = await this.delivered(ids);
    const { seen } = await this.memory();
    for (const { id, timeline } of events) {
      const runs = seen[id]?.runs ?? 0;
      const most = once ? 1 : timeline.filter(({ what }) => what === "attempt").length;
      stage.expect(runs >= 1 && runs <= most, `event ${id} ran ${runs} times, at most ${most} are right`);
    }
    const order = Object.keys(seen).filter((id) => ids.includes(id));
    stage.expect(order.join() === ids.join(), `they ran as ${order.join()} in place of ${ids.join()}`);
  }

  /** null: nobody answered, or it was told to come again. */
  async #post(n: number): Promise<string | null> {
    const { url, secret } = this.hook;
    const telegram = this.hook.provider === "telegram";
    const body = JSON.stringify(telegram ? { update_id: n, message: { text: `${n}` } } : { type: "test", n });
    const headers = telegram
      ? { "x-telegram-bot-api-secret-token": secret ?? "" }
      : signed(secret ?? "", `m${n}`, body);
    const request = { method: "POST", body, headers: { "content-type": "application/json", ...headers } };
    const answer = await fetch(url ?? "", { ...request, signal: AbortSignal.timeout(20_000) }).catch(() => null);
    await answer?.arrayBuffer().catch(() => undefined);
    if (!answer || answer.status >= 500) return null;
    if (!answer.ok) throw new Error(`a webhook was answered ${answer.status}`);
    return answer.headers.get("x-rouse-event");
  }
}

/** The headers of a sender of Standard Webhooks. @param at Unix seconds */
export function signed(
  secret: string,
  id: string,
  body: string,
  at = String(Math.floor(Date.now() / 1000)),
): Record<string, string> {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": `v1,${signature}` };
}

async function memoryOf(witness: Witness): Promise<Memory> {
  const answer = await witness.patient.fetch("/");
  if (!answer.ok) throw new Error(`the program was answered ${answer.status}: ${await answer.text()}`);
  return Memory.parse(await answer.json());
}
