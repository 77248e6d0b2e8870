/** When a service that ended is started again, and what its state is meanwhile. Pure. */
import { isDeepStrictEqual } from "node:util";

/** How a process ended. `code` null: by a signal, or it is not known how. */
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

export type RestartPolicy = "always" | "on-failure" | "never";

const FIRST_MS = 1000;
const LAST_MS = 60_000;
/** One that ran for so long was well: the next wait is a short one again, milliseconds. */
const WELL_MS = 60_000;

export interface Ended {
  readonly policy: RestartPolicy;
  readonly exit: Exit;
  /** How long it ran, milliseconds. */
  readonly ranMs: number;
  /** Restarts in a row that did not run for long. */
  readonly failures: number;
}

export type Verdict =
  | { readonly next: "again"; readonly afterMs: number; readonly failures: number }
  | { readonly next: "ended" | "failed" };

/** What comes of a service that ended by itself. */
export function afterExit({ policy, exit, ranMs, failures }: Ended): Verdict {
  const failed = exit.code !== 0;
  if (policy === "never" || (policy === "on-failure" && !failed)) return { next: failed ? "failed" : "ended" };
  const inRow = ranMs >= WELL_MS ? 0 : failures;
  return { next: "again", afterMs: Math.min(FIRST_MS * 2 ** Math.min(inRow, 16), LAST_MS), failures: inRow + 1 };
}

/** Time until the next look at whether a service is ready, milliseconds: often at first. */
export function nextLookMs(sinceMs: number): number {
  return Math.min(Math.max(50, sinceMs / 10), 1000);
}

interface Named {
  readonly name: string;
}

/** What another list of services means for those that run: `changed` are started anew. */
export function compared<T extends Named>(
  before: readonly T[],
  after: readonly T[],
): { readonly gone: readonly T[]; readonly changed: readonly T[]; readonly added: readonly T[] } {
  const old = new Map(before.map((one) => [one.name, one]));
  const names = new Set(after.map(({ name }) => name));
  return {
    gone: before.filter(({ name }) => !names.has(name)),
    changed: after.filter((one) => old.has(one.name) && !isDeepStrictEqual(essence(old.get(one.name)), essence(one))),
    added: after.filter(({ name }) => !old.has(name)),
  };
}

/** Hooks and the way of stopping count when they are needed; a program is not started anew for them. */
function essence(service: object | undefined): Record<string, unknown> {
  const {
    freeze: _,
    thaw: __,
    stopSignal: ___,
    stopSeconds: ____,
    restart: _____,
    ...rest
  } = service as Record<string, unknown>;
  return rest;
}
