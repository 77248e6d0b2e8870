/** For receivers: whether a webhook is from Rouse, and fresh (Standard Webhooks). WebCrypto alone. */
import { RouseError, invalidArgument } from "./errors.ts";
import type { RouseEvent } from "../contract/event.ts";

/** How far its time may be from ours, seconds. */
const TOLERANCE_SECONDS = 300;

/** Headers as servers have them: `Headers`, or an object as Node's `request.headers`, names in any case. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyOptions {
  /** How far the webhook's time may be from `now`, seconds; 300 unless given. */
  toleranceSeconds?: number | undefined;
  /** Now unless given. */
  now?: Date | undefined;
}

/** A webhook whose signature and time are right. */
export interface VerifiedWebhook<T = RouseEvent> {
  /** The same in each try: whoever must not act twice remembers it. */
  readonly id: string;
  readonly sentAt: Date;
  readonly text: string;
  /** The body, parsed. @throws SyntaxError */
  json(): T;
}

/**
 * Check that a webhook comes from Rouse: events of an endpoint, with its secret, and deliveries of a hook to a program,
 * with the hook's delivery secret.
 *
 * @example
 * const event = (await verifyWebhook(await request.text(), request.headers, secret)).json();
 * if (event.type === "sandbox.woken") console.log(event.sandbox?.name, event.data.wakeMs);
 *
 * @param payload the body as it came: parsed and written again it has other bytes
 * @param secret `whsec_...`; of several, one must fit
 * @throws RouseError `signature_invalid`, or `signature_expired` for one that is signed rightly at another time
 * @throws InvalidRequestError `invalid_argument` for what can't be a secret
 */
export async function verifyWebhook<T = RouseEvent>(
  payload: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { toleranceSeconds = TOLERANCE_SECONDS, now = new Date() }: VerifyOptions = {},
): Promise<VerifiedWebhook<T>> {
  const [id, at, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
    headerOf(headers, name),
  );
  if (!id || !at || !signatures) throw invalid("It has no webhook-id, webhook-timestamp or webhook-signature.");
  if (!/^\d{1,11}$/.test(at)) throw invalid("Its webhook-timestamp is no time.");
  const body = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  const content = joined(new TextEncoder().encode(`${id}.${at}.`), body);
  const secrets = typeof secret === "string" ? [secret] : secret;
  const keys = await Promise.all(secrets.map(keyOf));
  let isValid = false;
  for (const one of signatures.split(" ")) {
    const signature = one.startsWith("v1,") ? fromBase64(one.slice(3)) : null;
    if (!signature) continue;
    for (const key of keys) isValid = (await crypto.subtle.verify("HMAC", key, signature, content)) || isValid;
  }
  if (!isValid) throw invalid("None of its signatures is by the secret.");
  if (Math.abs(now.getTime() / 1000 - Number(at)) > toleranceSeconds)
    throw new RouseError({ code: "signature_expired", message: "The webhook is of another time.", status: 401 });
  const text = new TextDecoder().decode(body);
  return { id, sentAt: new Date(Number(at) * 1000), text, json: () => JSON.parse(text) as T };
}

function headerOf(headers: WebhookHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const [, value] = Object.entries(headers).find(([key]) => key.toLowerCase() === name) ?? [];
  return typeof value === "string" ? value : value?.[0];
}

function keyOf(secret: string) {
  const raw = fromBase64(secret.replace(/^whsec_/, ""));
  if (!raw || raw.length === 0) throw invalidArgument("The secret is not whsec_ with base64 after it.");
  return crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

function joined(head: Uint8Array, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(head.length + body.length);
  all.set(head);
  all.set(body, head.length);
  return all;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}

function invalid(message: string): RouseError {
  return new RouseError({ code: "signature_invalid", message, status: 401 });
}
