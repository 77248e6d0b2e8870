/** What the handlers of homes of state are given (`homes.ts`). */
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { Operation } from "../api/operation.ts";
import type { RequestNote } from "../log.ts";
import type { Caller } from "../middleware/auth.ts";

/** Whose home is meant, and who means it. */
export interface Place {
  readonly account: string;
  readonly sandboxId: string;
  readonly label: string;
  /** The run of the machine that asks; null: somebody outside asks, with a key. */
  readonly generation: number | null;
}

/** What the handler of a home is given. */
export interface HomeContext {
  readonly env: Env;
  readonly request: Request;
  readonly url: URL;
  readonly note: RequestNote;
  readonly operation: Operation;
  /** Those of the path after the sandbox. */
  readonly params: readonly string[];
  readonly account: string;
  /** null: the path names no sandbox, and a key asks. */
  readonly place: Place | null;
  /** null: the machine asks. */
  readonly caller: Caller | null;
}

/** @throws RouseFailure `not_found` where a path names no sandbox */
export function placeOf({ place }: HomeContext): Place {
  if (!place) throw new RouseFailure("not_found", "There is no such sandbox.");
  return place;
}
