/** What edge and sandboxes may ask of an account's object. */
import type {
  Account,
  AccountPlan,
  AddCredit,
  CreateAccount,
  CreateKey,
  CreateMember,
  Key,
  KeyAccess,
  Member,
  NewAccount,
  NewKey,
  Notice,
  UpdateAccount,
} from "../../sdk/contract/account.ts";
import type { Meter } from "../../sdk/contract/pricing.ts";
import type { ListQuery, Sandbox, SandboxChanges, SandboxList } from "../../sdk/contract/sandbox.ts";
import type { CreateSession, Session, SessionGrant } from "../../sdk/contract/session.ts";
import type { Usage, UsageQuery, UsageReport } from "../../sdk/contract/usage.ts";
import type { Result } from "../result.ts";
import type { StoredSession } from "./sessions.ts";
import type { MadeSession } from "./tokens.ts";

/** One sandbox as its object last described it. */
export interface Summary {
  readonly label: string;
  /** Grows with every change of what is under the label; an older one is ignored. */
  readonly sequence: number;
  /** null: deleted. */
  readonly sandbox: Sandbox | null;
  /** The host that has its machine. */
  readonly hostId: string | null;
  readonly createdBy: string | null;
}

/** What the edge learns of a key, and of the account for sandboxes that are made with it. */
export interface KeyVerdict {
  readonly keyId: string;
  readonly keyName: string;
  readonly access: KeyAccess;
  readonly namePrefix: string | null;
  /** Unix milliseconds. */
  readonly expiresAt: number | null;
  readonly governed: boolean;
  readonly plan: AccountPlan;
  readonly retentionDays: number;
  /** It is a session token, and opens no more than this; null for a key, and for a session of the dashboard. */
  readonly session: SessionGrant | null;
}

/** A run that is about to begin. */
export interface RunAsk {
  readonly id: string;
  readonly label: string;
  readonly generation: number;
  /** The sandbox is only being made. */
  readonly isNew: boolean;
  readonly shape: { readonly vcpu: number; readonly memoryMiB: number };
  /** The key that the sandbox was made with. */
  readonly keyId: string | null;
  readonly maxTotalCostMicros: number | null;
}

/** By what things are charged that are kept apart from machines. */
export type KeptMeter = Extract<Meter, "stored" | "volume" | "backup">;

/** What a volume, a backup or a snapshot has come to in a month so far; a later report of it holds all of an earlier one. */
export interface KeptReport {
  readonly id: string;
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>>;
  /** Unix milliseconds. Its rates are those of then. */
  readonly createdAt: number;
  /** `2026-11`, UTC. */
  readonly month: string;
  /** Grows with every report of the month. */
  readonly sequence: number;
  readonly meter: KeptMeter;
  /** In the units of the meter, in digits. */
  readonly amount: string;
}

/** A change that is made once per Idempotency-Key. */
export interface Once {
  readonly key: string | null;
  readonly fingerprint: string;
}

/** Who may hold connections that a key let in. */
export interface Reach {
  readonly hostIds: readonly string[];
  /** Sandboxes that hold sockets of it. */
  readonly labels: readonly string[];
  /** Sessions that end with it. */
  readonly sessionIds: readonly string[];
}

export interface AccountApi {
  /** What the key, session or session token opens whose hash (SHA-256, hex) it is; null when it is none of this account, or is over. */
  verifyKey(hash: string): Promise<KeyVerdict | null>;
  /** A sandbox is about to hold a socket of a key: whether that is good. Who ends the key learns of the sandbox. */
  holdsSockets(keyId: string, label: string): Promise<boolean>;
  /**
   * `governed`: each run must be asked for with `admitRun`. `listensSince`: events from then on are wanted by the
   * account's outbox, Unix milliseconds; null: none are.
   */
  applySummary(summary: Summary): Promise<{ readonly governed: boolean; readonly listensSince: number | null }>;
  /** Whether anybody wants events. Once this is answered, whoever has events learns of it with its next change. */
  setListening(on: boolean): Promise<void>;
  /** Whether a run may begin: quotas, credit, limits. Room for it is set aside until the sandbox is at rest again. */
  admitRun(ask: RunAsk): Promise<Result<object>>;
  /** Book what a host reports. Answers how many reports were refused: an amount went down, or the machine is elsewhere. */
  recordUsage(reports: readonly UsageReport[], hostId: string): Promise<number>;
  /** Book what volumes, backups and snapshots come to. May be repeated, and come in any order. */
  recordKept(reports: readonly KeptReport[]): Promise<void>;
  usage(query: UsageQuery): Promise<Usage>;
  /** What a sandbox has cost so far, microdollars. */
  chargedMicros(sandboxId: string): Promise<number>;
  /** The id of the sandbox whose random part that is (`suffixOf`); null when there is none, and was none lately. */
  idWith(suffix: string): Promise<string | null>;
  /** Oldest first, only names with the prefix. null when the cursor is not one of ours. */
  list(query: ListQuery, namePrefix: string | null): Promise<SandboxList | null>;
  /** What changed after a change, and where nothing did, within the time. `after` null: from now on. */
  changes(after: number | null, namePrefix: string | null, waitMs: number): Promise<SandboxChanges>;

  /** A browser acts as the key from now on. `access`: no more than that; false: there is no such key any more. */
  openSession(session: StoredSession): Promise<boolean>;
  endSession(hash: string): Promise<void>;

  /** A session token for a sandbox; over at the latest when the key is. @returns `quota_exceeded`, `unauthorized` */
  createToken(
    sandboxId: string,
    input: CreateSession,
    keyId: string,
    once: Once,
  ): Promise<Result<{ readonly session: MadeSession }>>;
  /** The newest first. */
  listTokens(sandboxId: string): Promise<Session[]>;
  /** @returns `session_not_found` */
  revokeToken(sandboxId: string, id: string): Promise<Result<{ readonly session: Session; readonly reach: Reach }>>;

  /** null where the account was never opened. */
  account(): Promise<Account | null>;
  /** @returns `name_taken` when it exists */
  open(input: CreateAccount, once: Once): Promise<Result<{ readonly account: NewAccount }>>;
  update(input: UpdateAccount, once: Once): Promise<Result<{ readonly account: Account }>>;
  addCredit(input: AddCredit, once: Once): Promise<Result<{ readonly account: Account }>>;
  /** @param maker the key that makes it; null for the operator, who may give what there is */
  createKey(input: CreateKey, maker: string | null, once: Once): Promise<Result<{ readonly key: NewKey }>>;
  listKeys(): Promise<Key[]>;
  /** Ends the key everywhere. `reach`: who may still hold connections of it. */
  revokeKey(id: string): Promise<Result<{ readonly key: Key; readonly reach: Reach }>>;
  createMember(input: CreateMember, once: Once): Promise<Result<{ readonly member: Member }>>;
  listMembers(): Promise<Member[]>;
  /** Ends the member's keys with it. */
  removeMember(
    id: string,
  ): Promise<Result<{ readonly member: Member; readonly keyIds: readonly string[]; readonly reach: Reach }>>;
  notices(): Promise<Notice[]>;

  // Of the operator's account alone: what there is in the installation.
  registerAccount(name: string): Promise<void>;
  listAccounts(): Promise<{ name: string; createdAt: string }[]>;
  /** The epoch of a host's key. */
  hostEpoch(hostId: string): Promise<number>;
  /** Make the host's key anew: the one before it ends. */
  nextHostEpoch(hostId: string): Promise<number>;
}

export function accountObject(namespace: DurableObjectNamespace<never>, account: string): AccountApi {
  return namespace.getByName(account) as unknown as AccountApi;
}
