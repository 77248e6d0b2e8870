/** Host names, what DNS answers, and who has a name by that. */
import { describe, expect, it } from "vitest";
import { encodeQuery, MESSAGE_MAX, readAnswer } from "../../durable/domains/dns-message.ts";
import { toDomain, tokensIn, type ClaimRecord } from "../../durable/domains/record.ts";
import { judged, newClaim, pointsHere, reopened } from "../../durable/domains/rules.ts";
import { createDomain, Domain } from "../../sdk/contract/domain.ts";
import { isHostname, NO_POLICY, parseHostname, type HostnamePolicy } from "../../sdk/contract/hostname.ts";
import { seeded } from "../support/random.ts";
import { nameBytes, recordOf, type ZoneRecord } from "../support/test-resolver.ts";

const policy: HostnamePolicy = { base: "rouse.example.com", own: ["api.example.org"], local: false };

describe("a host name", () => {
  it.each([
    ["shop.example.com", "shop.example.com"],
    ["SHOP.Example.COM.", "shop.example.com"],
    ["bücher.example", "xn--bcher-kva.example"],
    ["例え.テスト.example", "xn--r8jz45g.xn--zckzah.example"],
    ["a-b.c--d.io", "a-b.c--d.io"],
    ["example.com", "example.com"],
    [`${"a".repeat(63)}.com`, `${"a".repeat(63)}.com`],
    ["notrouse.example.com", "notrouse.example.com"],
  ])("%s is %s", (text, hostname) => {
    expect(parseHostname(text, policy)).toEqual({ ok: true, hostname });
    expect(isHostname(hostname)).toBe(true);
  });

  it.each([
    ["", [/a host name/]],
    ["https://shop.example.com:8443/a", [/scheme/, /port/, /path/]],
    ["shop.example.com:80", [/port/]],
    ["*.example.com", [/not a pattern/]],
    ["127.0.0.1", [/address/]],
    ["0x7f.1", [/address/]],
    ["[::1]", [/address/]],
    ["2001:db8::1", [/address/]],
    ["shop", [/two parts/]],
    ["a..b.com", [/empty part/]],
    ["-a.b-.com", [/hyphen/]],
    ["a_b.com", [/letters, digits/]],
    ["a b.com", [/letters, digits/]],
    ["a@b.com", [/letters, digits/]],
    ["a\u0000b.com", [/DNS can have/]],
    ["shop.1", [/DNS can have/]],
    [`-${"a".repeat(63)}..com`, [/empty part/, /63/, /hyphen/]],
    ["rouse.example.com", [/taken/]],
    ["bot.rouse.example.com", [/taken/]],
    ["api.example.org", [/of the API/]],
    ["shop.localhost", [/public DNS/]],
    ["a_.internal", [/letters, digits/, /public DNS/]],
    ["printer.local", [/public DNS/]],
    ["1.0.0.127.in-addr.arpa", [/public DNS/]],
  ])("%s is refused, with all that is wrong", (text, faults) => {
    const parsed = parseHostname(text, policy);
    expect(parsed).toEqual({ ok: false, faults: faults.map((fault) => expect.stringMatching(fault) as string) });
  });

  it("that is too long is refused, and never looked up", () => {
    for (const text of [`${"a.".repeat(117)}com`, "a".repeat(5000)]) {
      expect(parseHostname(text, policy)).toMatchObject({ ok: false, faults: [expect.stringMatching(/236/)] });
      expect(isHostname(text)).toBe(false);
    }
    expect(parseHostname(`${"a.".repeat(116)}comx`, policy).ok).toBe(true);
  });

  it("of one network only is taken where that is allowed", () => {
    expect(parseHostname("shop.internal", { ...policy, local: true }).ok).toBe(true);
    expect(parseHostname("shop.rouse.example.com", { ...policy, local: true }).ok).toBe(false);
  });

  it("is refused together with the other fields", () => {
    const { error } = createDomain(policy).safeParse({ domain: "-a_.local", port: 0, extra: 1 });
    expect(error?.issues.map(({ path }) => path.join(".")).toSorted()).toEqual([
      "",
      "domain",
      "domain",
      "domain",
      "port",
    ]);
  });

  it.each(["localhost", "127.0.0.1", "[::1]", "a.1", "a_b.com", "", ".", "a.", "-a.com"])(
    "%j is never looked up",
    (name) => expect(isHostname(name)).toBe(false),
  );
});

const NAME = "_rouse-challenge.shop.example.com";

