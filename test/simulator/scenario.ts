/** The four things that happen to the fleet, one after another, and what each comes to. */
import { isTransitional } from "../../durable/sandbox/lifecycle.ts";
import { Random } from "../faults/random.ts";
import { HOST_MEMORY_MIB, HOST_SYSTEM_MIB, MACHINE_MIB } from "./fleet.ts";
import { percentile, spreadOf, Tally, type Spread } from "./tally.ts";
import type { World } from "./world.ts";

const MINUTE_MS = 60_000;
/** Creations per host and second: at the end of the rush about five of six places of the fleet are taken. */
const CREATIONS_PER_HOST_SECOND = 0.0417;
export const RUSH_SECONDS = 5;
const RACK = 40;
const RACK_AWAY_MS = 30 * MINUTE_MS;

export interface CreationResult {
  readonly minutes: number;
  /** Names on each host. */
  readonly names: Spread;
  /** Machines that ran at once on each host at its busiest, of `places`. */
  readonly busiest: Spread;
  readonly places: number;
  readonly hostsEverFull: number;
  readonly boardRefusals: number;
  readonly staleChoices: number;
  readonly waitMs: { readonly p50: number; readonly p99: number; readonly max: number };
}

/** All names are made, evenly over a time. */
export async function creation(world: World): Promise<CreationResult> {
  const { fleet, population } = world;
  const tally = begin(world, 4);
  const windowMs = Math.round((population.size / (fleet.size * CREATIONS_PER_HOST_SECOND)) * 1000);
  for (let name = 0; name < population.size; name++)
    world.at(world.now + Math.floor((name / population.size) * windowMs), "create", name);
  await world.run();
  audit(world);
  for (let name = 0; name < population.size; name++)
    world.invariants.check(population.exists(name), "every name is created in the end", () => `name ${name}`);
  const places = Math.floor((HOST_MEMORY_MIB - HOST_SYSTEM_MIB) / MACHINE_MIB);
  const busiest = [...fleet.peakMiB].map((mib) => mib / MACHINE_MIB);
  return {
    minutes: windowMs / MINUTE_MS,
    names: spreadOf(Array.from({ length: fleet.size }, (_, host) => fleet.count(host))),
    busiest: spreadOf(busiest),
    places,
    hostsEverFull: busiest.filter((count) => count >= places).length,
    boardRefusals: tally.boardRefusals,
    staleChoices: tally.staleChoices,
    waitMs: waitsOf(tally.waits),
  };
}

export interface RushResult {
  readonly names: number;
  readonly created: number;
  readonly choicesPerName: number;
  readonly givenUp: number;
  readonly hostsUsed: number;
  readonly waitMs: { readonly p50: number; readonly p99: number; readonly max: number };
}

/** Creations for some seconds on an empty fleet, by people who wait for room for two minutes as the SDK does. */
export async function rush(world: World): Promise<RushResult> {
  const { fleet, population } = world;
  const tally = begin(world, 4);
  world.patienceMs = 2 * MINUTE_MS;
  for (let name = 0; name < population.size; name++)
    world.at(world.now + Math.floor((name / population.size) * RUSH_SECONDS * 1000), "create", name);
  await world.run();
  const created = tally.waits.length;
  world.invariants.check(
    created + tally.givenUp === population.size,
    "every creation of the rush is done or given up",
    () => `${created} and ${tally.givenUp} of ${population.size}`,
  );
  return {
    names: population.size,
    created,
    choicesPerName: tally.creations / population.size,
    givenUp: tally.givenUp,
    hostsUsed: fleet.peakMiB.filter((mib) => mib > 0).length,
    waitMs: waitsOf(tally.waits),
  };
}

/** Names of a rush that comes as fast as `creation`. */
export function rushNames(hosts: number): number {
  return Math.round(hosts * CREATIONS_PER_HOST_SECOND * RUSH_SECONDS);
}

export interface StormResult {
  readonly asked: number;
  readonly served: number;
  readonly refusals: number;
  readonly refusedNames: number;
  readonly refusingHosts: number;
  readonly waitMs: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly refusedWaitMs: { readonly p50: number; readonly p99: number; readonly max: number };
}

/** A tenth of all names is wanted within ten minutes, most of them early; people stay for a while. */
export async function storm(world: World, seed: string): Promise<StormResult> {
  const random = new Random(`${seed}/storm`);
  const tally = begin(world, 20);
  const asked = pick(world, random, 0.1);
  for (const name of asked) world.at(world.now + Math.floor(random.next() ** 2 * 10 * MINUTE_MS), "ask", name);
  await world.run();
  audit(world);
  const served = tally.waits.length + tally.warm;
  world.invariants.check(
    served === asked.length,
    "everybody in the storm is served in the end",
    () => `${served} of ${asked.length}`,
  );
  return {
    asked: asked.length,
    served,
    refusals: tally.wakeRefusals,
    refusedNames: tally.refusedNames.size,
    refusingHosts: tally.refusingHosts.size,
    waitMs: waitsOf(tally.waits),
    refusedWaitMs: waitsOf(tally.refusedWaits),
  };
}

