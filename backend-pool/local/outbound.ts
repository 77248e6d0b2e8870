/**
 * The network that events leave by. workerd holds each address that a name resolves to against these lists in the very
 * connection, so there is nothing between check and use ([ADR 16](../../docs/adr/0016-events-leave-by-a-network-of-their-own.md)).
 */

/** Blocks of the public network that lead to addresses which are not. */
const LEADS_ELSEWHERE = [
  // IPv4 within IPv6: translated (NAT64), 6to4, Teredo, compatible.
  "64:ff9b::/96",
  "64:ff9b:1::/48",
  "2002::/16",
  "2001::/23",
  "::/96",
  // Not of anybody, or for tests.
  "0.0.0.0/8",
  "100.64.0.0/10",
  "192.88.99.0/24",
  "198.18.0.0/15",
  "224.0.0.0/3",
  "fec0::/10",
  "ff00::/8",
];

/** @param setting `ROUSE_EVENT_TARGETS`: `any` lets events go to private addresses */
export function eventNetwork(setting: string | undefined): {
  network: { allow: string[]; deny: string[]; tlsOptions: { trustBrowserCas: boolean } };
} {
  const tlsOptions = { trustBrowserCas: true };
  return setting === "any"
    ? { network: { allow: ["public", "private"], deny: [], tlsOptions } }
    : { network: { allow: ["public"], deny: LEADS_ELSEWHERE, tlsOptions } };
}
