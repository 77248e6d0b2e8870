/** The object of one account: its keys and members, the index of its sandboxes, its quotas and its books. */
import { DurableObject } from "cloudflare:workers";
import { iso, isoOrNull } from "../time.ts";
import {
  accessOfRole,
  DEFAULT_ACCOUNT,
  Member as MemberSchema,
  parseApiKey,
  type Account,
  type AddCredit,
  type CreateAccount,
  type CreateKey,
  type CreateMember,
  type Key,
  type Member,
  type NewAccount,
  type NewKey,
  type Notice,
  type UpdateAccount,
} from "../../sdk/contract/account.ts";
import { defaults, limits, type ListQuery, type SandboxChanges, type SandboxList } from "../../sdk/contract/sandbox.ts";
import type { CreateSession, Session } from "../../sdk/contract/session.ts";
import type { Usage, UsageQuery, UsageReport } from "../../sdk/contract/usage.ts";
import { sha256Hex } from "../hash.ts";
import { refuse, type Result } from "../result.ts";
import { sandboxObject } from "../sandbox/api.ts";
import { snapshotsObject } from "../snapshots/api.ts";
import type { AccountApi, KeyVerdict, Once, Reach, RunAsk, KeptReport, Summary } from "./api.ts";
import { Changes } from "./changes.ts";
import { fromCursor, toCursor } from "./cursor.ts";
import { isPrepaid, microsOf, UNPAID_KEPT_MS } from "./funds.ts";
import { excess, isLive, plainKey, toKey, type StoredKey } from "./key.ts";
import { dayOf } from "./ledger.ts";
import { AccountEvents } from "./events.ts";
import { noticesOf } from "./notices.ts";
import { OnceOnly } from "./once.ts";
import { newProfile, updated, type Profile } from "./profile.ts";
import type { StoredSession } from "./sessions.ts";
import { AccountStore } from "./store.ts";
import { grantOf, type MadeSession } from "./tokens.ts";
import { isLimited, Treasury } from "./treasury.ts";

/** How often existence is counted and credit looked at, milliseconds. */
const SETTLE_MS = 3_600_000;
/** How long single entries of the books are kept, milliseconds; their lines stay. */
const ENTRIES_KEPT_MS = 62 * 86_400_000;
/** A run that was told to end and did not is told again after this, milliseconds. */
const CUT_RETRY_MS = 5000;
/** Events that the outbox did not take are handed on again after this, milliseconds. */
const EVENTS_RETRY_MS = 30_000;
/** Days that a paused state is kept on a trial. */
const TRIAL_RETENTION_DAYS = 7;

