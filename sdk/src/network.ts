/** What a sandbox may reach outside. */
import { Network as NetworkSchema } from "../contract/network-settings.ts";
import type { Network, SetNetwork } from "../contract/network-settings.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/** Rules to set. A list that is not given stays as it is; an empty one is none. */
export type NetworkChange = Pick<SetNetwork, "internet" | "allow" | "deny">;

/**
 * What the sandbox may reach outside: everything public, unless rules say otherwise. A target is a host name, `*.name`
 * for all names below one, an address, or a range such as `203.0.113.0/24`. `deny` wins over `allow`, and `allow` over
 * the internet being off. Changes count at once, for open connections too; of a sandbox that sleeps from its wake on.
 *
 * @example
 * await sandbox.network.off();
 * await sandbox.network.allow("api.anthropic.com", "*.npmjs.org");
 */
export class SandboxNetwork {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** The rules, whether they are in force, what went out (bytes), and what was refused lately. */
  async get(options: RequestOptions = {}): Promise<Network> {
    return parseAnswer(NetworkSchema, await this.#remote.get("/network", options));
  }

  /** @throws InvalidRequestError `invalid_request` names every target that is none */
  async set(rules: NetworkChange, options: RequestOptions = {}): Promise<Network> {
    return parseAnswer(NetworkSchema, await this.#remote.put("/network", rules, options));
  }

  /** Nothing may be reached but what `allow` names. The lists stay. */
  off(options: RequestOptions = {}): Promise<Network> {
    return this.set({ internet: false }, options);
  }

  /** Everything public may be reached but what `deny` names. The lists stay. */
  on(options: RequestOptions = {}): Promise<Network> {
    return this.set({ internet: true }, options);
  }

  /** Add to what may be reached. What somebody else changes in the same moment may be lost. */
  async allow(...targets: string[]): Promise<Network> {
    const { internet, allow } = await this.get();
    return this.set({ internet, allow: [...allow, ...targets] });
  }

  /** Add to what may not be reached. What somebody else changes in the same moment may be lost. */
  async deny(...targets: string[]): Promise<Network> {
    const { internet, deny } = await this.get();
    return this.set({ internet, deny: [...deny, ...targets] });
  }

  /** As of a new sandbox: everything public may be reached. */
  reset(options: RequestOptions = {}): Promise<Network> {
    return this.set({ internet: true, allow: [], deny: [] }, options);
  }
}
