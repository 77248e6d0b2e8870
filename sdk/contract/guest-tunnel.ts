/**
 * How a machine's programs get out: the host opens one connection to the guest agent after every wake, and both speak
 * HTTP/2 over it with the roles turned round: the host serves, the guest agent asks. No zod here: the guest has none.
 *
 * The host sends `POST /tunnel` with `upgrade: rouse-tunnel`, and after the `101` both speak HTTP/2 over the connection.
 * A newer tunnel takes the place of an older one, whose streams end at once. The guest agent then may ask, as often and
 * as concurrently as it likes:
 *
 * - `CONNECT <host>:<port>`: a TCP connection out, to a name or an address. `200`, then bytes. A refusal has the status
 *   of its code and `x-rouse-egress`.
 * - `POST http://tunnel.rouse.internal/dns`, a DNS message, answered with one. What the rules do not let out is REFUSED.
 * - `GET http://tunnel.rouse.internal/ca.pem`: the certificate that this host signs with where it puts secrets in.
 * - anything to `http://rouse.internal`: the homes of state of this machine.
 */
export const TUNNEL_PATH = "/tunnel";
export const TUNNEL_PROTOCOL = "rouse-tunnel";
/** What the host itself answers over the tunnel, beside the homes of state. */
export const TUNNEL_HOST = "tunnel.rouse.internal";
