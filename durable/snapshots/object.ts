/** The snapshots of one account: what is known of each, and their timers. Bytes are in vaults. */
import { DurableObject } from "cloudflare:workers";
import type { ArchiveStep } from "../../sdk/contract/archive.ts";
import type {
  ExtendSnapshot,
  Snapshot,
  SnapshotList,
  SnapshotListQuery,
  UpdateSnapshot,
} from "../../sdk/contract/snapshot.ts";
import { toBase64Url } from "../../sdk/contract/ticket.ts";
import { accountObject } from "../account/api.ts";
import { Charges } from "../charges.ts";
import { EventLog } from "../events/log.ts";
import { Tables } from "../migrations.ts";
import { outboxObject } from "../outbox/api.ts";
import { page } from "../page.ts";
import { refuse, type Result } from "../result.ts";
import type { ArchiveAnswer } from "../sandbox/api.ts";
import { earliest } from "../time.ts";
import { Watchers } from "../watchers.ts";
import { vaultObject, type VaultApi } from "../vault/api.ts";
import { vaultTicket } from "../vault/tickets.ts";
import { volumesObject } from "../volumes/api.ts";
import type { NewSnapshot, SnapshotsApi } from "./api.ts";
import {
  aboutOf,
  dueAt,
  eventsOf,
  expiresAt,
  isVisible,
  matches,
  toSnapshot,
  type Origin,
  type SnapshotRecord,
} from "./record.ts";
import { migrations } from "./schema.ts";

const TICKET_MS = 3_600_000;
/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;
/** Most snapshots that an account may have at once. */
const SNAPSHOTS_MAX = 10_000;

type Answer = Result<{ snapshot: Snapshot }>;

