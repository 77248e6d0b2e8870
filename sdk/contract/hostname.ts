/** Host names as people write them, and as they are stored: lower-case, IDNA, without a dot at the end. Pure. */

/** What stands before a domain in the name of its TXT record. */
export const CHALLENGE_LABEL = "_rouse-challenge";
/** Longest name of DNS, characters. */
const NAME_MAX = 253;
/** Longest domain: the name of its TXT record is a name of DNS too. */
export const HOSTNAME_MAX = NAME_MAX - CHALLENGE_LABEL.length - 1;
const LABEL_MAX = 63;
/** Longer texts are not looked at. */
const TEXT_MAX = 1024;

/** What an installation keeps for itself. */
export interface HostnamePolicy {
  /** Named hosts are below it; null: not known. */
  readonly base: string | null;
  /** Where the API answers. */
  readonly own: readonly string[];
  /** Names that only one network knows may be used. */
  readonly local: boolean;
}

export const NO_POLICY: HostnamePolicy = { base: null, own: [], local: true };

/** Never in the public DNS. */
const LOCAL = ["arpa", "internal", "invalid", "lan", "local", "localhost", "onion", "test"];

export type Hostname =
  | { readonly ok: true; readonly hostname: string }
  | { readonly ok: false; readonly faults: readonly string[] };

/** The one form of a host name, or everything that is wrong with it. */
export function parseHostname(text: string, policy: HostnamePolicy): Hostname {
  const hostname = normalised(text);
  const faults = hostname === null ? writingFaults(text) : [...nameFaults(hostname), ...policyFaults(hostname, policy)];
  return hostname === null || faults.length > 0 ? { ok: false, faults } : { ok: true, hostname };
}

/** Whether a host name that came with a request can be a domain at all. It costs little. */
export function isHostname(name: string): boolean {
  return name.length <= HOSTNAME_MAX && HOSTNAME.test(name);
}

/** An address ends in a number, a top-level domain never does. */
const HOSTNAME = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?=[a-z0-9-]*[a-z])[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** null: it is written in a way that no host name is. */
function normalised(text: string): string | null {
  if (text.length > TEXT_MAX || FOREIGN.test(text)) return null;
  try {
    return new URL(`http://${text}`).hostname.replace(/\.$/, "");
  } catch {
    return null;
  }
}

// oxlint-disable-next-line no-control-regex -- control characters are just what this refuses
const FOREIGN = /[\u0000-\u0020\u007f/:@?#[\]\\%*<>^|"{}`]/;

function writingFaults(text: string): string[] {
  if (text === "") return ["a host name such as shop.example.com"];
  if (text.length > TEXT_MAX) return [`at most ${HOSTNAME_MAX} characters`];
  const faults: string[] = [];
  if (/^\w+:\/\//.test(text)) faults.push("without a scheme such as https://");
  const rest = text.replace(/^\w+:\/\//, "");
  if (/^\[?[\da-f]*:[\da-f:.]*\]?$/i.test(rest)) faults.push("an address is not a host name");
  else if (/:\d*(?:\/|$)/.test(rest)) faults.push("without a port; the port of the program is a field of its own");
  if (/[/?#\\]/.test(rest)) faults.push("without a path");
  if (rest.includes("*")) faults.push("one host name, not a pattern");
  if (/[\s@%<>^|"{}`]/.test(rest)) faults.push("only letters, digits, hyphens and dots");
  return faults.length > 0 ? faults : ["not a host name that DNS can have"];
}

function nameFaults(hostname: string): string[] {
  if (/^\d+(?:\.\d+){3}$/.test(hostname)) return ["an address is not a host name"];
  const faults: string[] = [];
  const labels = hostname.split(".");
  if (hostname.length > HOSTNAME_MAX) faults.push(`at most ${HOSTNAME_MAX} characters`);
  if (labels.length < 2) faults.push("at least two parts, such as example.com");
  if (labels.includes("")) faults.push("no empty part between dots");
  if (labels.some((label) => label.length > LABEL_MAX)) faults.push(`parts of at most ${LABEL_MAX} characters`);
  if (labels.some((label) => /^-|-$/.test(label))) faults.push("no part begins or ends with a hyphen");
  if (labels.some((label) => /[^a-z0-9-]/.test(label))) faults.push("only letters, digits, hyphens and dots");
  return faults.length === 0 && !isHostname(hostname) ? ["not a host name that DNS can have"] : faults;
}

function policyFaults(hostname: string, { base, own, local }: HostnamePolicy): string[] {
  const faults: string[] = [];
  if (base !== null && isAtOrBelow(hostname, base)) faults.push(`not ${base} and what is below it: that is taken`);
  else if (own.includes(hostname)) faults.push("not a host name of the API");
  if (!local && LOCAL.some((name) => isAtOrBelow(hostname, name))) faults.push("a name of the public DNS");
  return faults;
}

export function isAtOrBelow(hostname: string, base: string): boolean {
  return hostname === base || hostname.endsWith(`.${base}`);
}
