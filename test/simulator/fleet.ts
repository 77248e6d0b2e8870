/**
 * The hosts: what each runs and has room for. They keep the host agent's promises (one machine per id, fenced by
 * generation, idempotent steps) and refuse with `no_capacity` what they have no memory for.
 */
import { defaults } from "../../sdk/contract/sandbox.ts";
import type { Invariants } from "./invariants.ts";

/** A host of 32 GiB: 15 machines of the default shape run at once, and some hundreds sleep on its disk. */
export const HOST_MEMORY_MIB = 32_768;
export const HOST_SYSTEM_MIB = 1536;
export const HOST_DISK_MIB = 1_048_576;
/** RAM file and what a guest has written, MiB. */
export const MACHINE_DISK_MIB = defaults.memoryMiB + 1024;
export const MACHINE_MIB = defaults.memoryMiB;
/** Wakes, creations and boots that a host does at once; more wait their turn. */
export const PARALLEL_WAKES = 4;
/** How long each takes once it has its turn, milliseconds; a pause takes no turn. */
export const STEP_MS = { create: 400, wake: 250, boot: 2000, pause: 300, destroy: 50 } as const;
export type Verb = keyof typeof STEP_MS;

export const machineStates = ["none", "creating", "running", "paused", "waking", "stopped"] as const;
export type MachineState = (typeof machineStates)[number];
/** `cut`: its machines run on, and nobody reaches it. `down`: without power; what ran is lost, what slept is kept. */
export type HostStatus = "up" | "cut" | "down";

export interface HostedMachine {
  readonly state: MachineState;
  readonly generation: number;
}
export type Refusal = "no_capacity" | "conflict" | "not_found";
export type Begun = { readonly doneAt: number } | { readonly refused: Refusal };

const NONE: HostedMachine = { state: "none", generation: 0 };
const awake = (state: MachineState): boolean => state === "running" || state === "waking" || state === "creating";

export class Fleet {
  /** Told of every host whose machines change. */
  onChange: (host: number) => void = () => undefined;
  readonly size: number;
  readonly status: HostStatus[];
  readonly draining: boolean[];
  /** Memory of machines that run or begin to, MiB. */
  readonly usedMiB: Int32Array;
  readonly peakMiB: Int32Array;
  readonly #machines: Map<number, HostedMachine>[];
  /** When each of a host's turns is free again. */
  readonly #turns: Float64Array;
  /** Hosts that run each name now. */
  readonly #runners: Uint8Array;
  #left: (readonly [host: number, name: number])[] = [];
  readonly #invariants: Invariants;

  constructor(size: number, names: number, invariants: Invariants) {
    this.size = size;
    this.status = Array.from({ length: size }, () => "up");
    this.draining = Array.from({ length: size }, () => false);
    this.usedMiB = new Int32Array(size);
    this.peakMiB = new Int32Array(size);
    this.#machines = Array.from({ length: size }, () => new Map<number, HostedMachine>());
    this.#turns = new Float64Array(size * PARALLEL_WAKES);
    this.#runners = new Uint8Array(names);
    this.#invariants = invariants;
  }

  machine(host: number, name: number): HostedMachine {
    return this.#on(host).get(name) ?? NONE;
  }

  count(host: number): number {
    return this.#on(host).size;
  }

  freeMiB(host: number): number {
    return HOST_MEMORY_MIB - HOST_SYSTEM_MIB - (this.usedMiB[host] ?? 0);
  }

  freeDiskMiB(host: number): number {
    return HOST_DISK_MIB - this.count(host) * MACHINE_DISK_MIB;
  }

