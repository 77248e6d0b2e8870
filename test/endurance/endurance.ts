/**
 * `npm run endurance [-- --part NAME] [--cycles N] [--count N]`: what takes too long for every test run. Each part runs
 * a system of its own with real machines, and ends in one JSON line; the exit code is 0 only when all that it expects holds.
 *   write-load  files, SQLite and git under parallel writes, through pauses (100 cycles), snapshots and forks (20)
 *   growth      what is stored of a fresh sandbox, after pandas, and of RAM that is dirtied again and again (100 cycles)
 *   sleepers    what many compact sleepers take of their host (1,000)
 *   clients     curl, ws, Python, wrk, and Chromium at a Vite development server, each at a machine that sleeps
 *   other-image sleepers wake on a host that has made an image of its own, and never had theirs
 *   agents      OpenClaw: two of one image share no token; answers after sleep, and after kill -9 of process and machine
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Rouse } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch } from "../../backend-pool/local/launcher.ts";
import type { Part } from "./part.ts";
import { agents } from "./agents.ts";
import { clients } from "./clients.ts";
import { otherImage } from "./other-image.ts";
import { growth } from "./growth.ts";
import { sleepers } from "./sleepers.ts";
import { writeLoad } from "./write-load.ts";

const parts: Readonly<Record<string, Part>> = {
  "write-load": writeLoad,
  growth,
  sleepers,
  clients,
  "other-image": otherImage,
  agents,
};

const { values } = parseArgs({
  options: {
    part: { type: "string", multiple: true },
    cycles: { type: "string" },
    count: { type: "string" },
  },
});
const chosen = values.part ?? Object.keys(parts);
const unknown = chosen.filter((name) => !parts[name]);
if (unknown.length > 0) {
  console.error(`no such part: ${unknown.join(", ")}; there are ${Object.keys(parts).join(", ")}`);
  process.exit(2);
}

let failed = false;
for (const name of chosen) {
  const stateDir = await mkdtemp(join(tmpdir(), "rouse-endurance-"));
  const env = {
    ROUSE_ARCHIVE_SECONDS: "0",
    ROUSE_RESIDENT_SECONDS: "1",
    ROUSE_PRESTARTED_SECONDS: "0",
    ROUSE_COMPACT_AFTER_SECONDS: "0",
  };
  const own = await parts[name]?.launch?.(stateDir);
  const system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, env, ...own });
  const began = performance.now();
  try {
    const rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url });
    const faults: string[] = [];
    const said = await parts[name]?.run({
      ...{ rouse, system, stateDir },
      cycles: values.cycles === undefined ? null : Number(values.cycles),
      count: values.count === undefined ? null : Number(values.count),
      say: (text) => console.log(`${Math.round((performance.now() - began) / 1000)} s  ${text}`),
      expect: (holds, text) => {
        if (holds) return;
        faults.push(text);
        console.log(`FAULT ${text}`);
      },
    });
    const seconds = Math.round((performance.now() - began) / 1000);
    console.log(JSON.stringify({ part: name, ...said, seconds, faults }));
    failed ||= faults.length > 0;
  } finally {
    await system.stop();
    await rm(stateDir, { recursive: true, force: true });
  }
}
process.exit(failed ? 1 : 0);
