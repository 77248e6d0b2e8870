/** Names that are answered within the machine, with addresses below those of `names.ts`. */
import { hostname } from "node:os";
import { TUNNEL_HOST } from "../../sdk/contract/guest-tunnel.ts";

/** Same name as in `sdk/contract/egress.ts`, which needs zod. */
const INSIDE_HOST = "rouse.internal";

const LOCAL = new Map([
  [INSIDE_HOST, "198.18.0.1"],
  [TUNNEL_HOST, "198.18.0.2"],
]);

/** Whether the host itself answers for that name. */
export function isLocal(host: string): boolean {
  return LOCAL.has(host);
}

/** `localhost`, the machine's own name, and those of the host; null: another. */
export function localAddressOf(name: string): string | null {
  if (name === "localhost" || name.endsWith(".localhost") || name === hostname().toLowerCase()) return "127.0.0.1";
  return LOCAL.get(name) ?? null;
}

/** The name of an address of ours; null: it is none. */
export function localNameOf(address: string): string | null {
  for (const [name, own] of LOCAL) if (own === address) return name;
  return null;
}
