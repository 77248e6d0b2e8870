/**
 * Entry of an edge on a machine of one's own (`workerd serve`). Cloudflare's network says who asks, and how; here that
 * is the connection's other end, or a proxy in front. Whatever a client says of itself is dropped.
 */
import edge from "./index.ts";
import { peerOf, trustedProxies } from "./peer.ts";

export * from "./index.ts";

export default {
  fetch(request, env, ctx): Promise<Response> {
    const { clientIp } = (request.cf ?? {}) as { clientIp?: string };
    const { address, scheme } = peerOf(request.headers, clientIp, trustedProxies(env.ROUSE_TRUSTED_PROXIES));
    const url = new URL(request.url);
    if (scheme !== null) url.protocol = scheme;
    const told = new Request(url, request);
    told.headers.delete("cf-connecting-ip");
    if (address !== null) told.headers.set("cf-connecting-ip", address);
    return edge.fetch(told, env, ctx);
  },
} satisfies ExportedHandler<Env>;
