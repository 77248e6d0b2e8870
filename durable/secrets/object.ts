/**
 * The secrets of an account and of its sandboxes. Values are sealed before they are stored, and leave only for hosts. A
 * change is stored together with whom it is to be told to; a sandbox that has heard of it sees to its host by itself.
 */
import { DurableObject } from "cloudflare:workers";
import { labelOfId } from "../../sdk/contract/names.ts";
import {
  secretLimits,
  settingsOf,
  type DeletedSecret,
  type PutSecret,
  type Secret,
  type StoredSecret,
} from "../../sdk/contract/secret.ts";
import type { Once } from "../account/api.ts";
import { backoffMs } from "../backoff.ts";
import { equalHashes, sha256Hex } from "../hash.ts";
import { refuse, type Result } from "../result.ts";
import { sandboxObject } from "../sandbox/api.ts";
import { Sealer } from "../sealed-secret.ts";
import type { SecretsApi, Use } from "./api.ts";
import { given, isAsAsked, stored, toSecret, type Given, type Opened } from "./record.ts";
import { SecretsStore, type SecretRow } from "./store.ts";

/** A sandbox that could not be told is told again after this, milliseconds. */
const RETRY_MS = 1000;
/** Longest that an answer waits for sandboxes to hear of a change, milliseconds; they do all the same. */
const TELL_WAIT_MS = 5000;
/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;
/** Sandboxes that are told at once. */
const PARALLEL = 20;

const notFound = refuse("secret_not_found", "There is no such secret.");
const noSandbox = refuse("not_found", "There is no such sandbox.");
const otherRequest = refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");

