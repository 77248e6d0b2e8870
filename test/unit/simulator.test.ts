import { describe, expect, it } from "vitest";
import { placeOn, type Placement } from "../../durable/hosts/placement.ts";
import { Random } from "../faults/random.ts";
import { sample } from "../simulator/board.ts";
import { Fleet } from "../simulator/fleet.ts";
import { Invariants } from "../simulator/invariants.ts";
import { SHAPE } from "../simulator/objects.ts";
import { among, policyOf } from "../simulator/policy.ts";
import { EventQueue } from "../simulator/queue.ts";
import { creation, rack } from "../simulator/scenario.ts";
import { simulate } from "../simulator/simulation.ts";
import { parseFlags } from "../simulator/simulator.ts";
import { World } from "../simulator/world.ts";

const small = { hosts: 200, names: 5000, seed: "7" };
const tiny = { hosts: 100, names: 2000, seed: "7" };
/** A busy machine takes its time. */
const LONG_MS = 60_000;

function worldOf(): World {
  return new World({ ...tiny, policy: policyOf("built", SHAPE) });
}

describe("a small simulation", () => {
  it("breaks no rule and serves everybody", { timeout: LONG_MS }, async () => {
    const first = await simulate(small);
    expect(first.violations).toEqual([]);
    expect(first.storm.served).toBe(first.storm.asked);
    expect(first.cut).toMatchObject({ notRecovered: 0 });
    expect(first.down).toMatchObject({ notRecovered: 0 });
    expect(first.cut.triesByTimer + first.cut.triesByAsking).toBeGreaterThan(0);
    expect(first.creation.built.busiest.standardDeviation).toBeLessThan(
      first.creation.random.busiest.standardDeviation,
    );
  });

  it("gives the same numbers for the same seed, and others for another", { timeout: LONG_MS }, async () => {
    const first = await simulate(tiny);
    expect(await simulate(tiny)).toEqual(first);
    const other = new World({ ...tiny, seed: "8", policy: policyOf("built", SHAPE) });
    expect(await creation(other)).not.toEqual(first.creation.built);
  });
});

describe("its rules", () => {
  it("see a machine that lands on a draining host", async () => {
    const world = worldOf();
    // The hosts drain, and the board does not know.
    world.fleet.draining.fill(true);
    await creation(world);
    expect(world.invariants.violations.join("\n")).toContain("no new machine lands on a draining host");
  });

  it("see a host that runs on when its right to is over", async () => {
    const world = worldOf();
    await creation(world);
    world.fleet.freeze = () => undefined;
    await rack(world, "1", "cut");
    expect(world.invariants.violations.join("\n")).toContain("nothing runs any more on a host that is given up");
  });

  it("see two incarnations of a name", () => {
    const invariants = new Invariants();
    const fleet = new Fleet(2, 1, invariants);
    for (const host of [0, 1]) {
      fleet.begin(host, 0, "create", 1, 0);
      fleet.finish(host, 0, "create", 1);
    }
    expect(invariants.violations).toEqual([
      "a name has at most one running incarnation: broken 1 times, first by name 0 on host 1, generation 1",
    ]);
  });
});

it("chooses among a few drawn hosts as it does from the whole board", () => {
  const hosts = Array.from({ length: 12 }, (_, host) => ({
    ...sample(host),
    freeDiskMiB: 100_000,
    freeMemoryMiB: host < 3 ? 0 : 4096 + host,
    live: host !== 3,
  }));
  const share = (choose: (random: () => number) => Placement) => {
    const random = new Random("placement");
    const chosen = new Map<string, number>();
    for (let draw = 0; draw < 4000; draw++) {
      const placement = choose(() => random.next());
      const id = "host" in placement ? placement.host.hostId : "none";
      chosen.set(id, (chosen.get(id) ?? 0) + 1);
    }
    return hosts.map(({ hostId }) => (chosen.get(hostId) ?? 0) / 4000);
  };
  const whole = share((random) => placeOn(hosts, SHAPE, random));
  const drawn = share((random) => among(hosts, SHAPE, 3, random));
  for (const [host, portion] of whole.entries()) expect(Math.abs(portion - (drawn[host] ?? 0))).toBeLessThan(0.03);
  expect(whole.slice(0, 4)).toEqual([0, 0, 0, 0]);
});

it("takes events by time, and those of one moment as they came", () => {
  const queue = new EventQueue();
  const random = new Random("queue");
  for (let subject = 0; subject < 3000; subject++) queue.push(random.int(0, 99), 1, subject);
  let before = { at: -1, subject: -1 };
  let taken = 0;
  while (queue.pop()) {
    taken++;
    expect(queue.at > before.at || (queue.at === before.at && queue.subject > before.subject)).toBe(true);
    before = { at: queue.at, subject: queue.subject };
  }
  expect(taken).toBe(3000);
});

it.each([
  [["--fleet"], "--fleet"],
  [["--hosts", "ten"], "--hosts"],
  [["--hosts", "10"], "--hosts"],
  [["--hosts", "100", "--names", "1"], "--names"],
  [["--names", "3000000"], "--names"],
  [["extra"], "extra"],
])("refuses %j", (args, named) => {
  const flags = parseFlags(args);
  expect("fault" in flags && flags.fault).toContain(named);
});

it("takes sizes from its flags", () => {
  expect(parseFlags([])).toEqual({ options: { hosts: 10_000, names: 1_000_000, seed: "7" }, json: false });
  expect(parseFlags(["--hosts", "200", "--seed", "8", "--json"])).toEqual({
    options: { hosts: 200, names: 20_000, seed: "8" },
    json: true,
  });
});
