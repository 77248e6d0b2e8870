/** One stream of a machine to the outside: judged, connected, and looked at where names decide. */
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { INSIDE_HOST } from "../../sdk/contract/egress.ts";
import { formatAddress, type Address } from "./addresses.ts";
import type { Broker } from "./broker.ts";
import type { Aim, Dialer } from "./dialer.ts";
import type { OperatorHosts, StandIns } from "./hosts.ts";
import { firstBytes, join } from "./join.ts";
import { messageOf, refusalOf, targetText } from "./outlet-texts.ts";
import type { OutsideAnswer, OutsideTarget } from "./outside.ts";
import { hostOf, isLocalName, judgeAddress, judgeName, type RuleName, type Verdict } from "./rules.ts";
import type { Sniffed } from "./sniff.ts";
import { isBrokered } from "./substitute.ts";
import type { OpenStream, Way } from "./way.ts";

const MACHINE_STREAMS_MAX = 512;
const HOST_STREAMS_MAX = 16_384;
const HTTP_PORT = 80;
const HTTPS_PORT = 443;

export interface OutletOptions {
  readonly dialer: Dialer;
  readonly broker: Broker;
  readonly hosts: OperatorHosts;
  readonly standIns: StandIns;
}

/** What is asked for, with the names that it may be known by. */
interface Asked {
  readonly aim: Aim;
  readonly names: readonly string[];
  readonly port: number;
  /** What it is connected to, once it is. */
  reached: Address | null;
}

export class Outlet {
  readonly #options: OutletOptions;
  #open = 0;

  constructor(options: OutletOptions) {
    this.#options = options;
  }

  connect(way: Way | null, target: OutsideTarget, stream: Duplex, answer: OutsideAnswer): void {
    stream.on("error", () => undefined);
    const refuse = (rule: RuleName) => {
      way?.counts.refused(rule, targetText(target));
      answer.refuse(refusalOf(rule, targetText(target)));
    };
    if (!way) return refuse("closed");
    if (this.#open >= HOST_STREAMS_MAX || way.streams.size >= MACHINE_STREAMS_MAX) return refuse("limit");
    const asked = this.#read(way, target);
    if ("rule" in asked) return refuse(asked.rule);
    const end = new AbortController();
    const open: OpenStream = {
      judge: () => this.#judge(way, asked),
      end: () => {
        end.abort();
        stream.destroy();
      },
    };
    way.streams.add(open);
    this.#open++;
    stream.once("close", () => {
      end.abort();
      way.streams.delete(open);
      this.#open--;
    });
    if (stream.destroyed) return open.end();
    this.#carry(way, asked, { stream, answer, refuse, signal: end.signal, open }).catch(() => stream.destroy());
  }

  /** What the target means, or the rule that refuses it outright. */
  #read(way: Way, { host: text, port }: OutsideTarget): Asked | { readonly rule: RuleName } {
    const host = hostOf(text);
    if (!host) return { rule: "name" };
    const name = host.kind === "name" ? host.name : this.#options.standIns.nameOf(host.address);
    if (name === INSIDE_HOST && port !== HTTP_PORT) return { rule: "port" };
    const asked: Asked =
      name !== null
        ? { aim: { kind: "name", name }, names: [name], port, reached: null }
        : this.#readAddress(way, host.kind === "address" ? host.address : null, port);
    const verdict = this.#judge(way, asked);
    return verdict.ok ? asked : verdict;
  }

