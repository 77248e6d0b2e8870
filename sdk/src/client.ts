/** A connection to one Rouse installation. */
import { Account as AccountSchema, Me as MeSchema, Notice as NoticeSchema } from "../contract/account.ts";
import type { Account, Notice } from "../contract/account.ts";
import { Host as HostSchema, NewHost as NewHostSchema } from "../contract/host.ts";
import type { Host, NewHost } from "../contract/host.ts";
import {
  DeletedSandbox as DeletedSandboxSchema,
  Sandbox as SandboxSchema,
  SandboxChanges as SandboxChangesSchema,
  SandboxList,
  limits,
} from "../contract/sandbox.ts";
import type { DeletedSandbox, SandboxChanges, SandboxState } from "../contract/sandbox.ts";
import { Usage as UsageSchema } from "../contract/usage.ts";
import type { Usage } from "../contract/usage.ts";
import { z } from "zod";
import { Accounts } from "./accounts.ts";
import { Agents } from "./agents.ts";
import { parseBaseUrl } from "./credentials.ts";
import { RouseError, invalidArgument } from "./errors.ts";
import { EventEndpoints } from "./event-endpoints.ts";
import { Keys } from "./keys.ts";
import { McpServers } from "./mcp.ts";
import { Members } from "./members.ts";
import { Page } from "./page.ts";
import { inParallel } from "./parallel.ts";
import { Remote, addressable, parseAnswer } from "./remote.ts";
import { undelete } from "./gone.ts";
import { Sandbox } from "./sandbox.ts";
import type { CreateInput, DeleteOptions } from "./sandbox.ts";
import { Secrets } from "./secrets.ts";
import { Snapshots } from "./snapshots.ts";
import { Stores } from "./stores.ts";
import { Transport } from "./transport.ts";
import type { RequestOptions, TransportOptions } from "./transport.ts";
import { Volumes } from "./volumes.ts";
import { started } from "./waits.ts";

const PARALLEL_STOPS = 8;

const HostList = z.object({ data: z.array(HostSchema) });
const NoticeList = z.object({ data: z.array(NoticeSchema) });

/** The account that a key belongs to. */
export type Me = z.infer<typeof MeSchema>;

export interface RouseOptions {
  /**
   * `ROUSE_API_KEY` unless given; then that of a saved login (`rouse login`) for the base URL; then, for a server on this
   * machine, the key that `npm start` made.
   */
  apiKey?: string | undefined;
  /** Origin of the API; `ROUSE_API_URL` unless given, then that of a login in use, then `http://localhost:8787`. */
  baseUrl?: string | undefined;
  /** Used in place of the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
  /** Begins a WebSocket in place of the platform's, where the way there needs no key: of a page that has a cookie. */
  webSocket?: ((url: string) => WebSocket) | undefined;
  /** Time limit of each call with its retries, milliseconds; 300 000 unless given, 0 for none. */
  timeoutMs?: number | undefined;
  /** Retries after the first try; 4 unless given. Changes are retried under one idempotency key. */
  maxRetries?: number | undefined;
  /**
   * How long a creation waits for room on a host, and what needs a volume that is being let go waits for that,
   * milliseconds; 120 000 unless given, 0 for not at all.
   */
  waitForCapacityMs?: number | undefined;
}

/** Which usage to read. */
export interface UsageOptions extends RequestOptions {
  /** `2026-11` (UTC), or `all`; the one under way unless given. */
  month?: string | undefined;
  /** Add totals (`groups`) by sandbox, by month, or by the value of a label. */
  by?: "sandbox" | "month" | `label:${string}` | undefined;
}

/** Which sandboxes to list; all conditions must hold. */
export interface ListFilter {
  /** States, any of them. */
  state?: SandboxState | readonly SandboxState[] | undefined;
  labels?: Record<string, string> | undefined;
  name?: string | undefined;
  /** Also those that stopped and can't run again. */
  includeStopped?: boolean | undefined;
  /** Sandboxes per page, 1 to 100. */
  limit?: number | undefined;
}

/** What {@link Sandboxes.stopAll} did. */
export interface StopAllResult {
  /** Ids. */
  stopped: string[];
  failed: { id: string; error: RouseError }[];
}

/**
 * A client of one installation and account.
 *
 * @example
 * const rouse = new Rouse({ baseUrl: "https://rouse.example.com", apiKey });
 * const sandbox = await rouse.sandboxes.getOrCreate("agent-u-42");
 */
export class Rouse {
  /** The account's sandboxes. */
  readonly sandboxes: Sandboxes;
  /** The account's snapshots. */
  readonly snapshots: Snapshots;
  /** The account's volumes and their backups. */
  readonly volumes: Volumes;
  /** The account's secrets. */
  readonly secrets: Secrets;
  /** The account's agents. */
  readonly agents: Agents;
  /** Where the account's events are sent to. */
  readonly eventEndpoints: EventEndpoints;
  /** What the account's agents share. */
  readonly stores: Stores;
  /** MCP servers that sandboxes can start. */
  readonly mcp: McpServers;
  /** The account's API keys. */
  readonly keys: Keys;
  /** The account's people. */
  readonly members: Members;
  /** The installation's accounts, for its operator. */
  readonly accounts: Accounts;
  /** @internal */
  readonly transport: Transport;

