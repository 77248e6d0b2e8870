/**
 * Which domains the sandboxes of an account are to have. A claim is stored here first, then made with the host name's
 * object, then stored as made; giving one up goes the same way. So whatever breaks off is done again, and nothing is left.
 */
import { DurableObject } from "cloudflare:workers";
import {
  domainId,
  domainLimits,
  type CreateDomain,
  type DeletedDomain,
  type Domain,
} from "../../sdk/contract/domain.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import type { Once } from "../account/api.ts";
import { backoffMs } from "../backoff.ts";
import { domainObject, type DomainApi } from "../domains/api.ts";
import { refuse, type Result } from "../result.ts";
import { sandboxObject } from "../sandbox/api.ts";
import type { ClaimsApi } from "./api.ts";
import { ClaimsStore, type ClaimRow } from "./store.ts";

/** A step that was begun is looked after so soon, milliseconds. */
const FIRST_TRY_MS = 10_000;

const notFound = refuse("domain_not_found", "The sandbox has no such domain.");
const otherRequest = refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");

type Shown = Result<{ domain: Domain }>;

export class ClaimsObject extends DurableObject<Env> implements ClaimsApi {
  readonly #store: ClaimsStore;
  /** Steps with host names' objects, one after another for each host name: what was begun first is told first. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new ClaimsStore(ctx);
  }

  async create(sandboxId: string, input: CreateDomain, once: Once): Promise<Shown> {
    const { domain: hostname, port } = input;
    const id = await domainId();
    const isKnown = this.#store.changes.isKnown(once);
    if (isKnown === "otherwise") return otherRequest;
    this.#store.open(this.ctx.id.name ?? "");
    const releasing = this.#store.claim(sandboxId, hostname);
    if (releasing?.state === "releasing") await this.#release(releasing);
    const existing = this.#store.claim(sandboxId, hostname);
    if (isKnown && !existing) return notFound;
    const fault = existing ? null : this.#full(sandboxId);
    if (fault) return fault;
    const now = Date.now();
    const row = existing ?? {
      ...{ id, sandboxId, hostname, port: port ?? defaults.port, state: "claiming", createdAt: now, attempts: 0 },
      dueAt: now + FIRST_TRY_MS,
    };
    this.#store.transaction(() => {
      if (!existing) this.#store.save(row);
      this.#store.changes.remember(once, now);
    });
    const domain = existing?.state === "claimed" ? await this.#of(row).get(row.id) : await this.#claim(row);
    if (!domain) return notFound;
    if (existing && port !== undefined && domain.port !== port)
      return refuse("conflict", "The sandbox has that domain, with another port; change it with :update.", {
        port: domain.port,
      });
    return { ok: true, domain: isKnown ? { ...domain, replayed: true } : domain };
  }

  async list(sandboxId: string): Promise<Domain[]> {
    const rows = this.#store.claimsOf(sandboxId).filter(({ state }) => state !== "releasing");
    const domains = await Promise.all(rows.map((row) => this.#of(row).get(row.id)));
    return domains.filter((domain) => domain !== null);
  }

  async get(sandboxId: string, hostname: string): Promise<Shown> {
    return this.#with(sandboxId, hostname, (row) => this.#of(row).get(row.id));
  }

  async setPort(sandboxId: string, hostname: string, port: number): Promise<Shown> {
    return this.#with(sandboxId, hostname, (row) => this.#of(row).setPort(row.id, port));
  }

  async verify(sandboxId: string, hostname: string): Promise<Shown> {
    return this.#with(sandboxId, hostname, (row) => this.#of(row).verify(row.id));
  }

  async remove(sandboxId: string, hostname: string, once: Once): Promise<Result<{ domain: DeletedDomain }>> {
    const isKnown = this.#store.changes.isKnown(once);
    if (isKnown === "otherwise") return otherRequest;
    const row = this.#store.claim(sandboxId, hostname);
    if (!row && !isKnown) return notFound;
    // Under a key that was used, one that was made again since is another.
    if (row && (!isKnown || row.state === "releasing")) {
      this.#store.transaction(() => {
        this.#give(row);
        this.#store.changes.remember(once, Date.now());
      });
      await this.#release(row);
    }
    return { ok: true, domain: { sandboxId, domain: hostname, deleted: true, ...(isKnown ? { replayed: true } : {}) } };
  }

  async purge(sandboxId: string): Promise<void> {
    const rows = this.#store.claimsOf(sandboxId);
    this.#store.transaction(() => {
      for (const row of rows) this.#give(row);
    });
    await Promise.all(rows.map((row) => this.#release(row)));
  }

  override async alarm(): Promise<void> {
    const now = Date.now();
    // Those that fail are due again later.
    const due = this.#store.due(now);
    for (const row of due) {
      const attempts = row.attempts + 1;
      this.#store.save({ ...row, attempts, dueAt: now + backoffMs(FIRST_TRY_MS, attempts) });
    }
    await Promise.allSettled(due.map((row) => (row.state === "releasing" ? this.#release(row) : this.#claim(row))));
    this.#store.arm();
  }

  async #with(sandboxId: string, hostname: string, act: (row: ClaimRow) => Promise<Domain | null>): Promise<Shown> {
    const row = this.#store.claim(sandboxId, hostname);
    const domain = row && row.state !== "releasing" ? await act(row) : null;
    return domain ? { ok: true, domain } : notFound;
  }

  /** Tell the host name's object, unless the claim is given up by now. null: it is, or its sandbox is gone. */
  async #claim({ id, sandboxId, hostname, port }: ClaimRow): Promise<Domain | null> {
    const label = labelOfId(sandboxId) ?? "";
    const account = this.#store.account ?? "";
    const isMeant = () => {
      const row = this.#store.claim(sandboxId, hostname);
      return row?.id === id && row.state !== "releasing" ? row : null;
    };
    return this.#inTurn(hostname, async () => {
      if (!isMeant()) return null;
      const domain = await this.#of({ hostname }).claim({ id, account, label, sandboxId, port });
      // Whoever deleted the sandbox may have been here before the claim was.
      const sandbox = await sandboxObject(this.env.SANDBOX, account, label).get({ id: sandboxId });
      const row = isMeant();
      if (!row) return null;
      if (sandbox.ok) {
        this.#store.save({ ...row, state: "claimed", attempts: 0, dueAt: null });
        return domain;
      }
      this.#give(row);
      await this.#told(row);
      return null;
    });
  }

  /** What is given up is stored as that before anybody is told. */
  #give(row: ClaimRow): void {
    this.#store.save({ ...row, state: "releasing", dueAt: Date.now() + FIRST_TRY_MS });
  }

  #release(row: ClaimRow): Promise<void> {
    return this.#inTurn(row.hostname, () => this.#told(row));
  }

  async #told({ id, hostname }: ClaimRow): Promise<void> {
    await this.#of({ hostname }).release(id);
    this.#store.remove(id);
  }

  #of({ hostname }: Pick<ClaimRow, "hostname">): DomainApi {
    return domainObject(this.env.DOMAINS, hostname);
  }

  async #inTurn<T>(hostname: string, step: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(hostname) ?? Promise.resolve();
    const own = before.catch(() => undefined).then(step);
    this.#turns.set(hostname, own);
    try {
      return await own;
    } finally {
      if (this.#turns.get(hostname) === own) this.#turns.delete(hostname);
    }
  }

  #full(sandboxId: string): ReturnType<typeof refuse> | null {
    const { perSandbox, perAccount } = domainLimits;
    if (this.#store.claimsOf(sandboxId).length >= perSandbox)
      return refuse("quota_exceeded", `A sandbox has at most ${perSandbox} domains.`, { max: perSandbox });
    if (this.#store.count() >= perAccount)
      return refuse("quota_exceeded", `An account has at most ${perAccount} domains.`, { max: perAccount });
    return null;
  }
}
