/** Which host a new machine goes to. Pure. */
import type { Host, Shape } from "../../sdk/contract/host.ts";

/** A host that was silent for longer is not live, milliseconds. */
export const HOST_SILENT_MS = 15_000;

/** The live host with the most free memory among those that have the image; null when there is none. */
export function placeOn(hosts: readonly Host[], shape: Shape): Host | null {
  const able = hosts.filter((host) => host.live && host.images.includes(shape.image));
  return able.toSorted((a, b) => b.freeMemoryMiB - a.freeMemoryMiB || a.hostId.localeCompare(b.hostId)).at(0) ?? null;
}
