/**
 * The stores that an account's agents share, and to whom each is open. What is in a store is kept by objects of its own,
 * under its id: grants are asked for with each request, so that one that is taken away is over at once.
 */
import { DurableObject } from "cloudflare:workers";
import { labelFor } from "../../sdk/contract/names.ts";
import {
  storeId,
  storeKinds,
  storeLimits,
  type Grant,
  type PutStore,
  type Store,
  type StoreKind,
} from "../../sdk/contract/store.ts";
import type { Once } from "../account/api.ts";
import { backoffMs } from "../backoff.ts";
import { memoryOfStore } from "../memory/api.ts";
import { refuse, type Result } from "../result.ts";
import { databaseObject, stateObject } from "../state/api.ts";
import { iso } from "../time.ts";
import type { OpenStore, StoresApi } from "./api.ts";
import { StoresStore, type GrantRow, type StoreRow } from "./store.ts";

/** What a store held is removed by its alarm, should it not be by then, milliseconds. */
const FIRST_TRY_MS = 5000;
const EVERYBODY = "*";

type Shown = Result<{ store: Store }>;

const notFound = refuse("store_not_found", "There is no such store.");
const closed = refuse("forbidden", "No store of that name is open to this sandbox.");

export class StoresObject extends DurableObject<Env> implements StoresApi {
  readonly #store: StoresStore;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new StoresStore(ctx);
  }

  async put(name: string, input: PutStore): Promise<Shown> {
    const store = this.#store;
    const grants = input.grants && (await Promise.all(input.grants.map(grantRow)));
    const id = await storeId(name);
    const before = store.named(name);
    const kinds = input.kinds ?? before?.kinds ?? storeKinds;
    const lost = before?.kinds.filter((kind) => !kinds.includes(kind)) ?? [];
    if (lost.length > 0)
      return refuse("conflict", "A store keeps the kinds that it has: delete it, or name them all.", {
        kinds: before?.kinds,
      });
    if (!before && store.all().length >= storeLimits.perAccount)
      return refuse("quota_exceeded", `An account has at most ${storeLimits.perAccount} stores.`, {
        limit: storeLimits.perAccount,
      });
    const now = Date.now();
    const row = { ...(before ?? { id, name, createdAt: now }), kinds: storeKinds.filter((k) => kinds.includes(k)) };
    store.open();
    store.transaction(() => {
      store.save({ ...row, updatedAt: now });
      if (!grants) return;
      store.removeGrants(row.id, null);
      for (const grant of grants) store.saveGrant(row.id, grant);
    });
    return this.get(name);
  }

  async list(label: string | null): Promise<Store[]> {
    const all = this.#store.all();
    if (label === null) return all.map((row) => this.#shown(row));
    const open = all.filter(({ id }) => this.#store.grantsFor(id, label).length > 0);
    return open.map((row) => ({ ...this.#shown(row), grants: this.#store.grantsFor(row.id, label) }));
  }

  async get(name: string): Promise<Shown> {
    const row = this.#store.named(name);
    return row ? { ok: true, store: this.#shown(row) } : notFound;
  }

  async grant(name: string, grant: Grant): Promise<Shown> {
    const wanted = await grantRow(grant);
    const row = this.#store.named(name);
    if (!row) return notFound;
    const isNew = !this.#store.grants(row.id).some(({ agent }) => agent === grant.agent);
    if (isNew && this.#store.countGrants(row.id) >= storeLimits.grantsMax)
      return refuse("quota_exceeded", `A store has at most ${storeLimits.grantsMax} grants.`, {
        limit: storeLimits.grantsMax,
      });
    this.#store.transaction(() => {
      this.#store.saveGrant(row.id, wanted);
      this.#store.save({ ...row, updatedAt: Date.now() });
    });
    return this.get(name);
  }

  async revoke(name: string, agent: string): Promise<Shown> {
    const { label } = await grantRow({ agent, access: "read" });
    const row = this.#store.named(name);
    if (!row) return notFound;
    this.#store.transaction(() => {
      this.#store.removeGrants(row.id, label);
      this.#store.save({ ...row, updatedAt: Date.now() });
    });
    return this.get(name);
  }

  async remove(name: string, once: Once): Promise<Result<{ replayed: boolean }>> {
    const store = this.#store;
    const now = Date.now();
    const known = store.changes.isKnown(once);
    if (known === "otherwise")
      return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");
    // Under a key that was used, one that was made again since is another.
    if (known) return { ok: true, replayed: true };
    const row = store.named(name);
    if (!row) return notFound;
    store.transaction(() => {
      store.leave(row.id, now + FIRST_TRY_MS);
      store.changes.remember(once, now);
    });
    await this.#empty(row.id);
    return { ok: true, replayed: false };
  }

  async open(name: string, kind: StoreKind, label: string | null): Promise<Result<OpenStore>> {
    const row = this.#store.named(name);
    if (!row) return label === null ? notFound : closed;
    const grants = label === null ? null : this.#store.grantsFor(row.id, label);
    if (grants?.length === 0) return closed;
    if (!row.kinds.includes(kind))
      return refuse("store_not_found", `The store ${name} has no ${kind}.`, { kinds: row.kinds });
    return {
      ok: true,
      storeId: row.id,
      access: !grants || grants.some(({ access }) => access === "write") ? "write" : "read",
    };
  }

  override async alarm(): Promise<void> {
    const now = Date.now();
    for (const row of this.#store.leaving(now)) {
      const attempts = row.attempts + 1;
      this.#store.saveLeaving({ ...row, attempts, dueAt: now + backoffMs(FIRST_TRY_MS, attempts) });
      await this.#empty(row.id);
    }
  }

  /** What a store that is deleted held goes. What fails is done again by the alarm. */
  async #empty(id: string): Promise<void> {
    const account = this.ctx.id.name ?? "";
    try {
      await memoryOfStore(this.env.MEMORY, account, id).purge();
      await databaseObject(this.env.DATABASE, account, `store:${id}`).purge();
      await stateObject(this.env.STATE, account, `store:${id}`).purge();
      this.#store.left(id);
    } catch (fault) {
      console.error(JSON.stringify({ level: "error", what: "store that is deleted", store: id, fault: String(fault) }));
    }
  }

  #shown({ id, name, kinds, createdAt, updatedAt }: StoreRow): Store {
    const grants = this.#store.grants(id);
    return {
      ...{ kind: "store", id, name, kinds: [...kinds], grants },
      ...{ createdAt: iso(createdAt), updatedAt: iso(updatedAt) },
    };
  }
}

async function grantRow(grant: Grant): Promise<GrantRow> {
  return { ...grant, label: grant.agent === EVERYBODY ? EVERYBODY : await labelFor(grant.agent) };
}
