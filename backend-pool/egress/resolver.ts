/** Names for machines: only those that the rules let out are asked for, and no answer leads into a private network. */
import { isNeverReached, parseAddress, type Address } from "./addresses.ts";
import { addressAnswer, answerFor, BadQuery, codes, emptyAnswer, readQuery, types, type Query } from "./dns-wire.ts";
import type { StandIns } from "./hosts.ts";
import type { Nameservers } from "./nameservers.ts";
import { hostOf, isLocalName, judgeAddress, judgeName } from "./rules.ts";
import type { Way } from "./way.ts";

const STAND_IN_SECONDS = 60;
const ARPA_FOUR = /^((?:\d{1,3}\.){4})in-addr\.arpa$/;
const ARPA_SIX = /^((?:[0-9a-f]\.){32})ip6\.arpa$/;

export interface ResolverOptions {
  readonly nameservers: Nameservers;
  readonly standIns: StandIns;
  /** Reached whatever the rules say. */
  readonly always: ReadonlySet<string>;
}

export class Resolver {
  readonly #options: ResolverOptions;

  constructor(options: ResolverOptions) {
    this.#options = options;
  }

  /** @param way null: nothing is let out */
  async answer(way: Way | null, bytes: Buffer): Promise<Buffer> {
    let query: Query;
    try {
      query = readQuery(bytes);
    } catch (fault) {
      if (!(fault instanceof BadQuery)) throw fault;
      return emptyAnswer(bytes, fault.code, null);
    }
    const say = (code: number) => emptyAnswer(bytes, code, query.end);
    const refuse = (rule: string) => {
      way?.counts.refused(rule, `${query.name}:53`);
      return say(codes.REFUSED);
    };
    if (!way) return say(codes.REFUSED);
    const { name, type } = query;
    const { nameservers, standIns, always } = this.#options;
    const host = hostOf(name);
    if (host?.kind !== "name") return refuse("name");
    const verdict = always.has(name) ? ({ ok: true } as const) : judgeName(way.policy, name);
    if (!verdict.ok) return refuse(verdict.rule);
    const standIn = standIns.of(name);
    if (standIn) return addressAnswer(bytes, query, [standIn], STAND_IN_SECONDS);
    if (isLocalName(name)) return refuse("private-address");
    const reversed = reverseOf(name);
    if (reversed && isNeverReached(reversed, [])) return refuse("private-address");
    // Names are reached by addresses alone: hints of other ways would go around what looks at greetings.
    if (type === types.HTTPS || type === types.SVCB) return say(codes.NOERROR);
    if (type === types.ANY || type === types.AXFR || type === types.IXFR) return say(codes.NOTIMP);
    if (!way.mayAsk()) return refuse("limit");
    const answer = await nameservers.ask(name, type);
    if (!answer) return say(codes.SERVFAIL);
    const { addresses, ttl } = answer.message;
    const rules = addresses.map((address) => ruleOf(way, address));
    const good = addresses.filter((_address, at) => rules[at] === null);
    if (good.length === 0 && rules[0]) return refuse(rules[0]);
    // A connection would not try the others either.
    if (good.length < addresses.length) return addressAnswer(bytes, query, good, ttl ?? 0);
    return answerFor(query, answer.bytes, answer.message);
  }
}

/** What refuses an address that a name has; null: nothing. */
function ruleOf(way: Way, address: Address): string | null {
  if (isNeverReached(address, [])) return "private-address";
  const verdict = judgeAddress(way.policy, address, true);
  return verdict.ok ? null : verdict.rule;
}

/** The address that a name of the reverse zone stands for. */
function reverseOf(name: string): Address | null {
  const four = ARPA_FOUR.exec(name)?.[1];
  if (four) return parseAddress(four.split(".").filter(Boolean).toReversed().join("."));
  const six = ARPA_SIX.exec(name)?.[1];
  if (!six) return null;
  const digits = six.split(".").filter(Boolean).toReversed().join("");
  return parseAddress((digits.match(/.{4}/g) ?? []).join(":"));
}
