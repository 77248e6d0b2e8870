/** What is stored of a sandbox: fresh, after some work, and when the same memory is dirtied again and again. */
import type { Sandbox } from "rouse";
import type { Course, Part } from "./part.ts";

const MB = 1_000_000;
const FRESH_MAX = 1 * MB;
const PANDAS_MAX = 30 * MB;
const DIRTIED_MIB = 64;

const PANDAS = `
import numpy as np, pandas as pd
frame = pd.DataFrame(np.random.default_rng(1).normal(size=(200_000, 4)), columns=list("abcd"))
print(frame.groupby(frame.a.round(1)).mean().shape)
`;

async function owned(sandbox: Sandbox): Promise<number> {
  await sandbox.pause();
  await sandbox.waitUntilDurable({ timeoutMs: 600_000 });
  return (await sandbox.refresh()).info.durability?.ownedBytes ?? Number.NaN;
}

export const growth: Part = { run };

async function run({ rouse, cycles, say, expect }: Course): Promise<Record<string, unknown>> {
  const times = cycles ?? 100;
  const fresh = await rouse.sandboxes.create({ name: "fresh", idlePauseSeconds: 0 });
  const freshBytes = await owned(fresh);
  say(`fresh: ${freshBytes} bytes`);
  expect(freshBytes <= FRESH_MAX, `a fresh sandbox stores ${freshBytes} bytes, more than ${FRESH_MAX}`);

  const worked = await fresh.interpreter.run(PANDAS, { timeoutMs: 240_000 });
  expect(worked.status === "ok", `pandas ended with ${worked.status}`);
  const pandasBytes = await owned(fresh);
  say(`after pandas: ${pandasBytes} bytes`);
  expect(pandasBytes <= PANDAS_MAX, `after pandas it stores ${pandasBytes} bytes, more than ${PANDAS_MAX}`);
  await fresh.delete();

  const dirty = await rouse.sandboxes.create({ name: "dirty", idlePauseSeconds: 0 });
  await dirty.interpreter.run(`import os\nkept = bytearray(${DIRTIED_MIB} << 20)`);
  const stored: number[] = [];
  for (let n = 1; n <= times; n++) {
    await dirty.interpreter.run(
      "for at in range(0, len(kept), 1 << 20): kept[at:at + (1 << 20)] = os.urandom(1 << 20)",
    );
    stored.push(await owned(dirty));
    if (n % 10 === 0) say(`dirtied ${n} times: ${stored.at(-1)} bytes`);
  }
  const half = Math.ceil(times / 2);
  const [early, late] = [Math.max(...stored.slice(0, half)), Math.max(...stored.slice(half))];
  expect(late <= early * 1.2, `stored bytes grow: ${early} in the first half, ${late} in the second`);
  return { freshBytes, pandasBytes, dirtied: times, firstHalfMax: early, secondHalfMax: late };
}
