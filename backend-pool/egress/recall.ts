/** What the edge says of a run's way out, for a host that has lost what it was told. */
import { EgressAnswer, type MachineEgress } from "../../sdk/contract/egress.ts";
import type { OutsideMachine } from "./outside.ts";

const LIMIT_MS = 15_000;

/** @throws when the edge did not answer, or can't now; null: that run has no way out */
export async function recallEgress(
  { edgeUrl, hostKey }: { edgeUrl: string; hostKey: string },
  { account, id, generation }: OutsideMachine,
): Promise<MachineEgress | null> {
  const path = `/internal/accounts/${encodeURIComponent(account)}/machines/${encodeURIComponent(id)}/egress`;
  const answer = await fetch(`${edgeUrl}${path}?generation=${generation}`, {
    headers: { authorization: `Bearer ${hostKey}` },
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  if (answer.ok) return EgressAnswer.parse(await answer.json()).egress;
  await answer.body?.cancel();
  // The sandbox is gone, or another run is under way: this one stays closed.
  if (answer.status === 404 || answer.status === 409) return null;
  throw new Error(`the edge answers ${answer.status}`);
}
