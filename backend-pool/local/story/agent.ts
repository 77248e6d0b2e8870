// The example of the memory article, with only the import changed (and a shorter idle time, so that nobody waits ten minutes).
import { Sandbox } from "rouse";

export async function agentFor(userId: string) {
  return Sandbox.getOrCreate(`agent-${userId}`, {
    idlePauseSeconds: 10, // pause after ten quiet seconds
    labels: { kind: "assistant", user: userId },
  });
}