  /** Take a call, as `Machines` of the host agent does. */
  begin(host: number, name: number, verb: Verb, generation: number, now: number): Begun {
    const machine = this.machine(host, name);
    if (verb === "destroy") return { doneAt: now + STEP_MS.destroy };
    if (machine.state === "none" && verb !== "create") return { refused: "not_found" };
    if (generation < machine.generation) return { refused: "conflict" };
    if (verb === "pause") {
      if (machine.state === "paused") return { doneAt: now };
      return machine.state === "running" ? { doneAt: now + STEP_MS.pause } : { refused: "conflict" };
    }
    if (machine.state === "running" && machine.generation === generation) return { doneAt: now };
    const from: readonly MachineState[] =
      verb === "create"
        ? ["none", "creating"]
        : verb === "wake"
          ? ["paused", "waking"]
          : ["stopped", "paused", "running"];
    if (!from.includes(machine.state)) return { refused: "conflict" };
    if (!awake(machine.state) && this.freeMiB(host) < MACHINE_MIB) return { refused: "no_capacity" };
    this.#set(host, name, { state: verb === "create" ? "creating" : "waking", generation });
    return { doneAt: this.#turn(host, now, STEP_MS[verb]) };
  }

  /** A call is done. Answers what the machine is then. */
  finish(host: number, name: number, verb: Verb, generation: number): HostedMachine {
    const machine = this.machine(host, name);
    if (verb === "destroy") this.#set(host, name, NONE);
    else if (machine.generation === generation && machine.state !== "stopped")
      this.#set(host, name, { state: verb === "pause" ? "paused" : "running", generation });
    return this.machine(host, name);
  }

  /** @returns names whose machines ran */
  lose(host: number, how: "cut" | "down"): number[] {
    this.status[host] = how;
    const running = [...this.#on(host)].filter(([, { state }]) => state === "running").map(([name]) => name);
    if (how === "cut") return running;
    for (const [name, { state, generation }] of [...this.#on(host)]) {
      if (state === "running") this.#set(host, name, { state: "stopped", generation });
      // The state of a wake that was not done is still there; a creation that was not done left nothing.
      if (state === "waking") this.#set(host, name, { state: "paused", generation });
      if (state === "creating") this.#set(host, name, NONE);
    }
    return running;
  }

  /** The right of a host that is cut off to run machines is nearly over (`fence.ts`): it puts them to sleep. */
  freeze(host: number): void {
    if (this.status[host] !== "cut") return;
    for (const [name, { state, generation }] of [...this.#on(host)])
      if (state === "running") this.#set(host, name, { state: "paused", generation });
  }

  /** A machine that was given up, to be removed as soon as its host can be told. */
  leave(host: number, name: number): void {
    this.#left.push([host, name]);
  }

  /** The host is back. @returns machines that ended by themselves, which it reports */
  restore(host: number): { name: number; generation: number }[] {
    const ended = this.status[host] === "down";
    this.status[host] = "up";
    for (const [where, name] of this.#left) if (where === host) this.#set(host, name, NONE);
    this.#left = this.#left.filter(([where]) => where !== host);
    this.#turns.fill(0, host * PARALLEL_WAKES, (host + 1) * PARALLEL_WAKES);
    return ended
      ? [...this.#on(host)].flatMap(([name, { state, generation }]) =>
          state === "stopped" ? [{ name, generation }] : [],
        )
      : [];
  }

  #set(host: number, name: number, next: HostedMachine): void {
    const before = this.machine(host, name);
    const change = Number(awake(next.state)) - Number(awake(before.state));
    this.usedMiB[host] = (this.usedMiB[host] ?? 0) + change * MACHINE_MIB;
    this.peakMiB[host] = Math.max(this.peakMiB[host] ?? 0, this.usedMiB[host] ?? 0);
    this.onChange(host);
    const runs = Number(next.state === "running") - Number(before.state === "running");
    this.#runners[name] = (this.#runners[name] ?? 0) + runs;
    if (next.state === "none") this.#on(host).delete(name);
    else this.#on(host).set(name, next);
    const example = () => `name ${name} on host ${host}, generation ${next.generation}`;
    this.#invariants.check((this.#runners[name] ?? 0) <= 1, "a name has at most one running incarnation", example);
    this.#invariants.check(this.freeMiB(host) >= 0, "a host runs no more than its memory", example);
    this.#invariants.check(
      next.state !== "running" || next.generation >= before.generation,
      "a host runs no older generation",
      example,
    );
  }

  /** The end of a step that takes the first free turn. */
  #turn(host: number, now: number, ms: number): number {
    let first = host * PARALLEL_WAKES;
    for (let turn = first; turn < (host + 1) * PARALLEL_WAKES; turn++)
      if ((this.#turns[turn] ?? 0) < (this.#turns[first] ?? 0)) first = turn;
    const end = Math.max(now, this.#turns[first] ?? 0) + ms;
    this.#turns[first] = end;
    return end;
  }

  #on(host: number): Map<number, HostedMachine> {
    const machines = this.#machines[host];
    if (!machines) throw new Error(`there is no host ${host}`);
    return machines;
  }
}