export class SecretsObject extends DurableObject<Env> implements SecretsApi {
  readonly #store: SecretsStore;
  readonly #sealer: Sealer;
  /** Sandboxes that are being told; whether each goes by what it heard. */
  readonly #telling = new Map<string, Promise<boolean>>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new SecretsStore(ctx);
    this.#sealer = new Sealer(env.ROUSE_SECRET, "secrets");
  }

  async put(
    scope: string,
    name: string,
    { value, ...input }: PutSecret,
    once: Once,
  ): Promise<Result<{ secret: StoredSecret }>> {
    const store = this.#store;
    const settings = settingsOf(name, input);
    const sealed = await this.#sealer.sealText(this.#place(scope, name), value);
    for (;;) {
      const before = store.secret(scope, name);
      const isSame = before !== null && (await sameText(await this.#open(before), value));
      // Another put may have come in between.
      if (store.secret(scope, name)?.sealed !== before?.sealed) continue;
      const isKnown = this.#store.changes.isKnown(once);
      if (isKnown === "otherwise") return otherRequest;
      if (isKnown) return before ? this.#stored(scope, name, true) : notFound;
      if (before && isSame && isAsAsked(before.record, settings)) {
        this.#store.changes.remember(once, Date.now());
        return this.#stored(scope, name, false);
      }
      const full = before ? null : this.#full(scope);
      if (full) return full;
      const now = Date.now();
      const valueBytes = new TextEncoder().encode(value).length;
      const facts = { isNewValue: !isSame, valueBytes };
      store.open(this.ctx.id.name ?? "");
      store.transaction(() => {
        store.saveSecret(scope, stored(before?.record ?? null, name, settings, facts, now), sealed);
        this.#noteTells(scope, name, now);
        this.#store.changes.remember(once, Date.now());
      });
      return this.#stored(scope, name, false);
    }
  }

  async list(scope: string): Promise<Secret[]> {
    return this.#store.secretsOf(scope).map(shown);
  }

  async get(scope: string, name: string): Promise<Result<{ secret: Secret }>> {
    const row = this.#store.secret(scope, name);
    return row ? { ok: true, secret: shown(row) } : notFound;
  }

  async remove(scope: string, name: string, once: Once): Promise<Result<{ secret: DeletedSecret }>> {
    const store = this.#store;
    const isKnown = this.#store.changes.isKnown(once);
    if (isKnown === "otherwise") return otherRequest;
    // Under a key that was used, one that was made again since is another.
    if (!isKnown) {
      if (!store.secret(scope, name)) return notFound;
      store.transaction(() => {
        store.removeSecret(scope, name);
        this.#noteTells(scope, name, Date.now());
        this.#store.changes.remember(once, Date.now());
      });
    }
    const enforced = await this.#tellAll(scope, name);
    const gone = { name, sandboxId: scope === "" ? null : scope, deleted: true, enforced } as const;
    return { ok: true, secret: { ...gone, ...(isKnown ? { replayed: true } : {}) } };
  }

  async missing(names: readonly string[]): Promise<string[]> {
    return names.filter((name) => !this.#store.secret("", name));
  }

  async give(sandboxId: string, names: readonly string[]): Promise<Given> {
    const store = this.#store;
    if (store.account === null) return { brokered: [], env: {} };
    // Before anything is read: who is given a value hears of what becomes of it.
    if (store.usesOf(sandboxId).join() !== names.toSorted().join())
      store.transaction(() => store.setUses(sandboxId, names));
    const own = store.secretsOf(sandboxId);
    const ofAccount = names.flatMap((name) => store.secret("", name) ?? []);
    const [opened, others] = await Promise.all([this.#openAll(own), this.#openAll(ofAccount)]);
    return given(opened, others);
  }

  async used(sandboxId: string, uses: readonly Use[]): Promise<void> {
    const store = this.#store;
    const now = Date.now();
    for (const { name, lastAt } of uses) {
      const scope = store.secret(sandboxId, name) ? sandboxId : "";
      if (store.secret(scope, name)) store.used(scope, name, Math.min(lastAt, now));
    }
  }

  async purge(sandboxId: string): Promise<void> {
    this.#store.transaction(() => this.#store.forget(sandboxId));
  }

  override async alarm(): Promise<void> {
    const store = this.#store;
    if (store.account === null) return;
    await this.ctx.storage.setAlarm(Date.now() + SAFETY_MS);
    const due = store.due(Date.now());
    for (let at = 0; at < due.length; at += PARALLEL)
      await Promise.all(due.slice(at, at + PARALLEL).map((id) => this.#tell(id)));
    store.arm();
  }

  /** Whoever has it is to hear of it: noted with the change itself. */
  #noteTells(scope: string, name: string, now: number): void {
    for (const id of scope === "" ? this.#store.usersOf(name) : [scope]) this.#store.addTell(id, now);
    this.#store.arm();
  }

  /** Tell those that are to hear of it. Whether all go by it, as far as is known in time. */
  async #tellAll(scope: string, name: string): Promise<boolean> {
    const ids = (scope === "" ? this.#store.usersOf(name) : [scope]).filter((id) => this.#store.tell(id) !== null);
    const work = (async () => {
      const all: boolean[] = [];
      for (let at = 0; at < ids.length; at += PARALLEL)
        all.push(...(await Promise.all(ids.slice(at, at + PARALLEL).map((id) => this.#tell(id)))));
      return all.every(Boolean);
    })();
    this.ctx.waitUntil(work);
    const late = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => late.resolve(false), TELL_WAIT_MS);
    try {
      return await Promise.race([work, late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** One after another for each sandbox: what it heard last is what is true. Whether it goes by that. Does not throw. */
  #tell(sandboxId: string): Promise<boolean> {
    const under = this.#telling.get(sandboxId);
    if (under) return under;
    const work = this.#tellOn(sandboxId).finally(() => this.#telling.delete(sandboxId));
    this.#telling.set(sandboxId, work);
    return work;
  }

  async #tellOn(sandboxId: string): Promise<boolean> {
    const store = this.#store;
    const sandbox = sandboxObject(this.env.SANDBOX, store.account ?? "", labelOfId(sandboxId) ?? "");
    for (let applied = true; ;) {
      const tell = store.tell(sandboxId);
      if (!tell) return applied;
      try {
        const heard = await sandbox.secretsChanged(sandboxId, store.secretsOf(sandboxId).length > 0);
        if (heard === "gone") store.transaction(() => store.forget(sandboxId));
        else store.removeTell(tell);
        applied = heard !== "pending";
      } catch {
        store.putOff(tell, Date.now() + backoffMs(RETRY_MS, tell.attempts));
        return false;
      }
    }
  }

  async #stored(scope: string, name: string, replayed: boolean): Promise<Result<{ secret: StoredSecret }>> {
    const enforced = await this.#tellAll(scope, name);
    const row = this.#store.secret(scope, name);
    // It was deleted meanwhile, or its sandbox was.
    if (!row) return scope === "" ? notFound : noSandbox;
    return { ok: true, secret: { ...shown(row), enforced, ...(replayed ? { replayed } : {}) } };
  }

  #openAll(rows: readonly SecretRow[]): Promise<Opened[]> {
    return Promise.all(rows.map(async (row) => ({ record: row.record, value: await this.#open(row) })));
  }

  #open({ scope, record, sealed }: SecretRow): Promise<string> {
    return this.#sealer.openText(this.#place(scope, record.name), sealed);
  }

  /** What is sealed for one secret does not open as another. */
  #place(scope: string, name: string): string {
    return [this.ctx.id.name ?? "", scope, name].join("\n");
  }

  #full(scope: string): ReturnType<typeof refuse> | null {
    const max = scope === "" ? secretLimits.perAccount : secretLimits.perSandbox;
    if (this.#store.secretsOf(scope).length < max) return null;
    const whose = scope === "" ? "An account" : "A sandbox";
    return refuse("quota_exceeded", `${whose} has at most ${max} secrets of its own.`, { max });
  }
}

function shown({ record, scope, lastUsedAt }: SecretRow): Secret {
  return toSecret(record, scope, lastUsedAt);
}

async function sameText(a: string, b: string): Promise<boolean> {
  return equalHashes(await sha256Hex(a), await sha256Hex(b));
}
