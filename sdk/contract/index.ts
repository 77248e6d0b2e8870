/** The public contract: every shape of the API. The edge <-> host shapes (`host.ts`, `ticket.ts`) stay inside. */
export * from "./account.ts";
export * from "./boot.ts";
export * from "./domain.ts";
export * from "./errors.ts";
export * from "./event.ts";
export * from "./guest.ts";
export * from "./hook.ts";
export * from "./labels.ts";
export * from "./link.ts";
export * from "./names.ts";
export * from "./sandbox.ts";
export * from "./snapshot.ts";
export * from "./schedule.ts";
export * from "./socket.ts";
export * from "./timeline.ts";
export * from "./volume.ts";
export * from "./wake-rule.ts";
