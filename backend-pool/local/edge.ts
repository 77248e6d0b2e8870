/** `node edge.ts`: the Worker and its objects in workerd on this machine, from the same wrangler.toml as a deployment. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "wrangler";
import { openHome } from "./home.ts";
import { eventNetwork } from "./outbound.ts";

const repository = fileURLToPath(new URL("../../", import.meta.url));

export interface EdgeOptions {
  readonly homeDir: string;
  /** Folder of the objects' storage. */
  readonly storageDir: string;
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
}

/** Settings of the edge that may be given in this process's environment; wrangler.toml has the others. */
const SETTINGS = [
  "ROUSE_EVENT_TARGETS",
  "ROUSE_HOST_LEASE_SECONDS",
  "ROUSE_RATES",
  "ROUSE_RATE_LIMIT",
  "ROUSE_STARTING_CREDIT",
  "ROUSE_TRIALS",
  "ROUSE_TRIAL_CREDIT",
] as const;

function settingsFromEnvironment(): Record<string, string> {
  return Object.fromEntries(
    SETTINGS.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

/** Bundle and run the edge; answers its address. */
export async function startEdge(options: EdgeOptions): Promise<{ url: string; stop: () => Promise<void> }> {
  const { secrets } = await openHome(options.homeDir);
  await mkdir(options.storageDir, { recursive: true, mode: 0o700 });
  const bundle = join(options.storageDir, "worker.mjs");
  await build({
    entryPoints: [join(repository, "worker/index.ts")],
    outfile: bundle,
    bundle: true,
    format: "esm",
    target: "es2024",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    logLevel: "error",
  });
  const { workerOptions } = unstable_getMiniflareWorkerOptions(join(repository, "wrangler.toml"));
  const { modulesRules: _, ...worker } = workerOptions;
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
