/** Which sandbox and port a host name or path means. Pure. */
import { AccountName, DEFAULT_ACCOUNT } from "../../sdk/contract/account.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { isLabel } from "../../sdk/contract/names.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";

export interface Target {
  readonly label: string;
  readonly account: string;
  /** The one that has the label, and no other that has it later; undefined for whatever has it. */
  readonly id?: string;
  readonly port: number;
  /** What the path form has before the program's own path; empty for the host form. */
  readonly prefix: string;
}

/** `null`: not a named URL. A fault: one of a form that nothing can have. */
export type Parsed = Target | { readonly fault: "name" | "port" } | null;

/**
 * @param host the request's host name, with or without a port
 * @param domain the domain below which sandboxes live, with or without a port
 */
export function parseTarget(host: string, pathname: string, domain: string): Parsed {
  const name = withoutPort(host).toLowerCase();
  const base = withoutPort(domain).toLowerCase();
  if (name.endsWith(`.${base}`)) return fromHost(name.slice(0, -base.length - 1));
  if (!pathname.startsWith("/s/")) return null;
  const match = /^\/s\/([^/]*)\/([^/]*)(?=\/|$)/.exec(pathname);
  if (!match) return { fault: "name" };
  const [prefix, who = "", port = ""] = match;
  const named = sandboxOf(who.toLowerCase());
  if (!named) return { fault: "name" };
  return /^\d{1,6}$/.test(port) ? withPort(named, Number(port), prefix) : { fault: "port" };
}

function fromHost(text: string): Parsed {
  const match = /^(?:([1-9]\d*)-)?(.+)$/.exec(text);
  const named = match?.[2] === undefined ? null : sandboxOf(match[2]);
  if (!named) return { fault: "name" };
  return withPort(named, match?.[1] === undefined ? defaults.port : Number(match[1]), "");
}

function sandboxOf(text: string): { label: string; account: string } | null {
  const [label = "", account = DEFAULT_ACCOUNT, ...rest] = text.split("--");
  if (rest.length > 0 || !isLabel(label)) return null;
  if (account !== DEFAULT_ACCOUNT && !AccountName.safeParse(account).success) return null;
  return { label, account };
}

function withPort(named: { label: string; account: string }, port: number, prefix: string): Parsed {
  return isReachable(port) ? { ...named, port, prefix } : { fault: "port" };
}

/** A port of the guest that is not the agent's own. */
export function isReachable(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535 && port !== AGENT_PORT;
}

function withoutPort(host: string): string {
  return host.replace(/:\d*$/, "");
}
