/** Which errors a caller may see, and when. Without I/O. */
import { isErrorCode } from "../../sdk/contract/error-codes.ts";

/** What went on while a call was under way. */
export interface Circumstances {
  readonly edgeDown: boolean;
  readonly hostDown: boolean;
  /** The sandbox's QEMU was killed, in this round and before the call ended. */
  readonly crashed: boolean;
  /** A pause of the sandbox was asked for in this round. */
  readonly pausing: boolean;
  /** The call asks for another state. */
  readonly asksForState: boolean;
  /** The call waits for the first start of an interpreter, which takes long. */
  readonly slowStart: boolean;
  /** Nobody took the connection, so no answer can have been cut. */
  readonly refused: boolean;
}

/** Why the caller should not have seen the error; null when it may. */
export function objection(code: string, now: Circumstances): string | null {
  // The SDK's own word for "no answer"; everything else must be of the registry.
  if (code === "connection_error") {
    const cut = !now.refused && (now.pausing || now.hostDown || now.crashed);
    return now.edgeDown || cut ? null : "the edge was up and nothing cut the answer";
  }
  if (code === "timeout" && now.slowStart) return null;
  if (!isErrorCode(code)) return "it is not in the registry";
  switch (code) {
    case "sandbox_waking":
    case "guest_busy":
      return null;
    case "host_unavailable":
    case "no_host":
      return now.hostDown || now.edgeDown ? null : "host and edge were up";
    case "upstream_closed":
    case "guest_failed":
      return now.pausing || now.hostDown || now.crashed ? null : "nothing ended the connection";
    case "conflict":
    case "not_paused":
      return now.asksForState ? null : "the call asks for no state";
    case "not_running":
    case "sandbox_stopped":
    case "port_not_listening":
    case "interpreter_failed":
    case "start_failed":
    case "wake_failed":
    case "pause_failed":
      return now.crashed ? null : "the machine was not killed";
    default:
      return "no fault here leads to it";
  }
}