/** A whole answer. */
function message(
  records: readonly Buffer[],
  change: { code?: number; flags?: number; name?: string; type?: number } = {},
) {
  const header = Buffer.alloc(12);
  header.writeUInt16BE((change.flags ?? 0x8180) | (change.code ?? 0), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  const type = Buffer.alloc(4);
  type.writeUInt16BE(change.type ?? 16, 0);
  type.writeUInt16BE(1, 2);
  return new Uint8Array(Buffer.concat([header, nameBytes(change.name ?? NAME), type, ...records]));
}
const txt = (value: string | string[], name = NAME) => recordOf(name, { type: "TXT", value });
const read = (bytes: Uint8Array) => readAnswer(bytes, NAME, "TXT");

describe("an answer of DNS", () => {
  it("is to a question that is made as RFC 8484 has it", () => {
    const example = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
    expect(Buffer.from(encodeQuery("www.example.com", "A")).toString("base64url")).toBe(example);
    expect(() => encodeQuery(`${"a".repeat(64)}.com`, "A")).toThrow("not a name");
  });

  it("has every text, with its strings joined, whatever the case of names", () => {
    const long = "x".repeat(255);
    expect(read(message([txt("one"), txt([long, long, ""]), txt([])]))).toEqual({
      ...{ ok: true, cnames: [], values: ["one", long + long, ""] },
    });
  });

  it("is followed over aliases, and only over those", () => {
    const alias = (from: string, to: string) => recordOf(from, { type: "CNAME", value: to });
    const records = [txt("other", "other.net"), alias("b.net", "c.net"), alias(NAME, "b.net"), txt("yes", "c.net")];
    expect(read(message(records))).toEqual({ ok: true, cnames: ["b.net", "c.net"], values: ["yes"] });
    expect(read(message([txt("stray", "shop.example.com")]))).toEqual({ ok: true, cnames: [], values: [] });
    expect(read(message([alias(NAME, "b.net"), alias("b.net", NAME)]))).toMatchObject({ ok: false });
    const chain = Array.from({ length: 40 }, (_, at) => alias(at === 0 ? NAME : `n${at}.net`, `n${at + 1}.net`));
    expect(read(message(chain))).toMatchObject({ ok: false, fault: "aliases in a circle" });
  });

  it("has addresses as they are written", () => {
    const of = (type: "A" | "AAAA", record: ZoneRecord) =>
      readAnswer(message([recordOf("a.net", record)], { name: "a.net", type: type === "A" ? 1 : 28 }), "a.net", type);
    expect(of("A", { type: "A", value: "203.0.113.7" })).toMatchObject({ values: ["203.0.113.7"] });
    expect(of("AAAA", { type: "AAAA", value: "2001:db8:0:0:0:0:0:1" })).toMatchObject({ values: ["2001:db8::1"] });
  });

  it("that there is no such name is one; that the resolver failed is none", () => {
    expect(read(message([], { code: 3 }))).toEqual({ ok: true, cnames: [], values: [] });
    for (const code of [1, 2, 5])
      expect(read(message([], { code }))).toEqual({ ok: false, fault: `response code ${code}` });
    expect(read(message([], { flags: 0x8380 }))).toEqual({ ok: false, fault: "cut short" });
    expect(read(message([], { flags: 0x0100 }))).toEqual({ ok: false, fault: "not an answer" });
    expect(read(message([], { name: "_rouse-challenge.evil.com" }))).toMatchObject({ fault: /something else/ });
    expect(read(message([], { type: 1 }))).toMatchObject({ ok: false });
  });

  it("that is hostile ends, and says nothing", () => {
    const head = message([]);
    const with1 = (...tail: number[]) => {
      const bytes = new Uint8Array([...head, ...tail]);
      bytes[7] = 1;
      return bytes;
    };
    const pointers = [
      // At itself, at what comes after it, and at a row of pointers to one another.
      [0xc0, head.length],
      [0xc0, head.length + 2, 0xc0, head.length],
      [0xff, 0xff],
      [0x80, 0x01],
      [63, 1, 2],
    ];
    for (const tail of pointers)
      expect(read(with1(...tail, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0))).toMatchObject({ ok: false });
    // A name that never ends: a part, then a pointer back to it.
    const loop = new Uint8Array(head);
    loop.set([1, 97, 0xc0, 12], 12);
    expect(read(loop)).toMatchObject({ ok: false });
    // As many records as a header can claim.
    const many = new Uint8Array(head);
    many.set([0xff, 0xff], 6);
    expect(read(many)).toEqual({ ok: false, fault: "cut short" });
    expect(read(new Uint8Array(MESSAGE_MAX + 1))).toEqual({ ok: false, fault: "too long" });
    // A string that is longer than its record, and a record that is longer than the message.
    const cut = txt("abc");
    cut[cut.length - 4] = 200;
    expect(read(message([cut]))).toMatchObject({ ok: false });
    const far = txt("abc");
    far.writeUInt16BE(60_000, far.length - 6);
    expect(read(message([far]))).toEqual({ ok: false, fault: "cut short" });
    // A dot within a part is no dot between parts.
    const dotted = Buffer.concat([
      Buffer.from([17 + 5]),
      Buffer.from("_rouse-challenge.shop."),
      nameBytes("example.com"),
    ]);
    const record = Buffer.concat([dotted, txt("abc").subarray(nameBytes(NAME).length)]);
    expect(read(message([record]))).toEqual({ ok: true, cnames: [], values: [] });
  });

  it("that is cut short anywhere, or has any byte changed, never throws", () => {
    const whole = message([txt(["rouse-verify=", "abc"]), recordOf("b.net", { type: "CNAME", value: "c.net" })]);
    for (let length = 0; length < whole.length; length++)
      expect(read(whole.subarray(0, length))).toMatchObject({ ok: false });
    for (let at = 0; at < whole.length; at++)
      for (const byte of [0, 1, 0x3f, 0x40, 0xc0, 0xff]) {
        const changed = new Uint8Array(whole);
        changed[at] = byte;
        expect(typeof read(changed).ok).toBe("boolean");
      }
  });

  it("names tokens however a panel has stored them", () => {
    expect(
      tokensIn(['"rouse-verify=a1"', " ROUSE-VERIFY=B2 ", "rouse-verify= c3", "v=spf1", "x rouse-verify=d4"]),
    ).toEqual([...["a1", "b2", "c3"]]);
  });
});

const DAY = 86_400_000;
const HOUR = 3_600_000;
const NOW = Date.parse("2031-01-01T00:00:00Z");
const claim = (id: string, change: Partial<ClaimRecord> = {}): ClaimRecord => {
  const claimant = { id, account: `acc-${id}`, label: "bot", sandboxId: "bot~abcdefghijkl", port: 8080 };
  return { ...newClaim("shop.example.com", claimant, `token-${id}`, NOW), ...change };
};
const verified = (id: string) => claim(id, { state: "verified", verifiedAt: NOW, endsAt: null, nextAt: NOW + DAY });
const statesOf = (claims: readonly ClaimRecord[]) =>
  claims.map(({ state, reason }) => [state, reason].filter(Boolean).join(" "));

describe("a host name's holder", () => {
  it("is whose record is there: who asks, else the oldest", () => {
    const [a, b] = [claim("a"), claim("b", { createdAt: NOW - 1 })];
    const later = NOW + HOUR;
    expect(statesOf(judged([a, b], ["token-a"], "a", later))).toEqual(["verified", "pending txt_other"]);
    expect(statesOf(judged([a, b], ["token-a", "token-b"], "a", later))).toEqual(["verified", "pending held"]);
    expect(statesOf(judged([a, b], ["token-a", "token-b"], null, later))).toEqual(["pending held", "verified"]);
    expect(statesOf(judged([a, b], [], null, later))).toEqual(["pending txt_missing", "pending txt_missing"]);
  });

  it("keeps it while its record is there, and loses it to one that is proven when it is not", () => {
    const all = [verified("a"), claim("b")];
    expect(statesOf(judged(all, ["token-a", "token-b"], "b", NOW))).toEqual(["verified", "pending held"]);
    const taken = judged(all, ["token-b"], "b", NOW);
    expect(statesOf(taken)).toEqual(["unverified taken_over", "verified"]);
    expect(taken[0]).toMatchObject({ nextAt: NOW + 30_000, endsAt: NOW + 7 * DAY });
    // Back again, once the other's record is gone.
    expect(statesOf(judged(taken, ["token-a"], "a", NOW))).toEqual(["verified", "unverified taken_over"]);
  });

  it("loses it 3 days after its record was gone, by a look that says so", () => {
    let [held] = judged([verified("a")], [], null, NOW + DAY) as [ClaimRecord];
    expect(held).toMatchObject({
      state: "verified",
      reason: "txt_missing",
      missingSince: NOW + DAY,
      nextAt: NOW + DAY + HOUR,
    });
    [held] = judged([held], [], null, NOW + 3 * DAY) as [ClaimRecord];
    expect(held.state).toBe("verified");
    const [unknown] = judged([held], null, null, NOW + 30 * DAY) as [ClaimRecord];
    expect(unknown).toMatchObject({ state: "verified", reason: "dns_failed", missingSince: NOW + DAY });
    expect(statesOf(judged([unknown], [], null, NOW + 30 * DAY))).toEqual(["unverified txt_missing"]);
    const [back] = judged([held], ["token-a"], null, NOW + 3 * DAY) as [ClaimRecord];
    expect(back).toMatchObject({ state: "verified", reason: null, missingSince: null, verifiedAt: NOW });
  });

  it("is looked for less and less often, and after 7 days not at all until somebody asks", () => {
    let one = claim("a");
    const gaps: number[] = [];
    while (one.nextAt !== null) {
      const at = one.nextAt;
      [one] = judged([one], [], null, at) as [ClaimRecord];
      if (one.nextAt !== null) gaps.push(one.nextAt - at);
    }
    expect(gaps.slice(0, 8)).toEqual([60_000, 120_000, 240_000, 480_000, 960_000, 1_920_000, HOUR, HOUR]);
    expect(one).toMatchObject({ state: "expired", reason: "txt_missing", checkedAt: NOW + 7 * DAY });
    expect(gaps.length).toBeLessThan(180);
    expect(statesOf(judged([one], ["token-a"], null, NOW))).toEqual(["expired txt_missing"]);
    expect(statesOf(judged([reopened(one, NOW)], ["token-a"], "a", NOW))).toEqual(["verified"]);
  });

  it("is one at most, and always one that is proven or was, whatever is seen in whatever order", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = seeded(seed);
      let all: readonly ClaimRecord[] = ["a", "b", "c"].map((id) => claim(id));
      let now = NOW;
      for (let step = 0; step < 30; step++) {
        now += Math.floor(random() * 30) * HOUR;
        const tokens = ["token-a", "token-b", "token-c", "token-d"].filter(() => random() < 0.4);
        const seen = random() < 0.1 ? null : tokens;
        const asked = ["a", "b", "c", null][Math.floor(random() * 4)] ?? null;
        const before = all.find(({ state }) => state === "verified");
        all = judged(all, seen, asked, now);
        const holders = all.filter(({ state }) => state === "verified");
        expect(holders.length).toBeLessThanOrEqual(1);
        const [holder] = holders;
        const keeps = before !== undefined && (seen === null || seen.includes(before.token));
        const isRight = keeps
          ? holder?.id === before.id
          : holder === undefined || holder.id === before?.id || seen?.includes(holder.token) === true;
        expect([seed, step, isRight]).toEqual([seed, step, true]);
      }
    }
  });
});

