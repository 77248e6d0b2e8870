/** Stores that an account's agents share. */
import { DeletedStore as DeletedSchema, Store as StoreSchema, StoreList, StoreName } from "../contract/store.ts";
import type { DeletedStore, Grant, PutStore, Store } from "../contract/store.ts";
import { invalidArgument } from "./errors.ts";
import { Memory } from "./memory.ts";
import { queuesOf, type Queues } from "./queues.ts";
import { parseAnswer, Remote } from "./remote.ts";
import { State } from "./state.ts";
import type { RequestOptions, Transport } from "./transport.ts";

/**
 * Memory and state that several agents share, each with one keeper that says who wrote what and when. A sandbox reaches a
 * store that is open to it at `http://rouse.internal/stores/<name>/`.
 *
 * @example
 * await rouse.stores.create("team", { grants: [{ agent: "researcher", access: "write" }, { agent: "*", access: "read" }] });
 * const { data } = await rouse.stores.memory("team").search("open questions");
 */
export class Stores {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Make it; where it is there, it is as this says from now on. @throws ConflictError `quota_exceeded`, `conflict` */
  async create(name: string, input: PutStore = {}, options: RequestOptions = {}): Promise<Store> {
    const call = { method: "PUT", path: pathOf(name), json: input, ...options } as const;
    return parseAnswer(StoreSchema, await this.#transport.json(call));
  }

  /** The same as {@link Stores.create}: what is not given stays. */
  async update(name: string, input: PutStore, options: RequestOptions = {}): Promise<Store> {
    return await this.create(name, input, options);
  }

  /** By name. */
  async list(options: RequestOptions = {}): Promise<Store[]> {
    return parseAnswer(StoreList, await this.#transport.json({ method: "GET", path: "/v1/stores", ...options })).data;
  }

  /** @throws NotFoundError `store_not_found` */
  async get(name: string, options: RequestOptions = {}): Promise<Store> {
    return parseAnswer(StoreSchema, await this.#transport.json({ method: "GET", path: pathOf(name), ...options }));
  }

  /** Open it to an agent: a sandbox's name, or `*` for all. In the place of the agent's other grant. */
  async grant(name: string, grant: Grant, options: RequestOptions = {}): Promise<Store> {
    const call = { method: "POST", path: `${pathOf(name)}:grant`, json: grant, ...options } as const;
    return parseAnswer(StoreSchema, await this.#transport.json(call));
  }

  /** Close it to an agent; each request that begins after the answer is refused. */
  async revoke(name: string, agent: string, options: RequestOptions = {}): Promise<Store> {
    const call = { method: "POST", path: `${pathOf(name)}:revoke`, json: { agent }, ...options } as const;
    return parseAnswer(StoreSchema, await this.#transport.json(call));
  }

  /** Delete it with all that is in it. It can't be undone: export what is worth keeping first. */
  async delete(name: string, options: RequestOptions = {}): Promise<DeletedStore> {
    const call = { method: "DELETE", path: pathOf(name), query: { confirm: name }, ...options } as const;
    return parseAnswer(DeletedSchema, await this.#transport.json(call));
  }

  /** Its memory. */
  memory(name: string): Memory {
    return new Memory(this.#transport, `${pathOf(name)}/memory`);
  }

  /** Its keys and its database. */
  state(name: string): State {
    return new State(new StoreRemote(this.#transport, name));
  }

  /** Its queues: `stores.queues("team")("jobs")`. */
  queues(name: string): Queues {
    return queuesOf(new StoreRemote(this.#transport, name));
  }
}

/** A store as the target of calls that a sandbox takes as well. */
class StoreRemote extends Remote {
  override path(suffix = ""): string {
    return `${pathOf(this.id)}${suffix}`;
  }
}

/** @throws InvalidRequestError `invalid_argument` for what is no name of a store */
function pathOf(name: string): string {
  if (StoreName.safeParse(name).success) return `/v1/stores/${name}`;
  throw invalidArgument(`${JSON.stringify(name)} is not the name of a store.`, "1 to 63 of a-z, 0-9 and -.");
}
