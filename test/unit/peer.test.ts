import { describe, expect, it } from "vitest";
import { peerOf, trustedProxies } from "../../worker/peer.ts";

const said = (forwardedFor: string, proto = "https") =>
  new Headers({ "x-forwarded-for": forwardedFor, "x-forwarded-proto": proto, "cf-connecting-ip": "203.0.113.9" });
const none = trustedProxies(undefined);

describe("who asks an edge of one's own", () => {
  it("is the other end of the connection, whatever it says", () => {
    expect(peerOf(said("203.0.113.1"), "192.0.2.7:40312", none)).toEqual({ address: "192.0.2.7", scheme: null });
    expect(peerOf(said("203.0.113.1"), "[2001:db8::7]:40312", none)).toEqual({ address: "2001:db8::7", scheme: null });
    expect(peerOf(new Headers(), "127.0.0.1:40312", none)).toEqual({ address: "127.0.0.1", scheme: null });
  });

  it.each(["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1", undefined])(
    "is whom a proxy at %s heard from, not what came before that",
    (connection) => {
      expect(peerOf(said("10.9.9.9, 203.0.113.1"), connection, none)).toEqual({
        address: "203.0.113.1",
        scheme: "https",
      });
    },
  );

  it("is looked for behind proxies that are trusted by name", () => {
    const trusted = trustedProxies(" 10.0.0.5, 10.0.0.6 ,");
    const headers = said("203.0.113.1, 198.51.100.4, 10.0.0.6");
    expect(peerOf(headers, "10.0.0.5:99", trusted)).toEqual({ address: "198.51.100.4", scheme: "https" });
    expect(peerOf(headers, "10.0.0.7:99", trusted)).toEqual({ address: "10.0.0.7", scheme: null });
  });

  it("is never something that is no address or scheme", () => {
    expect(peerOf(said("<script>", "javascript"), "127.0.0.1:1", none)).toEqual({ address: "127.0.0.1", scheme: null });
    expect(peerOf(said("unknown"), undefined, none)).toEqual({ address: null, scheme: "https" });
  });
});
