/** The object of one sandbox name: decides whether and where its machine runs. Bytes never pass through it. */
import { DurableObject } from "cloudflare:workers";
import type { ArchiveStep } from "../../sdk/contract/archive.ts";
import type { Resume } from "../../sdk/contract/boot.ts";
import type { EgressReport, MachineEgress } from "../../sdk/contract/egress.ts";
import type { FrozenFate, MachineEvent } from "../../sdk/contract/host.ts";
import type {
  CreateSnapshot,
  Diff,
  DiffQuery,
  Forks,
  ForkSandbox,
  HistoryPoint,
  Snapshot,
} from "../../sdk/contract/snapshot.ts";
import type { CreateVolumeMount } from "../../sdk/contract/volume.ts";
import {
  limits,
  type Access,
  type CreateSandbox,
  type DeletedSandbox,
  type Preview,
  type SandboxState,
  type StopReason,
  type UpdateSandbox,
} from "../../sdk/contract/sandbox.ts";
import type { Network, SetNetwork } from "../../sdk/contract/network-settings.ts";
import type { RouseEvent } from "../../sdk/contract/event.ts";
import type { CreateLink, Link } from "../../sdk/contract/link.ts";
import type { Cause, Why } from "../../sdk/contract/timeline.ts";
import {
  refuse,
  type ArchiveAnswer,
  type Ask,
  type Change,
  type EventNote,
  type PreviewTerms,
  type Result,
  type RouteAsk,
  type RouteFacts,
  type RouteGrant,
  type SandboxAnswer,
  type SandboxApi,
  type SecretsHeard,
  type VolumeCopied,
} from "./api.ts";
import type { Use } from "../secrets/api.ts";
import { Answers } from "./answers.ts";
import { Creation } from "./creation.ts";
import { Engine, urlParts } from "./engine.ts";
import { Chronicle } from "./chronicle.ts";
import { activeHolds } from "./holds.ts";
import type { LifeEvent } from "./life.ts";
import { isLive, isTransitional } from "./lifecycle.ts";
import { Links } from "./links.ts";
import { machineEvent } from "./machine-event.ts";
import { mcpGateway } from "./mcp.ts";
import { Previews, type PreviewResult } from "./previews.ts";
import { isGoneForGood, toDeleted, toSandbox, updated, type CreateTerms, type SandboxRecord } from "./record.ts";
import { Routing, type Found } from "./routing.ts";

/** A change that has to wait for another first waits at least so long, milliseconds. */
const TURN_MS = 30_000;

