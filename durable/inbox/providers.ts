/** What each provider of webhooks does: how it signs, what it asks for, how it names its events. Pure but for WebCrypto. */
import type { HookProvider } from "../../sdk/contract/hook.ts";
import { hex } from "../hash.ts";
import { fromBase64, signedContent, standardKey } from "../standard-webhooks.ts";
import { fromHex, isEd25519, isHmac, isSame, isTimely, utf8 } from "./signatures.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** `expired`: it is signed rightly, and too long ago. */
export type Verdict = "valid" | "invalid" | "expired";

/** An answer that needs no program. */
export interface EdgeAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/** What a delivery says of itself. */
export interface Delivery {
  readonly type: string | null;
  /** The provider's own id of it. */
  readonly providerId: string | null;
  /** It only asks whether somebody is there. */
  readonly handshake: EdgeAnswer | null;
  /** Discord's number of the kind of interaction, which says how it can be acknowledged. */
  readonly interaction: number | null;
}

/** A larger body is not looked into, bytes: read as JSON it takes many times its size. */
const READ_MAX = 4_194_304;
const ID_MAX = 200;

/** @param secrets that count now: any of them may have signed */
export async function verify(
  provider: HookProvider,
  secrets: readonly string[],
  headers: Headers,
  body: Bytes,
  now: number,
): Promise<Verdict> {
  if (provider === "none") return "valid";
  const { content, timestamp, check } = signed(provider, headers, body);
  const checked = await Promise.all(secrets.map((secret) => check(secret, content)));
  if (!checked.includes(true)) return "invalid";
  return timestamp === null || isTimely(timestamp, now) ? "valid" : "expired";
}

interface Signed {
  readonly content: Bytes;
  /** Unix seconds; null where the provider has none. */
  readonly timestamp: string | null;
  readonly check: (secret: string, content: Bytes) => Promise<boolean>;
}

function signed(provider: Exclude<HookProvider, "none">, headers: Headers, body: Bytes): Signed {
  const read = (name: string) => headers.get(name) ?? "";
  switch (provider) {
    case "standard": {
      const timestamp = read("webhook-timestamp");
      const signatures = read("webhook-signature").split(" ").slice(0, 16);
      return {
        content: signedContent(`${read("webhook-id")}.${timestamp}.`, body),
        timestamp,
        check: (secret, content) => isStandard(secret, signatures, content),
      };
    }
    case "github": {
      const signature = fromHex(read("x-hub-signature-256").replace(/^sha256=/, ""));
      return { content: body, timestamp: null, check: (secret, content) => isHmac(utf8(secret), signature, content) };
    }
    case "stripe": {
      const parts = read("stripe-signature")
        .split(",")
        .map((part) => part.trim().split("="));
      const timestamp = parts.find(([name]) => name === "t")?.[1] ?? "";
      const signatures = parts.filter(([name]) => name === "v1").slice(0, 16);
      return {
        content: signedContent(`${timestamp}.`, body),
        timestamp,
        check: (secret, content) => any(signatures, ([, one = ""]) => isHmac(utf8(secret), fromHex(one), content)),
      };
    }
    case "slack": {
      const timestamp = read("x-slack-request-timestamp");
      const signature = fromHex(read("x-slack-signature").replace(/^v0=/, ""));
      return {
        content: signedContent(`v0:${timestamp}:`, body),
        timestamp,
        check: (secret, content) => isHmac(utf8(secret), signature, content),
      };
    }
    case "discord": {
      const timestamp = read("x-signature-timestamp");
      const signature = fromHex(read("x-signature-ed25519"));
      return {
        content: signedContent(timestamp, body),
        timestamp,
        check: (key, content) => isEd25519(fromHex(key), signature, content),
      };
    }
    case "telegram": {
      const given = read("x-telegram-bot-api-secret-token");
      return { content: body, timestamp: null, check: (secret) => isSame(secret, given) };
    }
    case "bearer": {
      const given = /^bearer +(.+)$/i.exec(read("authorization"))?.[1] ?? "";
      return { content: body, timestamp: null, check: (secret) => isSame(secret, given.trim()) };
    }
  }
}

function isStandard(secret: string, signatures: readonly string[], content: Bytes): Promise<boolean> {
  const isPublicKey = secret.startsWith("whpk_");
  const prefix = isPublicKey ? "v1a," : "v1,";
  const right = signatures.filter((one) => one.startsWith(prefix)).map((one) => fromBase64(one.slice(prefix.length)));
  return any(right, (signature) =>
    isPublicKey
      ? isEd25519(fromBase64(secret.slice("whpk_".length)), signature, content)
      : isHmac(standardKey(secret), signature, content),
  );
}

async function any<T>(list: readonly T[], holds: (one: T) => Promise<boolean>): Promise<boolean> {
  return (await Promise.all(list.map(holds))).includes(true);
}

type Json = Record<string, unknown>;

