/**
 * What a host is told of a machine's way out (edge -> host), and how host and guest agent speak about it. Internal:
 * neither the SDK's index nor the public API shows it. The guest's side of the tunnel is `guest-tunnel.ts`.
 */
import { z } from "zod";
import { NetworkRules } from "./network.ts";

/** Which requests a secret goes into. Every field that is there must fit. */
export const BrokerRule = z.object({
  /** Upper case; none: any. */
  methods: z.array(z.string()).optional(),
  /** Path patterns: `*` stands for anything within a segment, `**` for anything. None: any. */
  paths: z.array(z.string()).optional(),
});
export type BrokerRule = z.infer<typeof BrokerRule>;

/** A secret that the host puts into requests of the machine; the machine never has it. */
export const BrokeredSecret = z.object({
  name: z.string(),
  version: z.int(),
  /** Host names that get it, or `*.name`. */
  hosts: z.array(z.string()),
  mode: z.enum(["broker", "placeholder"]),
  /** `broker`: the header that is set, in place of the guest's own. */
  header: z.string().optional(),
  /** `broker`: what the header holds, `{value}` standing for the secret; such as `Bearer {value}`. */
  format: z.string().optional(),
  /** `placeholder`: the word that the guest has instead, and that is replaced in URL and headers. */
  placeholder: z.string().optional(),
  /** None: every request to the hosts. */
  rules: z.array(BrokerRule).optional(),
  value: z.string(),
});
export type BrokeredSecret = z.infer<typeof BrokeredSecret>;

/** A machine's way out. Held in memory alone. A host that has none for a machine lets nothing out. */
export const MachineEgress = z.object({
  /** Grows with each change: an older one never takes the place of a newer. */
  version: z.int(),
  network: NetworkRules,
  brokered: z.array(BrokeredSecret),
  /** Lets the machine reach its own homes of state through its host (`InsideTicket`). */
  inside: z.string(),
});
export type MachineEgress = z.infer<typeof MachineEgress>;

/**
 * A signed grant (`ticket.ts`, purpose `inside`): what `http://rouse.internal` of one machine in one generation means.
 * It has no end of its own; keepers of state take no older generation than the newest they saw.
 */
export const InsideTicket = z.object({
  /** Account. */
  a: z.string(),
  /** Sandbox id. */
  s: z.string(),
  /** Label. */
  n: z.string(),
  /** Generation. */
  g: z.int(),
  /** Ends at, Unix milliseconds. */
  e: z.number(),
});
export type InsideTicket = z.infer<typeof InsideTicket>;

/**
 * Host -> edge: `ANY <edge>/internal/inside/<path>` is what the guest asked of `http://rouse.internal/<path>`, with the
 * host's key and this header. What the guest sent under names of `x-rouse-*` and `authorization` is dropped by the host.
 */
export const INSIDE_TICKET_HEADER = "x-rouse-inside";
/** Host name of the homes of state, from inside. */
export const INSIDE_HOST = "rouse.internal";

/** In the answer to a refused request: the rule. Such as `internet-off`, `deny:*.example.com`, `private-address`. */
export const EGRESS_REFUSAL_HEADER = "x-rouse-egress";

/** `GET <edge>/internal/accounts/{account}/machines/{id}/egress?generation=`: for a host that has lost what it was told. */
export const EgressAnswer = z.object({ egress: MachineEgress.nullable() });

export const egressReportLimits = { refusals: 100, secretUses: 64 } as const;

/**
 * `POST <edge>/internal/accounts/{account}/machines/{id}/egress-report`, host key: what went out of one run. All are
 * totals since the run began, so that one told twice counts once. Times in Unix milliseconds.
 */
export const EgressReport = z.object({
  generation: z.int().min(1),
  bytesOut: z.int().min(0),
  bytesIn: z.int().min(0),
  refusals: z
    .array(
      z.object({
        /** As in the header of the answer (`EGRESS_REFUSAL_HEADER`). */
        rule: z.string().max(300),
        /** Host name or address, with its port. */
        target: z.string().max(300),
        count: z.int().min(1),
        lastAt: z.int().min(0),
      }),
    )
    .max(egressReportLimits.refusals),
  secretUses: z
    .array(z.object({ name: z.string().max(63), version: z.int(), count: z.int().min(1), lastAt: z.int().min(0) }))
    .max(egressReportLimits.secretUses),
});
export type EgressReport = z.infer<typeof EgressReport>;

export const EgressReportTaken = z.object({ ok: z.literal(true) });
