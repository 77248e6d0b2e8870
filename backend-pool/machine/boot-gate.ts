/** Whether requests to a machine's ports may go on, by what its guest agent says of its start. Pure. */
import type { GuestBoot, ServiceStatus } from "../../sdk/contract/boot.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";

export type Gate =
  /** `always`: nothing can hold them up any more in the life of this RAM. */
  | { readonly is: "open"; readonly always: boolean }
  | { readonly is: "shut" }
  | { readonly is: "failed"; readonly failure: Failure };

const RETRY_MS = 1000;

/** Services that say where they listen are waited for, until they are late. */
export function gateOf({ waitsFor, onBoot, services }: GuestBoot, port: number): Gate {
  if (waitsFor !== null) return { is: "shut" };
  if (onBoot && onBoot.endedAt !== null && onBoot.exitCode !== 0) {
    const { exitCode, timedOut } = onBoot;
    const how = timedOut ? "took too long" : `ended with ${exitCode ?? "a signal"}`;
    const message = `The onBoot command ${how}, so no service was started.`;
    return { is: "failed", failure: { code: "boot_failed", message, details: { exitCode, timedOut } } };
  }
  const awaited = services.filter((one) => one.port !== null);
  const missing = awaited.filter(({ readyAt }) => readyAt === null);
  if (missing.some((one) => !isGivenUp(one))) return { is: "shut" };
  const [first] = missing;
  if (!first) return { is: "open", always: true };
  // A port is as good as the service behind it.
  if (awaited.some((one) => one.port === port && one.readyAt !== null)) return { is: "open", always: false };
  return { is: "failed", failure: failureOf(missing.find((one) => one.port === port) ?? first) };
}

function isGivenUp({ late, state }: ServiceStatus): boolean {
  return late || state === "ended" || state === "failed" || state === "stopped";
}

function failureOf({ name: service, state, lastExit }: ServiceStatus): Failure {
  if (state === "starting")
    return {
      ...{ code: "service_not_ready", message: `The service ${service} was not ready in its time.` },
      ...{ details: { service }, retryAfterMs: RETRY_MS },
    };
  const exitCode = lastExit?.exitCode ?? null;
  const how = lastExit === null ? "does not run" : `ended with ${exitCode ?? lastExit.signal ?? "a failure"}`;
  return { code: "service_failed", message: `The service ${service} ${how}.`, details: { service, exitCode } };
}
