/** Hooks themselves: made, changed, their secrets replaced, deleted. Secrets are stored sealed. */
import {
  hookLimits,
  ownSecretProviders,
  secretFault,
  type CreateHook,
  type DeletedHook,
  type Hook,
  type HookProvider,
  type NewHook,
  type RotateHook,
  type UpdateHook,
} from "../../sdk/contract/hook.ts";
import { hookId } from "../../sdk/contract/names.ts";
import { toBase64Url } from "../../sdk/contract/ticket.ts";
import type { Once } from "../account/api.ts";
import { previousOf, secretsOf } from "../replaced-secret.ts";
import { refuse, type Result } from "../result.ts";
import { replayed } from "../sandbox/api.ts";
import { Sealer } from "../sealed-secret.ts";
import { newStandardSecret } from "../standard-webhooks.ts";
import type { Door } from "./api.ts";
import { DAY_MS, newHook, toHook, updatedHook, type HookRecord } from "./record.ts";
import type { InboxStore } from "./store.ts";
import { newHookToken } from "./token.ts";

/** How long changes with an Idempotency-Key are remembered, milliseconds. */
const CHANGES_KEPT_MS = DAY_MS;

/** What is shown in one answer only. */
type Shown = Pick<NewHook, "url" | "secret" | "deliverySecret">;
const nothingShown: Shown = { url: null, secret: null, deliverySecret: null };

type Refusal = ReturnType<typeof refuse>;
export const hookNotFound = refuse("hook_not_found", "There is no such hook.");

export class Hooks {
  readonly #store: InboxStore;
  readonly #sealer: Sealer;

  constructor(store: InboxStore, env: Env) {
    this.#store = store;
    this.#sealer = new Sealer(env.ROUSE_SECRET, "inbox-secrets");
  }

