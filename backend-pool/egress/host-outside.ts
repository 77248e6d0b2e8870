/** The way out of a host's machines: rules, names, connections, secrets and homes of state, by machine and run. */
import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { createSecureContext, getCACertificates } from "node:tls";
import type { Duplex } from "node:stream";
import { INSIDE_HOST, type EgressReport, type MachineEgress } from "../../sdk/contract/egress.ts";
import { Broker } from "./broker.ts";
import { Authority } from "./ca.ts";
import { Dialer, type DialerOptions } from "./dialer.ts";
import { OperatorHosts, StandIns } from "./hosts.ts";
import { Inside } from "./inside.ts";
import { Nameservers } from "./nameservers.ts";
import { Outlet } from "./outlet.ts";
import type { Outside, OutsideAnswer, OutsideMachine, OutsideTarget } from "./outside.ts";
import { Resolver } from "./resolver.ts";
import { Way } from "./way.ts";

export interface HostOutsideOptions {
  readonly edgeUrl: string;
  readonly hostKey: string;
  /** Certificate and key of the authority; made when it is not there. */
  readonly authorityFile: string;
  readonly hosts?: OperatorHosts;
  /** Addresses of nameservers; null: the host's own. */
  readonly nameservers?: readonly string[] | null;
  /** PEM file of authorities to trust out there, beside those that Node trusts. */
  readonly upstreamCaFile?: string | null;
  /** For tests: other addresses of this host, or another way to connect. */
  readonly dialer?: Partial<Pick<DialerOptions, "own" | "connect">>;
}

const ASLEEP_MAX = 1024;
const ENDED_MAX = 4096;

export interface MachineReport {
  readonly machine: OutsideMachine;
  readonly report: EgressReport;
}

export class HostOutside implements Outside {
  readonly #ways = new Map<string, Way>();
  /** Of runs that were ended: one that goes on after all, counts on. */
  readonly #asleep = new Map<string, Way>();
  /** Last totals of runs that are over, and that nobody asked for yet. */
  readonly #ended = new Map<string, MachineReport>();
  readonly #authority: Authority;
  readonly #resolver: Resolver;
  readonly #outlet: Outlet;
  readonly #inside: Inside;

  private constructor(authority: Authority, options: HostOutsideOptions) {
    const hosts = options.hosts ?? OperatorHosts.parse(undefined);
    const nameservers = new Nameservers(options.nameservers ?? null);
    const standIns = new StandIns([INSIDE_HOST, ...hosts.names]);
    const dialer = new Dialer({ nameservers, hosts, ...options.dialer });
    const extra = options.upstreamCaFile ? [readFileSync(options.upstreamCaFile, "utf8")] : [];
    const trust = createSecureContext({ ca: [...getCACertificates("default"), ...extra] });
    this.#authority = authority;
    this.#inside = new Inside(options);
    const inside = (way: Way, request: Parameters<Inside["forward"]>[1], response: ServerResponse) =>
      this.#inside.forward(way, request, response);
    const broker = new Broker({ authority, dialer, hosts, trust, inside });
    this.#resolver = new Resolver({ nameservers, standIns, always: new Set([INSIDE_HOST]) });
    this.#outlet = new Outlet({ dialer, broker, hosts, standIns });
  }

  /** @throws Error when a file that is named holds something else */
  static async open(options: HostOutsideOptions): Promise<HostOutside> {
    return new HostOutside(await Authority.open(options.authorityFile), options);
  }

  connect(machine: OutsideMachine, target: OutsideTarget, stream: Duplex, answer: OutsideAnswer): void {
    this.#outlet.connect(this.#wayOf(machine), target, stream, answer);
  }

  dns(machine: OutsideMachine, query: Buffer): Promise<Buffer> {
    return this.#resolver.answer(this.#wayOf(machine), query);
  }

  inside(machine: OutsideMachine, request: Http2ServerRequest, response: Http2ServerResponse): void {
    this.#inside.forward(this.#wayOf(machine), request, response);
  }

  caPem(): string {
    return this.#authority.pem;
  }

  changed(machine: OutsideMachine, egress: MachineEgress | null): void {
    const known = this.#ways.get(machine.id);
    if (known && known.machine.generation > machine.generation) return;
    if (known && known.machine.generation < machine.generation) this.gone(machine.id);
    const asleep = this.#asleep.get(machine.id);
    this.#asleep.delete(machine.id);
    const before = asleep?.machine.generation === machine.generation ? asleep : new Way(machine);
    const way = this.#ways.get(machine.id) ?? before;
    this.#ways.set(machine.id, way);
    way.take(egress);
  }

  gone(id: string): void {
    const way = this.#ways.get(id);
    if (!way) return;
    way.close();
    this.#ways.delete(id);
    keepLast(this.#asleep, id, way, ASLEEP_MAX);
    if (way.counts.takeChanged()) keepLast(this.#ended, `${id} ${way.machine.generation}`, reportOf(way), ENDED_MAX);
  }

  /** Totals of a run; null for one that is not known. */
  report(id: string): MachineReport | null {
    const way = this.#ways.get(id);
    return way ? reportOf(way) : null;
  }

  /** Totals of the runs of which there may be news since this was asked last, also of those that are over. */
  news(): MachineReport[] {
    const ended = [...this.#ended.values()];
    this.#ended.clear();
    return [...ended, ...[...this.#ways.values()].filter(({ counts }) => counts.takeChanged()).map(reportOf)];
  }

  close(): void {
    for (const way of this.#ways.values()) way.close();
    this.#ways.clear();
    this.#inside.close();
  }

  /** Null: nothing is let out. */
  #wayOf({ id, generation }: OutsideMachine): Way | null {
    const way = this.#ways.get(id);
    return way?.machine.generation === generation ? way : null;
  }
}

function reportOf({ machine, counts }: Way): MachineReport {
  return { machine, report: counts.report(machine.generation) };
}

function keepLast<T>(all: Map<string, T>, key: string, value: T, most: number): void {
  const oldest = all.keys().next().value;
  if (all.size >= most && oldest !== undefined) all.delete(oldest);
  all.set(key, value);
}
