/** Ports opened to people without a key: link tokens and how the API shows them. */
import { LinkToken, sign, type SigningKey } from "../../sdk/contract/ticket.ts";
import { defaults, type Access, type Preview } from "../../sdk/contract/sandbox.ts";
import { namedUrl, type UrlParts } from "../named-url.ts";
import type { PreviewTerms } from "./api.ts";
import { iso, type SandboxRecord } from "./record.ts";
import type { PreviewRow } from "./store.ts";

/** Query parameter and cookie that carry a link token. */
export const LINK_TOKEN_NAME = "rouse_token";
const DAY_SECONDS = 86_400;

/** The default port is as open as the sandbox says; any other as its preview says. */
export function visibilityOf(record: SandboxRecord, row: PreviewRow): Access {
  return row.port === defaults.port ? record.access : row.visibility;
}

/** When a token ends, Unix milliseconds. */
export function tokenEnd(terms: PreviewTerms, now: number): number {
  return terms.expiresAt === undefined ? now + (terms.ttlSeconds ?? DAY_SECONDS) * 1000 : Date.parse(terms.expiresAt);
}

/** The preview with a fresh token, unless the port is public. */
export async function toPreview(record: SandboxRecord, row: PreviewRow, endsAt: number, key: SigningKey, urls: UrlParts): Promise<Preview> {
  const visibility = visibilityOf(record, row);
  const url = namedUrl(urls, record, row.port);
  const grant = { s: record.id, p: row.port, v: row.version, e: endsAt } satisfies LinkToken;
  const token = visibility === "public" ? null : await sign(key, grant);
  return {
    id: row.id,
    sandboxId: record.id,
    port: row.port,
    visibility,
    url,
    token,
    tokenExpiresAt: token === null ? null : iso(endsAt),
    urlWithToken: token === null ? null : `${url}?${LINK_TOKEN_NAME}=${token}`,
    disabled: false,
    embedOrigins: null,
    createdAt: iso(row.createdAt),
    hint: token === null ? "Anybody can open the URL." : "Open urlWithToken in a browser, or send the token as x-rouse-token.",
  };
}
