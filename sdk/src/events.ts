/** What happened to a sandbox: its events, read one after another. */
import { EventList } from "../contract/event.ts";
import type { RouseEvent } from "../contract/event.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/** How long a call waits for the next event, seconds. */
const FOLLOW_SECONDS = 30;

export interface EventsOptions extends RequestOptions {
  /** Events with a greater sequence number; 0, all that are known, unless given. */
  after?: number | undefined;
}

/** Events of a sandbox: the last 1,000, of 30 days, also when it is deleted. None of these wakes it. */
export class Events {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * Events after a sequence number, the oldest first, 200 at most unless `limit` says less. A first one that is greater
   * than `after + 1` says that those between are not known any more.
   * @param options `waitSeconds`: how long to wait for the next one where there is none yet, at most 60
   */
  async list({
    after,
    limit,
    waitSeconds,
    ...options
  }: EventsOptions & { limit?: number | undefined; waitSeconds?: number | undefined } = {}): Promise<RouseEvent[]> {
    const query = { after, limit, waitSeconds };
    const answer = await this.#remote.get("/events", { query, ...options });
    return parseAnswer(EventList, answer).data as unknown as RouseEvent[];
  }

  /**
   * Events after a sequence number, and each one that comes, until the loop is left or `signal` ends it.
   *
   * @example
   * for await (const event of sandbox.events.follow({ after: 12 })) console.log(event.type);
   */
  async *follow({ after = 0, ...options }: EventsOptions = {}): AsyncGenerator<RouseEvent> {
    for (let last = after; ;) {
      for (const event of await this.list({ after: last, waitSeconds: FOLLOW_SECONDS, ...options })) {
        last = event.sequence;
        yield event;
      }
    }
  }
}
