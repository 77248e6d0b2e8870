/** Domains of a sandbox: host names of its owner's at which it answers. */
import { DeletedDomain as DeletedDomainSchema, Domain as DomainSchema, DomainList } from "../contract/domain.ts";
import type { DeletedDomain, Domain } from "../contract/domain.ts";
import { invalidArgument } from "./errors.ts";
import { Poll } from "./poll.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/** A domain to add. */
export interface DomainInput {
  /** A host name, such as `shop.example.com`. */
  domain: string;
  /** Port of the program; 8080 unless given. */
  port?: number | undefined;
}

/**
 * Host names of one's own at which the sandbox answers, as it does at its named URL: the same access, links, rules and
 * wakes. A domain counts once a TXT record has proven whose it is.
 *
 * @example
 * const { records } = await sandbox.domains.create({ domain: "shop.example.com" });
 * for (const { type, name, value } of records) console.log(type, name, value);   // to set at whoever serves the DNS
 * await sandbox.domains.waitVerified("shop.example.com");
 */
export class Domains {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * Claim a host name. `records` says what to set in the DNS; then call {@link verify}. Again for a domain that the
   * sandbox has it answers that one.
   * @throws InvalidRequestError `invalid_request` names everything that is wrong
   * @throws ConflictError `conflict` for one that it has with another port, `quota_exceeded`
   */
  async create({ domain, port }: DomainInput, options: RequestOptions = {}): Promise<Domain> {
    return parseAnswer(DomainSchema, await this.#remote.post("/domains", { domain, port }, options));
  }

  /** The oldest first. */
  async list(options: RequestOptions = {}): Promise<Domain[]> {
    return parseAnswer(DomainList, await this.#remote.get("/domains", options)).data;
  }

  /** @throws NotFoundError `domain_not_found` */
  async get(domain: string, options: RequestOptions = {}): Promise<Domain> {
    return parseAnswer(DomainSchema, await this.#remote.get(pathOf(domain), options));
  }

  /** Look at its TXT record now, and at where the name leads (`dns`). `state` and `reason` say what came of it. */
  async verify(domain: string, options: RequestOptions = {}): Promise<Domain> {
    return parseAnswer(DomainSchema, await this.#remote.post(pathOf(domain, ":verify"), {}, options));
  }

  /**
   * Look again and again until it is verified.
   * @param options.timeoutMs 10 minutes unless given, 0 for no limit
   * @throws ConnectionError `timeout`; the domain is still looked for in the background, for 7 days
   */
  async waitVerified(
    domain: string,
    {
      onLook,
      ...options
    }: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined; onLook?: (seen: Domain) => void } = {},
  ): Promise<Domain> {
    let last: Domain | undefined;
    const late = () => ({
      message: `${domain} is not verified yet${last?.reason ? ` (${last.reason})` : ""}.`,
      hint: "DNS may take a while; it is looked for in the background as well.",
    });
    const poll = new Poll({ ...options, late });
    for (;;) {
      const seen = await poll.ask((call) => this.verify(domain, call));
      onLook?.(seen);
      if (seen.state === "verified") return seen;
      last = seen;
      // Resolvers remember what they said for a while.
      for (let rests = 0; rests < RESTS; rests++) await poll.rest();
    }
  }

  /** Have requests for it reach another port; others do so within ten seconds. */
  async update(domain: string, { port }: { port: number }, options: RequestOptions = {}): Promise<Domain> {
    return parseAnswer(DomainSchema, await this.#remote.post(pathOf(domain, ":update"), { port }, options));
  }

  /** Give it up. */
  async delete(domain: string, options: RequestOptions = {}): Promise<DeletedDomain> {
    return parseAnswer(DeletedDomainSchema, await this.#remote.delete(pathOf(domain), options));
  }
}

/** Of half a second each, between two looks. */
const RESTS = 6;

function pathOf(domain: string, rest = ""): string {
  if (domain === "" || domain === "." || domain === "..") throw invalidArgument("That is no domain.");
  return `/domains/${encodeURIComponent(domain)}${rest}`;
}
