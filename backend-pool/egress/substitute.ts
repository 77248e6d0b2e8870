/** Which secrets go into a request, and how. Pure. */
import type { BrokerRule } from "../../sdk/contract/egress.ts";
import { fitsPattern, isPlainPath } from "./path-pattern.ts";
import { namesHost, type RuleName } from "./rules.ts";
import type { HeldSecret } from "./secret-word.ts";

export interface Outgoing {
  readonly host: string;
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
}

export type Substituted =
  | {
      readonly ok: true;
      readonly path: string;
      readonly headers: string[];
      /** Those that went in. */
      readonly used: readonly HeldSecret[];
    }
  | { readonly ok: false; readonly rule: RuleName };

type Faulted = { readonly rule: RuleName };

/** Whether streams to a host are opened for secrets. */
export function isBrokered(secrets: readonly HeldSecret[], host: string): boolean {
  return secrets.some((secret) => namesHost(secret.hosts, host));
}

/** @param secrets all of the machine, so that a placeholder that goes elsewhere is seen */
export function substitute(secrets: readonly HeldSecret[], request: Outgoing): Substituted {
  const headers = brokerHeaders(secrets, request);
  if (!Array.isArray(headers)) return { ok: false, rule: headers.rule };
  const used = new Set<HeldSecret>();
  let path = request.path;
  let kept = request.headers;
  for (const secret of secrets) {
    const { placeholder } = secret;
    if (secret.mode !== "placeholder" || !placeholder) continue;
    const values = kept.map((text, at) => (at % 2 === 1 ? replaced(text, placeholder, secret) : text));
    const isInPath = path.includes(placeholder);
    if (!isInPath && values.every((text, at) => text === kept[at])) continue;
    if (!namesHost(secret.hosts, request.host)) return { ok: false, rule: `placeholder:${secret.name}` };
    if (!fitsRules(secret.rules, request)) return { ok: false, rule: `secret-rule:${secret.name}` };
    if (!isFieldValue(secret.word.reveal())) return { ok: false, rule: `secret-value:${secret.name}` };
    kept = values;
    path = path.replaceAll(placeholder, () => encodeURIComponent(secret.word.reveal()));
    used.add(secret);
  }
  const set = new Set(headers.map(({ name }) => name.toLowerCase()));
  const out: string[] = [];
  for (let at = 0; at + 1 < kept.length; at += 2) {
    const name = kept[at] ?? "";
    if (!set.has(name.toLowerCase())) out.push(name, kept[at + 1] ?? "");
  }
  for (const { name, value, secret } of headers) {
    out.push(name, value);
    used.add(secret);
  }
  return { ok: true, path, headers: out, used: [...used] };
}

interface BrokerHeader {
  readonly name: string;
  readonly value: string;
  readonly secret: HeldSecret;
}

/** One for each header that secrets of this host set: that of the first secret whose rules let it. */
function brokerHeaders(secrets: readonly HeldSecret[], request: Outgoing): BrokerHeader[] | Faulted {
  const byHeader = new Map<string, HeldSecret[]>();
  for (const secret of secrets) {
    if (secret.mode !== "broker" || !secret.header || !namesHost(secret.hosts, request.host)) continue;
    const name = secret.header.toLowerCase();
    byHeader.set(name, [...(byHeader.get(name) ?? []), secret]);
  }
  const out: BrokerHeader[] = [];
  for (const candidates of byHeader.values()) {
    const secret = candidates.find(({ rules }) => fitsRules(rules, request));
    if (!secret) return { rule: `secret-rule:${candidates[0]?.name}` };
    const value = (secret.format ?? "{value}").replaceAll("{value}", () => secret.word.reveal());
    if (!isFieldValue(value)) return { rule: `secret-value:${secret.name}` };
    out.push({ name: secret.header ?? "", value, secret });
  }
  return out;
}

function fitsRules(rules: readonly BrokerRule[] | undefined, { method, path }: Outgoing): boolean {
  if (!rules || rules.length === 0) return true;
  const bare = path.split("?")[0] ?? "";
  return rules.some(({ methods, paths }) => {
    if (methods && methods.length > 0 && !methods.includes(method)) return false;
    return !paths || paths.length === 0 || (isPlainPath(bare) && paths.some((pattern) => fitsPattern(pattern, bare)));
  });
}

/** Also within `Basic`, where the word is not to be seen. */
function replaced(text: string, placeholder: string, secret: HeldSecret): string {
  const basic = /^(basic +)([A-Za-z0-9+/_-]+=*)\s*$/i.exec(text);
  if (basic) {
    const plain = Buffer.from(basic[2] ?? "", "base64").toString("latin1");
    if (plain.includes(placeholder))
      return `${basic[1]}${Buffer.from(
        plain.replaceAll(placeholder, () => secret.word.reveal()),
        "latin1",
      ).toString("base64")}`;
  }
  return text.replaceAll(placeholder, () => secret.word.reveal());
}

/** Whether it can stand in a header: one that holds a line end would make headers of its own. */
function isFieldValue(text: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
}
