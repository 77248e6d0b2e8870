/** The money of an account: what runs may begin, what is booked, and what must end. Acts on the account's tables. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { BackupId, SnapshotId, VolumeId } from "../../sdk/contract/names.ts";
import { defaultRates, NOTHING, ratesAt, RatesHistory, type Amounts, type Rates } from "../../sdk/contract/pricing.ts";
import type { Sandbox, StopReason } from "../../sdk/contract/sandbox.ts";
import {
  fromDigits,
  toDigits,
  type Usage,
  type UsageLine,
  type UsageQuery,
  type UsageReport,
} from "../../sdk/contract/usage.ts";
import type { KeptReport, RunAsk } from "./api.ts";
import type { Entry } from "./books.ts";
import { endOf, holdOf, isPrepaid, overLimit, shortOf, type Balance, type Spending } from "./funds.ts";
import { isLive } from "./key.ts";
import { addedBy, byMonth, dayOf, groupsOf, monthNumber, monthOf, priceOfLine, type Line } from "./ledger.ts";
import type { Profile } from "./profile.ts";
import { overQuota } from "./quota.ts";
import type { Run } from "./runs.ts";
import type { AccountStore } from "./store.ts";

export class Treasury {
  readonly #store: AccountStore;
  readonly #account: string;
  readonly #rates: readonly [Rates, ...Rates[]];

  /** @param ratesJson the setting `ROUSE_RATES` */
  constructor(store: AccountStore, account: string, ratesJson: string | undefined) {
    this.#store = store;
    this.#account = account;
    const [first = defaultRates, ...others] = RatesHistory.parse(JSON.parse(ratesJson ?? "[]"));
    this.#rates = [first, ...others];
  }

  /** Set room and money aside for a run, or say why not. The same run may be asked for again. */
  admit(ask: RunAsk, profile: Profile, now: number): Failure | null {
    const { runs, purse, keyring } = this.#store;
    const { id, label, generation, isNew, shape, keyId, maxTotalCostMicros } = ask;
    if (profile.suspended) return { code: "account_blocked", message: "The account is suspended." };
    const day = dayOf(now);
    const used = runs.used(label, day, profile.quotas.kept !== null);
    // Asked for again, a creation is counted already.
    const createdToday = used.createdToday - (runs.wasCreated(id) ? 1 : 0);
    const over = overQuota(profile.quotas, { ...used, createdToday }, { ...shape, isNew });
    if (over) return over;
    const key = keyId === null ? null : keyring.get(keyId);
    if (isNew && key && key.maxSandboxes !== null && runs.madeWith(key.id, label) >= key.maxSandboxes) {
      const message = `The key ${key.id} may have ${key.maxSandboxes} sandboxes at once.`;
      return { code: "quota_exceeded", message, details: { limits: { maxSandboxes: { max: key.maxSandboxes } } } };
    }
    const limit = overLimit(this.#spendings(profile, keyId, id, maxTotalCostMicros, now));
    if (limit) return limit;
    const held = holdOf(profile.plan, shape, this.ratesFor(id, now));
    const short = shortOf(this.#balance(profile, purse.held(label)), held);
    if (short) return short;
    runs.save({ label, id, generation, vcpu: shape.vcpu, memoryMiB: shape.memoryMiB, held, keyId });
    if (isNew) runs.created(id, day);
    return null;
  }

  /** A sandbox changed: what it runs is counted, and what it leaves is set free. */
  note(
    label: string,
    sandbox: Sandbox | null,
    before: Sandbox | null,
    from: { readonly keyId: string | null; readonly hostId: string | null },
    profile: Profile,
    now: number,
  ): void {
    const { runs, purse, books } = this.#store;
    if (before && before.id !== sandbox?.id) this.#leave(before.id, now);
    if (!sandbox) return runs.release(label, Number.MAX_SAFE_INTEGER);
    const { id, generation, vcpu, memoryMiB } = sandbox;
    const flatRate = profile.plan === "flat" ? (profile.flatMicrosPerMonth ?? 0) : null;
    // The rates of the day it was made stay its own.
    const createdAt = Date.parse(sandbox.createdAt);
    if (before?.id !== id) books.keepRates(id, this.ratesFor(id, createdAt), createdAt);
    purse.describe(sandbox, from, flatRate);
    if (flatRate !== null && this.#store.presentSince(id) === null)
      this.#store.setPresent(id, before?.id === id ? now : Math.min(now, createdAt));
    if (sandbox.state === "paused" || sandbox.state === "stopped") runs.release(label, generation);
    else if (sandbox.state === "running")
      runs.save({
        label,
        id,
        generation,
        vcpu,
        memoryMiB,
        keyId: from.keyId,
        held: holdOf(profile.plan, sandbox, this.ratesFor(id, now)),
      });
  }

  /** Book what a host reports. Answers how many reports were refused: an amount went down, or the machine is elsewhere. */
  book(reports: readonly UsageReport[], reporter: string, profile: Profile, at: number): number {
    const { books, purse } = this.#store;
    let refused = 0;
    for (const report of reports) {
      const { id: sandboxId, generation, sequence } = report;
      const total = fromDigits(report);
      const { hostId = null } = purse.cost(sandboxId) ?? {};
      const added =
        hostId === null || hostId === reporter
          ? addedBy(books.booked(sandboxId, generation), { sequence, amounts: total })
          : null;
      if (added === null) refused++;
      if (added === null || added === "nothing") continue;
      books.keepRates(sandboxId, this.ratesFor(sandboxId, at), at);
      this.#append({ sandboxId, generation, sequence, at, month: monthOf(at) }, added, total, profile);
    }
    return refused;
  }

  /**
   * Book what volumes, backups and snapshots come to. Without credit snapshots are kept as sleepers are; volumes and
   * backups cost on, as they are kept until they are deleted.
   */
  bookKept(reports: readonly KeptReport[], profile: Profile, at: number): void {
    const { books, purse } = this.#store;
    for (const { id, name, labels, createdAt, month, sequence, meter, amount } of reports) {
      const total = { ...NOTHING, [meter]: BigInt(amount) };
      // Each month is counted for itself, as a run of a machine is.
      const generation = monthNumber(month);
      const added = addedBy(books.booked(id, generation), { sequence, amounts: total });
      if (added === null || added === "nothing") continue;
      purse.describe({ id, name, labels: { ...labels } }, { keyId: null, hostId: null }, null);
      books.keepRates(id, this.ratesFor(id, createdAt), createdAt);
      this.#append({ sandboxId: id, generation, sequence, at, month }, added, total, profile);
    }
  }

  /** Count the existence of all sandboxes up to now, where that is what is paid for. */
  settle(profile: Profile, now: number): void {
    for (const { sandboxId, since } of this.#store.present()) {
      this.#exist(sandboxId, since, now);
      this.#store.setPresent(sandboxId, profile.plan === "flat" ? now : null);
    }
  }

  /** A plan begins: sandboxes that are there are counted from now on. */
  begin(profile: Profile, now: number): void {
    for (const sandbox of this.#store.sandboxes()) {
      const { keyId = null, hostId = null } = this.#store.purse.cost(sandbox.id) ?? {};
      this.note(sandbox.label, sandbox, sandbox, { keyId, hostId }, profile, now);
    }
  }

  /** Runs that must end, and why. @param reported where nothing limits the account, only these can be over their own cap */
  overdue(profile: Profile, reported: ReadonlySet<string>, now: number): { run: Run; reason: StopReason }[] {
    const { runs, purse } = this.#store;
    const balance = this.#balance(profile, purse.held());
    const concerned = isLimited(profile, this.#store) ? runs.all() : runs.of(reported);
    return concerned.flatMap((run) => {
      const cap = purse.cost(run.id)?.cap ?? null;
      const reason = endOf(profile.suspended, balance, this.#spendings(profile, run.keyId, run.id, cap, now));
      return reason === null ? [] : [{ run, reason }];
    });
  }

  /** Whether credit is used up: what sleeps is unpaid. */
  isUnpaid(profile: Profile): boolean {
    const { credited, spent } = this.#balance(profile, 0);
    return isPrepaid(profile.plan) && credited - spent <= 0;
  }

  usage(query: UsageQuery, profile: Profile, now: number): Usage {
    this.settle(profile, now);
    const { books, purse } = this.#store;
    const month = query.month ?? monthOf(now);
    const lines = books.lines(month === "all" ? null : month).map((line) => this.#shown(line));
    const { credited, spent, held } = this.#balance(profile, purse.held());
    return {
      month,
      lines,
      totalMicros: lines.reduce((sum, line) => sum + line.totalMicros, 0),
      ...(query.by === undefined ? {} : { groups: groupsOf(lines, query.by) }),
      orgId: this.#account,
      unit: "microdollars",
      credited: String(credited),
      spent: String(spent),
      held: String(held),
      expired: "0",
      available: String(isPrepaid(profile.plan) ? credited - spent - held : 0),
      takenBack: "0",
      trial: null,
      resources: [],
    };
  }

  /** The rates that a sandbox has, or gets. */
  ratesFor(sandboxId: string, at: number): Rates {
    return this.#store.books.ratesOf(sandboxId) ?? ratesAt(this.#rates, at);
  }

  #leave(sandboxId: string, now: number): void {
    const since = this.#store.presentSince(sandboxId);
    if (since === null) return;
    this.#exist(sandboxId, since, now);
    this.#store.setPresent(sandboxId, null);
  }

  #exist(sandboxId: string, since: number, now: number): void {
    for (const { month, ms } of byMonth(since, now))
      this.#store.books.addExistence(month, sandboxId, ms, (before, after) => this.#spend(before, after, now));
  }

  #append(
    entry: Omit<Entry, "plan" | "added" | "total">,
    added: Amounts,
    total: Amounts,
    { plan, unpaidSince }: Profile,
  ): void {
    // Without credit what sleeps is kept for a while at nobody's cost.
    const charged = unpaidSince === null ? added : { ...added, stored: 0n };
    this.#store.books.append({ ...entry, plan, added: charged, total }, (before, after) =>
      this.#spend(before, after, entry.at),
    );
  }

  #spend(before: Line, after: Line, at: number): void {
    const micros = this.#priced(after).totalMicros - this.#priced(before).totalMicros;
    this.#store.purse.spend(after.sandboxId, micros, dayOf(at));
  }

  #priced(line: Line): ReturnType<typeof priceOfLine> {
    const flatRate = this.#store.purse.cost(line.sandboxId)?.flatRate ?? 0;
    return priceOfLine(line, this.ratesFor(line.sandboxId, Date.now()), flatRate);
  }

  #shown(line: Line): UsageLine {
    const cost = this.#store.purse.cost(line.sandboxId);
    return {
      month: line.month,
      sandboxId: line.sandboxId,
      name: cost?.name ?? null,
      labels: { ...cost?.labels },
      plan: line.plan,
      kind: kindOf(line.sandboxId),
      ...toDigits(line.amounts),
      volume: String(line.amounts.volume),
      backup: String(line.amounts.backup),
      ...this.#priced(line),
    };
  }

  #balance({ plan }: Profile, held: number): Balance {
    const { purse } = this.#store;
    return { plan, credited: purse.credited(), spent: purse.spent(), held };
  }

  #spendings(profile: Profile, keyId: string | null, sandboxId: string, cap: number | null, now: number): Spending[] {
    const { purse, keyring } = this.#store;
    const day = dayOf(now);
    const key = keyId === null ? null : keyring.get(keyId);
    return [
      { of: "account", spent: purse.spentOn(day), limit: profile.dailyLimitMicros },
      // A key that is over limits nothing any more.
      ...(key && isLive(key, now)
        ? [{ of: "key" as const, spent: purse.spentOn(day, key.id), limit: key.dailyLimitMicros }]
        : []),
      { of: "sandbox", spent: purse.cost(sandboxId)?.micros ?? 0, limit: cap },
    ];
  }
}

function kindOf(id: string): UsageLine["kind"] {
  if (VolumeId.safeParse(id).success) return "volume";
  if (SnapshotId.safeParse(id).success) return "snapshot";
  return BackupId.safeParse(id).success ? "backup" : "sandbox";
}

/** Whether anything but a sandbox's own cap can end a run. */
export function isLimited(profile: Profile, { keyring }: AccountStore): boolean {
  const { suspended, plan, dailyLimitMicros } = profile;
  return suspended || isPrepaid(plan) || dailyLimitMicros !== null || keyring.anyLimit("dailyLimitMicros");
}
