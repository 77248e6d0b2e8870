/** What a part of the endurance run is given. */
import type { Rouse } from "rouse";
import type { System } from "../../backend-pool/local/launcher.ts";

export interface Course {
  readonly rouse: Rouse;
  readonly system: System;
  readonly stateDir: string;
  /** null: as many as the part has by itself. */
  readonly cycles: number | null;
  readonly count: number | null;
  say(text: string): void;
  expect(holds: boolean, text: string): void;
}

/** Answers what its JSON line holds. */
export type Part = (course: Course) => Promise<Record<string, unknown>>;
