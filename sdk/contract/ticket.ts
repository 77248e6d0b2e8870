/**
 * Signed grants, as `<payload base64url>.<HMAC-SHA256 base64url>`: tickets (edge -> host, one machine in one
 * generation), link tokens and share tokens (people -> edge, one port of one sandbox) and vault tickets (host -> edge, one vault:
 * `VaultTicket`), what a machine is inside (`InsideTicket`), and URLs of objects (`ObjectToken`). Pure but for the platform's WebCrypto.
 */
import { z } from "zod";
import type { VaultTicket } from "./archive.ts";
import type { InsideTicket } from "./egress.ts";
import type { ObjectToken } from "./object.ts";

const encoder = new TextEncoder();

export const Ticket = z.object({
  /** Machine (sandbox) id. */
  m: z.string(),
  /** Generation. */
  g: z.int(),
  /** Ends at, Unix milliseconds. */
  e: z.number(),
});
export type Ticket = z.infer<typeof Ticket>;

export const LinkToken = z.object({
  /** Sandbox id. */
  s: z.string(),
  /** Port. */
  p: z.int(),
  /** The port's access version: rotating raises it. */
  v: z.int(),
  /** Ends at, Unix milliseconds. */
  e: z.number(),
});
export type LinkToken = z.infer<typeof LinkToken>;

/** Of a share link; its text begins with `SHARE_PREFIX`. What it opens is the link's to say. */
export const ShareToken = z.object({
  /** Sandbox id. */
  s: z.string(),
  /** Link id. */
  l: z.string(),
  /** Ends at, Unix milliseconds. */
  e: z.number(),
});
export type ShareToken = z.infer<typeof ShareToken>;
export const SHARE_PREFIX = "rl_";

/** WebCrypto's `CryptoKey`, a global type in some runtimes only. */
export type SigningKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/** A key for `sign` and `verify`; `purpose` keeps a grant of one kind from passing as another. */
export function signingKey(
  secret: string,
  purpose: "ticket" | "link" | "share" | "vault" | "inside" | "object",
): Promise<SigningKey> {
  const material = encoder.encode(`rouse-${purpose}\n${secret}`);
  return crypto.subtle.importKey("raw", material, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}

export async function sign(
  key: SigningKey,
  payload: Ticket | LinkToken | ShareToken | VaultTicket | InsideTicket | ObjectToken,
): Promise<string> {
  const body = toBase64Url(encoder.encode(JSON.stringify(payload)));
  const mac = new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(body)));
  return `${body}.${toBase64Url(mac)}`;
}

/** The payload when signature, form and time are right, else null. */
export async function verify<
  T extends
    | typeof Ticket
    | typeof LinkToken
    | typeof ShareToken
    | typeof VaultTicket
    | typeof InsideTicket
    | typeof ObjectToken,
>(key: SigningKey, schema: T, text: string, nowMs: number): Promise<z.infer<T> | null> {
  const dot = text.indexOf(".");
  if (dot <= 0 || text.length > 2048) return null;
  const body = text.slice(0, dot);
  const mac = fromBase64Url(text.slice(dot + 1));
  const raw = fromBase64Url(body);
  if (!mac || !raw) return null;
  if (!(await crypto.subtle.verify("HMAC", key, mac, encoder.encode(body)))) return null;
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(raw));
  } catch {
    return null;
  }
  const parsed = schema.safeParse(json);
  return parsed.success && parsed.data.e > nowMs ? (parsed.data as z.infer<T>) : null;
}

export function toBase64Url(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromBase64Url(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return null;
  try {
    const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(raw, (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}
