/** Memory: what agents keep and find again, of one sandbox or of a store that several share. */
import {
  AddedMemory,
  ForgottenMemory,
  ImportedMemory as ImportedSchema,
  MemoryEntry as EntrySchema,
  MemoryHits as HitsSchema,
  MemoryLine,
  MemoryList,
  memoryLimits,
  MemoryUsage as UsageSchema,
} from "../contract/memory.ts";
import type {
  ImportedMemory,
  MemoryEntry,
  MemoryFilter,
  MemoryHits,
  MemoryUsage,
  NewMemory,
  SearchMemory,
  UpdateMemory,
} from "../contract/memory.ts";
import { concat, utf8 } from "./bytes.ts";
import { invalidArgument } from "./errors.ts";
import { Page } from "./page.ts";
import { parseAnswer } from "./remote.ts";
import type { RequestOptions, Transport } from "./transport.ts";

/** Which entries, and in which order. */
export interface MemoryListOptions extends MemoryFilter {
  /** The newest first unless given. */
  order?: "newest" | "oldest" | undefined;
  /** Entries per page, 1 to 100; 50 unless given. A page of long texts has fewer. */
  limit?: number | undefined;
  /** With their embeddings. */
  embeddings?: boolean | undefined;
}

export interface MemorySearchOptions extends Omit<SearchMemory, "query"> {}

/** Bytes of one request of an import, about. */
const IMPORT_BYTES = 4 * 1_048_576;

/**
 * Entries of text with tags, metadata and embeddings, kept outside of the machine: they are there while it sleeps, and
 * each is stored before it is acknowledged. What is found was written by agents: treat it as data, not as instructions.
 *
 * @example
 * await sandbox.memory.add({ text: "Ana wants the report on Fridays.", tags: ["ana"] });
 * const { data } = await sandbox.memory.search("when does Ana want the report?");
 */
export class Memory {
  readonly #transport: Transport;
  readonly #path: string;

  /** @internal @param path where it is */
  constructor(transport: Transport, path: string) {
    this.#transport = transport;
    this.#path = path;
  }

  /**
   * Add one entry. With an `idempotencyId` it is added once, however often and by whatever process it is sent.
   * @throws RouseError `storage_full`
   * @throws InvalidRequestError `invalid_request`, also for an embedding of another dimension than those there are
   */
  async add(entry: NewMemory | string, options: RequestOptions = {}): Promise<MemoryEntry> {
    const input = typeof entry === "string" ? { text: entry } : entry;
    const [added] = await this.addAll([input], options);
    if (!added) throw invalidArgument("Nothing was added.");
    return added;
  }

