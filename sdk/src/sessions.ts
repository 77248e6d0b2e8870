/** Session tokens of a sandbox: what web pages and other programs are given in place of an API key. */
import { NewSession as NewSessionSchema, Session as SessionSchema, SessionList } from "../contract/session.ts";
import type { NewSession, Session, SessionScope } from "../contract/session.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

export interface SessionOptions extends RequestOptions {
  /** For people: whose page it is, what it is for. */
  name?: string | undefined;
  /** What the token is good for: `exec`, `files` and `interpreter` unless given. */
  scopes?: readonly SessionScope[] | undefined;
  /** Pages that may use it, by their exact origins, such as `https://app.example`; none unless given. */
  origins?: readonly string[] | undefined;
  /** Whether servers and Workers may use it, which send no origin; unless given, only where there are no origins. */
  servers?: boolean | undefined;
  /** Seconds until it ends, 60 to 86 400; 900 unless given. No later than the key that makes it. */
  ttlSeconds?: number | undefined;
}

/**
 * Session tokens of a sandbox. Made where the API key is, and used with {@link Sandbox.fromSession}.
 *
 * @example
 * const session = await sandbox.sessions.create({ origins: ["https://app.example"], scopes: ["exec", "files"] });
 * console.log(session.expiresAt); // send all of it to the page
 */
export class Sessions {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * The answer is the only place that shows the token. Does not wake the sandbox.
   * @throws InvalidRequestError what is wrong with an origin, a scope or the time
   * @throws ConflictError `quota_exceeded`: a sandbox has at most 1000 that are active
   */
  async create({ name, scopes, origins, servers, ttlSeconds, ...options }: SessionOptions = {}): Promise<NewSession> {
    const body = { name, scopes, origins, servers, ttlSeconds };
    return parseAnswer(NewSessionSchema, await this.#remote.post("/sessions", body, options));
  }

  /** The newest first; those that are over are there for another 7 days. */
  async list(options: RequestOptions = {}): Promise<Session[]> {
    return parseAnswer(SessionList, await this.#remote.get("/sessions", options)).data;
  }

  /** End it at once, open connections too. @throws NotFoundError `session_not_found` */
  async revoke(id: string, options: RequestOptions = {}): Promise<Session> {
    const path = `/sessions/${encodeURIComponent(id)}:revoke`;
    return parseAnswer(SessionSchema, await this.#remote.post(path, {}, options));
  }
}
