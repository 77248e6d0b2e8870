/** API keys of the account. */
import { Key as KeySchema, NewKey as NewKeySchema } from "../contract/account.ts";
import type { CreateKey, Key, NewKey } from "../contract/account.ts";
import { z } from "zod";
import { parseAnswer } from "./remote.ts";
import { timeText } from "./time-text.ts";
import type { RequestOptions, Transport } from "./transport.ts";

const KeyList = z.object({ data: z.array(KeySchema) });

/** What a key is for; a limit that is not given does not hold. Money in microdollars. */
export type KeyInput = Omit<CreateKey, "expiresAt"> & {
  /** When it ends, instead of `ttlSeconds`. */
  expiresAt?: string | Date | undefined;
};

/**
 * API keys. All of this needs a key with access `full`.
 *
 * @example
 * const { key } = await rouse.keys.create({ name: "ci", access: "sandboxes", namePrefix: "ci-", ttlSeconds: 86_400 });
 */
export class Keys {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Make a key; this answer is the only one that shows it. Access is `full` unless given, for a member's key as much as
   * the role allows; `ttlSeconds` 60 to 315 360 000.
   * @throws PermissionDeniedError `permission_denied` when it could do more than the key in use; `details.more` says what
   */
  async create(input: KeyInput = {}, options: RequestOptions = {}): Promise<NewKey> {
    const json = { ...input, expiresAt: timeText(input.expiresAt) };
    return parseAnswer(
      NewKeySchema,
      await this.#transport.json({ method: "POST", path: "/v1/keys", json, ...options }),
    );
  }

  /** All keys without their secrets, oldest first; those that ended stay in the list for 90 days. */
  async list(options: RequestOptions = {}): Promise<Key[]> {
    return parseAnswer(KeyList, await this.#transport.json({ method: "GET", path: "/v1/keys", ...options })).data;
  }

  /** End a key at once, by its `id`; open connections end too. Works again on one that is revoked. @throws NotFoundError */
  async revoke(id: string, options: RequestOptions = {}): Promise<Key> {
    const path = `/v1/keys/${encodeURIComponent(id)}`;
    return parseAnswer(KeySchema, await this.#transport.json({ method: "DELETE", path, ...options }));
  }
}
