/** The Worker and its objects on this machine by Miniflare, from the same wrangler.toml as a deployment. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { bundleWorker, settingsFromEnvironment, workerOptions } from "./edge-worker.ts";
import { refuseWorkerdFolder } from "./edge-folder.ts";
import { openHome } from "./home.ts";
import { eventNetwork } from "./outbound.ts";

export interface EdgeOptions {
  readonly homeDir: string;
  /** Folder of the objects' storage. */
  readonly storageDir: string;
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
}

/** Bundle and run the edge; answers its address. */
export async function startEdge(options: EdgeOptions): Promise<{ url: string; stop: () => Promise<void> }> {
  const { secrets } = await openHome(options.homeDir);
  await mkdir(options.storageDir, { recursive: true, mode: 0o700 });
  await refuseWorkerdFolder(options.storageDir);
  const bundle = join(options.storageDir, "worker.mjs");
  bundleWorker("worker/index.ts", bundle);
  const { modulesRules: _, ...worker } = workerOptions();
  const flare = new Miniflare(
    convertV4MiniflareOptions({
      ...worker,
      name: "rouse",
      modules: [{ type: "ESModule", path: bundle }],
      modulesRoot: options.storageDir,
      bindings: Object.assign({}, worker.bindings, {
        ROUSE_SECRET: secrets.signingSecret,
        ROUSE_HOST_SECRET: secrets.hostSecret,
        ROUSE_BOOTSTRAP_KEY: secrets.apiKey,
        ROUSE_DOMAIN: `localhost:${options.port}`,
        // Only this machine's people reach it.
        ROUSE_TRIALS: "open",
        ...settingsFromEnvironment(),
      }),
      serviceBindings: { EVENTS_OUT: eventNetwork(process.env["ROUSE_EVENT_TARGETS"]) },
      host: options.host,
      port: options.port,
      resourcePersistencePath: join(options.storageDir, "objects"),
      // A local machine has no use for the rest of the platform's emulation.
      cf: false,
    }),
  );
  const url = await flare.ready;
  return { url: url.origin, stop: () => flare.dispose() };
}
