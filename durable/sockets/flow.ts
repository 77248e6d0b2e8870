/**
 * Which messages of a client the program has. They are numbered from 1 on, over all connections of a socket; each stays
 * stored until it is known to have reached the program, and every connection begins with the first that is not. Pure.
 */
import { socketLimits } from "../../sdk/contract/socket.ts";

export interface Flow {
  /** Messages that were taken from the client, and stored. */
  readonly taken: number;
  /** Those that are known to have reached the program: the first so many. */
  readonly reached: number;
  /** The program's connection; null while it has none. */
  readonly open: Open | null;
}

interface Open {
  /** `reached` when it was opened. */
  readonly base: number;
  /** Messages of ours that came before the client's. */
  readonly ours: number;
  /** The newest that was given to it. */
  readonly given: number;
}

export const noFlow: Flow = { taken: 0, reached: 0, open: null };

/** Messages that are not known to have reached the program. */
export function pendingOf({ taken, reached }: Flow): number {
  return taken - reached;
}

export function took(flow: Flow): Flow {
  return { ...flow, taken: flow.taken + 1 };
}

/** @param ours messages that were sent first, which are none of the client's */
export function opened(flow: Flow, ours: number): Flow {
  const { reached } = flow;
  return { ...flow, open: { base: reached, ours, given: reached } };
}

/** The message to give to the connection next; null where it has all, or there is none. */
export function nextOf({ taken, open }: Flow): number | null {
  return open && open.given < taken ? open.given + 1 : null;
}

export function gave(flow: Flow): Flow {
  const { open } = flow;
  return open ? { ...flow, open: { ...open, given: open.given + 1 } } : flow;
}

/** @param count messages that reached the program on this connection, as its host says */
export function told(flow: Flow, count: number): Flow {
  const { open } = flow;
  if (!open) return flow;
  const reached = Math.min(open.given, open.base + Math.max(0, count - open.ours));
  return reached > flow.reached ? { ...flow, reached } : flow;
}

/** The connection is over; what was given to it and did not reach the program for sure is given to the next. */
export function lost(flow: Flow): Flow {
  return { ...flow, open: null };
}

/** What waits of a socket, and of all of a sandbox. */
export interface Buffered {
  readonly frames: number;
  readonly bytes: number;
  readonly bytesOfAll: number;
}

/** Why a message can't be taken, as the code and reason that its socket is closed with; null when it can. */
export function overflowOf(
  { frames, bytes, bytesOfAll }: Buffered,
  length: number,
): { code: number; reason: string } | null {
  const { frameBytesMax, bufferedFramesMax, bufferedBytesMax, bufferedBytesMaxOfAll } = socketLimits;
  if (length > frameBytesMax) return { code: 1009, reason: `a message has at most ${frameBytesMax} bytes` };
  if (frames + 1 > bufferedFramesMax)
    return { code: 1013, reason: `${bufferedFramesMax} messages wait for the program, as many as may` };
  if (bytes + length > bufferedBytesMax)
    return { code: 1013, reason: `${bufferedBytesMax} bytes wait for the program, as many as may` };
  if (bytesOfAll + length > bufferedBytesMaxOfAll)
    return { code: 1013, reason: "too much waits for the program of all sockets together" };
  return null;
}
