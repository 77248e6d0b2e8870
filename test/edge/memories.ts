/** Memories and shared stores, for tests: with a key from outside, and as machines reach them from inside. */
import { env } from "cloudflare:workers";
import { INSIDE_TICKET_HEADER } from "../../sdk/contract/egress.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import type { AddedMemory, MemoryEntry, MemoryHits, MemoryList } from "../../sdk/contract/memory.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import type { Store } from "../../sdk/contract/store.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { API, ask, created, edge, type Fault } from "./client.ts";
import { roots, secrets } from "./secrets.ts";
import { TestedObject } from "./tested-object.ts";

export type Answer<T> = { status: number; body: T & { error: Fault } };

/** A memory by its path. */
export class TestMemory extends TestedObject {
  readonly path: string;
  readonly objectName: string;

  constructor(path: string, objectName: string) {
    super();
    this.path = path;
    this.objectName = objectName;
  }

  static async ofSandbox(): Promise<TestMemory & { readonly sandbox: { id: string; name: string } }> {
    const sandbox = await created();
    const memory = new TestMemory(`/v1/sandboxes/${sandbox.name}/memory`, `default/${sandbox.id}`);
    return Object.assign(memory, { sandbox });
  }

  static ofStore(store: Store): TestMemory {
    return new TestMemory(`/v1/stores/${store.name}/memory`, `default/store:${store.id}`);
  }

  override get stub(): DurableObjectStub {
    return env.MEMORY.getByName(this.objectName);
  }

  ask<T>(method: string, rest = "", body?: unknown, headers = {}): Promise<Answer<T>> {
    return ask<T & { error: Fault }>(method, `${this.path}${rest}`, body, headers);
  }

  async add(...entries: object[]): Promise<MemoryEntry[]> {
    const { status, body } = await this.ask<AddedMemory>("POST", "", { entries });
    if (status !== 200) throw new Error(`add: ${status} ${JSON.stringify(body)}`);
    return body.data;
  }

  async search(input: object | string): Promise<MemoryHits> {
    const body = typeof input === "string" ? { query: input } : input;
    const answer = await this.ask<MemoryHits>("POST", ":search", body);
    if (answer.status !== 200) throw new Error(`search: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  /** Texts of what a search finds. */
  async found(input: object | string): Promise<string[]> {
    return (await this.search(input)).data.map(({ text }) => text);
  }

  async list(query = ""): Promise<MemoryList> {
    return (await this.ask<MemoryList>("GET", query)).body;
  }

  /** All texts, the oldest first. */
  async texts(query = ""): Promise<string[]> {
    const all: string[] = [];
    for (let cursor = ""; ;) {
      const page = await this.list(`?order=oldest&limit=100${query}${cursor}`);
      all.push(...page.data.map(({ text }) => text));
      if (page.nextCursor === null) return all;
      cursor = `&cursor=${page.nextCursor}`;
    }
  }
}

/** A program in a machine, which asks by its host. */
export class Inside {
  readonly id: string;
  readonly name: string;
  readonly #ticket: Promise<string>;

  constructor(sandbox: { id: string; name: string }, generation = 1, account = "default") {
    this.id = sandbox.id;
    this.name = sandbox.name;
    const ticket = { a: account, s: this.id, n: labelOfId(this.id) ?? "", g: generation, e: Date.now() + 3_600_000 };
    this.#ticket = signingKey(secrets.signingSecret, "inside").then((key) => sign(key, ticket));
  }

  static async make(): Promise<Inside> {
    return new Inside(await created());
  }

  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return edge(`${API}/internal/inside${path}`, {
      method,
      headers: {
        authorization: `Bearer ${await hostKey(roots.host, "fake-1", FIRST_EPOCH)}`,
        [INSIDE_TICKET_HEADER]: await this.#ticket,
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
  }

  async ask<T>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
    const response = await this.call(method, path, body);
    return { status: response.status, body: await response.json<T & { error: Fault }>() };
  }
}

let stores = 0;
export async function madeStore(input: object = {}): Promise<Store> {
  stores += 1;
  const name = `shared-${stores}-${crypto.randomUUID().slice(0, 8)}`;
  const { status, body } = await ask<Store>("PUT", `/v1/stores/${name}`, input);
  if (status !== 200) throw new Error(`store: ${status} ${JSON.stringify(body)}`);
  return body;
}
