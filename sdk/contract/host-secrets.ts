/**
 * Each host has secrets of its own, all worked out from the installation's: what one host holds opens nothing of
 * another. WebCrypto, no other I/O.
 */
import { z } from "zod";
import { toBase64Url } from "./ticket.ts";

/** `rousehost_<host id>_<epoch>_<mac>`: what a host shows the edge. The epoch grows when it is made anew. */
const KEY = /^rousehost_([a-z0-9][a-z0-9-]{0,62})_(\d{1,9})_([A-Za-z0-9_-]{43})$/;

/** Contents of a host's secrets file. */
export const HostSecrets = z.object({
  /** Host to edge. */
  hostKey: z.string().regex(KEY, "a host key such as rousehost_..."),
  /** Edge to host: control calls. */
  controlSecret: z.string().min(32),
  /** Signs the tickets that let requests reach this host's machines. */
  ticketSecret: z.string().min(32),
});
export type HostSecrets = z.infer<typeof HostSecrets>;

/** Roots of all secrets of an installation. */
export interface SecretRoots {
  /** `ROUSE_HOST_SECRET`. */
  readonly host: string;
  /** `ROUSE_SECRET`. */
  readonly signing: string;
}

/** The epoch of a host whose key was never made anew. */
export const FIRST_EPOCH = 1;

export function parseHostKey(key: string): { hostId: string; epoch: number } | null {
  const match = KEY.exec(key);
  return match?.[1] && match[2] ? { hostId: match[1], epoch: Number(match[2]) } : null;
}

export async function hostKey(root: string, hostId: string, epoch: number): Promise<string> {
  return `rousehost_${hostId}_${epoch}_${await mac(root, `key\n${hostId}\n${epoch}`)}`;
}

export function controlSecret(root: string, hostId: string): Promise<string> {
  return mac(root, `control\n${hostId}`);
}

export function ticketSecret(signingRoot: string, hostId: string): Promise<string> {
  return mac(signingRoot, `ticket\n${hostId}`);
}

/** Everything a host needs, for its secrets file. */
export async function hostSecrets(roots: SecretRoots, hostId: string, epoch: number): Promise<HostSecrets> {
  const [key, control, ticket] = await Promise.all([
    hostKey(roots.host, hostId, epoch),
    controlSecret(roots.host, hostId),
    ticketSecret(roots.signing, hostId),
  ]);
  return { hostKey: key, controlSecret: control, ticketSecret: ticket };
}

async function mac(root: string, text: string): Promise<string> {
  const encoder = new TextEncoder();
  const key = await crypto.subtle.importKey(
    "raw",
    encoder.encode(`rouse-host\n${root}`),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(text)));
  return toBase64Url(bytes);
}
