/** Which host a new machine goes to. Pure. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { Host, Shape } from "../../sdk/contract/host.ts";

/** A host that was silent for longer is not live, milliseconds. */
export const HOST_SILENT_MS = 15_000;
/** Candidates that are compared: the best of a few, so that many objects that see the same board don't all take one. */
export const CANDIDATES = 3;
/** Disk that a host keeps free beside a new machine's memory, MiB. */
const DISK_RESERVE_MIB = 2048;

export type Placement = { readonly host: Host } | { readonly failure: Failure };

/**
 * The best of a few hosts that can take the machine: live, not draining, with the image, room for all its memory, and
 * disk for it. @param random 0 to below 1
 */
export function placeOn(hosts: readonly Host[], shape: Shape, random: () => number = Math.random): Placement {
  const up = hosts.filter((host) => host.live && !host.draining);
  if (up.length === 0) return { failure: { code: "no_host", message: "No host is up.", retryAfterMs: 2000 } };
  const able = up.filter((host) => host.images.includes(shape.image));
  if (able.length === 0) {
    const images = [...new Set(up.flatMap((host) => host.images))].toSorted();
    return {
      failure: { code: "invalid_image", message: `No host has the image ${shape.image}.`, details: { images } },
    };
  }
  const roomy = able.filter(
    (host) => host.freeMemoryMiB >= shape.memoryMiB && host.freeDiskMiB >= shape.memoryMiB + DISK_RESERVE_MIB,
  );
  const [first] = sample(roomy, CANDIDATES, random).toSorted(
    (a, b) => b.freeMemoryMiB - a.freeMemoryMiB || a.hostId.localeCompare(b.hostId),
  );
  if (first) return { host: first };
  return {
    failure: {
      code: "no_capacity",
      message: `No host has room for ${shape.memoryMiB} MiB of memory and as much disk.`,
      retryAfterMs: 5000,
    },
  };
}

/** `count` of the list, each with the same chance. */
function sample<T>(list: readonly T[], count: number, random: () => number): T[] {
  const rest = [...list];
  const taken: T[] = [];
  while (taken.length < count && rest.length > 0) taken.push(...rest.splice(Math.floor(random() * rest.length), 1));
  return taken;
}
