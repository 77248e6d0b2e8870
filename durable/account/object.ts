/** The object of one account: its API keys, as hashes only, the index of its sandboxes, and its books. */
import { DurableObject } from "cloudflare:workers";
import { DEFAULT_ACCOUNT, parseApiKey } from "../../sdk/contract/account.ts";
import { defaultRates, ratesAt, RatesHistory, type Rates } from "../../sdk/contract/pricing.ts";
import { limits, type ListQuery, type SandboxList } from "../../sdk/contract/sandbox.ts";
import { fromDigits, type Usage, type UsageReport } from "../../sdk/contract/usage.ts";
import { equalHashes, sha256Hex } from "../hash.ts";
import type { AccountApi, Summary } from "./api.ts";
import { Books } from "./books.ts";
import { addedBy, lineOf, monthOf } from "./ledger.ts";
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

  async recordUsage(reports: readonly UsageReport[]): Promise<number> {
    const at = Date.now();
    this.#store ??= AccountStore.create(this.ctx.storage);
    const books = new Books(this.ctx.storage);
    const rates = ratesAt(this.#rates(), at);
    let refused = 0;
    for (const report of reports) {
      const { id: sandboxId, generation, sequence } = report;
      const total = fromDigits(report);
      const added = addedBy(books.booked(sandboxId, generation), { sequence, amounts: total });
      if (added === null) refused++;
      if (added === null || added === "nothing") continue;
      books.keepRates(sandboxId, rates, at);
      books.append({ sandboxId, generation, sequence, at, month: monthOf(at), added, total });
    }
    return refused;
  }

  async usage(month: string | undefined): Promise<Usage> {
    const which = month ?? monthOf(Date.now());
    if (!this.#store) return { month: which, lines: [], totalMicros: 0 };
    const books = new Books(this.ctx.storage);
    const lines = books
      .month(which)
      .map(({ sandboxId, amounts }) => lineOf(sandboxId, amounts, books.ratesOf(sandboxId)));
    return { month: which, lines, totalMicros: lines.reduce((sum, line) => sum + line.totalMicros, 0) };
  }

  /** Of the installation, oldest first. */
  #rates(): readonly [Rates, ...Rates[]] {
    const set = RatesHistory.parse(JSON.parse(this.env.ROUSE_RATES ?? "[]"));
    const [first = defaultRates, ...others] = set;
    return [first, ...others];
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
