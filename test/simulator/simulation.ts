/** One whole simulation: every scenario, one after another, from one seed. */
import { bill, reportsPerName, usageBill, type Bill } from "./bill.ts";
import { SHAPE } from "./objects.ts";
import { policies, policyOf, type PolicyName } from "./policy.ts";
import * as scenario from "./scenario.ts";
import { sizes, type Sizes } from "./sizes.ts";
import { World } from "./world.ts";

export interface SimulationOptions {
  readonly hosts: number;
  readonly names: number;
  readonly seed: string;
}

/** The same for the same options, to the last digit. */
export interface Simulation {
  readonly options: SimulationOptions;
  readonly rush: Readonly<Record<PolicyName, scenario.RushResult>>;
  readonly creation: Readonly<Record<"random" | "built", scenario.CreationResult>>;
  readonly storm: scenario.StormResult;
  readonly cut: scenario.RackResult;
  readonly down: scenario.RackResult;
  readonly drain: scenario.DrainResult;
  /** Events that went through the table, in all worlds. */
  readonly events: number;
  readonly hoursSimulated: number;
  readonly sizes: Sizes;
  readonly bills: readonly { readonly base: Bill; readonly usage: Bill; readonly usageEveryMinute: Bill }[];
  readonly violations: readonly string[];
}

/** @param onPhase told what comes next */
export async function simulate(
  { hosts, names, seed }: SimulationOptions,
  onPhase: (phase: string) => void = () => undefined,
): Promise<Simulation> {
  const violations: string[] = [];
  let events = 0;
  let hoursSimulated = 0;
  const world = (policy: PolicyName, of: number): World =>
    new World({ hosts, names: of, seed, policy: policyOf(policy, SHAPE) });
  const close = (label: string, { population, invariants, now }: World): void => {
    events += population.events;
    hoursSimulated += now / 3_600_000;
    violations.push(...invariants.violations.map((one) => `${label}: ${one}`));
  };

  const rushOf = async (policy: PolicyName): Promise<scenario.RushResult> => {
    onPhase(`rush, ${policy}`);
    const one = world(policy, scenario.rushNames(hosts));
    const result = await scenario.rush(one);
    close(`rush, ${policy}`, one);
    return result;
  };
  // In a function of its own, so that its million lives are gone before the next ones.
  const creationByChance = async (): Promise<scenario.CreationResult> => {
    onPhase("creation, random");
    const one = world("random", names);
    const result = await scenario.creation(one);
    close("creation, random", one);
    return result;
  };
  const [random, built, best] = policies;
  const rush = { random: await rushOf(random), built: await rushOf(built), best: await rushOf(best) };

  const byChance = await creationByChance();

  onPhase("creation, built");
  const main = world("built", names);
  const asBuilt = await scenario.creation(main);
  onPhase("storm");
  const storm = await scenario.storm(main, seed);
  onPhase("a rack is cut off");
  const cut = await scenario.rack(main, seed, "cut");
  onPhase("a rack is without power");
  const down = await scenario.rack(main, seed, "down");
  onPhase("drain");
  const drain = await scenario.drain(main, seed);
  close("main", main);

  const size = sizes();
  const reports = reportsPerName(size);
  return {
    options: { hosts, names, seed },
    rush,
    creation: { random: byChance, built: asBuilt },
    storm,
    cut,
    down,
    drain,
    events,
    hoursSimulated,
    sizes: size,
    bills: [1e6, 1e8].map((count) => ({
      base: bill(count, size),
      usage: usageBill(count, size, reports.asBuilt),
      usageEveryMinute: usageBill(count, size, reports.everyMinute),
    })),
    violations,
  };
}