  /** @throws InvalidRequestError `invalid_base_url`, or `invalid_argument` for an impossible option */
  constructor(options: RouseOptions = {}) {
    this.transport = transportOf(options);
    this.sandboxes = new Sandboxes(this.transport);
    this.snapshots = new Snapshots(this.transport);
    this.volumes = new Volumes(this.transport);
    this.secrets = new Secrets(this.transport, "/v1/secrets");
    this.agents = new Agents(this);
    this.eventEndpoints = new EventEndpoints(this.transport);
    this.stores = new Stores(this.transport);
    this.mcp = new McpServers(this.transport);
    this.keys = new Keys(this.transport);
    this.members = new Members(this.transport);
    this.accounts = new Accounts(this.transport);
  }

  /** The same as {@link Rouse.sandboxes}. */
  get sandbox(): Sandboxes {
    return this.sandboxes;
  }

  /** The same as {@link Rouse.snapshots}. */
  get snapshot(): Snapshots {
    return this.snapshots;
  }

  /** The same as {@link Rouse.volumes}. */
  get volume(): Volumes {
    return this.volumes;
  }

  /** The machines that carry sandboxes, with accelerator and images. */
  async hosts(options: RequestOptions = {}): Promise<Host[]> {
    const answer = await this.transport.json({ method: "GET", path: "/v1/hosts", ...options });
    return parseAnswer(HostList, answer).data;
  }

  /**
   * Make a host's secrets: what the file of `ROUSE_SECRETS_FILE` holds there, shown once. For a host that has some they
   * are made anew, and its key before is over. Operator only. @throws PermissionDeniedError `forbidden`
   */
  async addHost(hostId: string, options: RequestOptions = {}): Promise<NewHost> {
    const call = { method: "POST", path: "/v1/hosts", json: { hostId }, ...options } as const;
    return parseAnswer(NewHostSchema, await this.transport.json(call));
  }

  /** Let a host take no new machines, or with `draining: false` take them again. What it has goes on. */
  async drainHost(
    hostId: string,
    { draining = true, ...options }: RequestOptions & { draining?: boolean } = {},
  ): Promise<Host> {
    const path = `/v1/hosts/${encodeURIComponent(hostId)}:drain`;
    return parseAnswer(HostSchema, await this.transport.json({ method: "POST", path, json: { draining }, ...options }));
  }

  /** Forget a host that does not report any more. @throws ConflictError when it still does */
  async removeHost(hostId: string, options: RequestOptions = {}): Promise<void> {
    await this.transport.json({ method: "DELETE", path: `/v1/hosts/${encodeURIComponent(hostId)}`, ...options });
  }

  /**
   * What each sandbox used in a month, what it comes to, and the account's credit. Money in microdollars.
   * @param what a month (`2026-11`, UTC; the one under way unless given), or month and grouping
   * @throws InvalidRequestError for what is neither
   */
  async usage(what: string | UsageOptions = {}, options: RequestOptions = {}): Promise<Usage> {
    const { month, by, ...rest } = typeof what === "string" ? { month: what, by: undefined, ...options } : what;
    const call = { method: "GET", path: "/v1/usage", query: { month, by }, ...options, ...rest } as const;
    return parseAnswer(UsageSchema, await this.transport.json(call));
  }

  /** The account: plan, quotas and what counts towards them, limits, credit. Money in microdollars. */
  async account(options: RequestOptions = {}): Promise<Account> {
    return parseAnswer(AccountSchema, await this.transport.json({ method: "GET", path: "/v1/account", ...options }));
  }

  /** What is about to happen: deletions, keys and credit that end; soonest first. */
  async notices(options: RequestOptions = {}): Promise<Notice[]> {
    return parseAnswer(NoticeList, await this.transport.json({ method: "GET", path: "/v1/notices", ...options })).data;
  }

  /** Whom the key belongs to. @throws AuthenticationError */
  async me(options: RequestOptions = {}): Promise<Me> {
    return parseAnswer(MeSchema, await this.transport.json({ method: "GET", path: "/v1/me", ...options }));
  }
}

/** @internal @throws InvalidRequestError `invalid_base_url`, or `invalid_argument` for an impossible option */
export function transportOf(options: RouseOptions & Pick<TransportOptions, "freshToken">): Transport {
  const { timeoutMs = 300_000, maxRetries = 4, waitForCapacityMs = 120_000, ...rest } = options;
  for (const [name, value] of Object.entries({ timeoutMs, maxRetries, waitForCapacityMs })) {
    if (!Number.isFinite(value) || value < 0) throw invalidArgument(`${name} is ${value}; it must be 0 or more.`);
  }
  if (rest.baseUrl !== undefined) parseBaseUrl(rest.baseUrl);
  return new Transport({ ...rest, timeoutMs, maxRetries, waitForCapacityMs });
}

