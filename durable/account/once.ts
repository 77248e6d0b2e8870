/**
 * Changes of an account that are made once per Idempotency-Key. Keys and tokens in answers are not stored: the same ones
 * are worked out again.
 */
import { newApiKey } from "../../sdk/contract/account.ts";
import { sessionTokenOf } from "../../sdk/contract/session.ts";
import { hmacHex } from "../hash.ts";
import { refuse, type Result } from "../result.ts";
import type { Once } from "./api.ts";
import type { AccountStore } from "./store.ts";

export class OnceOnly {
  readonly #ctx: DurableObjectState;
  readonly #secret: string;

  constructor(ctx: DurableObjectState, secret: string) {
    this.#ctx = ctx;
    this.#secret = secret;
  }

  async run<T extends object>(store: AccountStore, once: Once, act: () => Promise<Result<T>>): Promise<Result<T>> {
    if (once.key === null) return act();
    // Two at once: the second waits for the first, and finds its answer.
    return this.#ctx.blockConcurrencyWhile(async () => {
      const { key, fingerprint } = { ...once, key: once.key ?? "" };
      const known = store.profiles.answer(key, fingerprint);
      if (known === "other")
        return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");
      if (known !== null) return this.#withSecrets(JSON.parse(known) as Result<T>, once);
      const answer = await act();
      if (answer.ok) store.profiles.saveAnswer(key, fingerprint, withoutSecrets(answer), Date.now());
      return answer;
    });
  }

  /** A new key; with an Idempotency-Key the one that belongs to it. */
  async newKey(once: Once): Promise<string> {
    if (once.key === null) return newApiKey(this.#account);
    const mac = await this.#mac("rouse-key", once);
    return `rouse_${this.#account}_${mac.slice(0, 12)}_${mac.slice(12, 44)}`;
  }

  /** A new session token; with an Idempotency-Key the one that belongs to it. */
  async newToken(once: Once): Promise<string> {
    if (once.key === null) return sessionTokenOf(this.#account);
    return sessionTokenOf(this.#account, (await this.#mac("rouse-session", once)).slice(0, 43));
  }

  get #account(): string {
    return this.#ctx.id.name ?? "";
  }

  #mac(purpose: string, { key, fingerprint }: Once): Promise<string> {
    return hmacHex(`${purpose}\n${this.#secret}`, `${this.#account}\n${key}\n${fingerprint}`);
  }

  async #withSecrets<T extends object>(answer: Result<T>, once: Once): Promise<Result<T>> {
    let text = JSON.stringify(answer);
    if (text.includes(KEY_PLACE)) text = text.replaceAll(KEY_PLACE, await this.newKey(once));
    if (text.includes(TOKEN_PLACE)) text = text.replaceAll(TOKEN_PLACE, await this.newToken(once));
    return JSON.parse(text) as Result<T>;
  }
}

/** They stand for the key and the token in a stored answer. */
const KEY_PLACE = "rouse-key-of-this-answer";
const TOKEN_PLACE = "rouse-token-of-this-answer";

function withoutSecrets(answer: object): string {
  return JSON.stringify(answer)
    .replaceAll(/rouse_[a-z0-9]+_[a-z0-9]{12}_[A-Za-z0-9]{32}/g, KEY_PLACE)
    .replaceAll(/rs_[a-z0-9]+_[A-Za-z0-9]{43}/g, TOKEN_PLACE);
}
