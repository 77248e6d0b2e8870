/** Who asks, where no network of a provider says so: the other end of the connection, or whom a proxy asks for. */

export interface Peer {
  /** Address of the client; null when it is not known. */
  readonly address: string | null;
  /** How the client spoke to the proxy in front; null without one. */
  readonly scheme: "http" | "https" | null;
}

/**
 * @param connection the other end, as workerd says it: `192.0.2.1:4711`, `[2001:db8::1]:4711`; undefined for a Unix socket
 * @param trusted proxies whose word is taken; those of this machine always are
 */
export function peerOf(headers: Headers, connection: string | undefined, trusted: ReadonlySet<string>): Peer {
  const isProxy = (address: string) => isLoopback(address) || trusted.has(address);
  const end = connection === undefined ? null : withoutPort(connection);
  if (end !== null && !isProxy(end)) return { address: end, scheme: null };
  const proto = headers.get("x-forwarded-proto");
  const scheme = proto === "https" || proto === "http" ? proto : null;
  // Each proxy adds whom it heard from; what stands before the first that is no proxy of ours anybody may have written.
  const hops = (headers.get("x-forwarded-for") ?? "").split(",").map((hop) => hop.trim());
  const client = hops.findLast((hop) => hop !== "" && !isProxy(hop));
  return { address: client !== undefined && ADDRESS.test(client) ? client : end, scheme };
}

/** Enough to tell an address from anything else; it is never connected to. */
const ADDRESS = /^[\da-fA-F.:]{2,45}$/;

export function trustedProxies(setting: string | undefined): ReadonlySet<string> {
  return new Set((setting ?? "").split(",").flatMap((one) => (one.trim() === "" ? [] : [one.trim()])));
}

export function isLoopback(address: string): boolean {
  return address === "::1" || /^(?:::ffff:)?127(?:\.\d{1,3}){3}$/.test(address);
}

function withoutPort(connection: string): string {
  return connection.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
}
