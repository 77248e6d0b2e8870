/** What is done before `workerd serve` runs the edge: its folder, the Worker as one file, its configuration. */
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { openEdgeFolder } from "./edge-folder.ts";
import type { EdgeConfig } from "./edge-config.ts";
import { bundleWorker, settingsFromEnvironment, workerOptions } from "./edge-worker.ts";
import { openHome } from "./home.ts";
import { bucketsOf, MODULE, uniqueKeys, workerdConfig, type WorkerOptions } from "./workerd-config.ts";

/** Answers the command, and the settings and secrets that it finds in its environment. */
export async function prepareEdge(config: EdgeConfig): Promise<{ command: string[]; values: Record<string, string> }> {
  const dir = config.ROUSE_EDGE_DIR;
  const worker = workerOptions() as unknown as WorkerOptions;
  await openEdgeFolder(
    dir,
    uniqueKeys(worker),
    bucketsOf(worker).map(({ folder }) => folder),
  );
  const values = { ...(await secretsOf(config)), ...settingsOf(config) };
  const text = workerdConfig(worker, {
    dir,
    listen: config.ROUSE_EDGE_LISTEN,
    variables: Object.keys(values),
    hostNetworks: config.ROUSE_HOST_NETWORKS,
    eventTargets: values["ROUSE_EVENT_TARGETS"],
  });
  const folder = join(dir, "workerd");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  bundleWorker("worker/self-hosted.ts", join(folder, MODULE));
  const file = join(folder, "config.capnp");
  await writeFile(file, text, { mode: 0o600 });
  return { command: [workerd(), "serve", file, "--control-fd=1"], values };
}

function settingsOf(config: EdgeConfig): Record<string, string> {
  const { ROUSE_DOMAIN, ROUSE_SCHEME, ROUSE_TRUSTED_PROXIES } = config;
  return {
    ROUSE_DOMAIN,
    ROUSE_SCHEME,
    ...(ROUSE_TRUSTED_PROXIES === undefined ? {} : { ROUSE_TRUSTED_PROXIES }),
    ...settingsFromEnvironment(),
  };
}

/** Those of the environment, or the ones in `secrets.json`, which are made at the first start. */
async function secretsOf(config: EdgeConfig): Promise<Record<string, string>> {
  const { ROUSE_SECRET, ROUSE_HOST_SECRET, ROUSE_BOOTSTRAP_KEY, secretsDir } = config;
  if (ROUSE_SECRET !== undefined && ROUSE_HOST_SECRET !== undefined)
    return { ROUSE_SECRET, ROUSE_HOST_SECRET, ...(ROUSE_BOOTSTRAP_KEY === undefined ? {} : { ROUSE_BOOTSTRAP_KEY }) };
  const { secrets } = await openHome(secretsDir);
  return {
    ROUSE_SECRET: secrets.signingSecret,
    ROUSE_HOST_SECRET: secrets.hostSecret,
    ROUSE_BOOTSTRAP_KEY: ROUSE_BOOTSTRAP_KEY ?? secrets.apiKey,
  };
}

/** The program that Miniflare brings: `npm start` and a deployment of one's own run the same. */
function workerd(): string {
  const miniflare = createRequire(import.meta.url).resolve("miniflare");
  return (createRequire(miniflare)("workerd") as { default: string }).default;
}