/** Of what was verified. */
export async function read(provider: HookProvider, headers: Headers, body: Bytes): Promise<Delivery> {
  const json = jsonOf(headers, body);
  const plain = { handshake: null, interaction: null };
  switch (provider) {
    case "standard":
      return { ...plain, type: textOf(json?.["type"]), providerId: await idOf(headers.get("webhook-id")) };
    case "github": {
      const event = textOf(headers.get("x-github-event"));
      const action = textOf(json?.["action"]);
      return {
        ...plain,
        type: event !== null && action !== null ? `${event}.${action}` : event,
        providerId: await idOf(headers.get("x-github-delivery")),
        handshake: event === "ping" ? { status: 200, contentType: "text/plain", body: "pong" } : null,
      };
    }
    case "stripe":
      return { ...plain, type: textOf(json?.["type"]), providerId: await idOf(json?.["id"]) };
    case "slack":
      return { ...plain, ...(await slack(headers, json, body)) };
    case "telegram": {
      const update = json?.["update_id"];
      const type = json ? Object.keys(json).find((key) => key !== "update_id") : undefined;
      return { ...plain, type: textOf(type), providerId: typeof update === "number" ? String(update) : null };
    }
    case "discord": {
      const kind = typeof json?.["type"] === "number" ? json["type"] : null;
      return {
        type: kind === null ? null : (interactions[kind] ?? String(kind)),
        providerId: await idOf(json?.["id"]),
        handshake: kind === 1 ? discordAnswer({ type: 1 }) : null,
        interaction: kind,
      };
    }
    case "bearer":
    case "none": {
      const key = headers.get("idempotency-key") ?? headers.get("x-idempotency-key");
      const providerId = key === null || key === "" ? null : `${await idOf(key)}:${await sha256(body)}`;
      return { ...plain, type: textOf(json?.["type"]), providerId };
    }
  }
}

/** Events are JSON; commands and buttons are forms, which have no `event_id`. */
async function slack(headers: Headers, json: Json | null, body: Bytes): Promise<Omit<Delivery, "interaction">> {
  if (json) {
    const challenge = textOf(json["challenge"]);
    if (json["type"] === "url_verification" && challenge !== null)
      return {
        ...{ type: "url_verification", providerId: null },
        handshake: { status: 200, contentType: "text/plain", body: challenge },
      };
    const inner = objectOf(json["event"]);
    return {
      type: textOf(inner?.["type"]) ?? textOf(json["type"]),
      providerId: await idOf(json["event_id"]),
      handshake: null,
    };
  }
  if (!headers.get("content-type")?.startsWith("application/x-www-form-urlencoded") || body.length > READ_MAX)
    return { type: null, providerId: null, handshake: null };
  const form = new URLSearchParams(new TextDecoder().decode(body));
  const payload = parsed(form.get("payload") ?? "");
  return {
    type: payload ? textOf(payload["type"]) : form.has("command") ? "slash_command" : null,
    providerId: await idOf(payload?.["trigger_id"] ?? form.get("trigger_id")),
    handshake: null,
  };
}

const interactions: Readonly<Record<number, string>> = {
  1: "ping",
  2: "application_command",
  3: "message_component",
  4: "autocomplete",
  5: "modal_submit",
};

/**
 * What a provider is told of an event that is stored, or that no filter lets pass. Slack and Telegram take what an
 * answer says for something to do, and Discord has to be told that more will come.
 */
export function acknowledgement(
  provider: HookProvider,
  { interaction }: Pick<Delivery, "interaction">,
  event: { readonly id: string; readonly state: string },
): EdgeAnswer {
  const isIgnored = event.state === "ignored";
  switch (provider) {
    case "slack":
    case "telegram":
      return { status: 200, contentType: "text/plain", body: "" };
    case "discord":
      if (interaction === 3) return discordAnswer({ type: 6 });
      if (interaction === 4) return discordAnswer({ type: 8, data: { choices: [] } });
      // What nobody will follow up on must not say that more comes; 64 shows it to the caller alone.
      return discordAnswer(isIgnored ? { type: 4, data: { content: "Nothing to do.", flags: 64 } } : { type: 5 });
    default: {
      const body = JSON.stringify({ id: event.id, state: event.state });
      return { status: isIgnored ? 200 : 202, contentType: "application/json", body };
    }
  }
}

function discordAnswer(body: object): EdgeAnswer {
  return { status: 200, contentType: "application/json", body: JSON.stringify(body) };
}

/** How long that provider waits for an answer in `sync` mode, milliseconds, less some for the way. */
export function patienceMs(provider: HookProvider, most: number): number {
  return provider === "slack" || provider === "discord" ? 2500 : most;
}

/** Whether a hook wants events of that type. A filter takes in what follows it after a dot. */
export function passes(filters: readonly string[], type: string | null): boolean {
  if (filters.length === 0) return true;
  return type !== null && filters.some((filter) => type === filter || type.startsWith(`${filter}.`));
}

/** Headers that belong to a connection or to what is between, and those that carry secrets. */
const DROPPED = new Set([
  "accept-encoding",
  "authorization",
  "cdn-loop",
  "connection",
  "content-length",
  "cookie",
  "expect",
  "forwarded",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "true-client-ip",
  "upgrade",
  "via",
  "x-real-ip",
  "x-telegram-bot-api-secret-token",
]);
const DROPPED_PREFIXES = ["cf-", "x-forwarded-", "x-rouse-"];

/** The headers of a sender that reach the program. */
export function keptHeaders(headers: Headers): [string, string][] {
  const named = new Set((headers.get("connection") ?? "").split(",").map((name) => name.trim().toLowerCase()));
  return [...headers].filter(
    ([name]) => !DROPPED.has(name) && !named.has(name) && !DROPPED_PREFIXES.some((prefix) => name.startsWith(prefix)),
  );
}

function jsonOf(headers: Headers, body: Bytes): Json | null {
  const type = headers.get("content-type") ?? "application/json";
  return type.includes("json") && body.length <= READ_MAX ? parsed(new TextDecoder().decode(body)) : null;
}

function parsed(text: string): Json | null {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return null;
  }
}

function objectOf(value: unknown): Json | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value.slice(0, ID_MAX) : null;
}

/** As it is, or its hash where it is long. */
async function idOf(value: unknown): Promise<string | null> {
  if (typeof value !== "string" || value === "") return null;
  return value.length <= ID_MAX ? value : sha256(utf8(value));
}

async function sha256(bytes: Bytes): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}
