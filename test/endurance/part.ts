/** What a part of the endurance run is given. */
import type { Rouse } from "rouse";
import type { LaunchOptions, System } from "../../backend-pool/local/launcher.ts";

export interface Course {
  readonly rouse: Rouse;
  readonly system: System;
  readonly stateDir: string;
  /** null: as many as the part has by itself. */
  readonly cycles: number | null;
  /** Sleepers, or copies. */
  readonly count: number | null;
  say(text: string): void;
  expect(holds: boolean, text: string): void;
}

export interface Part {
  /** How its system differs from that of the others. @param stateDir a folder of the part */
  launch?(stateDir: string): Promise<Partial<LaunchOptions>>;
  /** Answers what its JSON line holds. */
  run(course: Course): Promise<Record<string, unknown>>;
}
