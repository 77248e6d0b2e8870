/** The rules of events out: where they may go, when they are tried again, who wants them. */
import { describe, expect, it } from "vitest";
import { judge, isHopeless, FAILING_MS, GIVEN_UP_MS } from "../../durable/outbox/retry.ts";
import { isWanted, newEndpoint } from "../../durable/outbox/record.ts";
import { targetFault } from "../../durable/outbox/target.ts";
import { CreateEventEndpoint, eventTypes, matchesType, type RouseEvent } from "../../sdk/contract/event.ts";
import { seeded } from "../support/random.ts";

describe("a URL", () => {
  const good = [
    "https://example.com",
    "https://hooks.example.com/rouse?token=x",
    "https://example.com:443/",
    "https://example.com:8443/x",
    "https://example.com./",
    "https://93.184.216.34/",
    "https://[2606:4700::1111]/",
    "https://notlocalhost.example/",
  ];
  it.each(good)("is sent to when it is of the public network: %s", (url) => {
    expect(targetFault(url, "public")).toBeNull();
  });

  const bad = [
    "http://example.com/",
    "https://example.com:22/",
    "https://example.com:80/",
    "https://example.com:6379/",
    "https://user@example.com/",
    "https://user:word@example.com/",
    "https://example.com/#x",
    "ftp://example.com/",
    "javascript:alert(1)",
    "//example.com/",
    "",
    // Names that are never public, and such without a dot.
    "https://localhost/",
    "https://LOCALHOST./",
    "https://a.localhost/",
    "https://printer.local/",
    "https://metadata.google.internal/",
    "https://router.lan/",
    "https://nas.home.arpa/",
    "https://vm/",
    // IPv4 in every notation.
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://0/",
    "https://10.1.2.3/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://100.127.255.255/",
    "https://192.0.0.1/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
    "https://198.51.100.7/",
    "https://203.0.113.7/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://１２７.0.0.1/",
    "https://127.0.0.1./",
    // IPv6, and IPv4 within it.
    "https://[::]/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[64:ff9b:1::1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001:0:7f00:1::]/",
    "https://[2001:db8::1]/",
    "https://[fc00::1]/",
    "https://[fd12:3456::1]/",
    "https://[fe80::1]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[100::1]/",
    "https://[5f00::1]/",
  ];
  it.each(bad)("is not sent to: %s", (url) => {
    expect(targetFault(url, "public")).not.toBeNull();
  });

  it("may be private and plain where the operator wants that, but still has no password in it", () => {
    for (const url of ["http://127.0.0.1:3000/", "http://localhost/x", "https://10.0.0.1:9/", "http://[::1]:80/"])
      expect(targetFault(url, "any")).toBeNull();
    for (const url of ["http://user:word@127.0.0.1/", "ftp://127.0.0.1/", "nonsense", "http://127.0.0.1/#a"])
      expect(targetFault(url, "any")).not.toBeNull();
  });
});

