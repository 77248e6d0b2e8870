/** Which versions of a checkpoint stay, whatever order they arrive in. Pure. */
import { checkpointLimits } from "../../sdk/contract/checkpoint.ts";

export interface Version {
  readonly version: number;
  /** Unix milliseconds, by the machine's clock. */
  readonly savedAt: number;
  /** Of the whole container. */
  readonly hash: string;
}

export interface Placed {
  /** Whether the one that came is stored. */
  readonly stores: boolean;
  /** Versions that go, the one in its place too. */
  readonly drops: readonly number[];
}

/**
 * Versions count up on a disk, and what is saved later has the higher number. Where it has a lower one, the disk went
 * back to an earlier point: the higher ones are of a past that is given up. One that only arrives late was saved earlier.
 */
export function place(known: readonly Version[], given: Version): Placed {
  const same = known.find(({ version }) => version === given.version);
  if (same && (same.hash === given.hash || same.savedAt > given.savedAt)) return { stores: false, drops: [] };
  const givenUp = known.filter(({ version, savedAt }) => version > given.version && savedAt < given.savedAt);
  const others = known.filter((one) => one !== same && !givenUp.includes(one));
  const kept = [...others, given].toSorted((a, b) => b.version - a.version).slice(0, checkpointLimits.kept);
  const stores = kept.includes(given);
  return {
    stores,
    drops: known.filter((one) => !kept.includes(one) && (stores || one !== same)).map((one) => one.version),
  };
}
