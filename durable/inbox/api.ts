/** What the edge may ask of the object that holds a sandbox's inbox. */
import type {
  CreateHook,
  DeletedHook,
  Hook,
  HookEvent,
  HookEventList,
  HookEventListQuery,
  HookProvider,
  HookMode,
  NewHook,
  Receipt,
  RotateHook,
  UpdateHook,
} from "../../sdk/contract/hook.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";
import type { EventRecord, RequestTarget } from "./record.ts";
import type { ProgramAnswer } from "./store.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** A hook, as who takes its events has to know it. */
export interface Door {
  readonly hookId: string;
  readonly provider: HookProvider;
  readonly mode: HookMode;
  readonly filters: readonly string[];
  readonly maxBytes: number;
  readonly enabled: boolean;
  /** Those that count now. */
  readonly secrets: readonly string[];
}

/** An event as it came, verified. */
export interface Arrival extends Pick<
  EventRecord,
  "hookId" | "type" | "providerId" | "headers" | "query" | "interaction" | "bytes"
> {
  /** No filter lets it pass: there is no body. */
  readonly ignored: boolean;
  /** Its body, or where that was stored (`reserve`). */
  readonly body: Bytes | null;
  readonly blob: string | null;
}

/** What its sender is told. */
export type Accepted = Pick<EventRecord, "id" | "state" | "interaction"> & {
  /** It came before: this is what became of the first. */
  readonly duplicate: boolean;
};

/** A request with `Prefer: respond-async`, admitted. */
export interface AsyncRequest {
  readonly target: RequestTarget;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Bytes;
}

export interface InboxApi {
  /** @param origin of the API, for the URL. @returns `name_taken`, `quota_exceeded` */
  create(sandboxId: string, input: CreateHook, origin: string, once: Once): Promise<Result<{ readonly hook: NewHook }>>;
  list(sandboxId: string): Promise<Hook[]>;
  /** @param hook its id or name */
  get(sandboxId: string, hook: string): Promise<Result<{ readonly hook: Hook }>>;
  update(sandboxId: string, hook: string, input: UpdateHook, once: Once): Promise<Result<{ readonly hook: Hook }>>;
  /** @returns `invalid_request` for a secret that can't be one of the provider */
  rotate(
    sandboxId: string,
    hook: string,
    input: RotateHook,
    origin: string,
    once: Once,
  ): Promise<Result<{ readonly hook: NewHook }>>;
  /** With its events. */
  remove(sandboxId: string, hook: string, once: Once): Promise<Result<{ readonly hook: DeletedHook }>>;

  /** The hook of a URL; null where there is none. Asking leaves no trace. */
  door(tokenHash: string): Promise<Door | null>;
  /**
   * Room for a large body: store it under the key, then `receive`.
   * @returns `inbox_full`, `hook_not_found`, `hook_disabled`; `known` when the event came before
   */
  reserve(
    hookId: string,
    providerId: string | null,
    bytes: number,
  ): Promise<Result<{ readonly known: Accepted; readonly key: null } | { readonly known: null; readonly key: string }>>;
  /** Once this is answered the event is stored, and will be delivered. @returns `inbox_full`, `hook_not_found`, `hook_disabled` */
  receive(arrival: Arrival): Promise<Result<{ readonly event: Accepted }>>;
  /** What the program answered, as soon as it did, or the time is up (null), or there is nothing to wait for (null). */
  answerOf(eventId: string, waitMs: number): Promise<ProgramAnswer | null>;

  /** The newest first. null when the cursor is not one of ours. */
  events(sandboxId: string, query: HookEventListQuery): Promise<HookEventList | null>;
  /** `body`: of a small one; `blob`: where in the blob store that of a larger one is. */
  event(
    sandboxId: string,
    id: string,
    withBody: boolean,
  ): Promise<Result<{ readonly event: HookEvent; readonly body: Bytes | null; readonly blob: string | null }>>;
  /** Deliver it again, as the same event. @returns `conflict` for one that was ignored: its body is not there */
  replay(sandboxId: string, id: string): Promise<Result<{ readonly event: HookEvent }>>;
  replayDead(sandboxId: string, hook: string): Promise<Result<{ readonly replayed: number }>>;

  /** Take a request that is answered later. @returns `inbox_full` */
  takeRequest(sandboxId: string, request: AsyncRequest): Promise<Result<{ readonly event: Accepted }>>;
  receipt(
    sandboxId: string,
    id: string,
  ): Promise<Result<{ readonly receipt: Omit<Receipt, "response">; readonly answer: ProgramAnswer | null }>>;

  /**
   * The sandbox is deleted for good: its inbox goes, bodies in the blob store too. Repeatable; thrown failures are tried
   * again by the caller. The inbox of another sandbox, which has the name by now, is left alone.
   */
  purge(sandboxId: string): Promise<void>;
}

export function inboxObject(namespace: DurableObjectNamespace<never>, account: string, label: string): InboxApi {
  return namespace.getByName(`${account}/${label}`) as unknown as InboxApi;
}
