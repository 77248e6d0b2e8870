/** One system for all files: an edge, and a host agent whose machines are processes with the real guest agent. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { launch } from "../../backend-pool/local/launcher.ts";
import { noBrowser } from "./browser.ts";

declare module "vitest" {
  interface ProvidedContext {
    url: string;
    apiKey: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (noBrowser !== null) {
    project.provide("url", "");
    project.provide("apiKey", "");
    return async () => undefined;
  }
  const dir = await mkdtemp(join(tmpdir(), "rouse-browser-"));
  const system = await launch({
    homeDir: dir,
    stateDir: join(dir, "state"),
    edgePort: 0,
    hostPort: 0,
    edge: "workerd",
    env: { ROUSE_DRIVER: "fake", ROUSE_EVENT_TARGETS: "any", ROUSE_RATE_LIMIT: "10000:10000", ROUSE_LOG: "off" },
  });
  project.provide("url", system.url);
  project.provide("apiKey", system.apiKey);
  return async () => {
    await system.stop();
    await rm(dir, { recursive: true, force: true });
  };
}
