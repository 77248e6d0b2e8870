/** Share links: one port of a sandbox, below a path, for people without a key. */
import { z } from "zod";

export const linkLimits = {
  /** That are live at once, of one sandbox. */
  linksMax: 100,
  ttlSecondsMin: 60,
  ttlSecondsMax: 31_536_000,
  /** A link that says nothing ends after a week. */
  ttlSecondsDefault: 604_800,
  /** Entries of the use log that are kept of a sandbox's links together. */
  usesKept: 500,
} as const;

const Time = z.iso.datetime();

export const LinkId = z.string().regex(/^link-[0-9a-z]{20}$/, "a link id such as link-...");

/** `GET` and what is below it, such as `/docs`; `/` for everything. */
export const LinkPath = z
  .string()
  .regex(/^\/[^?#]*$/, "a path from / on, without a query")
  .max(200);

export const CreateLink = z
  .strictObject({
    /** For people: whom it was given to, what it is for. */
    name: z.string().min(1).max(64).optional(),
    /** Of the program; the sandbox's default port unless said. */
    port: z.int().min(1).max(65_535).optional(),
    /** The link opens this path and what is below it; `/`, everything, unless said. */
    path: LinkPath.optional(),
    /** Seconds until it ends: 60 to 31 536 000; a week unless said. */
    ttlSeconds: z.int().min(linkLimits.ttlSecondsMin).max(linkLimits.ttlSecondsMax).optional(),
    expiresAt: Time.optional(),
    /** Whether it may wake the sandbox; it may unless said. Without, a sleeping one answers `sandbox_paused`. */
    wake: z.boolean().optional(),
  })
  .refine((body) => body.ttlSeconds === undefined || body.expiresAt === undefined, {
    message: "ttlSeconds or expiresAt, not both",
    path: ["ttlSeconds"],
  })
  .meta({ id: "CreateLink" });
export type CreateLink = z.infer<typeof CreateLink>;

/** A use of a link: one entry a minute at most, however often it is used. */
export const LinkUse = z
  .object({
    at: Time,
    /** Method and path, without the query. */
    request: z.string(),
    /** The request woke the sandbox. */
    woke: z.boolean(),
  })
  .meta({ id: "LinkUse" });
export type LinkUse = z.infer<typeof LinkUse>;

export const Link = z
  .object({
    id: LinkId,
    sandboxId: z.string(),
    name: z.string().nullable(),
    port: z.int(),
    path: z.string(),
    wake: z.boolean(),
    state: z.enum(["live", "expired", "revoked"]),
    createdAt: Time,
    expiresAt: Time,
    revokedAt: Time.nullable(),
    lastUsedAt: Time.nullable(),
    /** The URL without the token. */
    url: z.string(),
    /** Only in the answer that made it. */
    token: z.string().optional(),
    /** Open this in a browser: the token becomes a cookie, and the address is clean. Only in the answer that made it. */
    urlWithToken: z.string().optional(),
    /** The newest first, 50 at most; of a single link. */
    uses: z.array(LinkUse).optional(),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Link" });
export type Link = z.infer<typeof Link>;

export const LinkList = z.object({ data: z.array(Link) }).meta({ id: "LinkList" });

/** Slashes, backslashes and dots that a program may yet decode, and take for a way up. */
const HIDDEN = /%2f|%5c|%2e|\\|\/\//i;

/**
 * Whether a path is the prefix, or below it: `/docs` has `/docs/a` and not `/docs2`. What could mean another path to
 * the program, such as `/docs/..%2fadmin`, is not below it.
 * @param path of a parsed URL, so without `..`
 */
export function isBelow(path: string, prefix: string): boolean {
  if (prefix === "/") return true;
  if (HIDDEN.test(path)) return false;
  if (path === prefix) return true;
  return path.startsWith(prefix.endsWith("/") ? prefix : `${prefix}/`);
}
