/** What people in a machine read when a connection is not made. Pure. */
import { EGRESS_REFUSAL_HEADER } from "../../sdk/contract/egress.ts";
import type { DialFault } from "./dialer.ts";
import type { OutsideRefusal, OutsideTarget } from "./outside.ts";
import type { RuleName } from "./rules.ts";

/** Why, for people in the machine. */
export function refusalOf(rule: RuleName, target: string): OutsideRefusal {
  const message =
    rule === "limit"
      ? "The machine has as many connections open as it may have."
      : `${target} is not reached from this sandbox (${EGRESS_REFUSAL_HEADER}: ${rule}).`;
  return { code: "egress_refused", message, rule };
}

export function messageOf(fault: DialFault, target: string): string {
  switch (fault.kind) {
    case "rule":
      return refusalOf(fault.rule, target).message;
    case "nxdomain":
      return `${target} was not reached: the name has no address.`;
    case "unanswered":
      return `${target} was not reached: no nameserver answered.`;
    case "timeout":
      return `${target} was not reached: the connection took too long.`;
    case "unreachable":
      return `${target} was not reached: the connection failed.`;
  }
}

export function targetText({ host, port }: OutsideTarget): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
