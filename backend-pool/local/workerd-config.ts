/**
 * The configuration of `workerd serve` for the bindings of wrangler.toml, as Cap'n Proto text. It names settings and
 * secrets; their values stay in the environment of workerd.
 */
import { eventNetwork } from "./outbound.ts";

/** wrangler.toml, as wrangler's `unstable_getMiniflareWorkerOptions` reads it. */
export interface WorkerOptions {
  readonly compatibilityDate?: string | undefined;
  readonly compatibilityFlags?: readonly string[] | undefined;
  readonly bindings?: Readonly<Record<string, unknown>> | undefined;
  readonly r2Buckets?: Readonly<Record<string, unknown>> | readonly string[] | undefined;
  readonly durableObjects?: Readonly<Record<string, unknown>> | undefined;
  readonly additionalUnboundDurableObjects?: readonly unknown[] | undefined;
}

export interface EdgePlan {
  /** `host:port`, `*:port` or `unix:/path`. */
  readonly listen: string;
  /** Absolute folder of everything that lasts. */
  readonly dir: string;
  /** Names of variables in workerd's environment that the Worker gets; those that wrangler.toml gives too come from there. */
  readonly variables: readonly string[];
  /** Networks (`workerd.capnp`, `Network`) that hosts and an S3 are in. */
  readonly hostNetworks: readonly string[];
  /** `ROUSE_EVENT_TARGETS`. */
  readonly eventTargets: string | undefined;
}

/** Folders below the edge's own. */
export const OBJECTS = "objects/do";
export const BUCKETS = "buckets";
/** The Worker's file, beside the configuration. */
export const MODULE = "worker.mjs";

/** What is read of wrangler.toml here. Anything else must be empty. */
const READ: readonly string[] = [
  ...["rootPath", "compatibilityDate", "compatibilityFlags", "modulesRules", "bindings"],
  ...["r2Buckets", "durableObjects", "additionalUnboundDurableObjects"],
];

/** @throws Error that names everything in wrangler.toml that this kind of edge can't give */
export function workerdConfig(worker: WorkerOptions, plan: EdgePlan): string {
  const faults = [...unknownKinds(worker), ...foreignObjects(worker), ...oddVariables(worker)];
  if (faults.length > 0) throw new Error(`wrangler.toml has what an edge on workerd can't give: ${faults.join("; ")}`);
  const buckets = bucketsOf(worker);
  const bindings = [
    ...objectsOf(worker).flatMap(({ name, className }) =>
      name === null ? [] : [`(name = ${quoted(name)}, durableObjectNamespace = ${quoted(className)})`],
    ),
    ...buckets.map(({ name, service }) => `(name = ${quoted(`${name}_DISK`)}, service = ${quoted(service)})`),
    `(name = "EVENTS_OUT", service = "events-out")`,
    ...Object.entries(worker.bindings ?? {})
      .filter(([name]) => !plan.variables.includes(name))
      .map(([name, value]) => `(name = ${quoted(name)}, text = ${quoted(String(value))})`),
    ...plan.variables.map((name) => `(name = ${quoted(name)}, fromEnvironment = ${quoted(name)})`),
  ];
  const classes = new Map(objectsOf(worker).map((one) => [one.className, one]));
  const namespaces = [...classes.values()].map(
    ({ className, sql }) =>
      `(className = ${quoted(className)}, uniqueKey = ${quoted(uniqueKey(className))}, enableSql = ${sql})`,
  );
  const { allow, deny } = eventNetwork(plan.eventTargets).network;
  const flags = worker.compatibilityFlags ?? [];
  return `# Written at each start of the edge from wrangler.toml and its settings.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  sockets = [(name = "http", address = ${quoted(plan.listen)}, http = (), service = "rouse")],
  services = [
    (name = "rouse", worker = .rouse),
    (name = "objects", disk = (path = ${quoted(`${plan.dir}/${OBJECTS}`)}, writable = true)),${buckets
      .map(
        ({ service, folder }) =>
          `\n    (name = ${quoted(service)}, disk = (path = ${quoted(`${plan.dir}/${folder}`)}, writable = true)),`,
      )
      .join("")}
    (name = "internet", network = (allow = ${list(plan.hostNetworks.map(quoted), 0)}, tlsOptions = (trustBrowserCas = true))),
    (name = "events-out", network = (allow = ${list(allow.map(quoted), 0)}, deny = ${list(deny.map(quoted), 0)}, tlsOptions = (trustBrowserCas = true))),
  ],
);

const rouse :Workerd.Worker = (
  modules = [(name = ${quoted(MODULE)}, esModule = embed ${quoted(MODULE)})],
  compatibilityDate = ${quoted(worker.compatibilityDate ?? "")},
  compatibilityFlags = ${list(flags.map(quoted), 0)},
  globalOutbound = "internet",
  durableObjectStorage = (localDisk = "objects"),
  durableObjectNamespaces = ${list(namespaces, 4)},
  bindings = ${list(bindings, 4)},
);
`;
}

