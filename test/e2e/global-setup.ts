/** One whole system, with real machines, for all test files. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch } from "../../backend-pool/local/launcher.ts";

export interface SystemFacts {
  readonly url: string;
  readonly hostUrl: string;
  readonly apiKey: string;
  readonly stateDir: string;
}

declare module "vitest" {
  export interface ProvidedContext {
    system: SystemFacts;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stateDir = await mkdtemp(join(tmpdir(), "rouse-e2e-"));
  // States stay on the host: `archive.test.ts` is about the others.
  const env = { ROUSE_USAGE_SECONDS: "5", ROUSE_ARCHIVE_SECONDS: "off" };
  const system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, env });
  const { url, hostUrl, apiKey } = system;
  project.provide("system", { url, hostUrl, apiKey, stateDir });
  return async () => {
    await system.stop();
    await rm(stateDir, { recursive: true, force: true });
  };
}