  /** A program that was told an address for a name may ask for the address: that is as good as the name. */
  #readAddress(way: Way, address: Address | null, port: number): Asked {
    if (!address) throw new Error("neither a name nor an address");
    const names = way.told.namesOf(address);
    const named = !judgeAddress(way.policy, address, false).ok && names.some((name) => judgeName(way.policy, name).ok);
    return { aim: { kind: "address", address, named }, names, port, reached: null };
  }

  #judge(way: Way, asked: Asked): Verdict {
    const verdict = this.#judgeAim(way, asked);
    return verdict.ok && asked.reached ? judgeAddress(way.policy, asked.reached, true) : verdict;
  }

  #judgeAim(way: Way, { aim, names, port }: Asked): Verdict {
    if (aim.kind === "name") {
      if (aim.name === INSIDE_HOST) return { ok: true };
      if (isLocalName(aim.name) && !this.#options.hosts.place(aim.name, port)) {
        const verdict = judgeName(way.policy, aim.name);
        return verdict.ok ? { ok: false, rule: "private-address" } : verdict;
      }
      return judgeName(way.policy, aim.name);
    }
    const allowed = names.filter((name) => judgeName(way.policy, name).ok);
    const verdict = judgeAddress(way.policy, aim.address, aim.named && allowed.length > 0);
    if (!verdict.ok || names.length === 0 || allowed.length > 0) return verdict;
    // Every name that it is known by is denied.
    const first = judgeName(way.policy, names[0] ?? "");
    return first.ok || !first.rule.startsWith("deny:") ? verdict : first;
  }

  async #carry(way: Way, asked: Asked, carried: Carried): Promise<void> {
    const { aim, port } = asked;
    const { stream, answer, signal } = carried;
    const brokered = asked.names.filter((name) => this.#isBrokered(way, name, port));
    if (aim.kind === "name" && (aim.name === INSIDE_HOST || brokered.length > 0)) {
      answer.open();
      return this.#toBroker(way, aim.name, asked, carried);
    }
    if (aim.kind === "address" && brokered.length > 0) {
      // Only the greeting says which of the names it is for.
      answer.open();
      const first = await firstBytes(stream);
      if (!first || signal.aborted) return void stream.destroy();
      const { found, taken } = first;
      const name = brokered.find((one) => "names" in found && found.names.includes(one));
      if (name !== undefined) return this.#toBroker(way, name, asked, carried);
      const refused = way.policy.namesDecide ? this.#frontingOf(way, asked, found) : null;
      if (refused) return this.#cut(way, asked, carried, refused);
      const dialed = await this.#options.dialer.dial(() => way.policy, aim, port, signal);
      if (!dialed.ok)
        return dialed.fault.kind === "rule" ? this.#cut(way, asked, carried, dialed.fault.rule) : void stream.destroy();
      asked.reached = dialed.address;
      if (this.#judge(way, asked).ok && !signal.aborted) {
        if (taken.length > 0) dialed.socket.write(taken);
        return this.#join(way, asked, carried, dialed.socket);
      }
      dialed.socket.destroy();
      return void stream.destroy();
    }
    const dialed = await this.#options.dialer.dial(() => way.policy, aim, port, signal);
    if (!dialed.ok) {
      if (signal.aborted) return void stream.destroy();
      if (dialed.fault.kind === "rule") return carried.refuse(dialed.fault.rule);
      return answer.refuse({ code: "host_unavailable", message: messageOf(dialed.fault, targetOf(asked)) });
    }
    // The rules may have changed meanwhile.
    asked.reached = dialed.address;
    const verdict = this.#judge(way, asked);
    if (!verdict.ok || signal.aborted) {
      dialed.socket.destroy();
      return verdict.ok ? void stream.destroy() : carried.refuse(verdict.rule);
    }
    answer.open();
    this.#join(way, asked, carried, dialed.socket, way.policy.namesDecide);
  }

  /** @param looked whether what the machine sends first is held back until it was looked at */
  #join(way: Way, asked: Asked, carried: Carried, socket: Socket, looked = false): void {
    const { stream, open } = carried;
    const { ended } = way.counts.opened(socket);
    socket.once("close", ended);
    socket.on("error", () => undefined);
    stream.once("close", () => stream.readableEnded || socket.destroy());
    if (!looked) return join(stream, socket);
    // What speaks first out there is heard at once; what the machine says waits until it is known.
    socket.pipe(stream, { end: false });
    socket.once("error", () => stream.destroy());
    void firstBytes(stream).then((first) => {
      const refused = first ? this.#frontingOf(way, asked, first.found) : null;
      if (first && refused === null && open.judge(way).ok) {
        socket.unpipe(stream);
        if (first.taken.length > 0) socket.write(first.taken);
        return join(stream, socket);
      }
      socket.destroy();
      if (refused) this.#cut(way, asked, carried, refused);
      else stream.destroy();
    });
  }

  #toBroker(way: Way, name: string, asked: Asked, { stream, open }: Carried): void {
    const isInside = name === INSIDE_HOST;
    const judged: OpenStream = {
      // Without secrets for it any more, the next stream goes through unopened.
      judge: () =>
        isInside || this.#isBrokered(way, name, asked.port)
          ? this.#judge(way, asked)
          : { ok: false, rule: "secret-host" },
      end: open.end,
    };
    way.streams.delete(open);
    way.streams.add(judged);
    stream.once("close", () => way.streams.delete(judged));
    this.#options.broker.serve({
      ...{ way, name, port: asked.port, stream },
      onReached: (address) => (asked.reached = address),
    });
  }

  #isBrokered(way: Way, name: string, port: number): boolean {
    const isPort = port === HTTP_PORT || port === HTTPS_PORT || this.#options.hosts.place(name, port) !== null;
    return isPort && judgeName(way.policy, name).ok && isBrokered(way.secrets, name);
  }

  /** The rule that a greeting for another host breaks; null: none. */
  #frontingOf(way: Way, { aim, names }: Asked, found: Sniffed): RuleName | null {
    if (found.kind === "malformed" || found.kind === "more") return "fronting";
    if (found.kind === "other") return null;
    if (aim.kind === "name") return found.names.every((one) => one === aim.name) ? null : "fronting";
    for (const one of found.names) {
      const host = hostOf(one);
      if (!host) return "fronting";
      if (host.kind === "address") {
        if (formatAddress(host.address) !== formatAddress(aim.address)) return "fronting";
      } else if (aim.named) {
        if (!names.includes(one) || !judgeName(way.policy, one).ok) return "fronting";
      } else {
        const verdict = judgeName(way.policy, one);
        if (!verdict.ok && verdict.rule.startsWith("deny:")) return verdict.rule;
      }
    }
    return null;
  }

  /** After the answer, a refusal can only be an end. */
  #cut(way: Way, asked: Asked, { stream }: Carried, rule: RuleName): void {
    way.counts.refused(rule, targetOf(asked));
    stream.destroy();
  }
}

interface Carried {
  readonly stream: Duplex;
  readonly answer: OutsideAnswer;
  readonly refuse: (rule: RuleName) => void;
  readonly signal: AbortSignal;
  readonly open: OpenStream;
}

function targetOf({ aim, port }: Asked): string {
  return targetText({ host: aim.kind === "name" ? aim.name : formatAddress(aim.address), port });
}
