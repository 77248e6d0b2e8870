/** A demo: how its system is started, and what is told on it. */
import type { LaunchOptions, System } from "../launcher.ts";

export interface Demo {
  readonly options?: Pick<LaunchOptions, "hosts" | "env">;
  readonly tell: (stage: System & { say: (line: string) => void; stateDir: string }) => Promise<object>;
}

/** One whose system must be told before it starts where a service of the story is. */
export interface Prepared extends Demo {
  close(): Promise<void>;
}
