/** Hooks and their events as the API shows them. */
import type { HookEvent, NewHook } from "../../sdk/contract/hook.ts";

export const HOOK_ID = "hook-0123456789abcdefghij";
export const EVENT_ID = "evt-0123456789abcdefghij";
export const HOOKS = "/v1/sandboxes/demo~abcdefghijkl/hooks";
export const EVENTS = "/v1/sandboxes/demo~abcdefghijkl/hook-events";

const NOTHING_NEW = { url: null, secret: null, deliverySecret: null };

export function hookAnswer(changes: Partial<NewHook> = {}): NewHook {
  return {
    ...{ id: HOOK_ID, kind: "hook", sandboxId: "demo~abcdefghijkl", name: "github", provider: "github", port: 3000 },
    ...{ path: "/in", mode: "async", filters: [], maxBytes: 1_048_576, timeoutSeconds: 60, enabled: true },
    ...{ disabledReason: null, hasSecret: true, previousSecretUntil: null, waiting: 2, dead: 1, lastEventAt: null },
    ...{ createdAt: "2031-01-02T03:05:00.000Z", ...NOTHING_NEW, ...changes },
  };
}

export function eventAnswer(changes: Partial<HookEvent> = {}): HookEvent {
  const at = "2031-01-02T03:05:00.000Z";
  return {
    ...{ id: EVENT_ID, kind: "hook-event", sandboxId: "demo~abcdefghijkl", hookId: HOOK_ID, state: "waiting" },
    ...{ type: "push", providerId: "d-1", bytes: 2048, contentType: "application/json", attempts: 1 },
    ...{ nextAttemptAt: at, receivedAt: at, endedAt: null, expiresAt: null },
    timeline: [
      { at, what: "received" },
      { at, what: "attempt", status: 500, ms: 12, woken: true, reason: "answered 500", nextAt: at },
    ],
    ...changes,
  };
}
