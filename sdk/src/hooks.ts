/** The webhook inbox of a sandbox: URLs that take webhooks while it sleeps, and the events that came in. */
import {
  DeletedHook as DeletedHookSchema,
  Hook as HookSchema,
  HookEvent as EventSchema,
  HookEventList,
  HookList,
  NewHook as NewHookSchema,
  Replayed,
} from "../contract/hook.ts";
import type {
  CreateHook,
  DeletedHook,
  Hook,
  HookEvent,
  HookEventListQuery,
  NewHook,
  RotateHook,
  UpdateHook,
} from "../contract/hook.ts";
import { invalidArgument } from "./errors.ts";
import { Page } from "./page.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/** Which events to list; all conditions must hold. */
export interface HookEventFilter extends Omit<HookEventListQuery, "cursor"> {
  /** Events per page, 1 to 100. */
  limit?: number | undefined;
}

export interface HookEventOptions extends RequestOptions {
  /** With its body: as text, or in base64 where it is not UTF-8. */
  body?: boolean | undefined;
}

/**
 * Webhooks for a program in the sandbox. Each is verified, stored and acknowledged while the sandbox sleeps, and then
 * delivered to a port of it, in order and at least once. A hook is named by its id or name.
 *
 * @example
 * const hook = await sandbox.hooks.create({ name: "github", provider: "github", port: 3000, path: "/github" });
 * console.log(hook.url, hook.secret); // for the provider; shown this once
 */
export class Hooks {
  /** What came in. */
  readonly events: HookEvents;
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
    this.events = new HookEvents(remote);
  }

  /**
   * Make a hook. Its `url`, the `secret` that was made for it, and the `deliverySecret` that deliveries are signed with
   * (Standard Webhooks) are in this answer only.
   * @throws ConflictError `name_taken`, `quota_exceeded`
   * @throws InvalidRequestError `invalid_request`; `stripe`, `slack` and `discord` need their `secret`
   */
  async create(input: CreateHook, options: RequestOptions = {}): Promise<NewHook> {
    return parseAnswer(NewHookSchema, await this.#remote.post("/hooks", input, options));
  }

  /** The oldest first. */
  async list(options: RequestOptions = {}): Promise<Hook[]> {
    return parseAnswer(HookList, await this.#remote.get("/hooks", options)).data;
  }

  /** @throws NotFoundError `hook_not_found` */
  async get(hook: string, options: RequestOptions = {}): Promise<Hook> {
    return parseAnswer(HookSchema, await this.#remote.get(pathOf(hook), options));
  }

  async update(hook: string, changes: UpdateHook, options: RequestOptions = {}): Promise<Hook> {
    return parseAnswer(HookSchema, await this.#remote.post(pathOf(hook, ":update"), changes, options));
  }

  /**
   * Replace its secret: the one before counts for `overlapSeconds` more, a day unless given. With `what` its delivery
   * secret, or its URL, of which the one before ends at once. What is new is in this answer only.
   */
  async rotate(hook: string, input: RotateHook = {}, options: RequestOptions = {}): Promise<NewHook> {
    return parseAnswer(NewHookSchema, await this.#remote.post(pathOf(hook, ":rotate"), input, options));
  }

  /** Delete it with its events. */
  async delete(hook: string, options: RequestOptions = {}): Promise<DeletedHook> {
    return parseAnswer(DeletedHookSchema, await this.#remote.delete(pathOf(hook), options));
  }

  /** Deliver all of its events that were given up again. Answers how many. */
  async replayDead(hook: string, options: RequestOptions = {}): Promise<number> {
    return parseAnswer(Replayed, await this.#remote.post(pathOf(hook, ":replay-dead"), {}, options)).replayed;
  }
}

/** Events of all hooks of a sandbox, kept for 7 days after they ended, 30 when they were given up. */
export class HookEvents {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** The events that match, newest first, page by page. */
  async list(filter: HookEventFilter = {}, options: RequestOptions = {}): Promise<Page<HookEvent>> {
    return await this.#page(filter, undefined, options);
  }

  /** An event with its timeline. @throws NotFoundError `hook_event_not_found` */
  async get(id: string, { body, ...options }: HookEventOptions = {}): Promise<HookEvent> {
    const query = { body: body === true ? "1" : undefined };
    return parseAnswer(EventSchema, await this.#remote.get(eventPath(id), { query, ...options }));
  }

  /**
   * Deliver an event again, under the same `webhook-id`.
   * @throws ConflictError `conflict` for one that no filter let pass: its body was not kept
   */
  async replay(id: string, options: RequestOptions = {}): Promise<HookEvent> {
    return parseAnswer(EventSchema, await this.#remote.post(eventPath(id, ":replay"), {}, options));
  }

  async #page(filter: HookEventFilter, cursor: string | undefined, options: RequestOptions): Promise<Page<HookEvent>> {
    const answer = await this.#remote.get("/hook-events", { query: { ...filter, cursor }, ...options });
    const { data, nextCursor } = parseAnswer(HookEventList, answer);
    return new Page(data, nextCursor === null ? null : () => this.#page(filter, nextCursor, options));
  }
}

function pathOf(hook: string, verb = ""): string {
  if (hook === "" || hook === "." || hook === "..") throw invalidArgument("That is no id or name of a hook.");
  return `/hooks/${encodeURIComponent(hook)}${verb}`;
}

function eventPath(id: string, verb = ""): string {
  if (!id.startsWith("evt-")) throw invalidArgument(`${JSON.stringify(id)} is not the id of an event.`);
  return `/hook-events/${encodeURIComponent(id)}${verb}`;
}
