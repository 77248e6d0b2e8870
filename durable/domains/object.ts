/** The object of one host name: who claims it, and who has it. All claims, of all accounts, meet here and nowhere else. */
import { DurableObject } from "cloudflare:workers";
import type { Domain, DomainPointing } from "../../sdk/contract/domain.ts";
import { iso } from "../time.ts";
import type { DomainApi, DomainTarget } from "./api.ts";
import { lookUp } from "./dns-lookup.ts";
import {
  challengeName,
  newToken,
  pointersOf,
  toDomain,
  tokensIn,
  type Claimant,
  type ClaimRecord,
  type Place,
} from "./record.ts";
import { judged, newClaim, pointsHere, reopened, type Seen } from "./rules.ts";
import { DomainStore } from "./store.ts";

/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;
/** Texts of one name that are read. */
const TEXTS_MAX = 64;

export class DomainObject extends DurableObject<Env> implements DomainApi {
  readonly #store: DomainStore;
  readonly #place: Place;
  /** A look that is under way serves all who ask meanwhile. */
  #looking: Promise<Seen> | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new DomainStore(ctx);
    this.#place = { scheme: env.ROUSE_SCHEME, domain: env.ROUSE_DOMAIN, target: env.ROUSE_DOMAIN_TARGET };
  }

  async claim(claimant: Claimant): Promise<Domain> {
    const known = this.#store.claimOf(claimant.account, claimant.sandboxId);
    if (known?.id === claimant.id) return this.#shown(known);
    // One that its sandbox gave up, and that was not heard of here.
    if (known) await this.#store.remove(known.id);
    const claim = newClaim(this.ctx.id.name ?? "", claimant, newToken(), Date.now());
    this.#store.add(claim);
    return this.#shown(claim);
  }

  async get(id: string): Promise<Domain | null> {
    const claim = this.#store.claim(id);
    return claim && this.#shown(claim);
  }

  async setPort(id: string, port: number): Promise<Domain | null> {
    const claim = this.#store.claim(id);
    if (!claim) return null;
    this.#store.save([{ ...claim, port }]);
    return this.get(id);
  }

  async verify(id: string): Promise<Domain | null> {
    const claim = this.#store.claim(id);
    if (!claim) return null;
    const [seen, pointing] = await Promise.all([this.#look(claim.hostname), this.#pointing(claim)]);
    const now = Date.now();
    const asked = this.#store.claim(id);
    if (!asked) return null;
    this.#store.save([{ ...reopened(asked, now), pointing }]);
    this.#judge(seen, id, now);
    return this.get(id);
  }

  async release(id: string): Promise<void> {
    await this.#store.remove(id);
  }

  async target(): Promise<DomainTarget | null> {
    const holder = this.#store.holder();
    if (!holder) return null;
    const { account, label, sandboxId, port } = holder;
    return { account, label, sandboxId, port };
  }

  override async alarm(): Promise<void> {
    const now = Date.now();
    const [first] = this.#store.due(now);
    if (!first) return this.#store.arm();
    await this.ctx.storage.setAlarm(now + SAFETY_MS);
    this.#judge(await this.#look(first.hostname), null, Date.now());
  }

  /** What was stored meanwhile counts, not what was there before the look. */
  #judge(seen: Seen, asked: string | null, now: number): void {
    const store = this.#store;
    const about = [
      ...[store.holder(), asked === null ? null : store.claim(asked)].filter((claim) => claim !== null),
      ...store.due(now),
      ...store.withTokens(seen ?? []),
    ];
    const claims = [...new Map(about.map((claim) => [claim.id, claim])).values()];
    store.save(judged(claims, seen, asked, now));
  }

  async #look(hostname: string): Promise<Seen> {
    this.#looking ??= lookUp(this.env, challengeName(hostname), "TXT")
      .then((answer) => (answer.ok ? tokensIn(answer.values.slice(0, TEXTS_MAX)) : null))
      .finally(() => {
        this.#looking = null;
      });
    return this.#looking;
  }

  /** Where the name leads now. */
  async #pointing(claim: ClaimRecord): Promise<DomainPointing> {
    const targets = pointersOf(claim, this.#place);
    const names = targets.flatMap(({ type, value }) => (type === "CNAME" ? [value] : []));
    const set = targets.flatMap(({ type, value }) => (type === "CNAME" ? [] : [value]));
    const [of, to] = await Promise.all([
      this.#addresses(claim.hostname),
      Promise.all(names.map((name) => this.#addresses(name))),
    ]);
    const addresses = [...set, ...to.flatMap((one) => one?.addresses ?? [])];
    return {
      cnames: [...(of?.cnames ?? [])],
      addresses: [...(of?.addresses ?? [])],
      pointsHere: pointsHere(of, { names, addresses }),
      checkedAt: iso(Date.now()),
    };
  }

  /** null: the resolver gave no answer. */
  async #addresses(name: string): Promise<{ cnames: readonly string[]; addresses: string[] } | null> {
    const [four, six] = await Promise.all([lookUp(this.env, name, "A"), lookUp(this.env, name, "AAAA")]);
    if (!four.ok || !six.ok) return null;
    return { cnames: four.cnames.length > 0 ? four.cnames : six.cnames, addresses: [...four.values, ...six.values] };
  }

  #shown(claim: ClaimRecord): Domain {
    return toDomain(claim, this.#place);
  }
}