export class SandboxObject extends DurableObject<Env> implements SandboxApi {
  readonly #engine: Engine;
  readonly #answers: Answers;
  readonly #chronicle: Chronicle;
  readonly #creation: Creation;
  readonly #previews: Previews;
  readonly #links: Links;
  readonly #routing: Routing;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#engine = new Engine(ctx, env);
    const settle = (id: string, goal: SandboxState, holdMs: number) => this.#settle(id, goal, holdMs);
    const revive = (record: SandboxRecord, terms: Pick<Change, "holdMs" | "cause">) => this.#revive(record, terms);
    this.#answers = new Answers(this.#engine, { find: (id) => this.#find(id), settle });
    this.#chronicle = new Chronicle(this.#engine, (id) => this.#find(id));
    this.#creation = new Creation(this.#engine, this.#answers, { settle, revive });
    this.#previews = new Previews(this.#engine, env);
    this.#links = new Links(this.#engine, env, ctx.storage, this.#answers);
    this.#routing = new Routing(this.#engine, env, this.#links);
  }

  override async alarm(): Promise<void> {
    await this.#engine.alarm();
  }

  async create(input: CreateSandbox, terms: CreateTerms, change: Omit<Change, "id">): Promise<SandboxAnswer> {
    return this.#creation.create(input, terms, change);
  }

  async get({ id }: Ask): Promise<SandboxAnswer> {
    const found = this.#find(id);
    return found.ok ? this.#show(found.record) : found;
  }

  async why({ id }: Ask): Promise<Result<{ why: Omit<Why, "chargedMicros"> & { id: string } }>> {
    return this.#chronicle.why(id);
  }

  async resume({ id }: Ask): Promise<Result<{ resume: Resume }>> {
    return this.#chronicle.resume(this.env, id);
  }

  async events({ id }: Ask, after: number, limit: number, waitMs: number): Promise<Result<{ events: RouseEvent[] }>> {
    return this.#chronicle.events(id, after, limit, waitMs);
  }

  async note(id: string, note: EventNote): Promise<void> {
    this.#chronicle.note(id, note);
  }

  async waitFor({ id }: Ask, state: SandboxState, waitMs: number): Promise<SandboxAnswer> {
    const found = this.#find(id);
    if (!found.ok) return found;
    const done = (record: SandboxRecord) =>
      record.id !== found.record.id ||
      record.life.state === state ||
      record.life.state === "stopped" ||
      record.life.state === "deleted";
    await this.#engine.until(done, waitMs);
    return this.get({ id: found.record.id });
  }

  async update(input: UpdateSandbox, change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(change, async (record) => {
      if (input.name !== undefined && input.name !== record.name) {
        return refuse("unavailable", "A sandbox keeps the name it was created with.");
      }
      const changed = updated(record, input);
      if ("code" in changed) return { ok: false, failure: changed };
      this.#engine.save(changed);
      if (changed.configurePending && record.life.state === "running") await this.#engine.configure();
      return this.#indexed(record.id);
    });
  }

  async pause(change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(
      change,
      async (record) => {
        await this.#turn(record, ["starting", "resuming"], change.holdMs);
        return this.#ask(record.id, { type: "pause", reason: "requested" }, "paused", change.holdMs);
      },
      "paused",
    );
  }

  async wake(leaseSeconds: number | undefined, change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(
      change,
      async (record) => {
        if (record.life.state === "running")
          return refuse("not_paused", "The sandbox is running.", { state: record.life.state });
        const event = { type: "wake", ...(leaseSeconds === undefined ? {} : { leaseSeconds }) } as const;
        return this.#ask(record.id, event, "running", change.holdMs, change.cause);
      },
      "running",
    );
  }

  async extend(seconds: number, change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(change, async (record) => {
      const outcome = this.#engine.commit(record.id, { type: "extend", seconds });
      if (!outcome.ok) return outcome;
      return this.#indexed(record.id);
    });
  }

  async hold(name: string, seconds: number, change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(change, async (record) => {
      const now = Date.now();
      const { [name]: _, ...others } = activeHolds(record.holds, now);
      if (seconds > 0 && Object.keys(others).length >= limits.holdsMax)
        return refuse("quota_exceeded", `A sandbox has at most ${limits.holdsMax} holds.`, { max: limits.holdsMax });
      const holds = seconds === 0 ? others : { ...others, [name]: now + seconds * 1000 };
      this.#engine.save({
        ...record,
        holds,
        configurePending: record.configurePending || isLive(record.life.state),
      });
      if (record.life.state === "running") await this.#engine.configure();
      return this.#indexed(record.id);
    });
  }

  async stop(change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(
      change,
      (record) => this.#ask(record.id, { type: "stop" }, "stopped", change.holdMs),
      "stopped",
    );
  }

  async restart(change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(
      change,
      async (record) => {
        await this.#turn(record, ["pausing", "stopping"], change.holdMs);
        return this.#ask(record.id, { type: "restart" }, "running", change.holdMs, change.cause);
      },
      "running",
    );
  }

  async recover(change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(
      change,
      async (record) => {
        await this.#turn(record, ["stopping"], change.holdMs);
        return this.#ask(record.id, { type: "recover" }, "running", change.holdMs, change.cause);
      },
      "running",
    );
  }

  async undelete(change: Change): Promise<SandboxAnswer> {
    const record = this.#engine.record();
    if (!record || (change.id !== null && change.id !== record.id)) return this.#find(change.id) as SandboxAnswer;
    // Taken back already: a lost answer is had again.
    if (record.life.state !== "deleted") return this.#show(record);
    const outcome = this.#engine.commit(record.id, { type: "undelete" });
    if (!outcome.ok) return outcome;
    return this.#indexed(record.id);
  }

  async cutOff(id: string, reason: StopReason): Promise<boolean> {
    this.#engine.commit(id, { type: "cutOff", reason });
    const record = this.#engine.record();
    if (record?.id !== id || !isLive(record.life.state)) return false;
    this.#engine.background(this.#engine.drive());
    return true;
  }

  async endRetention(id: string): Promise<void> {
    const outcome = this.#engine.commit(id, { type: "expire", unpaid: true });
    if (outcome.ok && outcome.changed) this.#engine.background(this.#engine.drive());
  }

  async setRetention(days: number, change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(change, async (record) => {
      this.#engine.save({ ...record, life: { ...record.life, retentionDays: days } });
      return this.#indexed(record.id);
    });
  }

  async remove(graceSeconds: number, change: Change): Promise<Result<{ deleted: DeletedSandbox }>> {
    const { store } = this.#engine;
    const record = store?.record();
    if (!store || !record) return notFound;
    if (change.id !== null && change.id !== record.id) {
      const past = store.past(change.id);
      return past ? { ok: true, deleted: past } : notFound;
    }
    const graceMs = graceSeconds * 1000;
    // Only what is at rest can be taken back; where that fails it is deleted all the same.
    if (graceMs > 0 && record.life.state === "running")
      await this.#ask(record.id, { type: "pause", reason: "requested" }, "paused", TURN_MS);
    this.#engine.commit(record.id, { type: "delete", graceMs });
    const tries = this.#engine.failedTries;
    this.#engine.background(this.#engine.drive());
    const gone = (now: SandboxRecord) =>
      now.id !== record.id ||
      !now.life.purgePending ||
      now.life.undeleteTo !== null ||
      this.#engine.failedTries !== tries;
    await this.#engine.until(gone, change.holdMs);
    await this.#engine.indexed();
    const now = store.record();
    const deleted = now?.id === record.id ? toDeleted(now) : store.past(record.id);
    return deleted ? { ok: true, deleted } : notFound;
  }

  async route(ask: RouteAsk): Promise<Result<{ facts: RouteFacts; grant: RouteGrant | null; woken: boolean }>> {
    return this.#routing.route(ask, (id) => this.#find(id));
  }

  async createLink(input: CreateLink, change: Change): Promise<Result<{ link: Link }>> {
    return this.#links.create(input, change);
  }

  async listLinks({ id }: Ask): Promise<Result<{ links: Link[] }>> {
    const found = this.#find(id);
    return found.ok ? { ok: true, links: this.#links.list(found.record) } : found;
  }

  async getLink(link: string, { id }: Ask): Promise<Result<{ link: Link }>> {
    const found = this.#find(id);
    return found.ok ? this.#links.get(found.record, link) : found;
  }

  async revokeLink(link: string, { id }: Ask): Promise<Result<{ link: Link }>> {
    const found = this.#find(id);
    return found.ok ? this.#links.revoke(found.record, link) : found;
  }

  async linkUsed(link: string, request: string, woke: boolean): Promise<void> {
    if (this.#find(null).ok) this.#links.used(link, request, woke);
  }

  mcp(...[deed, change]: Parameters<SandboxApi["mcp"]>): ReturnType<SandboxApi["mcp"]> {
    return mcpGateway([this.env, this.#engine, this.#links, this.#answers], deed, change);
  }

  async openPort(port: number, access: Access | undefined, terms: PreviewTerms, ask: Ask): Promise<PreviewResult> {
    const found = this.#find(ask.id);
    return found.ok ? this.#previews.open(found, port, access, terms) : found;
  }

  async listPorts({ id }: Ask): Promise<Result<{ previews: Preview[] }>> {
    const found = this.#find(id);
    return found.ok ? this.#previews.list(found) : found;
  }

  async getPort(port: number, terms: PreviewTerms, { id }: Ask): Promise<PreviewResult> {
    const found = this.#find(id);
    return found.ok ? this.#previews.get(found, port, terms) : found;
  }

  async rotatePort(port: number, { id }: Ask): Promise<PreviewResult> {
    const found = this.#find(id);
    return found.ok ? this.#previews.rotate(found, port) : found;
  }

  async closePort(port: number, { id }: Ask): Promise<Result<{ id: string; sandboxId: string }>> {
    const found = this.#find(id);
    return found.ok ? this.#previews.close(found, port) : found;
  }

  async machineEvent(id: string, event: MachineEvent, hostId: string): Promise<Result<{ fate: FrozenFate }>> {
    const found = this.#find(id);
    if (!found.ok) {
      this.#engine.hastenPurge(id);
      return found;
    }
    return machineEvent(this.#engine, found.record, event, hostId);
  }

  async network({ id }: Ask): Promise<Result<{ network: Network }>> {
    const found = this.#find(id);
    return found.ok ? { ok: true, network: this.#engine.outside.show(found.record) } : found;
  }

  async setNetwork(input: SetNetwork, change: Change): Promise<Result<{ network: Network }>> {
    return this.#answers.once(change, async (record) => {
      await this.#engine.outside.setNetwork(record, input);
      await this.#engine.indexed();
      return this.network({ id: record.id });
    });
  }

  async secretsChanged(id: string, own: boolean): Promise<SecretsHeard> {
    const record = this.#engine.record();
    return record?.id === id && !isGoneForGood(record) ? this.#engine.outside.secretsChanged(record, own) : "gone";
  }

  async egressFor(id: string, generation: number, hostId: string): Promise<MachineEgress | null> {
    const found = this.#find(id);
    return found.ok ? this.#engine.outside.lost(found.record, generation, hostId) : null;
  }

  async egressReport(id: string, report: EgressReport, hostId: string): Promise<Result<{ uses: readonly Use[] }>> {
    const found = this.#find(id);
    return found.ok ? { ok: true, uses: this.#engine.outside.report(found.record, report, hostId) } : found;
  }

  async snapshot(input: CreateSnapshot, change: Change): Promise<Result<{ snapshot: Snapshot }>> {
    return this.#answers.once(change, (record) => this.#engine.copies.snapshot(record, input, change));
  }

  async fork(input: ForkSandbox, terms: CreateTerms, change: Change): Promise<Result<{ forks: Forks }>> {
    return this.#answers.once(change, (record) => this.#engine.copies.fork(record, input, terms, change));
  }

  async history({ id }: Ask): Promise<Result<{ points: HistoryPoint[] }>> {
    const found = this.#find(id);
    return found.ok ? { ok: true, points: this.#engine.copies.history(found.record) } : found;
  }

  async diff(query: DiffQuery, { id }: Ask): Promise<Result<{ diff: Diff }>> {
    const found = this.#find(id);
    return found.ok ? this.#engine.differences.between(found.record, query) : found;
  }

  async rollback(point: string, change: Change): Promise<SandboxAnswer> {
    return this.#answers.once(change, async (record) => {
      const ran = record.life.state === "running";
      const rest = () => this.#ask(record.id, { type: "pause", reason: "requested" }, "paused", TURN_MS);
      const failure = await this.#engine.copies.rollback(record, point, rest);
      if (failure) return { ok: false, failure };
      return ran ? this.#revive(record, change) : this.#indexed(record.id);
    });
  }

  async attachVolume(input: CreateVolumeMount, change: Change): Promise<Result<{ attachmentId: string }>> {
    return this.#answers.once(change, (record) => this.#engine.volumes.attach(record, input, change));
  }

  async detachVolume(attachment: string, change: Change): Promise<Result<object>> {
    return this.#answers.once(change, (record) => this.#engine.volumes.detach(record, attachment));
  }

  async holdsVolumes(id: string): Promise<readonly string[]> {
    const found = this.#find(id);
    return found.ok ? found.record.volumes.map(({ attachment }) => attachment) : [];
  }

  async resizeVolume(id: string, attachment: string, sizeMiB: number): Promise<Result<object>> {
    const found = this.#find(id);
    return found.ok ? this.#engine.volumes.resize(found.record, attachment, sizeMiB) : found;
  }

  async copyVolume(id: string, attachment: string, backup: string): Promise<Result<VolumeCopied>> {
    const found = this.#find(id);
    return found.ok ? this.#engine.volumes.copy(found.record, attachment, backup) : found;
  }

  async archiveStep(id: string, step: ArchiveStep, hostId: string): Promise<Result<{ answer: ArchiveAnswer }>> {
    const found = this.#find(id);
    return found.ok ? this.#engine.archiving.step(found.record, step, hostId) : found;
  }

  /** Bring what holds a name to run: woken from RAM, or restarted from disk. */
  async #revive(record: SandboxRecord, { holdMs, cause }: Pick<Change, "holdMs" | "cause">): Promise<SandboxAnswer> {
    const { id } = record;
    await this.#turn(record, ["stopping"], holdMs);
    const now = this.#find(id);
    if (!now.ok) return now;
    const { state } = now.record.life;
    return this.#ask(id, { type: state === "stopped" ? "restart" : "wake" }, "running", holdMs, cause);
  }

  /** Let a step that is in the way end first. */
  async #turn(record: SandboxRecord, states: readonly SandboxState[], holdMs: number): Promise<void> {
    if (!states.includes(record.life.state)) return;
    const tries = this.#engine.failedTries;
    this.#engine.background(this.#engine.drive());
    const over = (now: SandboxRecord) =>
      now.id !== record.id || !states.includes(now.life.state) || this.#engine.failedTries !== tries;
    await this.#engine.until(over, Math.max(holdMs, TURN_MS));
  }

  async #ask(
    id: string,
    event: LifeEvent,
    goal: SandboxState,
    holdMs: number,
    cause: Cause | null = null,
  ): Promise<SandboxAnswer> {
    const lost = goal === "running" ? await this.#engine.hosting.outOfReach(id) : null;
    if (lost) return { ok: false, failure: lost };
    const outcome = this.#engine.commit(id, event, cause);
    return outcome.ok ? this.#settle(id, goal, holdMs) : outcome;
  }

  /** Drive, and answer when the sandbox is at rest, a try found no host, or the time is up. */
  async #settle(id: string, goal: SandboxState, holdMs: number): Promise<SandboxAnswer> {
    const tries = this.#engine.failedTries;
    this.#engine.background(this.#engine.drive());
    // A pause that was overtaken by a wake goes on to the next run at once, and is done all the same.
    const overtaken = ({ life }: SandboxRecord) => goal === "paused" && life.state === "resuming";
    const rest = (now: SandboxRecord) =>
      now.id !== id || !isTransitional(now.life.state) || overtaken(now) || this.#engine.failedTries !== tries;
    const record = await this.#engine.until(rest, holdMs);
    await this.#engine.indexed();
    if (record?.id !== id) return gone;
    if (overtaken(record)) {
      const { life } = record;
      return this.#show({ ...record, life: { ...life, state: "paused", generation: life.generation - 1 } });
    }
    const { state, failure } = record.life;
    const failed = failure && state !== goal && (!isTransitional(state) || this.#engine.failedTries !== tries);
    if (failed) return { ok: false, failure };
    return state === "deleted" ? gone : this.#show(record);
  }

  #find(id: string | null): Found {
    const { store } = this.#engine;
    const record = store?.record();
    if (!store || !record) return notFound;
    if (id !== null && id !== record.id) return store.past(id) ? gone : notFound;
    return record.life.state === "deleted" ? gone : { ok: true, store, record };
  }

  /** Its answer, once lists show the same. */
  async #indexed(id: string): Promise<SandboxAnswer> {
    await this.#engine.indexed();
    return this.get({ id });
  }

  #show(record: SandboxRecord): SandboxAnswer {
    return { ok: true, sandbox: toSandbox(record, urlParts(this.env)) };
  }
}

const notFound = refuse("not_found", "There is no such sandbox.");
const gone = refuse("sandbox_gone", "The sandbox was deleted.");
