/** Settings of an edge that `workerd serve` runs, from flags and the environment; all faults are reported together. */
import { isAbsolute, resolve } from "node:path";
import { parseArgs } from "node:util";
import { z } from "zod";

/** A network as workerd's configuration says it: CIDR, or one of its words. */
const Network = z
  .string()
  .regex(/^(?:public|private|local|network|[\da-fA-F.:]+\/\d{1,3})$/, "CIDR, or public, private, local, network");
const networks = z
  .string()
  .transform((text) => text.split(",").map((one) => one.trim()))
  .pipe(z.array(Network).min(1));
const secret = z.string().min(16, "at least 16 characters").optional();

const Environment = z
  .object({
    /** Folder of everything that lasts. */
    ROUSE_EDGE_DIR: z.string().min(1, "the folder of the edge: --dir, or ROUSE_EDGE_DIR"),
    ROUSE_EDGE_LISTEN: z
      .string()
      .regex(/^(?:(?:[\w.*-]+|\[[\da-fA-F:]+\]):\d{1,5}|unix:\/[^\s"\\]+)$/, "host:port, *:port or unix:/path")
      .default("127.0.0.1:8787"),
    /** Default: `localhost` with the port. */
    ROUSE_DOMAIN: z
      .string()
      .regex(/^[a-z0-9.-]+(?::\d{1,5})?$/, "a domain in lower case, with a port if need be")
      .optional(),
    ROUSE_SCHEME: z.enum(["http", "https"]).default("http"),
    /** Networks of hosts, and of an S3. Hosts say themselves where they are; this is where they may be. */
    ROUSE_HOST_NETWORKS: networks.default(["public", "private"]),
    ROUSE_TRUSTED_PROXIES: z
      .string()
      .regex(/^[\da-fA-F.:]+(?:\s*,\s*[\da-fA-F.:]+)*$/, "addresses, with commas between")
      .optional(),
    ROUSE_SECRET: secret,
    ROUSE_HOST_SECRET: secret,
    ROUSE_BOOTSTRAP_KEY: z.string().startsWith("rouse_").optional(),
  })
  .refine(
    (env) => (env.ROUSE_SECRET === undefined) === (env.ROUSE_HOST_SECRET === undefined),
    "ROUSE_SECRET and ROUSE_HOST_SECRET are given together, or neither",
  );

export type EdgeConfig = z.output<typeof Environment> & {
  readonly ROUSE_DOMAIN: string;
  /** Where `secrets.json` is: in the folder, unless a system has it elsewhere (`ROUSE_HOME`) that named none by `--dir`. */
  readonly secretsDir: string;
};

/** @throws Error naming everything that is wrong; no value is in it */
export function readEdgeConfig(args: readonly string[], env: NodeJS.ProcessEnv): EdgeConfig {
  const { values: flags } = parseArgs({
    args: args.filter((arg) => arg !== "--"),
    options: {
      dir: { type: "string" },
      listen: { type: "string" },
      domain: { type: "string" },
      scheme: { type: "string" },
    },
  });
  const read = Environment.safeParse({
    ...env,
    ROUSE_EDGE_DIR: flags.dir ?? env["ROUSE_EDGE_DIR"] ?? "",
    ROUSE_EDGE_LISTEN: flags.listen ?? env["ROUSE_EDGE_LISTEN"],
    ROUSE_DOMAIN: flags.domain ?? env["ROUSE_DOMAIN"],
    ROUSE_SCHEME: flags.scheme ?? env["ROUSE_SCHEME"],
  });
  if (!read.success)
    throw new Error(
      `The edge's settings are wrong:\n${read.error.issues.map(({ path, message }) => `  ${path.join(".") || "secrets"}: ${message}`).join("\n")}`,
    );
  const { ROUSE_EDGE_DIR: dir, ROUSE_EDGE_LISTEN: listen, ROUSE_DOMAIN: domain } = read.data;
  const folder = isAbsolute(dir) ? dir : resolve(dir);
  return {
    ...read.data,
    ROUSE_EDGE_DIR: folder,
    secretsDir: flags.dir === undefined ? (env["ROUSE_HOME"] ?? folder) : folder,
    ROUSE_DOMAIN: domain ?? `localhost:${/:(\d+)$/.exec(listen)?.[1] ?? "8787"}`,
  };
}
