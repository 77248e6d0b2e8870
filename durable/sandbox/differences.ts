/** What files differ between two points of a sandbox's history. Any host of their kind finds out; the sandbox is left alone. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { Host } from "../../sdk/contract/host.ts";
import type { Diff, DiffQuery } from "../../sdk/contract/snapshot.ts";
import { readBoard } from "../hosts/board-facade.ts";
import { HOST_SILENT_MS, type Placement } from "../hosts/placement.ts";
import type { Result } from "../result.ts";
import { ownPoints, placeAlike, pointName, type Archive, type Point } from "./archive.ts";
import type { Archiving } from "./archiving.ts";
import type { HostClient } from "./host-client.ts";
import type { SandboxRecord } from "./record.ts";

/** Hosts that are asked, one after another, when they have no room or are away. */
const TRIES = 3;

interface Pair {
  readonly archive: Archive;
  readonly from: Point;
  readonly to: Point;
}

export class Differences {
  readonly #archiving: Archiving;
  readonly #env: Env;
  readonly #host: HostClient;
  readonly #now: () => SandboxRecord | null;

  /** @param now what the sandbox is now */
  constructor(archiving: Archiving, env: Env, host: HostClient, now: () => SandboxRecord | null) {
    this.#archiving = archiving;
    this.#env = env;
    this.#host = host;
    this.#now = now;
  }

  async between(record: SandboxRecord, query: DiffQuery): Promise<Result<{ diff: Diff }>> {
    const pair = pairOf(record, query);
    if ("failure" in pair) return { ok: false, failure: pair.failure };
    const names = { from: pointName(pair.from), to: pointName(pair.to) };
    if (pair.from === pair.to) return { ok: true, diff: { ...names, data: [], truncated: false } };
    let { hosts } = await readBoard(this.#env);
    let refusal: Failure | null = null;
    for (let tries = 0; tries < TRIES; tries++) {
      const placement = choose(hosts, record, pair.to);
      if ("failure" in placement) return { ok: false, failure: refusal ?? placement.failure };
      const { hostId, url, session } = placement.host;
      const began = Date.now();
      const states = await this.#states(record, pair, hostId);
      const asked = query.path === undefined ? states : { ...states, path: query.path };
      const answer = await this.#host.diff({ id: hostId, url, session }, asked);
      if (answer.ok) return { ok: true, diff: { ...names, ...answer.value } };
      refusal = answer.failure;
      const isAway = !answer.reached && Date.now() - began < HOST_SILENT_MS;
      if (refusal.code !== "no_capacity" && !isAway) break;
      hosts = hosts.filter((host) => host.hostId !== hostId);
    }
    // A point that was let go meanwhile is not damaged.
    const now = this.#now();
    const later = now?.id === record.id ? pairOf(now, names) : null;
    return { ok: false, failure: later && "failure" in later ? later.failure : (refusal ?? noRoom) };
  }

  async #states({ account, shape }: SandboxRecord, { archive, from, to }: Pair, hostId: string) {
    const state = (point: Point) => this.#archiving.stateOf(account, archive, point, hostId);
    const [before, after] = await Promise.all([state(from), state(to)]);
    return { shape, from: before, to: after };
  }
}

const noRoom: Failure = { code: "no_capacity", message: "No host has room.", retryAfterMs: 5000 };

/** The two points; those that are not named are the newest one that is stored, and the one before. */
function pairOf(record: SandboxRecord, query: DiffQuery): Pair | { readonly failure: Failure } {
  const points = ownPoints(record).filter(({ durableAt }) => durableAt !== null);
  const find = (name: string) => points.find((point) => pointName(point) === name);
  const to = query.to === undefined ? points.at(-1) : find(query.to);
  const from = query.from === undefined ? to && points[points.indexOf(to) - 1] : find(query.from);
  if (record.archive && from && to) return { archive: record.archive, from, to };
  const named = to ? query.from : query.to;
  const message =
    named !== undefined
      ? "There is no such point, or it is not stored."
      : to
        ? `No point before ${pointName(to)} is kept.`
        : "Nothing of the sandbox is stored yet.";
  return {
    failure: { code: "point_not_found", message, ...(named === undefined ? {} : { details: { point: named } }) },
  };
}

/** The sandbox's own host has most of what is needed. */
function choose(hosts: readonly Host[], record: SandboxRecord, to: Point): Placement {
  const own = hosts.find(({ hostId, live }) => live && hostId === record.host?.id);
  if (own?.compatibility === to.compatibility && own !== undefined) return { host: own };
  return placeAlike(hosts, record, to, "No host that is up can read the points.");
}