export interface RackResult {
  readonly hosts: number;
  readonly running: number;
  readonly hostLost: number;
  readonly wakeRefusals: number;
  readonly notRecovered: number;
  readonly unanswered: number;
  readonly triesByTimer: number;
  readonly triesByAsking: number;
  readonly watchAlarms: number;
  readonly stranded: number;
  readonly maxWaitMinutes: number;
}

/** A rack is lost for half an hour, on a busy day on which a few names are made anew as well. */
export async function rack(world: World, seed: string, how: "cut" | "down"): Promise<RackResult> {
  const { fleet } = world;
  const random = new Random(`${seed}/rack/${how}`);
  const tally = begin(world, 4);
  const from = world.now + 10 * MINUTE_MS;
  const size = Math.max(1, Math.min(RACK, Math.floor(fleet.size / 10)));
  const first = random.int(0, fleet.size - size);
  for (let host = first; host < first + size; host++) world.loseHost(host, how, from, from + RACK_AWAY_MS);
  traffic(world, random, 0.3, 40 * MINUTE_MS, "ask");
  traffic(world, random, 0.01, MINUTE_MS, "renew", 10 * MINUTE_MS - MINUTE_MS / 3);
  await world.run();
  audit(world);
  world.invariants.check(tally.lostRuns > 0, "something ran on the rack that was lost", () => how);
  world.invariants.check(world.lost.size === 0, "everything that ran on a lost host recovers", () =>
    [...world.lost].slice(0, 5).join(", "),
  );
  return {
    hosts: size,
    running: tally.lostRuns,
    hostLost: tally.hostLost,
    wakeRefusals: tally.wakeRefusals,
    notRecovered: world.lost.size,
    unanswered: tally.unanswered,
    triesByTimer: tally.triesByTimer,
    triesByAsking: tally.triesByAsking,
    watchAlarms: tally.watchAlarms,
    stranded: tally.stranded,
    maxWaitMinutes: waitsOf(tally.waits).max / MINUTE_MS,
  };
}

export interface DrainResult {
  readonly hosts: number;
  readonly creations: number;
  /** Names on the drained hosts before and after: those there stay, unless they are made anew. */
  readonly namesBefore: number;
  readonly namesAfter: number;
}

/** Every twentieth host drains, batch after batch, while a tenth of all names is made anew. */
export async function drain(world: World, seed: string): Promise<DrainResult> {
  const { fleet } = world;
  const random = new Random(`${seed}/drain`);
  const tally = begin(world, 4);
  const drained = Array.from({ length: fleet.size }, (_, host) => host).filter((host) => host % 20 === 7);
  const count = () => drained.reduce((sum, host) => sum + fleet.count(host), 0);
  const namesBefore = count();
  const end = world.now + 30 * MINUTE_MS;
  drained.forEach((host, index) => {
    world.at(world.now + Math.floor(index / 50) * 30_000, "drain", host);
    world.at(end, "undrain", host);
  });
  traffic(world, random, 0.1, 25 * MINUTE_MS, "renew", 6 * MINUTE_MS);
  await world.run();
  audit(world);
  const namesAfter = count();
  world.invariants.check(tally.creations > 0, "machines were made while hosts drained", () => "none was");
  world.invariants.check(
    namesAfter <= namesBefore,
    "drained hosts have no more names than before",
    () => `${namesBefore} before, ${namesAfter} after`,
  );
  return { hosts: drained.length, creations: tally.creations, namesBefore, namesAfter };
}

function begin(world: World, workMinutes: number): Tally {
  world.now += MINUTE_MS;
  world.workMs = workMinutes * MINUTE_MS;
  world.tally = new Tally();
  return world.tally;
}

function pick(world: World, random: Random, share: number): number[] {
  const picked: number[] = [];
  for (let name = 0; name < world.population.size; name++) if (random.next() < share) picked.push(name);
  return picked;
}

function traffic(world: World, random: Random, share: number, forMs: number, kind: "ask" | "renew", afterMs = 0): void {
  for (const name of pick(world, random, share))
    world.at(world.now + afterMs + Math.floor(random.next() * forMs), kind, name);
}

function waitsOf(waits: readonly number[]): { p50: number; p99: number; max: number } {
  return { p50: percentile(waits, 0.5), p99: percentile(waits, 0.99), max: percentile(waits, 1) };
}

/** When all is quiet, objects and hosts must agree on every name, and nothing may run or be under way. */
export function audit(world: World): void {
  const { population, fleet, invariants } = world;
  for (let name = 0; name < population.size; name++) {
    if (!population.exists(name)) continue;
    const life = population.life(name);
    const machine = fleet.machine(population.hostOf[name] ?? 0, name);
    const example = () => `name ${name}: object ${life.state} ${life.generation}, host ${JSON.stringify(machine)}`;
    invariants.check(!isTransitional(life.state) && !life.purgePending, "nothing is under way for ever", example);
    invariants.check(life.state === machine.state, "object and host agree when all is quiet", example);
    invariants.check(machine.generation <= life.generation, "no host is ahead of its object", example);
  }
  for (let host = 0; host < fleet.size; host++)
    invariants.check(fleet.usedMiB[host] === 0, "memory is free again when nothing runs", () => `host ${host}`);
}
