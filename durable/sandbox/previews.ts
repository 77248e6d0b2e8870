/** Ports opened to people without a key: link tokens and how the API shows them. */
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { sign, signingKey, type LinkToken, type SigningKey } from "../../sdk/contract/ticket.ts";
import { defaults, type Access, type Preview } from "../../sdk/contract/sandbox.ts";
import { LINK_TOKEN_NAME, namedUrl } from "../named-url.ts";
import { refuse, type PreviewTerms, type Result } from "./api.ts";
import { urlParts, type Engine } from "./engine.ts";
import { iso } from "../time.ts";
import type { SandboxRecord } from "./record.ts";
import type { PreviewRow, SandboxStore } from "./store.ts";

const DAY_SECONDS = 86_400;

/** The default port is as open as the sandbox says; any other as its preview says. */
export function visibilityOf(record: SandboxRecord, row: PreviewRow): Access {
  return row.port === defaults.port ? record.access : row.visibility;
}

/** When a token ends, Unix milliseconds. */
export function tokenEnd(terms: PreviewTerms, now: number): number {
  return terms.expiresAt === undefined ? now + (terms.ttlSeconds ?? DAY_SECONDS) * 1000 : Date.parse(terms.expiresAt);
}

export type PreviewResult = Result<{ readonly preview: Preview }>;

interface Held {
  readonly store: SandboxStore;
  readonly record: SandboxRecord;
}

export class Previews {
  readonly #engine: Engine;
  readonly #env: Env;
  #key: Promise<SigningKey> | undefined;

  constructor(engine: Engine, env: Env) {
    this.#engine = engine;
    this.#env = env;
  }

  async open(
    { store, record }: Held,
    port: number,
    asked: Access | undefined,
    terms: PreviewTerms,
  ): Promise<PreviewResult> {
    if (port === AGENT_PORT) return refuse("invalid_port", `Port ${port} is reserved.`, { port });
    const existing = rowOf(store, port);
    const before = existing && visibilityOf(record, existing);
    // Tokens of before a port was public must not work again when it is private once more.
    const version = existing && before === (asked ?? before) ? existing.version : record.accessVersion + 1;
    const row: PreviewRow = {
      port,
      id: existing?.id ?? `pv-${crypto.randomUUID()}`,
      visibility: asked ?? existing?.visibility ?? "private",
      version,
      createdAt: existing?.createdAt ?? Date.now(),
    };
    const access = port === defaults.port ? (asked ?? record.access) : record.access;
    return this.#save(store, { ...record, access, accessVersion: Math.max(record.accessVersion, version) }, row, terms);
  }

  async list({ store, record }: Held): Promise<Result<{ previews: Preview[] }>> {
    return { ok: true, previews: await Promise.all(store.previews().map((row) => this.#show(record, row, {}))) };
  }

  async get({ store, record }: Held, port: number, terms: PreviewTerms): Promise<PreviewResult> {
    const row = rowOf(store, port);
    return row ? { ok: true, preview: await this.#show(record, row, terms) } : notOpened(port);
  }

  async rotate({ store, record }: Held, port: number): Promise<PreviewResult> {
    const row = rowOf(store, port);
    if (!row) return notOpened(port);
    const accessVersion = record.accessVersion + 1;
    return this.#save(store, { ...record, accessVersion }, { ...row, version: accessVersion }, {});
  }

  async close({ store, record }: Held, port: number): Promise<Result<{ id: string; sandboxId: string }>> {
    const row = rowOf(store, port);
    if (!row) return notOpened(port);
    store.transaction(() => {
      store.removePreview(port);
      this.#engine.save({ ...record, access: port === defaults.port ? "private" : record.access });
    });
    await this.#engine.tellSockets();
    return { ok: true, id: row.id, sandboxId: record.id };
  }

  async #save(
    store: SandboxStore,
    record: SandboxRecord,
    row: PreviewRow,
    terms: PreviewTerms,
  ): Promise<PreviewResult> {
    store.transaction(() => {
      store.savePreview(row);
      this.#engine.save(record);
    });
    await this.#engine.tellSockets();
    return { ok: true, preview: await this.#show(record, row, terms) };
  }

  /** With a fresh token, unless the port is public. */
  async #show(record: SandboxRecord, row: PreviewRow, terms: PreviewTerms): Promise<Preview> {
    this.#key ??= signingKey(this.#env.ROUSE_SECRET, "link");
    const endsAt = tokenEnd(terms, Date.now());
    const visibility = visibilityOf(record, row);
    const url = namedUrl(urlParts(this.#env), record, row.port);
    const grant = { s: record.id, p: row.port, v: row.version, e: endsAt } satisfies LinkToken;
    const token = visibility === "public" ? null : await sign(await this.#key, grant);
    return {
      id: row.id,
      sandboxId: record.id,
      port: row.port,
      visibility,
      url,
      token,
      tokenExpiresAt: token === null ? null : iso(endsAt),
      urlWithToken: token === null ? null : `${url}?${LINK_TOKEN_NAME}=${token}`,
      disabled: false,
      embedOrigins: null,
      createdAt: iso(row.createdAt),
      hint:
        token === null
          ? "Anybody can open the URL."
          : "Open urlWithToken in a browser, or send the token as x-rouse-token.",
    };
  }
}

function rowOf(store: SandboxStore, port: number): PreviewRow | undefined {
  return store.previews().find((row) => row.port === port);
}

function notOpened(port: number): ReturnType<typeof refuse> {
  return refuse("not_found", `Port ${port} was not opened.`, { port });
}
