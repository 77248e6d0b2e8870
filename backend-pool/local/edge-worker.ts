/** What a deployment is made of, for edges that run on this machine: the Worker as one file, and its bindings. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { unstable_getMiniflareWorkerOptions } from "wrangler";

const repository = fileURLToPath(new URL("../../", import.meta.url));

/** What wrangler.toml says. */
export function workerOptions(
  file = join(repository, "wrangler.toml"),
): ReturnType<typeof unstable_getMiniflareWorkerOptions>["workerOptions"] {
  return unstable_getMiniflareWorkerOptions(file).workerOptions;
}

/** @param entry file of the project, such as `worker/index.ts` */
export function bundleWorker(entry: string, outfile: string): void {
  const conditions = ["--platform=neutral", "--main-fields=module,main", "--conditions=workerd,worker,browser"];
  const shape = ["--bundle", "--format=esm", "--target=es2024", "--external:cloudflare:*", "--external:node:*"];
  // As programs: the library keeps a process, which would be a child of what this one becomes.
  execFileSync(process.execPath, ["--disable-warning=ExperimentalWarning", "worker/dashboard/build.ts"], {
    cwd: repository,
    stdio: ["ignore", "ignore", "inherit"],
  });
  execFileSync(
    join(repository, "node_modules/.bin/esbuild"),
    [entry, ...shape, ...conditions, `--outfile=${outfile}`, "--log-level=error"],
    { cwd: repository, stdio: ["ignore", "ignore", "inherit"] },
  );
}

/** Settings of the edge that may be given in this process's environment; wrangler.toml has the others. */
export const SETTINGS = [
  "ROUSE_API_HOSTS",
  "ROUSE_DASHBOARD",
  "ROUSE_DNS_URL",
  "ROUSE_DOMAIN_NAMES",
  "ROUSE_DOMAIN_TARGET",
  "ROUSE_EVENT_TARGETS",
  "ROUSE_HOST_LEASE_SECONDS",
  "ROUSE_LOG",
  "ROUSE_RATES",
  "ROUSE_RATE_LIMIT",
  "ROUSE_S3_BUCKET",
  "ROUSE_S3_ENDPOINT",
  "ROUSE_S3_KEY_ID",
  "ROUSE_S3_REGION",
  "ROUSE_S3_SECRET",
  "ROUSE_STARTING_CREDIT",
  "ROUSE_TLS_NAMED_HOSTS",
  "ROUSE_TLS_NAMED_HOSTS",
  "ROUSE_TRIALS",
  "ROUSE_TRIAL_CREDIT",
] as const;

export function settingsFromEnvironment(): Record<string, string> {
  return Object.fromEntries(
    SETTINGS.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