export class AccountObject extends DurableObject<Env> implements AccountApi {
  #store: AccountStore | null;
  #money: Treasury | undefined;
  readonly #events: AccountEvents;
  readonly #once: OnceOnly;
  readonly #changes = new Changes();
  #bootstrap: Promise<void> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = AccountStore.existing(ctx.storage);
    this.#events = new AccountEvents(ctx, env);
    this.#once = new OnceOnly(ctx, env.ROUSE_SECRET);
  }

  override async alarm(): Promise<void> {
    const store = this.#store;
    const profile = store?.profiles.get(this.#name);
    if (!store || !profile) return;
    const now = Date.now();
    // Armed first: what fails below is tried again.
    await this.ctx.storage.setAlarm(now + SETTLE_MS);
    this.#treasury(store).settle(profile, now);
    store.books.forget(now - ENTRIES_KEPT_MS);
    await this.#enforce(new Set());
  }

  async verifyKey(hash: string): Promise<KeyVerdict | null> {
    this.#bootstrap ??= this.#takeBootstrapKey();
    await this.#bootstrap;
    const store = this.#store;
    const profile = store?.profiles.get(this.#name);
    const now = Date.now();
    const session = store?.sessions.byHash(hash, now) ?? null;
    const token = session ? null : (store?.tokens.byHash(hash, now) ?? null);
    const behind = session ?? token;
    const key = behind ? store?.keyring.get(behind.keyId) : store?.keyring.byHash(hash);
    if (!store || !profile || !key || !isLive(key, now)) return null;
    return {
      keyId: key.id,
      keyName: key.name,
      access: session ? session.access : key.access,
      namePrefix: key.namePrefix,
      expiresAt: behind ? Math.min(behind.expiresAt, key.expiresAt ?? Infinity) : key.expiresAt,
      session: token && grantOf(token),
      governed: this.#isGoverned(store, profile),
      plan: profile.plan,
      retentionDays: profile.plan === "trial" ? TRIAL_RETENTION_DAYS : defaults.retentionDays,
    };
  }

  async applySummary(summary: Summary): Promise<{ governed: boolean; listensSince: number | null }> {
    const store = this.#open();
    const profile = this.#profile(store);
    const now = Date.now();
    if (summary.sequence > store.sequenceOf(summary.label)) {
      const before = store.get(summary.label);
      this.ctx.storage.transactionSync(() => {
        store.saveSummary(summary, now);
        const from = { keyId: summary.createdBy, hostId: summary.hostId };
        this.#treasury(store).note(summary.label, summary.sandbox, before, from, profile, now);
      });
      this.#changes.noted();
      if (profile.plan === "flat") await this.#arm(now + SETTLE_MS);
    }
    return { governed: this.#isGoverned(store, profile), listensSince: this.#events.listensSince() };
  }

  async setListening(on: boolean): Promise<void> {
    this.#open();
    this.#events.setListening(on, Date.now());
  }

  async admitRun(ask: RunAsk): Promise<Result<object>> {
    const store = this.#open();
    const failure = this.#treasury(store).admit(ask, this.#profile(store), Date.now());
    return failure ? { ok: false, failure } : { ok: true };
  }

  async list(query: ListQuery, namePrefix: string | null): Promise<SandboxList | null> {
    const after = query.cursor === undefined ? null : fromCursor(query.cursor);
    if (query.cursor !== undefined && !after) return null;
    const limit = query.limit ?? limits.listMax;
    const found = this.#store?.list(query, namePrefix, after, limit + 1) ?? [];
    const data = found.slice(0, limit).map((sandbox) => ({
      ...sandbox,
      chargedMicros: this.#store?.purse.cost(sandbox.id)?.micros ?? 0,
    }));
    const last = data.at(-1);
    return { data, nextCursor: found.length > limit && last ? toCursor(last) : null };
  }

  async idWith(suffix: string): Promise<string | null> {
    return this.#store?.idWith(suffix) ?? null;
  }

  changes(after: number | null, namePrefix: string | null, waitMs: number): Promise<SandboxChanges> {
    return this.#changes.after(this.#open(), after, namePrefix, waitMs);
  }

  async openSession(session: StoredSession): Promise<boolean> {
    const { sessions, keyring } = this.#open();
    return sessions.open(session, keyring.get(session.keyId), Date.now());
  }

  async endSession(hash: string): Promise<void> {
    this.#store?.sessions.end(hash);
  }

  async createToken(
    sandboxId: string,
    input: CreateSession,
    keyId: string,
    once: Once,
  ): Promise<Result<{ session: MadeSession }>> {
    return this.#change<{ session: MadeSession }>(once, async ({ keyring, tokens }) =>
      tokens.make(sandboxId, input, keyring.get(keyId), await this.#once.newToken(once)),
    );
  }

  async listTokens(sandboxId: string): Promise<Session[]> {
    return this.#open().tokens.of(sandboxId, Date.now());
  }

  async revokeToken(sandboxId: string, id: string): Promise<Result<{ session: Session; reach: Reach }>> {
    const store = this.#open();
    const session = store.tokens.revoke(sandboxId, id, Date.now());
    if (!session) return refuse("session_not_found", "There is no such session.");
    return { ok: true, session, reach: reachOf(store, [id]) };
  }

  async chargedMicros(sandboxId: string): Promise<number> {
    return this.#store?.purse.cost(sandboxId)?.micros ?? 0;
  }

  async recordUsage(reports: readonly UsageReport[], hostId: string): Promise<number> {
    const store = this.#open();
    const refused = this.#treasury(store).book(reports, hostId, this.#profile(store), Date.now());
    await this.#enforce(new Set(reports.map(({ id }) => id)));
    await this.#arm(Date.now() + ENTRIES_KEPT_MS);
    return refused;
  }

  async recordKept(reports: readonly KeptReport[]): Promise<void> {
    const store = this.#open();
    this.#treasury(store).bookKept(reports, this.#profile(store), Date.now());
    await this.#enforce(new Set());
    await this.#arm(Date.now() + ENTRIES_KEPT_MS);
  }

  async usage(query: UsageQuery): Promise<Usage> {
    const store = this.#open();
    return this.#treasury(store).usage(query, this.#profile(store), Date.now());
  }

  async account(): Promise<Account | null> {
    const profile = this.#store?.profiles.get(this.#name);
    return this.#store && profile ? this.#shown(this.#store, profile) : null;
  }

  async open(input: CreateAccount, once: Once): Promise<Result<{ account: NewAccount }>> {
    const store = this.#open();
    return this.#once.run<{ account: NewAccount }>(store, once, async () => {
      if (store.profiles.get(this.#name)) return refuse("name_taken", `There is an account ${this.#name} already.`);
      const { name: _, creditMicros = 0, ...settings } = input;
      const now = Date.now();
      const profile = updated(newProfile(this.#name, now), settings);
      const key = await this.#once.newKey(once);
      const hash = await sha256Hex(key);
      this.ctx.storage.transactionSync(() => {
        store.profiles.save(profile);
        const trial = profile.plan === "trial";
        store.purse.credit(
          microsOf("ROUSE_STARTING_CREDIT", this.env.ROUSE_STARTING_CREDIT, 0),
          "starting",
          "starting credit",
          now,
        );
        store.purse.credit(creditMicros, trial ? "trial" : "added", "with the account", now);
        store.keyring.save({ ...plainKey(key, hash, now), name: "first key" }, now);
      });
      return { ok: true, account: { ...this.#shown(store, profile), key } };
    });
  }

  async update(input: UpdateAccount, once: Once): Promise<Result<{ account: Account }>> {
    return this.#change(once, async (store, profile) => {
      const now = Date.now();
      const treasury = this.#treasury(store);
      const next = updated(profile, input);
      this.ctx.storage.transactionSync(() => {
        treasury.settle({ ...profile, plan: next.plan }, now);
        store.profiles.save(next);
        treasury.begin(next, now);
      });
      await this.#arm(now + SETTLE_MS);
      await this.#enforce(new Set());
      return { ok: true, account: this.#shown(store, this.#profile(store)) };
    });
  }

  async addCredit({ micros: amount, note }: AddCredit, once: Once): Promise<Result<{ account: Account }>> {
    return this.#change(once, async (store) => {
      store.purse.credit(amount, "added", note ?? "", Date.now());
      await this.#enforce(new Set());
      return { ok: true, account: this.#shown(store, this.#profile(store)) };
    });
  }

  async createKey(input: CreateKey, maker: string | null, once: Once): Promise<Result<{ key: NewKey }>> {
    return this.#change<{ key: NewKey }>(once, async (store) => {
      const now = Date.now();
      const member = store.keyring.members().find(({ id }) => id === input.memberId);
      if (input.memberId !== undefined && !member)
        return refuse("not_found", `There is no member ${JSON.stringify(input.memberId)}.`);
      const expiresAt = input.ttlSeconds === undefined ? parseTime(input.expiresAt) : now + input.ttlSeconds * 1000;
      if (expiresAt !== null && expiresAt <= now) {
        const issues = [{ path: "expiresAt", message: "lies in the past" }];
        return refuse("invalid_request", "The key would be over before it begins.", { issues });
      }
      const made = {
        name: input.name ?? "key",
        access: input.access ?? (member ? accessOfRole(member.role) : "full"),
        namePrefix: input.namePrefix ?? null,
        maxSandboxes: input.maxSandboxes ?? null,
        dailyLimitMicros: input.dailyLimitMicros ?? null,
        memberId: input.memberId ?? null,
        createdAt: now,
        expiresAt,
        revokedAt: null,
      };
      const makerKey = maker === null ? null : store.keyring.get(maker);
      const more = makerKey ? excess(makerKey, made) : maker === null ? [] : ["maker"];
      if (member && excess({ ...plainKey("", "", now), access: accessOfRole(member.role) }, made).length > 0)
        more.push("access");
      if (more.length > 0)
        return refuse("permission_denied", `The key would do more than its maker may: ${more.join(", ")}.`, { more });
      const key = await this.#once.newKey(once);
      const stored: StoredKey = { ...made, id: parseApiKey(key)?.keyId ?? "", hash: await sha256Hex(key) };
      store.keyring.save(stored, now);
      return { ok: true, key: { ...toKey(stored, 0), key } };
    });
  }

  async listKeys(): Promise<Key[]> {
    const store = this.#open();
    const day = dayOf(Date.now());
    return store.keyring.all().map((key) => toKey(key, store.purse.spentOn(day, key.id)));
  }

  async holdsSockets(keyId: string, label: string): Promise<boolean> {
    const { keyring } = this.#open();
    const key = keyring.get(keyId);
    if (!key || !isLive(key, Date.now())) return false;
    keyring.addHolder(keyId, label);
    return true;
  }

  async revokeKey(id: string): Promise<Result<{ key: Key; reach: Reach }>> {
    const store = this.#open();
    const key = store.keyring.get(id);
    if (!key) return refuse("not_found", `There is no key ${JSON.stringify(id)}.`);
    const now = Date.now();
    const revoked = { ...key, revokedAt: key.revokedAt ?? now };
    store.keyring.save(revoked, now);
    return { ok: true, key: toKey(revoked, store.purse.spentOn(dayOf(now), id)), reach: reachOf(store, [id]) };
  }

  async createMember(input: CreateMember, once: Once): Promise<Result<{ member: Member }>> {
    return this.#change(once, async (store) => {
      const member: Member = {
        id: `mb-${crypto.randomUUID()}`,
        name: input.name,
        email: input.email ?? null,
        role: input.role,
        createdAt: new Date().toISOString(),
      };
      store.keyring.saveMember(member);
      return { ok: true, member };
    });
  }

  async listMembers(): Promise<Member[]> {
    return this.#open().keyring.members();
  }

  async removeMember(id: string): Promise<Result<{ member: Member; keyIds: string[]; reach: Reach }>> {
    const store = this.#open();
    const all = [...store.keyring.members(), ...store.keyring.members(true)];
    const found = all.find((one) => one.id === id);
    if (!found) return refuse("not_found", `There is no member ${JSON.stringify(id)}.`);
    const member = MemberSchema.parse(found);
    const now = Date.now();
    const keys = store.keyring.all().filter((key) => key.memberId === id && isLive(key, now));
    this.ctx.storage.transactionSync(() => {
      for (const key of keys) store.keyring.save({ ...key, revokedAt: now }, now);
      store.keyring.removeMember(id);
    });
    const keyIds = keys.map((key) => key.id);
    return { ok: true, member, keyIds, reach: reachOf(store, keyIds) };
  }

  async notices(): Promise<Notice[]> {
    const store = this.#open();
    const profile = this.#profile(store);
    const account = this.#shown(store, profile);
    return noticesOf(account, store.sandboxes(), store.keyring.all(), Date.now());
  }

  async registerAccount(name: string): Promise<void> {
    this.#open().profiles.registerAccount(name, Date.now());
  }

  async listAccounts(): Promise<{ name: string; createdAt: string }[]> {
    return this.#open().profiles.accounts();
  }

  async hostEpoch(hostId: string): Promise<number> {
    return this.#open().profiles.hostEpoch(hostId);
  }

  async nextHostEpoch(hostId: string): Promise<number> {
    return this.#open().profiles.nextHostEpoch(hostId);
  }

  get #name(): string {
    return this.ctx.id.name ?? "";
  }

  #open(): AccountStore {
    this.#store ??= AccountStore.create(this.ctx.storage);
    return this.#store;
  }

  /** Sandboxes and hosts tell only of accounts that were opened; one whose opening was lost is as a new one. */
  #profile(store: AccountStore): Profile {
    return store.profiles.get(this.#name) ?? newProfile(this.#name, Date.now());
  }

  #treasury(store: AccountStore): Treasury {
    this.#money ??= new Treasury(store, this.#name, this.env.ROUSE_RATES);
    return this.#money;
  }

  /** Whether a run can be refused, so that each must be asked for. */
  #isGoverned(store: AccountStore, profile: Profile): boolean {
    return (
      isLimited(profile, store) ||
      Object.values(profile.quotas).some((quota) => quota !== null) ||
      store.keyring.anyLimit("maxSandboxes")
    );
  }

  #shown(store: AccountStore, profile: Profile): Account {
    const now = Date.now();
    const { purse, runs } = store;
    const [credited, spent, held] = [purse.credited(), purse.spent(), purse.held()];
    const { unpaidSince, createdAt, ...rest } = profile;
    return {
      name: this.#name,
      ...rest,
      used: runs.used(null, dayOf(now), true),
      spentTodayMicros: purse.spentOn(dayOf(now)),
      creditedMicros: credited,
      spentMicros: spent,
      heldMicros: held,
      availableMicros: isPrepaid(profile.plan) ? credited - spent - held : null,
      unpaidSince: isoOrNull(unpaidSince),
      unpaidDeletesAt: isoOrNull(unpaidSince === null ? null : unpaidSince + UNPAID_KEPT_MS),
      createdAt: iso(createdAt),
    };
  }

  /** End what nobody pays for, and note since when that is so. Told again by the alarm until it is done. */
  async #enforce(reported: ReadonlySet<string>): Promise<void> {
    const store = this.#open();
    const now = Date.now();
    const treasury = this.#treasury(store);
    let profile = this.#profile(store);
    const unpaid = treasury.isUnpaid(profile);
    if (unpaid !== (profile.unpaidSince !== null)) {
      profile = { ...profile, unpaidSince: unpaid ? now : null };
      store.profiles.save(profile);
    }
    if (isPrepaid(profile.plan)) this.#events.note(this.#shown(store, profile), now);
    if (this.#events.dueAt() !== null) await this.#arm(now + EVENTS_RETRY_MS);
    const overdue = treasury.overdue(profile, reported, now);
    const lapsed = profile.unpaidSince !== null && now - profile.unpaidSince >= UNPAID_KEPT_MS;
    if (overdue.length > 0) await this.#arm(now + CUT_RETRY_MS);
    else if (unpaid) await this.#arm(now + SETTLE_MS);
    const told = overdue.map(async ({ run, reason }) => {
      const live = await sandboxObject(this.env.SANDBOX, this.#name, run.label).cutOff(run.id, reason);
      // Its end was told of, and the word was lost.
      if (!live) store.runs.release(run.label, run.generation);
    });
    const sleepers = lapsed ? [...store.sandboxes()].filter(({ state }) => state === "paused") : [];
    const ended = sleepers.map(({ id, label }) => sandboxObject(this.env.SANDBOX, this.#name, label).endRetention(id));
    if (lapsed) ended.push(snapshotsObject(this.env.SNAPSHOTS, this.#name).endRetention());
    // Whoever waits for this must not wait for them: they tell this object of it.
    this.ctx.waitUntil(Promise.allSettled([...told, ...ended]));
  }

  /** See that the alarm goes off by then. */
  async #arm(at: number): Promise<void> {
    const set = await this.ctx.storage.getAlarm();
    if (set === null || set > at) await this.ctx.storage.setAlarm(at);
  }

  #change<T extends object>(
    once: Once,
    act: (store: AccountStore, profile: Profile) => Promise<Result<T>>,
  ): Promise<Result<T>> {
    const store = this.#open();
    const profile = store.profiles.get(this.#name);
    if (!profile) return Promise.resolve(refuse("not_found", "There is no such account."));
    return this.#once.run(store, once, () => act(store, profile));
  }

  /** The first key of the operator's account comes with the installation. */
  async #takeBootstrapKey(): Promise<void> {
    const key = this.env.ROUSE_BOOTSTRAP_KEY;
    if (this.#name !== DEFAULT_ACCOUNT || !key) return;
    const parsed = parseApiKey(key);
    if (parsed?.account !== DEFAULT_ACCOUNT) return;
    const hash = await sha256Hex(key);
    const { keyring } = this.#open();
    if (!keyring.byHash(hash)) keyring.saveBootstrap({ ...plainKey(key, hash, Date.now()), name: "installation" });
  }
}

/** @param ids of keys, or of a session */
function reachOf({ runs, keyring, tokens }: AccountStore, ids: readonly string[]): Reach {
  const sessionIds = tokens.madeBy(ids, Date.now());
  return { hostIds: runs.hostIds(), labels: keyring.holdersOf([...ids, ...sessionIds]), sessionIds };
}

function parseTime(text: string | undefined): number | null {
  return text === undefined ? null : Date.parse(text);
}
