/** All accounts of an installation: for its operator. */
import { Account as AccountSchema, AccountList, NewAccount as NewAccountSchema } from "../contract/account.ts";
import type { Account, AddCredit, CreateAccount, NewAccount, UpdateAccount } from "../contract/account.ts";
import { parseAnswer } from "./remote.ts";
import type { RequestOptions, Transport } from "./transport.ts";

/**
 * Accounts of the installation. Money in microdollars. All of this needs a full key of the operator's account,
 * `default`; with any other it throws PermissionDeniedError `forbidden`.
 *
 * @example
 * const { key } = await rouse.accounts.open({ name: "acme", plan: "metered", creditMicros: 50_000_000 });
 */
export class Accounts {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Open an account: `metered`, without credit, quotas and limits unless given. This answer is the only one that shows
   * its first key; with an `idempotencyKey` of your own a lost answer can be had again.
   * @throws ConflictError `name_taken`
   */
  async open(input: CreateAccount, options: RequestOptions = {}): Promise<NewAccount> {
    const call = { method: "POST", path: "/v1/accounts", json: input, ...options } as const;
    return parseAnswer(NewAccountSchema, await this.#transport.json(call));
  }

  async list(options: RequestOptions = {}): Promise<{ name: string; createdAt: string }[]> {
    const answer = await this.#transport.json({ method: "GET", path: "/v1/accounts", ...options });
    return parseAnswer(AccountList, answer).data;
  }

  /** @throws NotFoundError `not_found` */
  async get(name: string, options: RequestOptions = {}): Promise<Account> {
    return parseAnswer(AccountSchema, await this.#transport.json({ method: "GET", path: pathOf(name), ...options }));
  }

  /** Change plan, quotas and limits, or suspend: everything is then put to sleep and nothing wakes. */
  update(name: string, settings: UpdateAccount, options: RequestOptions = {}): Promise<Account> {
    return this.#post(`${pathOf(name)}:update`, settings, options);
  }

  /** Add prepaid credit, 1 to 10^12 microdollars, once per idempotency key. */
  addCredit(name: string, credit: AddCredit, options: RequestOptions = {}): Promise<Account> {
    return this.#post(`${pathOf(name)}:credit`, credit, options);
  }

  async #post(path: string, json: unknown, options: RequestOptions): Promise<Account> {
    return parseAnswer(AccountSchema, await this.#transport.json({ method: "POST", path, json, ...options }));
  }
}

function pathOf(name: string): string {
  return `/v1/accounts/${encodeURIComponent(name)}`;
}