/** The sandboxes of an account; {@link Sandbox} has the same as static methods. */
export class Sandboxes {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** See {@link Sandbox.create}. */
  create(input: CreateInput = {}, options: RequestOptions = {}): Promise<Sandbox> {
    return this.#create(input, options);
  }

  /** See {@link Sandbox.getOrCreate}. */
  getOrCreate(name: string, input: Omit<CreateInput, "name"> = {}, options: RequestOptions = {}): Promise<Sandbox> {
    return this.#create({ ...input, name, getOrCreate: true }, options);
  }

  /** A sandbox by id or name, without waking it. @throws NotFoundError `not_found` */
  async get(idOrName: string, options: RequestOptions = {}): Promise<Sandbox> {
    const answer = await new Remote(this.#transport, addressable(idOrName)).get("", options);
    return new Sandbox(this.#transport, parseAnswer(SandboxSchema, answer));
  }

  /** The sandboxes that match, oldest first, page by page. */
  list(filter: ListFilter = {}, options: RequestOptions = {}): Promise<Page<Sandbox>> {
    return this.#page(filter, undefined, options);
  }

  /**
   * Sandboxes that changed after a change, each as it is now; none of it wakes one. Without `after` the answer says where
   * to begin. Changes of use and of cost alone are none.
   * @param options `waitSeconds`: how long to wait for the next one where there is none yet, at most 60
   */
  async changes({
    after,
    waitSeconds,
    ...options
  }: RequestOptions & { after?: number | undefined; waitSeconds?: number | undefined } = {}): Promise<SandboxChanges> {
    const query = { after, waitSeconds };
    const call = { method: "GET", path: "/v1/sandboxes:changes", query, ...options } as const;
    return parseAnswer(SandboxChangesSchema, await this.#transport.json(call));
  }

  /** Delete by id or name, from any state. Works again on a deleted id. See {@link Sandbox.delete}. */
  async delete(idOrName: string, { graceSeconds, ...options }: DeleteOptions = {}): Promise<DeletedSandbox> {
    const extras = { query: { graceSeconds }, ...options };
    const answer = await new Remote(this.#transport, addressable(idOrName)).delete("", extras);
    return parseAnswer(DeletedSandboxSchema, answer);
  }

  /** Take back a deletion by id, within its grace time. See {@link Sandbox.undelete}. */
  async undelete(id: string, options: RequestOptions = {}): Promise<Sandbox> {
    const remote = new Remote(this.#transport, addressable(id));
    return new Sandbox(this.#transport, parseAnswer(SandboxSchema, await undelete(remote, options)));
  }

  /** Stop all sandboxes that have the labels, at least one label; eight at once. */
  async stopAll({ labels }: { labels: Record<string, string> }, options: RequestOptions = {}): Promise<StopAllResult> {
    if (Object.keys(labels).length === 0) throw invalidArgument("stopAll needs at least one label.");
    const result: StopAllResult = { stopped: [], failed: [] };
    const page = await this.list({ labels, limit: limits.listMax }, options);
    const found = (await page.toArray()).filter(
      (sandbox) => sandbox.state !== "stopped" && sandbox.state !== "deleted",
    );
    await inParallel(found, PARALLEL_STOPS, async (sandbox) => {
      try {
        await sandbox.stop({ ...options, idempotencyKey: undefined });
        result.stopped.push(sandbox.id);
      } catch (error) {
        if (!(error instanceof RouseError)) throw error;
        result.failed.push({ id: sandbox.id, error });
      }
    });
    return result;
  }

  async #create(
    { wait = true, ...body }: CreateInput & { getOrCreate?: true },
    options: RequestOptions,
  ): Promise<Sandbox> {
    const answer = await this.#transport.json({
      method: "POST",
      path: "/v1/sandboxes",
      json: body,
      waitForCapacity: true,
      waitSeconds: wait ? 60 : undefined,
      ...options,
    });
    const sandbox = new Sandbox(this.#transport, parseAnswer(SandboxSchema, answer));
    return wait ? await started(sandbox, options.signal) : sandbox;
  }

  async #page(filter: ListFilter, cursor: string | undefined, options: RequestOptions): Promise<Page<Sandbox>> {
    const answer = await this.#transport.json({
      method: "GET",
      path: "/v1/sandboxes",
      query: {
        state: typeof filter.state === "string" ? [filter.state] : filter.state,
        label: Object.entries(filter.labels ?? {}).map(([key, value]) => `${key}:${value}`),
        name: filter.name,
        includeStopped: filter.includeStopped ? true : undefined,
        limit: filter.limit,
        cursor,
      },
      ...options,
    });
    const { data, nextCursor } = parseAnswer(SandboxList, answer);
    const next = nextCursor === null ? null : () => this.#page(filter, nextCursor, options);
    return new Page(
      data.map((info) => new Sandbox(this.#transport, info)),
      next,
    );
  }
}
