/** A volume of a sandbox. Pure. */
import type { VolumeMode } from "../../sdk/contract/volume.ts";

/** A volume that a sandbox holds, as that one remembers it. */
export interface HeldVolume {
  readonly attachment: string;
  readonly volumeId: string;
  readonly mode: VolumeMode;
  readonly path: string;
  readonly sizeMiB: number;
  readonly vault: string;
  /** `ManifestKey` of all manifests of the volume. */
  readonly key: string;
  /** What it begins with; null: an empty volume. */
  readonly manifest: string | null;
  /** Its place in the machine, from 1. */
  readonly slot: number;
}
