/** Share links of a sandbox: what each opens, until when, and when it was used. Tokens are signed, and name their link. */
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { linkLimits, type CreateLink, type Link, type LinkUse } from "../../sdk/contract/link.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import { SHARE_PREFIX, sign, signingKey, type ShareToken, type SigningKey } from "../../sdk/contract/ticket.ts";
import { LINK_TOKEN_NAME, namedUrl } from "../named-url.ts";
import { iso, isoOrNull } from "../time.ts";
import { refuse, type Change, type LinkFacts, type Result } from "./api.ts";
import type { Answers } from "./answers.ts";
import { urlParts, type Engine } from "./engine.ts";
import type { SandboxRecord } from "./record.ts";

const USES_SHOWN = 50;
/** A link that is over is shown for so long, milliseconds. */
const KEPT_MS = 30 * 86_400_000;

interface LinkRow {
  readonly id: string;
  readonly name: string | null;
  readonly port: number;
  readonly path: string;
  readonly wake: boolean;
  /** Unix milliseconds. */
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly revokedAt: number | null;
  readonly lastUsedAt: number | null;
}

interface PlannedLink {
  readonly id: string;
  readonly name: string;
  readonly port: number;
  readonly expiresAt: number;
  readonly token: string;
}

type Refusal = Extract<Answer, { ok: false }>;
type Answer = Result<{ readonly link: Link }>;

export class Links {
  readonly #engine: Engine;
  readonly #env: Env;
  readonly #sql: SqlStorage;
  readonly #answers: Answers;
  #key: Promise<SigningKey> | undefined;

  constructor(engine: Engine, env: Env, storage: DurableObjectStorage, answers: Answers) {
    this.#engine = engine;
    this.#env = env;
    this.#sql = storage.sql;
    this.#answers = answers;
  }

  /** With its token, which is stored nowhere: it is signed anew for a repeated answer. */
  async create(input: CreateLink, change: Change): Promise<Answer> {
    const made = await this.#answers.once<Answer>(change, async (record) => this.#make(record, input));
    const record = this.#engine.record();
    if (!made.ok || !record) return made;
    const { link } = made;
    const token = await this.tokenOf(link.sandboxId, link.id, Date.parse(link.expiresAt));
    return { ok: true, link: { ...link, token, urlWithToken: `${link.url}?${LINK_TOKEN_NAME}=${token}` } };
  }