export class SnapshotsObject extends DurableObject<Env> implements SnapshotsApi {
  readonly #sql: SqlStorage;
  readonly #tables: Tables;
  readonly #watchers = new Watchers();
  readonly #charges: Charges;
  readonly #events: EventLog;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#charges = new Charges({
      sql: this.#sql,
      account: () => accountObject(env.ACCOUNT, this.#account),
      vault: (vault) => vaultObject(env.VAULT, this.#account, vault),
      onOwned: (id, ownedBytes) => {
        const record = this.#record(id);
        if (record) this.#save({ ...record, ownedBytes });
      },
    });
    this.#events = new EventLog(this.#sql, (events) => outboxObject(env.OUTBOX, this.#account).take(events));
    this.#tables = new Tables(ctx.storage, migrations);
  }

  async begin(input: NewSnapshot): Promise<Answer> {
    this.#tables.make();
    const known = this.#record(input.id);
    if (known) return { ok: true, snapshot: { ...toSnapshot(known), replayed: true } };
    const { count } = this.#sql.exec<{ count: number }>("SELECT COUNT(*) AS count FROM snapshots").one();
    if (count >= SNAPSHOTS_MAX)
      return refuse("quota_exceeded", `An account has at most ${SNAPSHOTS_MAX} snapshots.`, { max: SNAPSHOTS_MAX });
    const key = toBase64Url(crypto.getRandomValues(new Uint8Array(32)));
    const nothing = { manifest: null, compatibility: null, storedBytes: 0, ownedBytes: 0, frozenMs: null, error: null };
    return this.#save({
      ...input,
      ...nothing,
      key,
      state: "capturing",
      createdAt: Date.now(),
      readyAt: null,
      keptFrom: null,
    });
  }

  async captured(id: string, frozenMs: number | null): Promise<void> {
    const record = this.#record(id);
    if (record?.state === "capturing") this.#save({ ...record, frozenMs });
  }

  async stored(id: string, state: Pick<Origin, "manifest" | "key" | "compatibility">): Promise<Answer> {
    const record = this.#record(id);
    if (!record) return notFound;
    const shared = await this.#vault(record).share(record.source.id, state.manifest, id);
    if (!shared.ok) return shared;
    return this.#ready(id, { ...state, ...shared });
  }

  async failed(id: string, error: string): Promise<void> {
    const record = this.#record(id);
    if (record?.state !== "capturing") return;
    this.#save({ ...record, state: "failed", error });
    await this.#dropVolumes(record).catch(() => undefined); // again when it is forgotten
  }

  async archiveStep(id: string, step: ArchiveStep, hostId: string): Promise<Result<{ answer: ArchiveAnswer }>> {
    const record = this.#record(id);
    if (!record || record.hostId !== hostId || record.state === "failed" || record.state === "deleting")
      return notFound;
    // It has what it needs: only an answer that was lost is given again.
    if (record.state === "ready")
      return "manifest" in step && step.manifest === record.manifest
        ? { ok: true, answer: { ownedBytes: record.ownedBytes } }
        : notFound;
    const vault = this.#vault(record);
    switch (step.step) {
      case "begin": {
        const ticket = await vaultTicket(this.env, this.#account, record.vault, hostId, true, TICKET_MS);
        return { ok: true, answer: { vault: record.vault, key: record.key, ticket, previous: record.previous } };
      }
      case "upload": {
        const begun = await vault.begin(id, step.manifest, step.blobs);
        if (!begun.ok) return begun;
        const now = this.#record(id);
        if (now) this.#save({ ...now, manifest: step.manifest, compatibility: step.compatibility });
        return { ok: true, answer: { ownedBytes: 0 } };
      }
      case "commit": {
        const owned = await vault.commit(id, step.manifest);
        if (!owned.ok) return owned;
        const now = this.#record(id);
        if (!now) return notFound;
        this.#ready(id, { manifest: step.manifest, key: now.key, compatibility: now.compatibility ?? "", ...owned });
        return { ok: true, answer: { ownedBytes: owned.ownedBytes } };
      }
      case "cold":
        return { ok: true, answer: {} };
    }
  }

  async get(id: string, namePrefix: string | null, waitMs: number): Promise<Answer> {
    const record = this.#visible(id, namePrefix);
    if (!record) return notFound;
    await this.#watchers.until(id, () => this.#record(id)?.state !== "capturing", waitMs);
    const now = this.#record(id);
    return now ? { ok: true, snapshot: toSnapshot(now) } : notFound;
  }

  async list(query: SnapshotListQuery, namePrefix: string | null): Promise<SnapshotList | null> {
    return page(
      query,
      /^(\d{1,15})\.(snap-[0-9a-z]{20})$/,
      (at, id) => this.#before(at, id),
      (record) => matches(record, query, namePrefix),
      toSnapshot,
    );
  }

  async update(id: string, { name, labels, ifLabels }: UpdateSnapshot, namePrefix: string | null): Promise<Answer> {
    const record = this.#visible(id, namePrefix);
    if (!record) return notFound;
    if (ifLabels !== undefined && canonical(ifLabels) !== canonical(record.labels))
      return refuse("conflict", "The snapshot's labels are others.", { labels: record.labels });
    return this.#save({
      ...record,
      name: name === undefined ? record.name : name,
      labels: labels ?? record.labels,
    });
  }

  async extend(id: string, { retentionDays }: ExtendSnapshot, namePrefix: string | null): Promise<Answer> {
    const record = this.#visible(id, namePrefix);
    if (!record) return notFound;
    return this.#save({ ...record, retentionDays, keptFrom: record.keptFrom === null ? null : Date.now() });
  }

  async remove(id: string, namePrefix: string | null): Promise<Answer> {
    const record = this.#visible(id, namePrefix);
    if (!record) return notFound;
    const answer = this.#save({ ...record, state: "deleting" });
    await this.#delete(id).catch(() => undefined);
    return answer;
  }

  async origin(id: string): Promise<Result<{ origin: Origin }>> {
    const record = this.#record(id);
    if (!record) return notFound;
    const { state, manifest, compatibility } = record;
    if (state !== "ready" || manifest === null || compatibility === null)
      return refuse("snapshot_not_ready", `The snapshot is ${state}.`, { state, error: record.error });
    // Who uses it daily must not lose it.
    this.#save({ ...record, keptFrom: Date.now() });
    const { mode, shape, vault, key, storedBytes, volumes = [], network, boot } = record;
    const facts = { id, mode, shape, vault, manifest, key, compatibility, storedBytes, volumes };
    return { ok: true, origin: { ...facts, ...(network ? { network } : {}), ...(boot ? { boot } : {}) } };
  }

  async endRetention(): Promise<void> {
    if (!this.#tables.exist) return;
    for (const record of [...this.#before(Number.MAX_SAFE_INTEGER, "")])
      if (record.state === "ready") this.#save({ ...record, state: "deleting" });
  }

  override async alarm(): Promise<void> {
    if (!this.#tables.exist) return;
    await this.ctx.storage.setAlarm(Date.now() + SAFETY_MS);
    const now = Date.now();
    const due = this.#sql.exec<{ body: string }>("SELECT body FROM snapshots WHERE due_at <= ?", now).toArray();
    for (const { body } of due) {
      const record = JSON.parse(body) as SnapshotRecord;
      try {
        if (record.state === "capturing") await this.failed(record.id, "Its copy was not stored in time.");
        else {
          if (record.state === "ready" && (expiresAt(record) ?? 0) > now) continue;
          this.#save({ ...record, state: "deleting" });
          await this.#delete(record.id);
        }
      } catch (fault) {
        console.error(JSON.stringify({ level: "error", snapshot: record.id, fault: String(fault) }));
      }
    }
    await this.#charges.alarm(now).catch((fault: unknown) => {
      console.error(JSON.stringify({ level: "error", what: "charges", fault: String(fault) }));
    });
    if ((this.#events.dueAt() ?? Infinity) <= now) await this.#events.handOn();
    await this.#arm();
  }

  get #account(): string {
    return this.ctx.id.name ?? "";
  }

  async #delete(id: string): Promise<void> {
    const record = this.#record(id);
    if (record?.state !== "deleting") return;
    await this.#vault(record).release(id, null);
    await this.#dropVolumes(record);
    this.#sql.exec("DELETE FROM snapshots WHERE id = ?", id);
    await this.#arm();
  }

  #ready(
    id: string,
    state: Pick<Origin, "manifest" | "key" | "compatibility"> & { storedBytes: number; ownedBytes: number },
  ): Answer {
    const record = this.#record(id);
    if (!record) return notFound;
    if (record.state !== "capturing") return { ok: true, snapshot: toSnapshot(record) };
    const { manifest, key, compatibility, storedBytes, ownedBytes } = state;
    const stored = { manifest, key, compatibility, storedBytes, ownedBytes };
    return this.#save({
      ...record,
      ...stored,
      state: "ready",
      readyAt: Date.now(),
      keptFrom: Date.now(),
      previous: null,
    });
  }

  #record(id: string): SnapshotRecord | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM snapshots WHERE id = ?", id).toArray();
    return row ? (JSON.parse(row.body) as SnapshotRecord) : null;
  }

  /** The newest first. */
  *#before(createdAt: number, id: string): Iterable<SnapshotRecord> {
    if (!this.#tables.exist) return;
    const rows = this.#sql.exec<{ body: string }>(
      "SELECT body FROM snapshots WHERE (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC",
      ...[createdAt, id],
    );
    for (const { body } of rows) yield JSON.parse(body) as SnapshotRecord;
  }

  #visible(id: string, namePrefix: string | null): SnapshotRecord | null {
    const record = this.#record(id);
    return record && record.state !== "deleting" && isVisible(record, namePrefix) ? record : null;
  }

  /** One that is ready is charged, on what it alone stores. */
  #save(record: SnapshotRecord): Answer {
    const { id, name, labels, createdAt, ownedBytes: has, vault, readyAt } = record;
    const thing = { id, name, labels, createdAt, meter: "stored", has, vault } as const;
    if (record.state === "ready") this.#charges.keep(thing, readyAt ?? createdAt, Date.now());
    else this.#charges.drop(id, Date.now());
    const events = eventsOf(this.#record(id), record);
    this.#sql.exec(
      "INSERT OR REPLACE INTO snapshots (id, created_at, due_at, body) VALUES (?, ?, ?, ?)",
      ...[record.id, record.createdAt, dueAt(record, Date.now()), JSON.stringify(record)],
    );
    if (events.length > 0) {
      const last = events.some(({ type }) => type !== "snapshot.created");
      this.#events.append(aboutOf(record), events, Date.now(), last);
      this.ctx.waitUntil(this.#handOn());
    }
    this.#watchers.changed(record.id);
    void this.#arm();
    return { ok: true, snapshot: toSnapshot(record) };
  }

  async #arm(): Promise<void> {
    const { due } = this.#sql.exec<{ due: number | null }>("SELECT MIN(due_at) AS due FROM snapshots").one();
    const at = earliest(due, this.#charges.nextAt(), this.#events.dueAt());
    await (at === null ? this.ctx.storage.deleteAlarm() : this.ctx.storage.setAlarm(at));
  }

  async #handOn(): Promise<void> {
    await this.#events.handOn();
    await this.#arm();
  }

  async #dropVolumes({ id, volumes = [] }: SnapshotRecord): Promise<void> {
    if (volumes.length > 0) await volumesObject(this.env.VOLUMES, this.#account).dropSnapshot(id);
  }

  #vault({ vault }: SnapshotRecord): VaultApi {
    return vaultObject(this.env.VAULT, this.#account, vault);
  }
}

function canonical(labels: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => a.localeCompare(b)));
}

const notFound = refuse("snapshot_not_found", "There is no such snapshot.");