describe("a try", () => {
  const failed = { status: null, reason: "timeout" } as const;

  it("that was answered 2xx is the last one; 410 is, too", () => {
    for (const status of [200, 202, 204])
      expect(judge(0, 0, { status, retryAfter: null }, 0, 0)).toEqual({ next: "delivered" });
    expect(judge(0, 0, { status: 410, retryAfter: null }, 0, 0)).toEqual({
      next: "dead",
      reason: "answered 410",
      gone: true,
    });
    for (const status of [301, 302, 307, 400, 404, 429, 500, 503])
      expect(judge(0, 0, { status, retryAfter: null }, 0, 0)).toMatchObject({
        next: "retry",
        reason: `answered ${status}`,
      });
  });

  it("is followed by others, 12 in all, with waits that grow, within three days", () => {
    const random = seeded(7);
    for (let n = 0; n < 200; n++) {
      let now = 1_000_000;
      const waits: number[] = [];
      let next = judge(0, 1_000_000, failed, now, random());
      for (let attempts = 1; next.next === "retry"; attempts++) {
        waits.push(next.at - now);
        now = next.at;
        next = judge(attempts, 1_000_000, failed, now, random());
      }
      expect(next).toEqual({ next: "dead", reason: "timeout", gone: false });
      expect(Math.min(...waits)).toBeGreaterThan(0);
      expect(waits).toHaveLength(11);
      expect(waits.slice(0, 9)).toEqual(waits.slice(0, 9).toSorted((a, b) => a - b));
      expect(now - 1_000_000).toBeLessThanOrEqual(GIVEN_UP_MS);
      expect(now - 1_000_000).toBeGreaterThan(0.75 * GIVEN_UP_MS);
    }
  });

  it("waits for what is asked, no longer than six hours, nor past the end", () => {
    const asked = (retryAfter: string, now = 0, attempts = 0) =>
      judge(attempts, 0, { status: 503, retryAfter }, now, 0);
    expect(asked("100")).toMatchObject({ at: 100_000 });
    expect(asked("1")).toMatchObject({ at: 5000 });
    expect(asked(new Date(60_000).toUTCString())).toMatchObject({ at: 60_000 });
    expect(asked("99999999")).toMatchObject({ at: 6 * 3_600_000 });
    for (const nonsense of ["-5", "soon", "", "1e9", "NaN"]) expect(asked(nonsense)).toMatchObject({ at: 5000 });
    expect(asked("20000", GIVEN_UP_MS - 1000)).toMatchObject({ at: GIVEN_UP_MS });
    expect(asked("1", GIVEN_UP_MS)).toMatchObject({ next: "dead" });
  });

  it("that fails for five days is too much, a single one is not", () => {
    expect(isHopeless(0, 5, FAILING_MS)).toBe(true);
    expect(isHopeless(0, 5, FAILING_MS - 1)).toBe(false);
    expect(isHopeless(0, 2, FAILING_MS)).toBe(false);
    expect(isHopeless(null, 9, FAILING_MS)).toBe(false);
  });
});

describe("who wants an event", () => {
  const event = (type: string, sandbox: RouseEvent["sandbox"]): RouseEvent =>
    ({ id: "ev-1", type, subject: "s", sequence: 1, timestamp: "", sandbox, data: {} }) as unknown as RouseEvent;
  const sandbox = { id: "x", name: "agent-7", labels: { team: "a", tier: "b" } };
  const wants = (input: Record<string, unknown>, one: RouseEvent) => {
    const parsed = CreateEventEndpoint.parse({ url: "https://example.com", ...input });
    return isWanted(newEndpoint("ep-1", parsed, "", 0), one);
  };

  it("is said by types, their groups, names and labels", () => {
    const woken = event("sandbox.woken", sandbox);
    for (const events of [undefined, ["*"], ["sandbox.*"], ["sandbox.woken"], ["hook.*", "sandbox.woken"]])
      expect(wants(events ? { events } : {}, woken)).toBe(true);
    for (const events of [["snapshot.*"], ["sandbox.paused"], ["account.*"]])
      expect(wants({ events }, woken)).toBe(false);
    expect(wants({ sandboxes: { names: ["agent-7"] } }, woken)).toBe(true);
    expect(wants({ sandboxes: { names: ["x", "agent-*"] } }, woken)).toBe(true);
    expect(wants({ sandboxes: { names: ["agent-*"], labels: { team: "b" } } }, woken)).toBe(false);
    expect(wants({ sandboxes: { labels: { team: "a", tier: "b" } } }, woken)).toBe(true);
    expect(wants({ sandboxes: { names: ["agent"] } }, woken)).toBe(false);
    expect(wants({ sandboxes: { names: ["*"] } }, event("sandbox.woken", { ...sandbox, name: null }))).toBe(false);
    expect(wants({ sandboxes: { labels: {} } }, event("account.credit_low", null))).toBe(false);
    expect(wants({}, event("account.credit_low", null))).toBe(true);
    expect(wants({ enabled: false }, woken)).toBe(false);
  });

  it("may be written with each type and group that there is", () => {
    for (const type of eventTypes) {
      const group = `${type.split(".")[0]}.*`;
      expect(CreateEventEndpoint.safeParse({ url: "x", events: [type, group, "*"] }).success).toBe(true);
      expect([matchesType(type, type), matchesType(group, type), matchesType("*", type)]).toEqual([true, true, true]);
    }
    expect(matchesType("sand.*", "sandbox.woken")).toBe(false);
  });
});
