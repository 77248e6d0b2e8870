/** Where the machine is and who may come in: answers that let the edge carry requests without asking again. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { ticketSecret } from "../../sdk/contract/host-secrets.ts";
import { isKeptBack, ruleFor } from "../../sdk/contract/wake-rule.ts";
import { sign, signingKey, type SigningKey } from "../../sdk/contract/ticket.ts";
import { refuse, type Result, type RouteAsk, type RouteFacts, type RouteGrant } from "./api.ts";
import type { Engine } from "./engine.ts";
import type { Links } from "./links.ts";
import { isTransitional } from "./lifecycle.ts";
import { visibilityOf } from "./previews.ts";
import type { SandboxRecord } from "./record.ts";
import type { SandboxStore } from "./store.ts";
import { wakeLimit } from "./wake-limit.ts";

/** How long a ticket is good, milliseconds. */
export const TICKET_MS = 300_000;

/** A sandbox that is there, or why it is not. */
export type Found =
  | { readonly ok: true; readonly store: SandboxStore; readonly record: SandboxRecord }
  | { readonly ok: false; readonly failure: Failure };

export class Routing {
  readonly #engine: Engine;
  readonly #env: Env;
  readonly #links: Links;
  /** Of the host that the sandbox is on. */
  #key: { readonly hostId: string; readonly key: Promise<SigningKey> } | undefined;

  constructor(engine: Engine, env: Env, links: Links) {
    this.#engine = engine;
    this.#env = env;
    this.#links = links;
  }

  async route(
    ask: RouteAsk,
    find: (id: string | null) => Found,
  ): Promise<Result<{ facts: RouteFacts; grant: RouteGrant | null; woken: boolean }>> {
    const found = find(ask.id);
    if (!found.ok) return found;
    const { id } = found.record;
    const { holdsSockets = found.record.holdsSockets } = ask;
    if (holdsSockets !== found.record.holdsSockets) found.store.saveRecord({ ...found.record, holdsSockets });
    const endsAt = Date.now() + ask.waitMs;
    let verify = ask.verify;
    let woken = false;
    for (;;) {
      const again = find(id);
      if (!again.ok) return again;
      const { record } = again;
      const { state } = record.life;
      if (state === "running") {
        if (verify) {
          verify = false;
          const failure = await this.#engine.hosting.verify(record);
          if (failure) return { ok: false, failure };
          continue;
        }
        return { ok: true, facts: this.#facts(again.store, record), grant: await this.#grant(record), woken };
      }
      const rule = ask.subject && ruleFor(record.wakeRules, ask.subject);
      if (!ask.wake || (rule && isKeptBack(rule, false)))
        return { ok: true, facts: this.#facts(again.store, record), grant: null, woken };
      if (!record.autoWake && (state === "paused" || state === "pausing"))
        return refuse("sandbox_paused", "The sandbox is paused and wakes only when told to.");
      if (state === "stopping") return refuse("sandbox_stopped", "The sandbox is stopping.", { state });
      const capped = this.#capped(record, ask);
      if (capped) return { ok: false, failure: capped };
      const lost = await this.#engine.hosting.outOfReach(id);
      if (lost) return { ok: false, failure: lost };
      const outcome = this.#engine.commit(id, { type: "wake" }, ask.cause);
      if (!outcome.ok) return outcome;
      woken = true;
      const tries = this.#engine.failedTries;
      this.#engine.background(this.#engine.drive());
      const left = endsAt - Date.now();
      const after = await this.#engine.until(
        (now) => now.id !== id || !isTransitional(now.life.state) || this.#engine.failedTries !== tries,
        left,
      );
      if (after?.id !== id || after.life.state === "running") continue;
      if (after.life.failure && (!isTransitional(after.life.state) || this.#engine.failedTries !== tries))
        return { ok: false, failure: after.life.failure };
      if (isTransitional(after.life.state))
        return {
          ok: false,
          failure: { code: "sandbox_waking", message: "The sandbox is waking.", retryAfterMs: 1000 },
        };
    }
  }

  /** Why requests may not wake the sandbox again now. */
  #capped(record: SandboxRecord, { cause }: RouteAsk): Failure | null {
    const { state } = record.life;
    if (state === "resuming" || state === "starting") return null;
    if (cause === null || cause.kind === "api" || cause.kind === "schedule") return null;
    return wakeLimit(record, this.#engine.timeline, Date.now());
  }

  #facts(store: SandboxStore, record: SandboxRecord): RouteFacts {
    const { state, generation } = record.life;
    const ports = store
      .previews()
      .map((row) => [row.port, { visibility: visibilityOf(record, row), version: row.version }] as const);
    return {
      id: record.id,
      state,
      generation,
      access: record.access,
      ports: Object.fromEntries(ports),
      rules: record.wakeRules,
      sockets: record.sockets,
      localhostPorts: record.localhostPorts,
      links: this.#links.facts(Date.now()),
    };
  }

  async #grant(record: SandboxRecord): Promise<RouteGrant | null> {
    if (!record.host) return null;
    const { host } = record;
    if (this.#key?.hostId !== host.id) {
      const secret = ticketSecret(this.#env.ROUSE_SECRET, host.id);
      this.#key = { hostId: host.id, key: secret.then((text) => signingKey(text, "ticket")) };
    }
    const ticketExpiresAt = Date.now() + TICKET_MS;
    const ticket = await sign(await this.#key.key, { m: record.id, g: record.life.generation, e: ticketExpiresAt });
    return { hostId: host.id, hostUrl: host.url, ticket, ticketExpiresAt };
  }
}