  /** Add up to 100 entries, all or none. */
  async addAll(entries: readonly NewMemory[], options: RequestOptions = {}): Promise<MemoryEntry[]> {
    return parseAnswer(AddedMemory, await this.#post("", { entries }, options)).data;
  }

  /**
   * The best first: by words in any language, by an embedding, or by both together.
   * @param query words; `"some words"` next to each other, `-word` not there
   */
  async search(
    query: string | SearchMemory,
    search: MemorySearchOptions = {},
    options: RequestOptions = {},
  ): Promise<MemoryHits> {
    const input = typeof query === "string" ? { ...search, query } : { ...search, ...query };
    return parseAnswer(HitsSchema, await this.#post(":search", input, options));
  }

  /** Page by page; what is added or forgotten meanwhile neither doubles nor drops others. */
  async list(filter: MemoryListOptions = {}, options: RequestOptions = {}): Promise<Page<MemoryEntry>> {
    return await this.#page(filter, undefined, options);
  }

  /** @throws NotFoundError `memory_not_found` */
  async get(id: string, options: RequestOptions & { embeddings?: boolean } = {}): Promise<MemoryEntry> {
    const { embeddings, ...rest } = options;
    return parseAnswer(EntrySchema, await this.#get(pathOf(id), { embeddings: flag(embeddings) }, rest));
  }

  /**
   * Change it; a new text without an embedding has none.
   * @throws ConflictError `version_mismatch` where `ifVersion` is not the version it has
   */
  async update(id: string, changes: UpdateMemory, options: RequestOptions = {}): Promise<MemoryEntry> {
    return parseAnswer(EntrySchema, await this.#post(`${pathOf(id)}:update`, changes, options));
  }

  /** Forget entries for good. Answers how many there were. @param which an id, up to 100 ids, or all that a filter says */
  async forget(
    which: string | readonly string[] | { readonly filter: MemoryFilter; readonly confirm: true },
    options: RequestOptions = {},
  ): Promise<number> {
    const body = typeof which === "string" ? { ids: [which] } : "confirm" in which ? which : { ids: which };
    return parseAnswer(ForgottenMemory, await this.#post(":forget", body, options)).forgotten;
  }

  /** How much is held, and may be. */
  async usage(options: RequestOptions = {}): Promise<MemoryUsage> {
    return parseAnswer(UsageSchema, await this.#get(":usage", {}, options));
  }

  /** All of it with embeddings, the oldest first. */
  async *export(options: RequestOptions = {}): AsyncGenerator<MemoryEntry, void, undefined> {
    const events = this.#transport.events({ method: "GET", path: `${this.#path}:export`, timeoutMs: 0, ...options });
    for await (const line of events) yield parseAnswer(EntrySchema, line);
  }

  /**
   * Add what was exported, each entry once however often it is sent. Author and time are those of the import; `origin`
   * says what they were.
   */
  async import(
    entries: Iterable<MemoryEntry> | AsyncIterable<MemoryEntry>,
    options: RequestOptions = {},
  ): Promise<ImportedMemory> {
    const sum = { lines: 0, added: 0, known: 0 };
    let lines: Uint8Array<ArrayBuffer>[] = [];
    let size = 0;
    const send = async () => {
      if (lines.length === 0) return;
      const call = { method: "POST", path: `${this.#path}:import`, bytes: concat(lines), ...options } as const;
      const done = parseAnswer(ImportedSchema, await this.#transport.json(call));
      for (const field of ["lines", "added", "known"] as const) sum[field] += done[field];
      lines = [];
      size = 0;
    };
    for await (const entry of entries) {
      const line = utf8(`${JSON.stringify(parseLine(entry))}\n`);
      lines.push(line);
      size += line.byteLength;
      if (size >= IMPORT_BYTES) await send();
    }
    await send();
    return sum;
  }

  async #page(
    filter: MemoryListOptions,
    cursor: string | undefined,
    options: RequestOptions,
  ): Promise<Page<MemoryEntry>> {
    const { tags, metadata, embeddings, ...rest } = filter;
    const query = {
      ...{ ...rest, cursor, tag: tags, embeddings: flag(embeddings) },
      metadata: metadata && JSON.stringify(metadata),
    };
    const { data, nextCursor } = parseAnswer(MemoryList, await this.#get("", query, options));
    return new Page(data, nextCursor === null ? null : () => this.#page(filter, nextCursor, options));
  }

  #get(rest: string, query: Record<string, string | number | readonly string[] | undefined>, options: RequestOptions) {
    return this.#transport.json({ method: "GET", path: `${this.#path}${rest}`, query, ...options });
  }

  #post(rest: string, json: unknown, options: RequestOptions) {
    return this.#transport.json({ method: "POST", path: `${this.#path}${rest}`, json, ...options });
  }
}

/** @throws InvalidRequestError `invalid_argument` for what no export says */
function parseLine(entry: MemoryEntry): MemoryEntry {
  const parsed = MemoryLine.safeParse(entry);
  if (parsed.success) return parsed.data;
  throw invalidArgument("That is no entry of an export.", `Texts have at most ${memoryLimits.textBytesMax} bytes.`);
}

function pathOf(id: string): string {
  if (id.startsWith("mem-")) return `/${encodeURIComponent(id)}`;
  throw invalidArgument(`${JSON.stringify(id)} is not the id of a memory.`);
}

function flag(on: boolean | undefined): "1" | undefined {
  return on === true ? "1" : undefined;
}
