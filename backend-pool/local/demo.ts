/** `npm run demo`: start everything on free ports, tell the story, stop. The last line is one JSON object. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultHome } from "../config.ts";
import { launch } from "./launcher.ts";
import { tellStory } from "./story/tell.ts";

const stateDir = await mkdtemp(join(tmpdir(), "rouse-demo-"));
const system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0 });
let code = 0;
try {
  const result = await tellStory({ ...system, say: (line) => console.log(line) });
  console.log(JSON.stringify(result));
} catch (fault) {
  console.error(fault);
  code = 1;
} finally {
  await system.stop();
  await rm(stateDir, { recursive: true, force: true });
}
process.exit(code);