  /** @param expiresAt Unix milliseconds */
  async tokenOf(sandboxId: string, id: string, expiresAt: number): Promise<string> {
    this.#key ??= signingKey(this.#env.ROUSE_SECRET, "share");
    const grant = { s: sandboxId, l: id, e: expiresAt } satisfies ShareToken;
    return SHARE_PREFIX + (await sign(await this.#key, grant));
  }

  /** A link of the longest time, with its token, that `add` stores. */
  async plan({ id: sandboxId }: SandboxRecord, port: number, name: string): Promise<PlannedLink> {
    const expiresAt = Date.now() + linkLimits.ttlSecondsMax * 1000;
    const id = newLinkId();
    return { id, name, port, expiresAt, token: await this.tokenOf(sandboxId, id, expiresAt) };
  }

  /** @returns why it can't be stored */
  add(record: SandboxRecord, { id, name, port, expiresAt }: PlannedLink): Refusal | null {
    const made = this.#make(record, { name, port, expiresAt: iso(expiresAt) }, id);
    return made.ok ? null : made;
  }

  isLive(id: string): boolean {
    return this.#live(Date.now()).some((link) => link.id === id);
  }

  list(record: SandboxRecord): Link[] {
    const now = Date.now();
    this.#sql.exec("DELETE FROM links WHERE COALESCE(revoked_at, expires_at) < ?", now - KEPT_MS);
    return this.#rows("ORDER BY created_at DESC, id").map((row) => this.#shown(record, row, now));
  }

  get(record: SandboxRecord, id: string): Answer {
    const [row] = this.#rows("WHERE id = ?", id);
    if (!row) return notFound;
    const uses = this.#sql
      .exec<{ at: number; request: string; woke: number }>(
        "SELECT at, request, woke FROM link_uses WHERE link_id = ? ORDER BY ordinal DESC LIMIT ?",
        ...[id, USES_SHOWN],
      )
      .toArray()
      .map(({ at, request, woke }): LinkUse => ({ at: iso(at), request, woke: woke === 1 }));
    return { ok: true, link: { ...this.#shown(record, row, Date.now()), uses } };
  }

  /** Its token opens nothing any more, and its open connections end before this answers, if the host does. */
  async revoke(record: SandboxRecord, id: string): Promise<Answer> {
    const now = Date.now();
    this.#sql.exec("UPDATE links SET revoked_at = COALESCE(revoked_at, ?) WHERE id = ?", now, id);
    const [row] = this.#rows("WHERE id = ?", id);
    if (!row) return notFound;
    await Promise.all([this.#engine.hosting.endConnections(record, [id]), this.#engine.tellSockets()]);
    return { ok: true, link: this.#shown(record, row, now) };
  }

  /** What the edge judges tokens by. */
  facts(now: number): Readonly<Record<string, LinkFacts>> {
    return Object.fromEntries(this.#live(now).map(({ id, port, path, wake }) => [id, { port, path, wake }]));
  }

  used(id: string, request: string, woke: boolean): void {
    const now = Date.now();
    if (this.#sql.exec("UPDATE links SET last_used_at = ? WHERE id = ? RETURNING id", now, id).toArray().length === 0)
      return;
    this.#sql.exec(
      "INSERT INTO link_uses (link_id, at, request, woke) VALUES (?, ?, ?, ?)",
      ...[id, now, request, woke ? 1 : 0],
    );
    this.#sql.exec("DELETE FROM link_uses WHERE ordinal <= last_insert_rowid() - ?", linkLimits.usesKept);
  }

  #make(record: SandboxRecord, input: CreateLink, id = newLinkId()): Answer {
    const { port = defaults.port, path = "/", name = null, wake = true } = input;
    if (port === AGENT_PORT) return refuse("invalid_port", `Port ${port} is reserved.`, { port });
    const now = Date.now();
    const expiresAt =
      input.expiresAt === undefined
        ? now + (input.ttlSeconds ?? linkLimits.ttlSecondsDefault) * 1000
        : Date.parse(input.expiresAt);
    if (expiresAt <= now || expiresAt - now > linkLimits.ttlSecondsMax * 1000) {
      const issues = [{ path: "expiresAt", message: "a time within a year from now" }];
      return refuse("invalid_request", "expiresAt: a time within a year from now", { issues });
    }
    if (this.#live(now).length >= linkLimits.linksMax) {
      const message = `A sandbox has at most ${linkLimits.linksMax} links that are live.`;
      return refuse("quota_exceeded", message, { max: linkLimits.linksMax });
    }
    this.#sql.exec(
      "INSERT INTO links (id, name, port, path, wake, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[id, name, port, path, wake ? 1 : 0, now, expiresAt],
    );
    return this.get(record, id);
  }

  #shown(record: SandboxRecord, row: LinkRow, now: number): Link {
    const { id, name, port, path, wake, createdAt, expiresAt, revokedAt, lastUsedAt } = row;
    const base = namedUrl(urlParts(this.#env), record, port);
    return {
      ...{ id, sandboxId: record.id, name, port, path, wake },
      state: revokedAt !== null ? "revoked" : expiresAt <= now ? "expired" : "live",
      createdAt: iso(createdAt),
      expiresAt: iso(expiresAt),
      revokedAt: isoOrNull(revokedAt),
      lastUsedAt: isoOrNull(lastUsedAt),
      url: `${base}${path.slice(1)}`,
    };
  }

  #live(now: number): LinkRow[] {
    return this.#rows("WHERE revoked_at IS NULL AND expires_at > ?", now);
  }

  #rows(rest: string, ...bindings: SqlStorageValue[]): LinkRow[] {
    return this.#sql
      .exec<Omit<LinkRow, "wake"> & { wake: number } & Record<string, SqlStorageValue>>(
        `SELECT id, name, port, path, wake, created_at AS createdAt, expires_at AS expiresAt, revoked_at AS revokedAt,
           last_used_at AS lastUsedAt
         FROM links ${rest}`,
        ...bindings,
      )
      .toArray()
      .map((row) => ({ ...row, wake: row.wake === 1 }));
  }
}

const newLinkId = () => `link-${randomText(BASE36, 20)}`;
const notFound = refuse("link_not_found", "There is no such link.");
