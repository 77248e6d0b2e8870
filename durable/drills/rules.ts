/** What a kill may cost, and what else is a loss. Pure. */
import type { DrillKill, DrillLoss, DrillView } from "../../sdk/contract/drill.ts";
import type { FileSeen } from "./record.ts";

/** A kill of these takes the machine's memory along. */
export function takesRam(kill: DrillKill): boolean {
  return kill === "guest" || kill === "vmm";
}

/** @param at when the files were seen before, Unix milliseconds */
export function lossesOf(
  kill: DrillKill,
  before: DrillView,
  after: DrillView,
  files: { readonly before: readonly FileSeen[]; readonly after: readonly FileSeen[]; readonly at: number },
): DrillLoss[] {
  const there = new Map(files.after.map((file) => [file[0], file]));
  const losses: DrillLoss[] = [];
  for (const [path, bytes, , hash] of files.before) {
    const now = there.get(path);
    // A program that wrote or removed it since is no loss; of what is not there nobody can tell, so that counts.
    if (!now) losses.push({ what: "file", name: path, message: "it is not there" });
    else if (now[2] <= files.at && (now[1] !== bytes || (hash !== null && now[3] !== hash)))
      losses.push({ what: "file", name: path, message: `${bytes} bytes became ${now[1]}, and nobody wrote it since` });
  }
  if (!takesRam(kill)) {
    if (before.ram.marker && !after.ram.marker)
      losses.push({ what: "ram", name: "marker", message: "what was in memory is gone" });
    if (before.ram.process && !after.ram.process)
      losses.push({ what: "ram", name: "process", message: "a process is gone" });
  }
  for (const { name, version } of before.checkpoints) {
    const now = after.checkpoints.find((one) => one.name === name)?.version ?? 0;
    if (now < version)
      losses.push({ what: "checkpoint", name, message: `version ${version} became ${now === 0 ? "none" : now}` });
  }
  const { mirror } = before;
  if (mirror && (after.mirror === null || (after.mirror.name === mirror.name && after.mirror.version < mirror.version)))
    losses.push({ what: "checkpoint", name: mirror.name, message: "the mirror has an older one" });
  for (const { name, state } of before.services) {
    const now = after.services.find((one) => one.name === name)?.state ?? "not there";
    if (state === "ready" && now !== "ready")
      losses.push({ what: "service", name, message: `it was ready, and is ${now}` });
  }
  return losses;
}

/** Whether what was killed is another one by now. Host and edge say so themselves. */
export function isAnotherBoot(kill: DrillKill, before: DrillView, bootId: string): boolean {
  return !takesRam(kill) || bootId !== before.bootId;
}

/** When to try again, milliseconds from now: soon at first, since the time until the answer is measured. */
export function tryAgainMs(sinceKillMs: number): number {
  return Math.min(5000, Math.max(250, Math.round(sinceKillMs / 20)));
}
