/**
 * A sandbox's way out: its rules and secrets as its host is told of them, with every run before anything runs in it, and
 * at once where they change while it runs.
 */
import type { EgressReport, MachineEgress } from "../../sdk/contract/egress.ts";
import type { Network, SetNetwork } from "../../sdk/contract/network-settings.ts";
import { sign, signingKey, type SigningKey } from "../../sdk/contract/ticket.ts";
import { secretsObject, type Given, type Use } from "../secrets/api.ts";
import { isoOrNull } from "../time.ts";
import type { EgressLog } from "./egress-log.ts";
import type { Draft } from "../events/draft.ts";
import { isLive } from "./lifecycle.ts";
import type { SandboxRecord } from "./record.ts";
import type { Told } from "./step.ts";
import { hasSecrets, rulesOf, runOf, withNews } from "./way-out.ts";

/** What is needed of the engine. */
interface Keeper {
  record(): SandboxRecord | null;
  save(record: SandboxRecord, dropped?: readonly never[], detached?: readonly never[], events?: readonly Draft[]): void;
  configure(): Promise<void>;
}

const nothing: Given = { brokered: [], env: {} };
/** Whoever takes a ticket looks at its generation; it has no end of its own. Unix milliseconds. */
const NEVER = Date.UTC(9999, 0);
const CONNECT_REASON = "Sandboxes reach each other by their URLs alone.";

export class Outside {
  readonly #keeper: Keeper;
  readonly #env: Env;
  readonly #log: EgressLog;
  readonly #key: Promise<SigningKey>;
  /** Secrets that were asked for ahead, for one run. */
  #ahead: { readonly of: string; readonly given: Promise<Given> } | null = null;

  constructor(keeper: Keeper, env: Env, log: EgressLog) {
    this.#keeper = keeper;
    this.#env = env;
    this.#log = log;
    this.#key = signingKey(env.ROUSE_SECRET, "inside");
  }

  /** Ask for the secrets of the run that begins, beside what else there is to ask. Without any nothing is asked. */
  begin(record: SandboxRecord): void {
    const { state } = record.life;
    if (!hasSecrets(record) || (state !== "starting" && state !== "resuming")) return;
    const given = this.#secrets(record);
    given.catch(() => undefined);
    this.#ahead = { of: runOf(record), given };
  }

  /** @throws when the account's secrets can't be asked */
  async of(record: SandboxRecord): Promise<Told> {
    const ahead = this.#ahead?.of === runOf(record) ? this.#ahead.given : null;
    this.#ahead = null;
    const [{ brokered, env }, inside] = await Promise.all([ahead ?? this.#secrets(record), this.#ticket(record)]);
    return {
      env: { ...record.env, ...env },
      egress: { version: record.egressVersion, network: record.network, brokered: [...brokered], inside },
    };
  }

  /** For a host that has lost it: null unless the sandbox is there, in that run. */
  async lost(record: SandboxRecord, generation: number, hostId: string): Promise<MachineEgress | null> {
    const { host, life } = record;
    if (host?.id !== hostId || life.generation !== generation || !isLive(life.state)) return null;
    return (await this.of(record)).egress;
  }

  /** Set the rules; a host that runs the sandbox is told at once. */
  async setNetwork(record: SandboxRecord, input: SetNetwork): Promise<void> {
    const { allow = record.network.allow, deny = record.network.deny } = input;
    const network = rulesOf({ internet: input.internet, allow, deny });
    const isSame = JSON.stringify(network) === JSON.stringify(record.network);
    this.#keeper.save(isSame ? record : withNews({ ...record, network, networkSetAt: Date.now() }));
    await this.#keeper.configure();
  }

  /** A secret of it is another, or gone. @param own it has secrets of its own. @returns whether its host goes by that */
  async secretsChanged(record: SandboxRecord, own: boolean): Promise<"applied" | "pending"> {
    this.#keeper.save(withNews({ ...record, ownSecrets: own }));
    await this.#keeper.configure();
    const now = this.#keeper.record();
    return now?.id === record.id && isLive(now.life.state) && now.configurePending ? "pending" : "applied";
  }

  /** What a host tells of a run. @returns which secrets were used; none where it is not that host's to tell */
  report(record: SandboxRecord, report: EgressReport, hostId: string): readonly Use[] {
    const { host, origin, life } = record;
    if ((host?.id !== hostId && origin?.id !== hostId) || report.generation > life.generation) return [];
    const drafts = this.#log.note(record, report, Date.now());
    if (drafts.length > 0) this.#keeper.save(record, [], [], drafts);
    return report.secretUses.map(({ name, lastAt }) => ({ name, lastAt }));
  }

  show(record: SandboxRecord): Network {
    const { network, egressVersion: version, egressEnforced } = record;
    return {
      sandboxId: record.id,
      ...{ internet: network.internet, allow: [...(network.allow ?? [])], deny: [...(network.deny ?? [])] },
      ...{ connect: [], version, enforced: egressEnforced === version, enforcedVersion: egressEnforced },
      ...{ ports: [], connectAllowed: false, connectReason: CONNECT_REASON, forbiddenPorts: [] },
      updatedAt: isoOrNull(record.networkSetAt),
      ...this.#log.totals(),
      refusals: this.#log.refusals(),
    };
  }

  #secrets(record: SandboxRecord): Promise<Given> {
    if (!hasSecrets(record)) return Promise.resolve(nothing);
    return secretsObject(this.#env.SECRETS, record.account).give(record.id, record.secrets);
  }

  async #ticket({ account, id, label, life }: SandboxRecord): Promise<string> {
    return sign(await this.#key, { a: account, s: id, n: label, g: life.generation, e: NEVER });
  }
}
