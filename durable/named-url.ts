/** Named URLs: `<scheme>://[<port>-]<label>[--<account>].<domain>/`. Pure. */
import { DEFAULT_ACCOUNT } from "../sdk/contract/account.ts";
import { defaults } from "../sdk/contract/sandbox.ts";

export interface UrlParts {
  /** `http` or `https`. */
  readonly scheme: string;
  /** With its port where that is not the scheme's own. */
  readonly domain: string;
}

/** Query parameter and cookie that carry a link token. */
export const LINK_TOKEN_NAME = "rouse_token";

/** The host name part that says sandbox and port. */
export function namedHost(parts: UrlParts, of: { account: string; label: string }, port: number): string {
  const prefix = port === defaults.port ? "" : `${port}-`;
  const suffix = of.account === DEFAULT_ACCOUNT ? "" : `--${of.account}`;
  return `${prefix}${of.label}${suffix}.${parts.domain}`;
}

export function namedUrl(parts: UrlParts, of: { account: string; label: string }, port: number): string {
  return `${parts.scheme}://${namedHost(parts, of, port)}/`;
}