  /** The inbox is open. */
  async create(input: CreateHook, origin: string, once: Once): Promise<Result<{ hook: NewHook }>> {
    const { whose } = this.#store;
    if (!whose) return hookNotFound;
    const known = await this.#known(once);
    if (known) return known.ok ? this.#again(known.hookId, known.shown) : known;
    const id = await hookId(whose.sandboxId, once.key);
    const made = input.secret === undefined ? madeSecret(input.provider) : null;
    const secret = input.secret ?? made;
    const deliverySecret = newStandardSecret();
    const { token, hash } = await newHookToken(whose.account, whose.label);
    const shown = { url: `${origin}/hooks/${token}`, secret: made, deliverySecret };
    const [sealedSecret, sealedDelivery, sealedShown] = await Promise.all([
      secret === null ? null : this.#sealer.sealText(id, secret),
      this.#sealer.sealText(id, deliverySecret),
      this.#sealShown(id, shown),
    ]);
    const now = Date.now();
    // Nothing comes between here and the end: of two calls at once the second finds what the first has made.
    if (this.#store.whose?.sandboxId !== whose.sandboxId) return hookNotFound;
    if (once.key !== null && this.#store.change(once.key, now - CHANGES_KEPT_MS))
      return this.create(input, origin, once);
    // Made under the key so long ago that what was shown then is forgotten.
    if (this.#store.hook(id)) return this.#again(id, null);
    const full = this.#store.hooks().length >= hookLimits.perSandbox;
    if (full) return quotaExceeded;
    if (this.#store.hookCalled(input.name)) return nameTaken(input.name);
    const record = newHook(id, input, { secret: sealedSecret, deliverySecret: sealedDelivery }, now);
    this.#store.transaction(() => {
      this.#store.addHook(record, hash);
      this.#remember(once, id, sealedShown, now);
    });
    return { ok: true, hook: { ...this.shown(record), ...shown } };
  }

  async update(called: string, input: UpdateHook, once: Once): Promise<Result<{ hook: Hook }>> {
    const known = await this.#known(once);
    if (known) return known.ok ? this.#now(known.hookId) : known;
    const record = this.#store.hookCalled(called);
    if (!record) return hookNotFound;
    const holder = input.name === undefined ? null : this.#store.hookCalled(input.name);
    if (holder && holder.id !== record.id) return nameTaken(holder.name);
    const changed = updatedHook(record, input, Date.now());
    this.#store.saveHook(changed);
    this.#remember(once, record.id, null, Date.now());
    return { ok: true, hook: this.shown(changed) };
  }

  async rotate(called: string, input: RotateHook, origin: string, once: Once): Promise<Result<{ hook: NewHook }>> {
    const known = await this.#known(once);
    if (known) return known.ok ? this.#again(known.hookId, known.shown) : known;
    const found = this.#store.hookCalled(called);
    const { whose } = this.#store;
    if (!found || !whose) return hookNotFound;
    const { id, provider } = found;
    const what = input.what ?? "secret";
    const overlap = input.overlapSeconds ?? hookLimits.overlapSecondsDefault;
    if (what === "secret") {
      const fault = this.#rotateFault(provider, input.secret);
      if (fault !== null) return badSecret(fault);
    }
    const made = what === "secret" && input.secret === undefined ? madeSecret(provider) : null;
    const fresh = what === "deliverySecret" ? newStandardSecret() : (input.secret ?? made ?? "");
    const { token, hash } = await newHookToken(whose.account, whose.label);
    const shown: Shown = {
      url: what === "url" ? `${origin}/hooks/${token}` : null,
      secret: made,
      deliverySecret: what === "deliverySecret" ? fresh : null,
    };
    const [sealed, sealedShown] = await Promise.all([this.#sealer.sealText(id, fresh), this.#sealShown(id, shown)]);
    const now = Date.now();
    // As it is now: another change may have come between.
    const record = this.#store.hook(id);
    if (!record) return hookNotFound;
    if (once.key !== null && this.#store.change(once.key, now - CHANGES_KEPT_MS))
      return this.rotate(called, input, origin, once);
    const changed: HookRecord =
      what === "secret"
        ? { ...record, secret: sealed, previousSecret: previousOf(record.secret, overlap, now) }
        : what === "deliverySecret"
          ? {
              ...{ ...record, deliverySecret: sealed },
              previousDeliverySecret: previousOf(record.deliverySecret, overlap, now),
            }
          : record;
    this.#store.transaction(() => {
      this.#store.saveHook(changed);
      if (what === "url") this.#store.setToken(id, hash);
      this.#remember(once, id, sealedShown, now);
    });
    return { ok: true, hook: { ...this.shown(changed), ...shown } };
  }

  async remove(called: string, once: Once): Promise<Result<{ hook: DeletedHook }>> {
    const sandboxId = this.#store.whose?.sandboxId ?? "";
    const known = await this.#known(once);
    if (known) {
      if (!known.ok) return known;
      return { ok: true, hook: { id: known.hookId, sandboxId, deleted: true, replayed: true } };
    }
    const record = this.#store.hookCalled(called);
    if (!record) return hookNotFound;
    this.#store.transaction(() => {
      this.#store.removeHook(record.id);
      this.#remember(once, record.id, null, Date.now());
    });
    return { ok: true, hook: { id: record.id, sandboxId, deleted: true } };
  }

  async door(tokenHash: string): Promise<Door | null> {
    const record = this.#store.hookOfToken(tokenHash);
    if (!record) return null;
    const { id, provider, mode, filters, maxBytes, enabled } = record;
    const secrets = await this.#opened(id, secretsOf(record.secret, record.previousSecret, Date.now()));
    return { hookId: id, provider, mode, filters, maxBytes, enabled, secrets };
  }

  /** What deliveries of a hook are signed with. */
  deliverySecrets(record: HookRecord): Promise<string[]> {
    return this.#opened(record.id, secretsOf(record.deliverySecret, record.previousDeliverySecret, Date.now()));
  }

  shown(record: HookRecord): Hook {
    const counts = {
      waiting: this.#store.countOf(record.id, "waiting"),
      dead: this.#store.countOf(record.id, "dead"),
    };
    return toHook(record, this.#store.whose?.sandboxId ?? "", counts, Date.now());
  }

  #opened(id: string, sealed: readonly string[]): Promise<string[]> {
    return Promise.all(sealed.map((one) => this.#sealer.openText(id, one)));
  }

  #rotateFault(provider: HookProvider, secret: string | undefined): string | null {
    if (secret !== undefined) return secretFault(provider, secret);
    if (provider === "none") return "none: it has no secret";
    return ownSecretProviders.includes(provider) ? null : `${provider} gives it to you`;
  }

  /** What the first call of an Idempotency-Key changed, or that it was another call. */
  async #known({
    key,
    fingerprint,
  }: Once): Promise<{ ok: true; hookId: string; shown: string | null } | Refusal | null> {
    const known = key === null ? null : this.#store.change(key, Date.now() - CHANGES_KEPT_MS);
    if (!known) return null;
    if (known.fingerprint !== fingerprint)
      return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");
    return { ok: true, hookId: known.hookId, shown: known.shown };
  }

  #remember({ key, fingerprint }: Once, id: string, shown: string | null, now: number): void {
    if (key !== null) this.#store.saveChange(key, fingerprint, id, shown, now, CHANGES_KEPT_MS);
  }

  #sealShown(id: string, shown: Shown): Promise<string> {
    return this.#sealer.sealText(`${id} shown`, JSON.stringify(shown));
  }

  async #again(id: string, sealed: string | null): Promise<Result<{ hook: NewHook }>> {
    const shown =
      sealed === null ? nothingShown : (JSON.parse(await this.#sealer.openText(`${id} shown`, sealed)) as Shown);
    const now = this.#now(id);
    return now.ok ? { ok: true, hook: { ...now.hook, ...shown } } : now;
  }

  #now(id: string): Result<{ hook: Hook }> {
    const record = this.#store.hook(id);
    return record ? replayed({ ok: true, hook: this.shown(record) }) : hookNotFound;
  }
}

/** Of the form that the provider wants, where the receiver chooses. */
function madeSecret(provider: HookProvider): string | null {
  if (provider === "none") return null;
  return provider === "standard" ? newStandardSecret() : toBase64Url(crypto.getRandomValues(new Uint8Array(32)));
}

const quotaExceeded = refuse("quota_exceeded", `A sandbox has at most ${hookLimits.perSandbox} hooks.`, {
  max: hookLimits.perSandbox,
});

function nameTaken(name: string): Refusal {
  return refuse("name_taken", "The sandbox has a hook of that name.", { name });
}

function badSecret(message: string): Refusal {
  return refuse("invalid_request", `The secret is not valid: ${message}`, { issues: [{ path: "secret", message }] });
}
