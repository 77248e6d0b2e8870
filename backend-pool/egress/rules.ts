/** What the rules of a sandbox say to a name, and to the address that it turns out to have. Pure. */
import type { NetworkRules } from "../../sdk/contract/network.ts";
import { contains, parseAddress, parseRange, type Address, type Range } from "./addresses.ts";

/**
 * What refuses, as `x-rouse-egress` says it: `internet-off`, `not-allowed` (internet is off, and the list of what may
 * be reached does not have it), `deny:<target>`, `private-address`, `port`, `name` (no name of a host), `fronting` (the
 * first bytes ask for another host), `limit`, `secret-host`, `secret-rule:<name>`, `placeholder:<name>`.
 */
export type RuleName = string;

export type Verdict = { readonly ok: true } | { readonly ok: false; readonly rule: RuleName };

const ALLOWED: Verdict = { ok: true };

interface Targets {
  readonly all: boolean;
  readonly names: ReadonlySet<string>;
  /** What comes after the asterisk: `.example.com`. */
  readonly below: ReadonlySet<string>;
  readonly ranges: readonly { readonly text: string; readonly range: Range }[];
}

/** Rules in the form in which they are asked. */
export interface Policy {
  readonly internet: boolean;
  readonly allow: Targets;
  readonly deny: Targets;
  /** Whether names decide: then the first bytes of a connection must not ask for another than it was opened for. */
  readonly namesDecide: boolean;
}

export function policyOf({ internet, allow = [], deny = [] }: NetworkRules): Policy {
  const denied = targetsOf(deny);
  const namesDecide = !internet || denied.names.size > 0 || denied.below.size > 0;
  return { internet, allow: targetsOf(allow), deny: denied, namesDecide };
}

/** Lets nothing out. */
export const closedPolicy: Policy = policyOf({ internet: false });

/** @param name as `hostOf` gives it */
export function judgeName(policy: Policy, name: string): Verdict {
  const denied = targetOf(policy.deny, name);
  if (denied) return { ok: false, rule: `deny:${denied}` };
  if (policy.internet || targetOf(policy.allow, name)) return ALLOWED;
  return { ok: false, rule: offRule(policy) };
}

/** @param named whether it is what an allowed name resolved to; else somebody asked for the address itself */
export function judgeAddress(policy: Policy, address: Address, named: boolean): Verdict {
  const denied = rangeOf(policy.deny, address) ?? (policy.deny.all ? "*" : null);
  if (denied) return { ok: false, rule: `deny:${denied}` };
  if (named || policy.internet || policy.allow.all || rangeOf(policy.allow, address)) return ALLOWED;
  return { ok: false, rule: offRule(policy) };
}

/** Whether a list of hosts (`api.example.com`, `*.example.com`) has a name. */
export function namesHost(hosts: readonly string[], name: string): boolean {
  return hosts.some((host) => {
    const target = host.toLowerCase();
    return target === name || (target.startsWith("*.") && name.endsWith(target.slice(1)));
  });
}

/** What somebody wants to reach, in the one form in which it is compared. */
export type Host =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "address"; readonly address: Address };

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/**
 * In lower case and without the dot at the end. Null for what is neither a name nor an address: a name whose last part
 * is a number is none, since some would read it as an address (`127.1`, `0x7f.0.0.1`).
 */
export function hostOf(text: string): Host | null {
  const bare = /^\[(.*)\]$/.exec(text)?.[1] ?? text;
  const address = parseAddress(bare);
  if (address) return { kind: "address", address };
  if (bare !== text) return null;
  const name = text.toLowerCase().replace(/\.$/, "");
  const labels = name.split(".");
  if (name.length > 253 || !labels.every((label) => LABEL.test(label))) return null;
  return /^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? "") ? null : { kind: "name", name };
}

/** Names that mean something in a host's own network only, which is no business of its machines. */
const LOCAL_ENDS = new Set(["localhost", "local", "internal", "intranet", "private", "corp", "home", "lan", "onion"]);

export function isLocalName(name: string): boolean {
  const labels = name.split(".");
  return labels.length === 1 || LOCAL_ENDS.has(labels.at(-1) ?? "") || name.endsWith(".home.arpa");
}

function targetsOf(list: readonly string[]): Targets {
  const names = new Set<string>();
  const below = new Set<string>();
  const ranges: { text: string; range: Range }[] = [];
  let all = false;
  for (const text of list.map((one) => one.toLowerCase().replace(/\.$/, ""))) {
    const range = parseRange(text);
    if (range) ranges.push({ text, range });
    else if (text === "*") all = true;
    else if (text.startsWith("*.")) below.add(text.slice(1));
    else names.add(text);
  }
  return { all, names, below, ranges };
}

/** The entry that has the name, the nearest one. */
function targetOf({ all, names, below }: Targets, name: string): string | null {
  if (names.has(name)) return name;
  for (let dot = name.indexOf("."); dot >= 0; dot = name.indexOf(".", dot + 1)) {
    const parent = name.slice(dot);
    if (below.has(parent)) return `*${parent}`;
  }
  return all ? "*" : null;
}

function rangeOf({ ranges }: Targets, address: Address): string | null {
  return ranges.find(({ range }) => contains(range, address))?.text ?? null;
}

function offRule({ allow }: Policy): RuleName {
  const hasAny = allow.all || allow.names.size > 0 || allow.below.size > 0 || allow.ranges.length > 0;
  return hasAny ? "not-allowed" : "internet-off";
}
