/** States of machines that are sealed on this host or stored off it, as the actions on machines need them. */
import type { SavedState } from "../../sdk/contract/archive.ts";
import type { Shape } from "../../sdk/contract/host.ts";

export interface SavedStates {
  /** Whether the machine is here with just that state, sealed or not here at all. */
  holds(id: string, saved: SavedState): Promise<boolean>;
  /** A machine that this host has nothing of: from now on it is there, with that state. */
  adopt(id: string, saved: SavedState, shape: Shape, diskOnly: boolean): Promise<void>;
  /**
   * Bring back the files of a machine whose state is only sealed; nothing to do for others.
   * @throws RouseFailure `state_damaged`, `host_unavailable`; everything is as it was then
   */
  bringBack(id: string, saved: SavedState | undefined, diskOnly: boolean): Promise<void>;
  /** Make a sleeper whose state is sealed give up its files; false while it can't. */
  shed(id: string, generation: number, depth: "compact" | "cold"): Promise<boolean>;
}
