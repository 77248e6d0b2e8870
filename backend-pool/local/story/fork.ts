/** One machine becomes seventeen: each fork goes on from where its source was, and none shares anything with another. */
import { Rouse } from "rouse";
import { Forks } from "../../../sdk/contract/snapshot.ts";
import { bootId, count, median, startCounter } from "./counter.ts";
import type { Stage } from "./tell.ts";

const FORKS = 16;
const FILES = 1000;
const MAKE_FILES = `mkdir -p /workspace/many && cd /workspace/many && python3 -c '
import os
for n in range(${FILES}):
    with open(str(n), "wb") as file:
        file.write(os.urandom(2000))' && sha256sum * > ../sums`;
/** Prints a number that no other machine should draw. Fails when a file is not what it was. */
const CHECK_FILES = "cd /workspace/many && sha256sum -c --quiet ../sums && cat /proc/sys/kernel/random/uuid";

export interface ForkResult {
  readonly forks: number;
  readonly serving: number;
  readonly frozenMs: number;
  readonly forkMsP50: number;
}

/** @throws Error when a fork does not go on from where its source was */
export async function tellFork(stage: Stage): Promise<ForkResult> {
  const { say } = stage;
  const rouse = new Rouse({ apiKey: stage.apiKey, baseUrl: stage.url });
  say(`A machine is made, with a counter in memory and ${FILES} files ...`);
  const source = await rouse.sandboxes.create({ name: "source", idlePauseSeconds: 0 });
  await startCounter(source);
  await source.exec(MAKE_FILES, { check: true });
  const before = await count(source);

  const began = performance.now();
  const { ids, frozenMs } = await fork(stage, source.id);
  const sandboxes = await Promise.all(ids.map((id) => rouse.sandboxes.get(id)));
  say(
    `${FORKS} forks were made in ${((performance.now() - began) / 1000).toFixed(1)} s; the source stood still for ${frozenMs} ms`,
  );
  const took: number[] = [];
  const counts: number[] = [];
  for (const fork of sandboxes) {
    const asked = performance.now();
    counts.push(await count(fork));
    took.push(performance.now() - asked);
  }
  const boots = new Set(await Promise.all(sandboxes.map(bootId)));
  const drawn = new Set<string>();
  let serving = 0;
  for (const [n, fork] of sandboxes.entries()) {
    const { exitCode, stdout } = await fork.exec(CHECK_FILES);
    if (exitCode === 0 && counts[n] === before + 1) serving++;
    drawn.add(stdout.trim());
  }
  say(
    `${serving} count on from ${before} with all their files; ${boots.size} have a boot id of their own, ${drawn.size} another random number`,
  );
  await Promise.all([source, ...sandboxes].map((one) => one.delete()));
  if (serving < FORKS || boots.size < FORKS || drawn.size < FORKS)
    throw new Error("not all forks are what they should be");
  return { forks: FORKS, serving, frozenMs, forkMsP50: median(took) };
}

/** By the API itself, whose answer says how long the source stood still. */
async function fork(stage: Stage, id: string): Promise<{ ids: string[]; frozenMs: number }> {
  const answer = await fetch(`${stage.url}/v1/sandboxes/${encodeURIComponent(id)}:fork`, {
    method: "POST",
    headers: { authorization: `Bearer ${stage.apiKey}`, "content-type": "application/json", prefer: "wait=120" },
    body: JSON.stringify({ count: FORKS }),
  });
  if (!answer.ok) throw new Error(`the fork was answered ${answer.status}: ${await answer.text()}`);
  const forks = Forks.parse(await answer.json());
  return { ids: forks.sandboxes.map((one) => one.id), frozenMs: Math.round(forks.frozenMs ?? 0) };
}
