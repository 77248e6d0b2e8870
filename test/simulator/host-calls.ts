/** Stands in for the client of hosts that `step.ts` calls: the fleet answers, when it is time on the virtual clock. */
import type { HostAddress, HostAnswer, HostClient } from "../../durable/sandbox/host-client.ts";
import type { Machine } from "../../sdk/contract/host.ts";
import { numberOf } from "./board.ts";
import type { Fleet, HostedMachine, HostStatus, Refusal, Verb } from "./fleet.ts";

interface Call {
  readonly host: number;
  readonly verb: Verb;
  readonly generation: number;
  readonly beganAt: number;
  /** The host took it. */
  taken: boolean;
  readonly refused: Refusal | null;
  readonly resolve: (answer: HostAnswer<Machine>) => void;
}

/** A call to a host without power lasts until the client gives up (`host-client.ts`); a network that is cut says so. */
const SILENCE_MS: Readonly<Record<Exclude<HostStatus, "up">, Readonly<Record<Verb, number>>>> = {
  cut: { create: 10, boot: 10, wake: 10, pause: 10, destroy: 10 },
  down: { create: 180_000, boot: 180_000, wake: 60_000, pause: 60_000, destroy: 60_000 },
};
/** When a host without room says to come back, milliseconds. */
const FULL_RETRY_MS = 5000;

export interface Clock {
  now(): number;
  /** Have `done` called for a name at a time. */
  callDone(at: number, name: number): void;
}

type Asked = Pick<HostClient, "create" | "act" | "get" | "destroy">;

export class HostCalls implements Asked {
  readonly #fleet: Fleet;
  readonly #clock: Clock;
  readonly #calls = new Map<number, Call>();

  constructor(fleet: Fleet, clock: Clock) {
    this.#fleet = fleet;
    this.#clock = clock;
  }

  create(host: HostAddress, id: string, body: object): Promise<HostAnswer<Machine>> {
    return this.#call(host, id, "create", body);
  }

  act(host: HostAddress, id: string, verb: string, body: object): Promise<HostAnswer<Machine>> {
    if (verb !== "wake" && verb !== "boot" && verb !== "pause") throw new Error(`no life here comes to ${verb}`);
    return this.#call(host, id, verb, body);
  }

  get(host: HostAddress, id: string): Promise<HostAnswer<Machine>> {
    const number = numberOf(host);
    if (this.#fleet.status[number] !== "up") return Promise.resolve(silent);
    return Promise.resolve(this.#look(number, Number(id)));
  }

  async destroy(host: HostAddress, id: string): Promise<HostAnswer<null>> {
    const answer = await this.#call(host, id, "destroy", {});
    return answer.ok ? { ok: true, value: null } : answer;
  }

  /** The call of a name is over. false: nobody answers it yet. */
  done(name: number): boolean {
    const call = this.#calls.get(name);
    if (!call) throw new Error(`no call of name ${name} is under way`);
    const { host, verb, generation, beganAt, refused } = call;
    const status = this.#fleet.status[host];
    if (call.taken && status === "down") {
      // What was under way on a host without power never happens, and nobody says so.
      call.taken = false;
      const givenUpAt = beganAt + SILENCE_MS.down[verb];
      if (givenUpAt > this.#clock.now()) {
        this.#clock.callDone(givenUpAt, name);
        return false;
      }
    }
    this.#calls.delete(name);
    if (!call.taken) call.resolve(silent);
    else if (refused) call.resolve({ ok: false, reached: true, failure: refusals[refused] });
    else {
      this.#fleet.finish(host, name, verb, generation);
      // Behind a cut it happens, and the answer is lost.
      call.resolve(status === "cut" ? silent : this.#look(host, name, verb === "destroy"));
    }
    return true;
  }

  #call(address: HostAddress, id: string, verb: Verb, body: object): Promise<HostAnswer<Machine>> {
    const host = numberOf(address);
    const name = Number(id);
    const now = this.#clock.now();
    const { generation = Infinity } = body as { generation?: number };
    const status = this.#fleet.status[host] ?? "up";
    const begun = status === "up" ? this.#fleet.begin(host, name, verb, generation, now) : null;
    const refused = begun && "refused" in begun ? begun.refused : null;
    const at = status === "up" ? (begun && "doneAt" in begun ? begun.doneAt : now) : now + SILENCE_MS[status][verb];
    this.#clock.callDone(at, name);
    return new Promise((resolve) => {
      this.#calls.set(name, { host, verb, generation, beganAt: now, taken: status === "up", refused, resolve });
    });
  }

  #look(host: number, name: number, gone = false): HostAnswer<Machine> {
    const machine = this.#fleet.machine(host, name);
    if (machine.state === "none" && !gone) return { ok: false, reached: true, failure: refusals.not_found };
    return { ok: true, value: shown(machine, this.#clock.now()) };
  }
}

const silent = {
  ok: false,
  reached: false,
  failure: { code: "host_unavailable", message: "The host does not answer.", retryAfterMs: 1000 },
} as const;

const refusals = {
  no_capacity: { code: "no_capacity", message: "The host has no room.", retryAfterMs: FULL_RETRY_MS },
  conflict: { code: "conflict", message: "The machine's state does not allow it." },
  not_found: { code: "not_found", message: "The machine is not on this host." },
} as const;

/** A machine as its host describes it, as far as `step.ts` reads it. */
export function shown({ state, generation }: HostedMachine, now: number): Machine {
  const memory = state === "running" ? "live" : state === "paused" || state === "waking" ? "saved" : "none";
  const endReason = state === "stopped" ? "vm_crashed" : null;
  return { state, generation, memory, lastActiveAt: isoSecond(now), endReason } as Machine;
}

let last = { second: -1, text: "" };

/** To the second, because most of a simulation's time would go into times. */
function isoSecond(now: number): string {
  const second = Math.floor(now / 1000);
  if (second !== last.second) last = { second, text: new Date(second * 1000).toISOString() };
  return last.text;
}
