/**
 * Connects to what a machine wants to reach: a name is resolved once, each of its addresses is held against the rules
 * and against what is never reached, and the connection goes to an address that was.
 */
import { connect, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { formatAddress, isNeverReached, parseAddress, type Address } from "./addresses.ts";
import type { OperatorHosts, Place } from "./hosts.ts";
import type { Nameservers } from "./nameservers.ts";
import { judgeAddress, type Policy, type RuleName } from "./rules.ts";

const TRY_MS = 5000;
const TRIES_MAX = 6;
const PROBE_MS = 60_000;

/** What is to be reached: a name, or an address that somebody asked for as such. */
export type Aim =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "address"; readonly address: Address };

/** Why nothing is connected: a rule, or the network. */
export type DialFault =
  | { readonly kind: "rule"; readonly rule: RuleName }
  | { readonly kind: "nxdomain" | "unanswered" | "unreachable" | "timeout" };

type Found =
  | { readonly ok: true; readonly places: readonly Place[] }
  | { readonly ok: false; readonly fault: DialFault };
export type Dialed =
  | { readonly ok: true; readonly socket: Socket; readonly address: Address | null }
  | { readonly ok: false; readonly fault: DialFault };

export interface DialerOptions {
  readonly nameservers: Nameservers;
  readonly hosts: OperatorHosts;
  /** Addresses of this host, now. */
  readonly own?: () => readonly Address[];
  readonly connect?: (place: Place) => Socket;
}

export class Dialer {
  readonly #options: Required<DialerOptions>;

  constructor(options: DialerOptions) {
    this.#options = { own: ownAddresses, connect: open, ...options };
  }

  /** Where to connect to, in the order in which to try, by the rules as they are once that is known. */
  async #find(policy: () => Policy, aim: Aim, port: number): Promise<Found> {
    const { hosts, nameservers } = this.#options;
    if (aim.kind === "address") return this.#judge(policy(), [aim.address], port, false);
    const place = hosts.place(aim.name, port);
    if (place) return judgePlace(policy(), place);
    const found = await nameservers.lookup(aim.name);
    return found.ok ? this.#judge(policy(), found.addresses, port, true) : { ok: false, fault: { kind: found.fault } };
  }

  /** @param signal ends it, and the connection under way */
  async dial(policy: () => Policy, aim: Aim, port: number, signal: AbortSignal): Promise<Dialed> {
    const found = await this.#find(policy, aim, port);
    if (!found.ok) return found;
    let fault: DialFault = { kind: "unreachable" };
    for (const place of found.places.slice(0, TRIES_MAX)) {
      if (signal.aborted) break;
      const tried = await this.#try(place, signal);
      if (tried.ok) return tried;
      fault = tried.fault;
    }
    return { ok: false, fault };
  }

  /** Those that may be reached; where none may, what refuses the first. */
  #judge(policy: Policy, addresses: readonly Address[], port: number, named: boolean): Found {
    const own = this.#options.own();
    const places: Place[] = [];
    let refused: RuleName = "private-address";
    for (const address of addresses.toReversed()) {
      const verdict = judgeAddress(policy, address, named);
      if (isNeverReached(address, own)) refused = "private-address";
      else if (!verdict.ok) refused = verdict.rule;
      else places.unshift({ address: formatAddress(address), port });
    }
    return places.length > 0 ? { ok: true, places } : { ok: false, fault: { kind: "rule", rule: refused } };
  }

  #try(place: Place, signal: AbortSignal): Promise<Dialed> {
    return new Promise((resolve) => {
      const socket = this.#options.connect(place);
      const end = (dialed: Dialed) => {
        clearTimeout(timer);
        signal.removeEventListener("abort", gone);
        socket.removeListener("error", failed);
        socket.removeListener("connect", connected);
        // Whoever gets it listens by itself, but maybe not yet.
        socket.on("error", () => undefined);
        if (!dialed.ok) socket.destroy();
        resolve(dialed);
      };
      const gone = () => end({ ok: false, fault: { kind: "unreachable" } });
      const failed = (fault: NodeJS.ErrnoException) =>
        end({ ok: false, fault: { kind: fault.code === "ETIMEDOUT" ? "timeout" : "unreachable" } });
      const connected = () => {
        socket.setNoDelay(true);
        // An end that is gone without a word is found out.
        socket.setKeepAlive(true, PROBE_MS);
        end({ ok: true, socket, address: parseAddress(place.address) });
      };
      const timer = setTimeout(() => end({ ok: false, fault: { kind: "timeout" } }), TRY_MS);
      signal.addEventListener("abort", gone);
      socket.once("error", failed);
      socket.once("connect", connected);
    });
  }
}

/** The operator says where it is, so it may be private; the sandbox's own rules still say no. */
function judgePlace(policy: Policy, place: Place): Found {
  const address = parseAddress(place.address);
  const verdict = address ? judgeAddress(policy, address, true) : null;
  if (verdict?.ok) return { ok: true, places: [place] };
  return { ok: false, fault: { kind: "rule", rule: verdict?.rule ?? "private-address" } };
}

function ownAddresses(): Address[] {
  return Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).map(({ address }) => parseAddress(address.replace(/%.*$/, ""))).filter((address) => address !== null),
  );
}

function open({ address, port }: Place): Socket {
  return connect({ host: address, port, allowHalfOpen: true });
}