/** Never another for a class: the ids of its objects, and the folder they are in, follow from it. */
export const uniqueKey = (className: string): string => `rouse-${className}`;

/** Keys of all classes, whether bound or not. */
export function uniqueKeys(worker: WorkerOptions): string[] {
  return [...new Set(objectsOf(worker).map(({ className }) => uniqueKey(className)))];
}

export function bucketsOf(worker: WorkerOptions): { name: string; service: string; folder: string }[] {
  return Object.entries(worker.r2Buckets ?? {}).map(([name, bucket]) => {
    const id = typeof bucket === "string" ? bucket : String((bucket as { id?: unknown }).id);
    return { name, service: `bucket-${id}`, folder: `${BUCKETS}/${id}` };
  });
}

interface ObjectClass {
  /** null: no binding has it. */
  readonly name: string | null;
  readonly className: string;
  readonly sql: boolean;
  readonly foreign: boolean;
}

function objectsOf(worker: WorkerOptions): ObjectClass[] {
  const read = (name: string | null, from: unknown): ObjectClass => {
    const { className, useSQLite, scriptName } = (typeof from === "string" ? { className: from } : from) as {
      className: string;
      useSQLite?: boolean;
      scriptName?: string;
    };
    return { name, className, sql: useSQLite === true, foreign: scriptName !== undefined };
  };
  return [
    ...Object.entries(worker.durableObjects ?? {}).map(([name, from]) => read(name, from)),
    ...(worker.additionalUnboundDurableObjects ?? []).map((from) => read(null, from)),
  ];
}

function unknownKinds(worker: WorkerOptions): string[] {
  return Object.entries(worker).flatMap(([kind, value]) => (READ.includes(kind) || isEmpty(value) ? [] : [kind]));
}

function foreignObjects(worker: WorkerOptions): string[] {
  return objectsOf(worker).flatMap(({ className, foreign }) => (foreign ? [`${className} of another Worker`] : []));
}

function oddVariables(worker: WorkerOptions): string[] {
  return Object.entries(worker.bindings ?? {}).flatMap(([name, value]) =>
    typeof value === "string" ? [] : [`the variable ${name}, which is no text`],
  );
}

function isEmpty(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return value === undefined || value === null;
  return Object.values(value).every(isEmpty);
}

/** @throws Error for characters that no path and no setting has */
function quoted(text: string): string {
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  if (/[\u0000-\u001F\u007F]/.test(text)) throw new Error(`${JSON.stringify(text)} has a control character`);
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

function list(items: readonly string[], indent: number): string {
  if (indent === 0) return `[${items.join(", ")}]`;
  const space = " ".repeat(indent);
  return `[\n${items.map((item) => `${space}${item},\n`).join("")}${space.slice(2)}]`;
}
