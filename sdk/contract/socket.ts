/** Held sockets: WebSockets of a named URL that stay open while the sandbox sleeps. */
import { z } from "zod";
import { fitsPath } from "./wake-rule.ts";

export const socketLimits = {
  rulesMax: 32,
  /** Held at once, of one sandbox. */
  socketsMax: 1000,
  /** One message of a client, bytes. */
  frameBytesMax: 1_048_576,
  /** What waits for the program, of one socket. */
  bufferedFramesMax: 2000,
  bufferedBytesMax: 4_194_304,
  /** What waits for the program, of all sockets of a sandbox, bytes. */
  bufferedBytesMaxOfAll: 67_108_864,
  /** Subprotocols that a client may offer, characters of the header. */
  protocolsMax: 4096,
  /** Path and query, and headers, characters. */
  requestMax: 32_768,
} as const;

/** Query parameter by which a client that shows a credential has its own socket held. The program does not see it. */
export const SOCKET_PARAMETER = { name: "rouse_socket", value: "keep" } as const;

/** Headers of the upgrade request, by which the program learns of the socket. */
export const socketHeaders = {
  /** The same for all connections of a socket. */
  id: "x-rouse-socket-id",
  /** How often the connection was opened anew: 0 of the first. */
  resumed: "x-rouse-socket-resumed",
  /** Messages of the client that are known to have reached earlier connections; the next is the first of this one. */
  delivered: "x-rouse-socket-delivered",
} as const;

const Text = z.string().min(1).max(200);

/** Which WebSockets are held. */
export const SocketRule = z
  .strictObject({
    /** A path such as `/ws`, or with `*` at its end all that begin so. Without the query. */
    path: z
      .string()
      .regex(/^\/[^*?#]*\*?$/, "a path from / on, with * at its end at most")
      .max(200),
    /** Of the program; every port unless said. */
    port: z.int().min(1).max(65_535).optional(),
    /** false: those that a later rule would hold are not held. true unless said. */
    keep: z.boolean().optional(),
    /** Each connection that is opened anew begins with a text message `{"type":"rouse.resumed",...}`. Not unless said. */
    announce: z.boolean().optional(),
    /** Whenever the sandbox runs again, the program gets its connections back, asked or not. It does unless said. */
    reopenOnWake: z.boolean().optional(),
    /** A text message of clients that is answered with `pong` at the edge, and never reaches the program. */
    ping: Text.optional(),
    pong: Text.optional(),
  })
  .refine((rule) => (rule.ping === undefined) === (rule.pong === undefined), {
    message: "ping and pong, or neither",
    path: ["ping"],
  })
  .refine((rule) => rule.keep !== false || Object.keys(rule).every((key) => ["path", "port", "keep"].includes(key)), {
    message: "a rule that holds nothing has a path and a port alone",
    path: ["keep"],
  })
  .meta({ id: "SocketRule" });
export type SocketRule = z.infer<typeof SocketRule>;

/** The first that fits counts. */
export const SocketRules = z.array(SocketRule).max(socketLimits.rulesMax);

/** The rule that a WebSocket is held by; null where it is not held. */
export function socketRuleFor(
  rules: readonly SocketRule[],
  subject: { readonly path: string; readonly port: number },
): SocketRule | null {
  const rule = rules.find(({ path, port }) => fitsPath(path, subject.path) && (port ?? subject.port) === subject.port);
  return rule && rule.keep !== false ? rule : null;
}

/** The first message of a connection that was opened anew, where the rule says `announce`. */
export interface Resumed {
  readonly type: "rouse.resumed";
  /** Id of the socket. */
  readonly socket: string;
  readonly resumed: number;
  readonly delivered: number;
  /** Messages that wait, and follow. */
  readonly pending: number;
}

const Time = z.iso.datetime();

export const SocketId = z.string().regex(/^sock-[0-9a-z]{20}$/, "a socket id such as sock-...");

/** A held socket that is open. */
export const HeldSocket = z
  .object({
    id: SocketId,
    sandboxId: z.string(),
    /** `attached`: the program has its connection. `detached`: it has none, and gets one with the next message. */
    state: z.enum(["attached", "detached"]),
    /** When the client connected. */
    since: Time,
    port: z.int(),
    /** Without the query. */
    path: z.string(),
    /** The subprotocol that the program chose; null for none. */
    protocol: z.string().nullable(),
    /** The API key or share link that let it in; null for another credential, or none. */
    keyId: z.string().nullable(),
    /** How often the program's connection was opened anew. */
    resumed: z.int(),
    /** Messages of the client, and of the program. */
    framesIn: z.int(),
    framesOut: z.int(),
    bytesIn: z.int(),
    bytesOut: z.int(),
    /** Messages that are not known to have reached the program. */
    buffered: z.int(),
    /** When the last message went either way; null before the first. */
    lastMessageAt: Time.nullable(),
    /** What keeps the program from its connection, an error code; null where nothing does. */
    waitsFor: z.string().nullable(),
  })
  .meta({ id: "HeldSocket" });
export type HeldSocket = z.infer<typeof HeldSocket>;

/** The oldest first. */
export const HeldSocketList = z.object({ data: z.array(HeldSocket) }).meta({ id: "HeldSocketList" });

export const ClosedSocket = z.object({ id: SocketId, closed: z.literal(true) }).meta({ id: "ClosedSocket" });
export type ClosedSocket = z.infer<typeof ClosedSocket>;
