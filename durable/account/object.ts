/** The object of one account: its API keys, as hashes only, and the index of its sandboxes. */
import { DurableObject } from "cloudflare:workers";
import { DEFAULT_ACCOUNT, parseApiKey } from "../../sdk/contract/account.ts";
import { limits, type ListQuery, type SandboxList } from "../../sdk/contract/sandbox.ts";
import { equalHashes, sha256Hex } from "../hash.ts";
import type { AccountApi, Summary } from "./api.ts";
import { fromCursor, toCursor } from "./cursor.ts";
import { AccountStore } from "./store.ts";

export class AccountObject extends DurableObject<Env> implements AccountApi {
  #store: AccountStore | null;
  #bootstrap: Promise<void> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = AccountStore.existing(ctx.storage);
  }

  async verifyKey(hash: string): Promise<string | null> {
    this.#bootstrap ??= this.#takeBootstrapKey();
    await this.#bootstrap;
    let found: string | null = null;
    for (const key of this.#store?.keys() ?? []) if (equalHashes(key.hash, hash)) found = key.id;
    return found;
  }

  async applySummary(summary: Summary): Promise<void> {
    this.#store ??= AccountStore.create(this.ctx.storage);
    if (summary.sequence > this.#store.sequenceOf(summary.label)) this.#store.saveSummary(summary, Date.now());
  }

  async list(query: ListQuery): Promise<SandboxList | null> {
    const after = query.cursor === undefined ? null : fromCursor(query.cursor);
    if (query.cursor !== undefined && !after) return null;
    const limit = query.limit ?? limits.listMax;
    const found = this.#store?.list(query, after, limit + 1) ?? [];
    const data = found.slice(0, limit);
    const last = data.at(-1);
    return { data, nextCursor: found.length > limit && last ? toCursor(last) : null };
  }

  /** The first key of the default account comes with the installation. */
  async #takeBootstrapKey(): Promise<void> {
    const key = this.env.ROUSE_BOOTSTRAP_KEY;
    if (this.ctx.id.name !== DEFAULT_ACCOUNT || !key) return;
    const parsed = parseApiKey(key);
    if (parsed?.account !== DEFAULT_ACCOUNT) return;
    const hash = await sha256Hex(key);
    this.#store ??= AccountStore.create(this.ctx.storage);
    if (!this.#store.keys().some((row) => row.hash === hash))
      this.#store.saveBootstrapKey({ id: parsed.keyId, hash }, Date.now());
  }
}
