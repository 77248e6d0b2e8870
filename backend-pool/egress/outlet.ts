/** One stream of a machine to the outside: judged, connected, and looked at where names decide. */
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { INSIDE_HOST } from "../../sdk/contract/egress.ts";
import { formatAddress, type Address } from "./addresses.ts";
import type { Broker } from "./broker.ts";
import type { Aim, Dialer } from "./dialer.ts";
import type { OperatorHosts, StandIns } from "./hosts.ts";
import { breakOff, firstBytes, join } from "./join.ts";
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

interface Asked {
  readonly aim: Aim;
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
    if (stream.destroyed) return;
    if (!way) return refuse("closed");
    if (this.#open >= HOST_STREAMS_MAX || way.streams.size >= MACHINE_STREAMS_MAX) return refuse("limit");
    const asked = this.#read(way, target);
    if ("rule" in asked) return refuse(asked.rule);
    const end = new AbortController();
    const open: OpenStream = {
      judge: () => this.#judge(way, asked),
      end: () => {
        end.abort();
        breakOff(stream);
      },
    };
    way.streams.add(open);
    this.#open++;
    stream.once("close", () => {
      end.abort();
      way.streams.delete(open);
      this.#open--;
    });
    this.#carry(way, asked, { stream, answer, refuse, signal: end.signal, open }).catch(() => stream.destroy());
  }

  /** What the target means, or the rule that refuses it outright. */
  #read(way: Way, { host: text, port }: OutsideTarget): Asked | { readonly rule: RuleName } {
    const host = hostOf(text);
    if (!host) return { rule: "name" };
    const name = host.kind === "name" ? host.name : this.#options.standIns.nameOf(host.address);
    if (name === INSIDE_HOST && port !== HTTP_PORT) return { rule: "port" };
    const asked: Asked = { aim: name === null ? (host as Aim) : { kind: "name", name }, port, reached: null };
    const verdict = this.#judge(way, asked);
    return verdict.ok ? asked : verdict;
  }

  #judge(way: Way, asked: Asked): Verdict {
    const verdict = this.#judgeAim(way, asked);
    return verdict.ok && asked.reached ? judgeAddress(way.policy, asked.reached, true) : verdict;
  }

  #judgeAim({ policy }: Way, { aim, port }: Asked): Verdict {
    if (aim.kind === "address") return judgeAddress(policy, aim.address, false);
    if (aim.name === INSIDE_HOST) return { ok: true };
    const verdict = judgeName(policy, aim.name);
    const isElsewhere = isLocalName(aim.name) && !this.#options.hosts.place(aim.name, port);
    return verdict.ok && isElsewhere ? { ok: false, rule: "private-address" } : verdict;
  }

  async #carry(way: Way, asked: Asked, carried: Carried): Promise<void> {
    const { aim, port } = asked;
    const { stream, answer, signal } = carried;
    if (aim.kind === "name" && (aim.name === INSIDE_HOST || this.#isBrokered(way, aim.name, port))) {
      answer.open();
      return this.#toBroker(way, aim.name, asked, carried);
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
    this.#join(way, asked, carried, dialed.socket);
  }

  #join(way: Way, asked: Asked, carried: Carried, socket: Socket): void {
    const { stream, open } = carried;
    const { ended } = way.counts.opened(socket);
    socket.once("close", ended);
    if (socket.destroyed) ended();
    if (!way.policy.namesDecide) return join(stream, socket);
    // What speaks first out there is heard at once; what the machine says waits until it is known.
    socket.pipe(stream, { end: false });
    const broken = () => breakOff(stream);
    const gone = () => socket.destroy();
    socket.once("error", broken);
    stream.once("close", gone);
    void firstBytes(stream).then((first) => {
      const refused = first ? this.#frontingOf(way, asked, first.found) : null;
      if (first && refused === null && open.judge(way).ok) {
        socket.unpipe(stream);
        socket.removeListener("error", broken);
        stream.removeListener("close", gone);
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
  #frontingOf({ policy }: Way, { aim }: Asked, found: Sniffed): RuleName | null {
    if (found.kind === "malformed" || found.kind === "more") return "fronting";
    if (found.kind === "other") return null;
    if (aim.kind === "name") return found.names.every((one) => one === aim.name) ? null : "fronting";
    for (const one of found.names) {
      const host = hostOf(one);
      const isSame = host?.kind === "address" && formatAddress(host.address) === formatAddress(aim.address);
      if (isSame) continue;
      if (host?.kind !== "name") return "fronting";
      // The address itself is allowed; a name may still be denied.
      const verdict = judgeName(policy, host.name);
      if (!verdict.ok && verdict.rule.startsWith("deny:")) return verdict.rule;
    }
    return null;
  }

  /** After the answer, a refusal can only be an end. */
  #cut(way: Way, asked: Asked, { stream }: Carried, rule: RuleName): void {
    way.counts.refused(rule, targetOf(asked));
    breakOff(stream);
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
