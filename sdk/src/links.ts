/** Share links: one port of a sandbox, below a path, for people without a key. */
import { Link as LinkSchema, LinkList } from "../contract/link.ts";
import type { Link } from "../contract/link.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { timeText } from "./time-text.ts";
import type { RequestOptions } from "./transport.ts";

export interface LinkOptions extends RequestOptions {
  /** For people: whom it was given to, what it is for. */
  name?: string | undefined;
  /** The sandbox's default port unless given. */
  port?: number | undefined;
  /** It opens this path and what is below it; everything unless given. */
  path?: string | undefined;
  /** Seconds until it ends, 60 to 31 536 000; a week unless given. */
  ttlSeconds?: number | undefined;
  /** When it ends, instead of `ttlSeconds`. */
  expiresAt?: string | Date | undefined;
  /** Whether it may wake the sandbox; it may unless given. */
  wake?: boolean | undefined;
}

/**
 * Share links of a sandbox.
 *
 * @example
 * const link = await sandbox.links.create({ name: "for Ada", path: "/report", ttlSeconds: 86_400 });
 * console.log(link.urlWithToken);
 */
export class Links {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * The answer is the only place that shows the token.
   * @throws InvalidRequestError `invalid_port`, or what is wrong with the path or the time
   */
  async create({ name, port, path, ttlSeconds, expiresAt, wake, ...options }: LinkOptions = {}): Promise<Link> {
    const body = { name, port, path, ttlSeconds, expiresAt: timeText(expiresAt), wake };
    return parseAnswer(LinkSchema, await this.#remote.post("/links", body, options));
  }

  /** The newest first; those that are over are there for another 30 days. */
  async list(options: RequestOptions = {}): Promise<Link[]> {
    return parseAnswer(LinkList, await this.#remote.get("/links", options)).data;
  }

  /** With its newest uses. @throws NotFoundError `link_not_found` */
  async get(id: string, options: RequestOptions = {}): Promise<Link> {
    return parseAnswer(LinkSchema, await this.#remote.get(`/links/${encodeURIComponent(id)}`, options));
  }

  /** End it at once, open connections too. @throws NotFoundError `link_not_found` */
  async revoke(id: string, options: RequestOptions = {}): Promise<Link> {
    return parseAnswer(LinkSchema, await this.#remote.delete(`/links/${encodeURIComponent(id)}`, options));
  }
}
