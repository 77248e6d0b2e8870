/** An event as whoever knows of it says it. Pure. */
import type { EventData, EventType, RouseEvent } from "../../sdk/contract/event.ts";

/** An event before it has its number. */
export type Draft = {
  [T in EventType]: {
    readonly type: T;
    readonly data: EventData<T>;
    /** Under a key that the log has already, it is written down no second time. */
    readonly key?: string;
  };
}[EventType];

/** What it is of, and about. */
export type About = Pick<RouseEvent, "subject" | "sandbox">;
