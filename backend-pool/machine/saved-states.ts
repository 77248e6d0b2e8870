/** States of machines that are sealed on this host or stored off it, as the actions on machines need them. */
import type { VolumeRow } from "../store/journal.ts";
import type { SavedState } from "../../sdk/contract/archive.ts";
import type { MachineVolume, Shape } from "../../sdk/contract/host.ts";

/** What a machine that comes here has beside its state. */
export interface AdoptedMachine {
  readonly shape: Shape;
  readonly diskOnly: boolean;
  readonly volumes: readonly MachineVolume[];
}

export interface SavedStates {
  /** Whether the machine is here with just that state, sealed or not here at all. */
  holds(id: string, saved: SavedState): Promise<boolean>;
  /** A machine that this host has nothing of: from now on it is there, with that state. */
  adopt(id: string, saved: SavedState, machine: AdoptedMachine): Promise<void>;
  /**
   * Bring back the files of a machine whose state is only sealed; nothing to do for others.
   * @throws RouseFailure `state_damaged`, `host_unavailable`; everything is as it was then
   */
  bringBack(id: string, saved: SavedState | undefined, diskOnly: boolean): Promise<void>;
  /** Make a sleeper whose state is sealed give up its files; false while it can't. */
  shed(id: string, generation: number, depth: "compact" | "cold"): Promise<boolean>;
  /** Bring the disk of a volume from where it is stored; nothing to do when it is here. */
  bringVolume(volume: string, saved: SavedState): Promise<void>;
  /** Store the disk of a volume that no machine here has; `onStored` follows, or `onUnwanted`. */
  storeVolume(row: VolumeRow): void;
  /** Whether what the volume was in that run is stored. */
  isStored(volume: string, generation: number): Promise<boolean>;
  forget(id: string): void;
}
