/** A sandbox's network rules as they are set and shown. The rules themselves are in `network.ts`. */
import { z } from "zod";
import { networkLimits, NetworkTarget } from "./network.ts";

const Targets = z.array(NetworkTarget).max(networkLimits.targetsMax);

/** Of a sandbox that is made: what may be reached; everything public unless said. */
export const NetworkInput = z
  .strictObject({
    /** Whether what neither list names may be reached; yes unless said. */
    internet: z.boolean().optional(),
    allow: Targets.optional(),
    deny: Targets.optional(),
  })
  .meta({ id: "NetworkInput" });
export type NetworkInput = z.infer<typeof NetworkInput>;

/** `PUT .../network`. A list that is not given stays as it is; an empty one is none. */
export const SetNetwork = z
  .strictObject({
    internet: z.boolean(),
    allow: Targets.optional(),
    deny: Targets.optional(),
    // Of clients of the wire; none can be had here.
    connect: z.array(z.string()).max(0, "connections between sandboxes can't be had").optional(),
  })
  .meta({ id: "SetNetwork" });
export type SetNetwork = z.infer<typeof SetNetwork>;

const Time = z.iso.datetime();

export const Network = z
  .object({
    sandboxId: z.string(),
    internet: z.boolean(),
    allow: z.array(z.string()),
    deny: z.array(z.string()),
    connect: z.array(z.string()),
    /** Raised by each change of the rules, and of secrets that the sandbox has. */
    version: z.int(),
    /** Whether its host goes by that version. Of one that sleeps: by then, before anything runs in it. */
    enforced: z.boolean(),
    /** The newest version that a host said it goes by; null before the first. */
    enforcedVersion: z.int().nullable(),
    ports: z.array(z.int()),
    connectAllowed: z.boolean(),
    connectReason: z.string(),
    forbiddenPorts: z.array(z.int()),
    /** When the rules were last set; null: never. */
    updatedAt: Time.nullable(),
    /** Bytes that left for the outside, and that came from there, over all runs that hosts told of. */
    bytesOut: z.number(),
    bytesIn: z.number(),
    /** What was refused lately, the newest first, 20 at most. */
    refusals: z.array(z.object({ rule: z.string(), target: z.string(), count: z.int(), lastAt: Time })),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Network" });
export type Network = z.infer<typeof Network>;
