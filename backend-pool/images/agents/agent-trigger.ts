/**
 * Runs in an agent's machine: takes what the inbox delivers, and hands it to the runtime as that one wants it. The
 * runtime's own token never leaves the machine, and only deliveries that are signed for this sandbox get through.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";

/** As in `sdk/contract/agent-preset.ts`: this file is alone in the machine. */
const PORT = 10_810;
const SECRET_FILE = "/workspace/.rouse-agent/delivery-secret";
const VARIABLE = "ROUSE_AGENT_TRIGGER";
/** Largest delivery, bytes, and furthest that its time may be off, seconds. */
const BODY_BYTES = 262_144;
const SKEW_SECONDS = 300;
const LIMIT_MS = 300_000;
/** How long a runtime that is not up, is busy, or does not know its token yet is asked again, and how often. */
const PATIENCE_MS = 200_000;
const AGAIN_MS = 1000;
/** When the sender may come again. */
const RETRY_SECONDS = "2";

interface Trigger {
  readonly port: number;
  readonly path: string;
  readonly method?: string;
  readonly tokenFile?: string;
  readonly headers?: Record<string, string>;
  readonly body: unknown;
}

export interface Delivery {
  readonly id: string;
  readonly message: string;
}

/** Whether a delivery is signed for this sandbox (Standard Webhooks). @param now seconds */
export function isSigned(headers: IncomingMessage["headers"], body: Buffer, secret: string, now: number): boolean {
  const [id, timestamp, given] = ["id", "timestamp", "signature"].map((name) => headers[`webhook-${name}`]);
  if (typeof id !== "string" || typeof timestamp !== "string" || typeof given !== "string") return false;
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now - Number(timestamp)) > SKEW_SECONDS) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (key.length < 16) return false;
  const wanted = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  return given
    .split(" ")
    .filter((one) => one.startsWith("v1,"))
    .map((one) => Buffer.from(one.slice(3), "base64"))
    .some((one) => one.length === wanted.length && timingSafeEqual(one, wanted));
}

/** `{"message": "..."}` is that message; anything else is the message as it came. */
export function messageOf(body: string): string {
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value === "object" && value !== null && "message" in value && typeof value.message === "string")
      return value.message;
  } catch {
    // It is text.
  }
  return body;
}

/** The same JSON with `{{message}}` and `{{id}}` filled in, in texts alone: what is filled in stays one text. */
export function filled(template: unknown, delivery: Delivery): unknown {
  if (typeof template === "string")
    return template.replace(/\{\{(message|id)\}\}/g, (_, name: "message" | "id") => delivery[name]);
  if (Array.isArray(template)) return template.map((one) => filled(one, delivery));
  if (typeof template !== "object" || template === null) return template;
  return Object.fromEntries(Object.entries(template).map(([key, value]) => [key, filled(value, delivery)]));
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

async function handOn(trigger: Trigger, delivery: Delivery): Promise<Answer> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  for (const [name, value] of Object.entries(trigger.headers ?? {}))
    headers[name] = String(filled(value, { ...delivery, message: "" }));
  if (trigger.tokenFile !== undefined)
    headers["authorization"] = `Bearer ${readFileSync(trigger.tokenFile, "utf8").trim()}`;
  const answer = await fetch(`http://127.0.0.1:${trigger.port}${trigger.path}`, {
    ...{ method: trigger.method ?? "POST", headers, body: JSON.stringify(filled(trigger.body, delivery)) },
    ...{ redirect: "manual", signal: AbortSignal.timeout(LIMIT_MS) },
  });
  return { status: answer.status, body: (await answer.text()).slice(0, BODY_BYTES) };
}

async function take(req: IncomingMessage, trigger: Trigger): Promise<Answer> {
  if (req.method !== "POST") return { status: 405, body: "deliveries come by POST" };
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_BYTES) return { status: 413, body: "the delivery is too large" };
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  let secret: string;
  try {
    secret = readFileSync(SECRET_FILE, "utf8").trim();
  } catch {
    return { status: 503, body: "the sandbox is being set up" };
  }
  if (!isSigned(req.headers, body, secret, Date.now() / 1000))
    return { status: 401, body: "not signed for this sandbox" };
  const delivery = { id: String(req.headers["webhook-id"]), message: messageOf(body.toString()) };
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await handOn(trigger, delivery).catch((): Answer => ({
      status: 503,
      body: "the runtime is not up",
    }));
    if (!isForLater(answer.status)) return answer;
    // The sender hears of none of these: it would come again minutes later.
    if (Date.now() > end || req.destroyed) return { status: 503, body: answer.body };
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** 401 and 403: a token that the runtime does not know yet is no fault of the sender. */
function isForLater(status: number): boolean {
  return status >= 500 || [401, 403, 408, 425, 429].includes(status);
}

/** A message from inside, such as the owner's by a command: signed as a delivery is, and tried until it is taken. */
async function send(id: string): Promise<number> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const end = Date.now() + LIMIT_MS;
  for (;;) {
    const key = Buffer.from(
      readFileSync(SECRET_FILE, "utf8")
        .trim()
        .replace(/^whsec_/, ""),
      "base64",
    );
    const timestamp = String(Math.floor(Date.now() / 1000));
    const signature = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
    const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` };
    const answer = await fetch(`http://127.0.0.1:${PORT}/`, { method: "POST", headers, body }).catch(() => null);
    if (answer?.ok === true || (answer !== null && answer.status !== 503) || Date.now() > end) {
      process.stdout.write((await answer?.text()) ?? "the agent does not answer");
      return answer?.ok === true ? 0 : 1;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

const told = process.env[VARIABLE];
if (process.argv[2] === "send") process.exitCode = await send(process.argv[3] ?? "");
else if (told !== undefined) {
  const trigger = JSON.parse(told) as Trigger;
  const server = createServer((req, res) => {
    void take(req, trigger).then(
      ({ status, body }) => {
        const later = status >= 500 ? { "retry-after": RETRY_SECONDS } : {};
        res.writeHead(status, { "content-type": "text/plain; charset=utf-8", ...later }).end(body);
      },
      () => res.destroy(),
    );
  });
  server.requestTimeout = LIMIT_MS;
  server.listen(PORT, "127.0.0.1");
}
