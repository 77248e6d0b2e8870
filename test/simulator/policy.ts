/** Ways to choose a host for a new machine, all by `placeOn`: as built, and what it is compared with. */
import { CANDIDATES, placeOn, type Placement } from "../../durable/hosts/placement.ts";
import type { Host, Shape } from "../../sdk/contract/host.ts";

export const policies = ["random", "built", "best"] as const;
export type PolicyName = (typeof policies)[number];
export type Policy = (hosts: readonly Host[], random: () => number) => Placement;

/** Draws after which the board counts as nearly full, and is looked at as a whole. */
const DRAWS = 64;
/** Boards up to so many hosts are always given to `placeOn` as a whole. */
const WHOLE_UP_TO = 200;

export function policyOf(name: PolicyName, shape: Shape): Policy {
  switch (name) {
    case "random":
      return (hosts, random) => among(hosts, shape, 1, random);
    case "best":
      return (hosts, random) => {
        let best: Host | undefined;
        for (const host of hosts)
          if (host.live && !host.draining && host.freeMemoryMiB > (best?.freeMemoryMiB ?? -1)) best = host;
        return placeOn(best ? [best] : hosts, shape, random);
      };
    case "built": {
      let creations = 0;
      return (hosts, random) => {
        // A look at the whole board takes as many steps as there are hosts, so a large one is given to every n-th only.
        const whole = creations++ % Math.ceil(hosts.length / WHOLE_UP_TO) === 0;
        return whole ? placeOn(hosts, shape, random) : among(hosts, shape, CANDIDATES, random);
      };
    }
  }
}

/**
 * The best of `count` hosts drawn from those that `placeOn` finds able. For as many as it compares itself, this chooses
 * as it does with the whole board: each set of able hosts is as likely to be drawn.
 */
export function among(hosts: readonly Host[], shape: Shape, count: number, random: () => number): Placement {
  const drawn = new Set<number>();
  const able: Host[] = [];
  while (able.length < count && drawn.size < Math.min(DRAWS, hosts.length)) {
    const at = Math.floor(random() * hosts.length);
    const host = hosts[at];
    if (!host || drawn.has(at)) continue;
    drawn.add(at);
    if ("host" in placeOn([host], shape, random)) able.push(host);
  }
  return placeOn(able.length === count ? able : hosts, shape, random);
}
