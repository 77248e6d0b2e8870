/** Opening ports of a sandbox to people who have no API key. */
import { Preview as PreviewSchema } from "../contract/sandbox.ts";
import type { Preview } from "../contract/sandbox.ts";
import { z } from "zod";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { timeText } from "./time-text.ts";
import type { RequestOptions } from "./transport.ts";

const PreviewList = z.object({ data: z.array(PreviewSchema) });
const DeletedPreview = z.object({ id: z.string(), sandboxId: z.string(), port: z.int(), deleted: z.literal(true) });

export interface PreviewOptions extends RequestOptions {
  /** `private` (default) needs the token; `public` opens the port to everybody. */
  visibility?: "private" | "public" | undefined;
  /** Seconds until the token ends, 60 to 604 800; a day unless given. */
  ttlSeconds?: number | undefined;
  /** When the token ends, instead of `ttlSeconds`. */
  expiresAt?: string | Date | undefined;
}

/**
 * Links to ports.
 *
 * @example
 * const preview = await sandbox.previews.create(3000, { ttlSeconds: 3600 });
 * console.log(preview.urlWithToken);
 */
export class Previews {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** Open a port, or change how it is open. @throws InvalidRequestError `invalid_port` */
  async create(port: number, options: PreviewOptions = {}): Promise<Preview> {
    const { visibility, ttlSeconds, expiresAt, ...rest } = options;
    const body = { port, visibility, ttlSeconds, expiresAt: timeText(expiresAt) };
    return parseAnswer(PreviewSchema, await this.#remote.post("/previews", body, rest));
  }

  async list(options: RequestOptions = {}): Promise<Preview[]> {
    return parseAnswer(PreviewList, await this.#remote.get("/previews", options)).data;
  }

  /** The preview of a port with a fresh token. @throws NotFoundError `not_found` when the port was never opened */
  async get(port: number, options: Omit<PreviewOptions, "visibility"> = {}): Promise<Preview> {
    const { ttlSeconds, expiresAt, ...rest } = options;
    const query = { ttlSeconds, expiresAt: timeText(expiresAt) };
    return parseAnswer(PreviewSchema, await this.#remote.get(`/previews/${port}`, { query, ...rest }));
  }

  /** End all tokens of a port, and answer a new one. */
  async rotate(port: number, options: RequestOptions = {}): Promise<Preview> {
    return parseAnswer(PreviewSchema, await this.#remote.post(`/previews/${port}:rotate`, undefined, options));
  }

  /** Close a port again: API keys still reach it, tokens do not. */
  async delete(port: number, options: RequestOptions = {}): Promise<z.infer<typeof DeletedPreview>> {
    return parseAnswer(DeletedPreview, await this.#remote.delete(`/previews/${port}`, options));
  }
}
