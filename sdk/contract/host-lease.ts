/**
 * A host's bounded right to run machines, granted with every heartbeat that the edge takes. Pure: the times that host
 * and edge must agree on, so that a machine is given up only when it can't run any more.
 */

/** How long a heartbeat lets a host run machines, unless the edge is set otherwise, seconds. */
export const HOST_LEASE_SECONDS = 40;

export interface HostLeaseTimes {
  /** Counted by the host from when it sent the heartbeat: past it no virtual CPU runs. */
  readonly endsAfterMs: number;
  /** So early before that the host begins to put its machines to sleep. */
  readonly freezeAfterMs: number;
  /** Counted by the edge from when it took the heartbeat, which is later: past it the machines are given up. */
  readonly lostAfterMs: number;
}

/** @param seconds of the lease; clocks may run apart by an eighth of it */
export function hostLeaseTimes(seconds: number): HostLeaseTimes {
  const endsAfterMs = seconds * 1000;
  return { endsAfterMs, freezeAfterMs: endsAfterMs * 0.75, lostAfterMs: endsAfterMs * 1.125 };
}
