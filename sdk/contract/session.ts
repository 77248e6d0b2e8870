/** Session tokens: a part of one sandbox's API for a while, for web pages and other programs that are given no key. */
import { z } from "zod";
import { Text } from "./account.ts";
import { randomText } from "./random.ts";

export const sessionLimits = {
  ttlSecondsMin: 60,
  /** A token that says nothing ends after a quarter of an hour. */
  ttlSecondsDefault: 900,
  ttlSecondsMax: 86_400,
  originsMax: 20,
  /** That are active at once, of one sandbox. */
  activeMax: 1000,
} as const;

export const sessionScopes = ["exec", "files", "files:read", "interpreter", "terminal", "http"] as const;
/**
 * `exec`: commands, processes and services. `files`: files, uploads and watches; `files:read`: to read them alone.
 * `interpreter`: code. `terminal`: terminals. `http`: programs on its ports. Whichever it has, a token reads its
 * sandbox's state. All but `files:read` and `http` come to running what one likes in the machine.
 */
export const SessionScope = z.enum(sessionScopes);
export type SessionScope = z.infer<typeof SessionScope>;

/** Those of a session that names none. */
export const defaultScopes: readonly SessionScope[] = ["exec", "files", "interpreter"];

/** An origin as browsers send it. No wildcards: it is compared whole. */
export const Origin = z
  .string()
  .max(300)
  .refine(isOrigin, "an origin as browsers send it, such as https://app.example or http://localhost:3000");

/** Scheme, host and port, the port only where it is not the scheme's own; nothing else, and no `null`. */
export function isOrigin(text: string): boolean {
  if (!/^https?:\/\//.test(text) || text.includes("*") || !URL.canParse(text)) return false;
  return new URL(text).origin === text;
}

export const SessionId = z.string().regex(/^ses-[0-9a-z]{20}$/, "a session id such as ses-...");

/** `POST /v1/sandboxes/{id}/sessions`. */
export const CreateSession = z
  .strictObject({
    /** For people: whose page it is, what it is for. */
    name: Text.optional(),
    /** What the token is good for: `exec`, `files` and `interpreter` unless said. */
    scopes: z.array(SessionScope).min(1).max(sessionScopes.length).optional(),
    /** Pages that may use it, by their exact origins; none unless said. */
    origins: z.array(Origin).max(sessionLimits.originsMax).optional(),
    /**
     * Whether it is taken without an `Origin` as well, which is how servers and Workers call. Unless said, only where
     * there are no origins.
     */
    servers: z.boolean().optional(),
    /** Seconds until it ends: 60 to 86 400; 900 unless said. No later than the key that makes it. */
    ttlSeconds: z.int().min(sessionLimits.ttlSecondsMin).max(sessionLimits.ttlSecondsMax).optional(),
  })
  .refine((body) => body.servers !== false || (body.origins?.length ?? 0) > 0, {
    message: "name the origins that may use it: without servers and without origins nobody could",
    path: ["origins"],
  })
  .meta({ id: "CreateSession" });
export type CreateSession = z.infer<typeof CreateSession>;

const Time = z.iso.datetime();

/** A session without its token. */
export const Session = z
  .object({
    id: SessionId,
    sandboxId: z.string(),
    name: z.string().nullable(),
    scopes: z.array(SessionScope),
    origins: z.array(z.string()),
    servers: z.boolean(),
    state: z.enum(["active", "expired", "revoked"]),
    /** Id of the key that made it: it is over when that key is. */
    createdBy: z.string(),
    createdAt: Time,
    expiresAt: Time,
    revokedAt: Time.nullable(),
    /** To the minute; null: never. */
    lastUsedAt: Time.nullable(),
  })
  .meta({ id: "Session" });
export type Session = z.infer<typeof Session>;

export const SessionList = z.object({ data: z.array(Session) }).meta({ id: "SessionList" });

/** Answer to a creation, the only time that the token is shown: with it, all that a page needs to begin. */
export const NewSession = Session.extend({
  token: z.string(),
  /** Origin of the API. */
  apiUrl: z.string(),
  /** The sandbox's named URL of its default port. */
  url: z.string(),
}).meta({ id: "NewSession" });
export type NewSession = z.infer<typeof NewSession>;

/** What a token opens, as the edge judges by it. */
export interface SessionGrant {
  readonly id: string;
  readonly sandboxId: string;
  readonly scopes: readonly SessionScope[];
  readonly origins: readonly string[];
  readonly servers: boolean;
}

export const SESSION_PREFIX = "rs_";
/** `rs_<account>_<secret>`: the account is in it, as in a key. All of it may stand in a subprotocol of a WebSocket. */
const TOKEN = /^rs_([a-z][a-z0-9]{0,13})_[A-Za-z0-9]{43}$/;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** The account of a session token; null for what is none. */
export function tokenAccount(token: string): string | null {
  return TOKEN.exec(token)?.[1] ?? null;
}

/** @param secret 43 letters and digits; random ones unless given */
export function sessionTokenOf(account: string, secret = randomText(LETTERS, 43)): string {
  return `${SESSION_PREFIX}${account}_${secret}`;
}

/** Subprotocols of a WebSocket that begins with a token, as pages have no headers for it: one to agree on, and the token. */
export const SOCKET_PROTOCOL = "rouse.v1";
/** Before the token. */
export const TOKEN_PROTOCOL = "rouse.token.";
