/** Copies of a sandbox, with RAM and processes. */
import type { Sandbox as SandboxInfo } from "../contract/sandbox.ts";
import { Forks } from "../contract/snapshot.ts";
import type { ForkSandbox } from "../contract/snapshot.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { Sandbox, SettleOptions } from "./sandbox.ts";
import { unexpectedAnswer } from "./transport.ts";
import { SETTLE_SECONDS, started } from "./waits.ts";

/** How many copies, what they are called, and whether the snapshot they start from is kept. */
export interface ForkOptions extends Omit<ForkSandbox, "funding">, SettleOptions {}

/** See {@link Sandbox.fork}; `handleOf` makes the handle of a copy. */
export async function fork(
  remote: Remote,
  { count, name, labels, keepSnapshot, wait = true, ...options }: ForkOptions,
  handleOf: (info: SandboxInfo) => Sandbox,
): Promise<Sandbox | Sandbox[]> {
  const json = { count, name, labels, keepSnapshot };
  const waitSeconds = wait ? SETTLE_SECONDS : undefined;
  const answer = parseAnswer(Forks, await remote.post(":fork", json, { ...options, waitSeconds }));
  const forks = answer.sandboxes.map(handleOf);
  const [first] = forks;
  if (first === undefined || forks.length !== (count ?? 1))
    throw unexpectedAnswer(`${forks.length} copies where ${count ?? 1} were asked for`);
  // One after the other: they start at the same time, so this takes as long as the slowest.
  for (const one of wait ? forks : []) await started(one, options.signal);
  return count === undefined ? first : forks;
}
