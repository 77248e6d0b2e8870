/** Secrets, of an account and of a sandbox: stored, put to use, and never read back. */
import { Sandbox } from "../contract/sandbox.ts";
import {
  DeletedSecret as DeletedSchema,
  Secret as SecretSchema,
  SecretList,
  StoredSecret as StoredSchema,
} from "../contract/secret.ts";
import type { DeletedSecret, PutSecret, Secret, StoredSecret } from "../contract/secret.ts";
import { invalidArgument } from "./errors.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions, Transport } from "./transport.ts";

/**
 * Secrets of the account. A sandbox has those that it names (`secrets` of `create` and `update`). A change reaches
 * running sandboxes at once, others at their wake.
 *
 * @example
 * await rouse.secrets.set("anthropic", { value: key, provider: "anthropic" });
 * const agent = await Sandbox.create({ name: "agent", secrets: ["anthropic"] });
 * // Its programs call api.anthropic.com without a key; the host puts it in.
 */
export class Secrets {
  readonly #transport: Transport;
  readonly #path: string;

  /** @internal */
  constructor(transport: Transport, path: string) {
    this.#transport = transport;
    this.#path = path;
  }

  /**
   * Store a secret, or put another in the place of the one of that name. All of it is given each time, its value too.
   * @throws InvalidRequestError `invalid_request` with every fault in `details.issues`
   * @throws ConflictError `quota_exceeded`: an account has at most 100, a sandbox 16 of its own
   */
  async set(name: string, input: PutSecret, options: RequestOptions = {}): Promise<StoredSecret> {
    const call = { method: "PUT", path: this.#pathOf(name), json: input, ...options } as const;
    return parseAnswer(StoredSchema, await this.#transport.json(call));
  }

  /** By name; all but the values. */
  async list(options: RequestOptions = {}): Promise<Secret[]> {
    return parseAnswer(SecretList, await this.#transport.json({ method: "GET", path: this.#path, ...options })).data;
  }

  /** All but its value. @throws NotFoundError `secret_not_found` */
  async get(name: string, options: RequestOptions = {}): Promise<Secret> {
    const call = { method: "GET", path: this.#pathOf(name), ...options } as const;
    return parseAnswer(SecretSchema, await this.#transport.json(call));
  }

  /** Running sandboxes lose it at once. @throws NotFoundError `secret_not_found` */
  async delete(name: string, options: RequestOptions = {}): Promise<DeletedSecret> {
    const call = { method: "DELETE", path: this.#pathOf(name), ...options } as const;
    return parseAnswer(DeletedSchema, await this.#transport.json(call));
  }

  #pathOf(name: string): string {
    if (name === "" || name === "." || name === "..") throw invalidArgument("That is no name of a secret.");
    return `${this.#path}/${encodeURIComponent(name)}`;
  }
}

/** Secrets of one sandbox: its own, which it has by themselves, and those of the account that it is given. */
export class SandboxSecrets extends Secrets {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    super(remote.transport, remote.path("/secrets"));
    this.#remote = remote;
  }

  /** Names of the account's secrets that it has. */
  async attached(options: RequestOptions = {}): Promise<string[]> {
    return parseAnswer(Sandbox, await this.#remote.get("", options)).secrets ?? [];
  }

  /**
   * Give it secrets of the account, besides those that it has. What somebody else changes in the same moment may be lost.
   * @throws NotFoundError `secret_not_found`
   */
  async attach(...names: string[]): Promise<string[]> {
    return this.#set([...new Set([...(await this.attached()), ...names])]);
  }

  /** Take secrets of the account away from it. */
  async detach(...names: string[]): Promise<string[]> {
    return this.#set((await this.attached()).filter((name) => !names.includes(name)));
  }

  async #set(secrets: string[]): Promise<string[]> {
    return parseAnswer(Sandbox, await this.#remote.post(":update", { secrets })).secrets ?? [];
  }
}