describe("a domain", () => {
  it("says which records to set", () => {
    const place = { scheme: "http", domain: "rouse.test:8787", target: undefined };
    const shown = Domain.parse(toDomain(claim("dom-0123456789abcdefghij", { port: 3000 }), place));
    expect(shown).toMatchObject({
      url: "http://shop.example.com:8787/",
      records: [
        { type: "TXT", name: NAME, value: "rouse-verify=token-dom-0123456789abcdefghij" },
        { type: "CNAME", name: "shop.example.com", value: "3000-bot--acc-dom-0123456789abcdefghij.rouse.test" },
      ],
    });
    const set = toDomain(claim("a"), { ...place, target: "203.0.113.7, 2001:db8::1,edge.example.net" });
    expect(set.records.slice(1).map(({ type, value }) => `${type} ${value}`)).toEqual([
      ...["A 203.0.113.7", "AAAA 2001:db8::1", "CNAME edge.example.net"],
    ]);
  });

  it("points here by an alias or an address, and where neither can be seen that is not known", () => {
    const to = { names: ["Bot.rouse.test"], addresses: ["203.0.113.7"] };
    expect(pointsHere({ cnames: ["bot.rouse.test"], addresses: [] }, to)).toBe(true);
    expect(pointsHere({ cnames: [], addresses: ["203.0.113.7"] }, to)).toBe(true);
    expect(pointsHere({ cnames: [], addresses: ["203.0.113.8"] }, to)).toBe(false);
    expect(pointsHere({ cnames: [], addresses: [] }, to)).toBe(false);
    expect(pointsHere({ cnames: [], addresses: ["203.0.113.8"] }, { ...to, addresses: [] })).toBe(null);
    expect(pointsHere(null, to)).toBe(null);
  });

  it("of the same hostname is taken in any writing", () => {
    expect(createDomain(NO_POLICY).parse({ domain: "BÜCHER.example." }).domain).toBe("xn--bcher-kva.example");
  });
});
