/** What a machine's tunnel (`tunnel.ts`) leads to: all that a guest may ask of its host, seen from the tunnel's end. */
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Duplex } from "node:stream";
import type { MachineEgress } from "../../sdk/contract/egress.ts";
import type { ErrorCode } from "../../sdk/contract/error-codes.ts";

/** Whose stream it is. A run has a generation of its own, and none of its streams outlives it. */
export interface OutsideMachine {
  readonly id: string;
  readonly account: string;
  readonly generation: number;
}

export interface OutsideTarget {
  /** A name in lower case without a dot at the end, or an address without brackets, as the guest asked for it. */
  readonly host: string;
  /** 1 to 65,535. */
  readonly port: number;
}

export interface OutsideRefusal {
  /** `egress_refused` where a rule says no; `upstream_closed` or the like where the target can't be reached. */
  readonly code: ErrorCode;
  /** For people in the machine; nothing secret. */
  readonly message: string;
  /** The value of `x-rouse-egress`: the rule, such as `internet-off`, `deny:*.example.com`, `closed`. */
  readonly rule?: string | undefined;
}

/** Exactly one of the two is called, once; a guest that has gone meanwhile is no fault. */
export interface OutsideAnswer {
  /** `200`: from here on the stream carries bytes both ways, and whoever called owns its ends. */
  open(): void;
  /** The stream is over after it. */
  refuse(refusal: OutsideRefusal): void;
}

export interface Outside {
  /**
   * `CONNECT`. Write buffers to the stream, never strings: Node frees those before they are sent. The stream may end or be destroyed at any time, also before the answer; then the connection out goes too.
   * Its ends are half-closes, both ways.
   */
  connect(machine: OutsideMachine, target: OutsideTarget, stream: Duplex, answer: OutsideAnswer): void;
  /** A DNS message (at most 4 KiB), answered with one. A query that must not be asked is answered REFUSED. */
  dns(machine: OutsideMachine, query: Buffer): Promise<Buffer>;
  /** `http://rouse.internal/...`: the homes of state. Write buffers here, too. Headers of `x-rouse-*` and `authorization` are the guest's own. */
  inside(machine: OutsideMachine, request: Http2ServerRequest, response: Http2ServerResponse): void;
  /** The certificates (PEM) that the guest must trust on this host; empty: none. */
  caPem(): string;
  /**
   * The machine's way out from now on: called before its CPUs run, and at each change. Open streams that it does not
   * allow end. null: nothing is let out, as its host has not been told yet, or any more.
   */
  changed(machine: OutsideMachine, egress: MachineEgress | null): void;
  /** The machine runs no more: nothing of its way out is kept. */
  gone(id: string): void;
}
