/** What the object that holds a sandbox's sockets remembers of each. Pure. */
import type { SocketRule } from "../../sdk/contract/socket.ts";
import { defaults, type Access } from "../../sdk/contract/sandbox.ts";
import { isBelow } from "../../sdk/contract/link.ts";
import type { Closing } from "./closing.ts";

/** By what a client was let in; it must still be good whenever the program's connection is opened anew. */
export type Pass =
  | { readonly by: "key"; readonly keyId: string }
  | { readonly by: "link"; readonly linkId: string }
  /** A link token of a port. `endsAt`: Unix milliseconds. */
  | { readonly by: "token"; readonly version: number; readonly endsAt: number }
  /** Sockets of these are not held. */
  | { readonly by: "session"; readonly sessionId: string }
  | { readonly by: "public" };

export interface SocketRecord {
  readonly id: string;
  /** Unix milliseconds. */
  readonly since: number;
  readonly port: number;
  /** Without the query. */
  readonly path: string;
  readonly userAgent: string;
  readonly protocol: string | null;
  readonly pass: Pass;
  readonly rule: Pick<SocketRule, "announce" | "reopenOnWake" | "ping" | "pong">;
  /** It may wake the sandbox. */
  readonly wake: boolean;
  /** Path with the query, and headers, of the upgrade; sealed: they may hold secrets. */
  readonly sealed: string;
  readonly resumed: number;
  readonly framesOut: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Unix milliseconds; null before the first message. */
  readonly lastAt: number | null;
  /** The program has a connection, unless this object has begun anew since. */
  readonly attached: boolean;
  /** The client has gone, and what it sent is still to be delivered; then the program's side ends like this. */
  readonly closing: Closing | null;
  /** Why the program has no connection, though one is wanted; null when nothing is in the way. */
  readonly waitsFor: string | null;
  /** When it is tried again; null: not by the clock. */
  readonly tryAt: number | null;
  /** Since when it is tried in vain, and how often. */
  readonly failingSince: number | null;
  readonly tries: number;
}

/** The upgrade as it goes to the program each time. */
export interface UpgradeRequest {
  /** With the query. */
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
}

/** Who may come in, as the sandbox says. */
interface Doors {
  readonly access: Access;
  readonly ports: Readonly<Record<number, { readonly visibility: Access; readonly version: number }>>;
  readonly links: Readonly<Record<string, { readonly port: number; readonly path: string }>>;
}

/** The credential that hosts and revocations know; null where there is none. */
export function credentialOf(pass: Pass): string | null {
  switch (pass.by) {
    case "key":
      return pass.keyId;
    case "link":
      return pass.linkId;
    case "session":
      return pass.sessionId;
    default:
      return null;
  }
}

/** Whether who was let in then would be let in now. Whether a key is revoked, its account says. */
export function isAdmitted(
  { pass, port, path }: Pick<SocketRecord, "pass" | "port" | "path">,
  facts: Doors,
  now: number,
): boolean {
  switch (pass.by) {
    case "key":
      return true;
    case "session":
      return false;
    case "link": {
      const link = facts.links[pass.linkId];
      return link !== undefined && link.port === port && isBelow(path, link.path);
    }
    case "token":
      return pass.endsAt > now && facts.ports[port]?.version === pass.version;
    case "public":
      return (port === defaults.port && facts.access === "public") || facts.ports[port]?.visibility === "public";
  }
}
