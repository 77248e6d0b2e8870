import { describe, expect, it } from "vitest";
import {
  formatAddress,
  isNeverReached,
  parseAddress,
  parseRange,
  contains,
} from "../../backend-pool/egress/addresses.ts";
import { OperatorHosts, StandIns } from "../../backend-pool/egress/hosts.ts";
import { hostOf, judgeAddress, judgeName, namesHost, policyOf } from "../../backend-pool/egress/rules.ts";
import type { NetworkRules } from "../../sdk/contract/network.ts";
import { seeded } from "../support/random.ts";

function address(text: string) {
  const parsed = parseAddress(text);
  if (!parsed) throw new Error(`${text} is no address`);
  return parsed;
}

const ruleOf = (rules: NetworkRules, name: string) => {
  const verdict = judgeName(policyOf(rules), name);
  return verdict.ok ? "ok" : verdict.rule;
};
const addressRule = (rules: NetworkRules, text: string, named = false) => {
  const verdict = judgeAddress(policyOf(rules), address(text), named);
  return verdict.ok ? "ok" : verdict.rule;
};

describe("rules for names", () => {
  it("let everything out unless said, and nothing without internet", () => {
    expect(ruleOf({ internet: true }, "example.com")).toBe("ok");
    expect(ruleOf({ internet: false }, "example.com")).toBe("internet-off");
    expect(ruleOf({ internet: false, allow: ["other.com"] }, "example.com")).toBe("not-allowed");
    expect(ruleOf({ internet: false, allow: ["example.com"] }, "example.com")).toBe("ok");
    expect(ruleOf({ internet: false, allow: ["*"] }, "example.com")).toBe("ok");
    expect(ruleOf({ internet: true, deny: ["*"] }, "example.com")).toBe("deny:*");
  });

  it("read an asterisk as all names below, at any depth, and not the name itself", () => {
    const rules = { internet: false, allow: ["*.example.com"] };
    expect(ruleOf(rules, "a.example.com")).toBe("ok");
    expect(ruleOf(rules, "a.b.c.example.com")).toBe("ok");
    expect(ruleOf(rules, "example.com")).toBe("not-allowed");
    expect(ruleOf(rules, "evilexample.com")).toBe("not-allowed");
    expect(ruleOf(rules, "example.com.evil.net")).toBe("not-allowed");
  });

  it("deny before they allow, and say the nearest entry", () => {
    const rules = { internet: true, allow: ["a.b.example.com"], deny: ["*.example.com", "*.b.example.com"] };
    expect(ruleOf(rules, "a.b.example.com")).toBe("deny:*.b.example.com");
    expect(ruleOf(rules, "c.example.com")).toBe("deny:*.example.com");
  });

  it("hold for any list: what is denied never gets out, what is allowed does, whatever else is said", () => {
    const random = seeded(6);
    const labels = ["a", "b", "api", "example", "com", "net"];
    const pick = () => labels[Math.floor(random() * labels.length)] ?? "a";
    const name = () => Array.from({ length: 2 + Math.floor(random() * 3) }, pick).join(".");
    const target = () => (random() < 0.4 ? `*.${name()}` : name());
    const list = () => Array.from({ length: Math.floor(random() * 5) }, target);
    const has = (targets: string[], host: string) =>
      targets.some((one) => (one.startsWith("*.") ? host.endsWith(one.slice(1)) : host === one));
    for (let round = 0; round < 5000; round++) {
      const rules = { internet: random() < 0.5, allow: list(), deny: list() };
      const host = name();
      const said = ruleOf(rules, host);
      const off = rules.allow.length > 0 ? "not-allowed" : "internet-off";
      const wanted = has(rules.deny, host) ? "deny" : rules.internet || has(rules.allow, host) ? "ok" : off;
      expect([rules, host, said.split(":")[0]]).toEqual([rules, host, wanted]);
    }
  });
});

describe("rules for addresses", () => {
  it("refuse what a range denies, also of a name that is allowed", () => {
    const rules = { internet: false, allow: ["example.com", "8.8.0.0/16"], deny: ["8.8.8.0/24", "2600::/16"] };
    expect(addressRule(rules, "8.8.8.8", true)).toBe("deny:8.8.8.0/24");
    expect(addressRule(rules, "2600::1", true)).toBe("deny:2600::/16");
    expect(addressRule(rules, "9.9.9.9", true)).toBe("ok");
    expect(addressRule(rules, "8.8.4.4")).toBe("ok");
    expect(addressRule(rules, "9.9.9.9")).toBe("not-allowed");
    expect(addressRule({ internet: false, allow: ["example.com"] }, "9.9.9.9")).toBe("not-allowed");
    expect(addressRule({ internet: true, deny: ["*"] }, "9.9.9.9")).toBe("deny:*");
  });

  it("see an address of IPv4 in the clothes of IPv6", () => {
    expect(addressRule({ internet: true, deny: ["8.8.8.0/24"] }, "::ffff:8.8.8.8")).toBe("deny:8.8.8.0/24");
    expect(addressRule({ internet: true, deny: ["::ffff:8.8.8.0/120"] }, "8.8.8.8")).toBe("deny:::ffff:8.8.8.0/120");
  });

  it("agree with a bit by bit comparison", () => {
    const random = seeded(7);
    const four = () => Array.from({ length: 4 }, () => Math.floor(random() * 256)).join(".");
    const bitsOf = (text: string) =>
      text
        .split(".")
        .map((part) => Number(part).toString(2).padStart(8, "0"))
        .join("");
    for (let round = 0; round < 2000; round++) {
      const [base, other, length] = [four(), four(), Math.floor(random() * 33)];
      const near = random() < 0.5 ? base : other;
      const range = parseRange(`${base}/${length}`);
      expect(range && contains(range, address(near))).toBe(
        bitsOf(base).slice(0, length) === bitsOf(near).slice(0, length),
      );
      expect(formatAddress(address(near))).toBe(near);
    }
  });
});

describe("addresses that are never reached", () => {
  const own = [address("93.184.216.34"), address("2606:4700::1")];
  it.each([
    ..."0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.9.9.9 169.254.169.254".split(
      " ",
    ),
    ..."172.16.0.1 172.31.255.255 192.168.1.1 192.0.0.192 198.18.0.1 198.19.255.255 224.0.0.1 239.1.1.1".split(" "),
    ..."240.0.0.1 255.255.255.255 100.100.100.200 168.63.129.16 192.88.99.1 203.0.113.9 93.184.216.34".split(" "),
    ..."::1 :: fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1".split(" "),
    ..."::127.0.0.1 64:ff9b::7f00:1 64:ff9b::169.254.169.254 64:ff9b:1::a00:1 2002:7f00:1:: 2002:a00:1::".split(" "),
    ..."2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 100::1 3fff::1 5f00::1 2606:4700::1".split(" "),
  ])("%s", (text) => {
    expect(isNeverReached(address(text), own)).toBe(true);
  });

  it.each(
    "1.1.1.1 8.8.8.8 172.15.0.1 172.32.0.1 100.63.0.1 100.128.0.1 192.167.1.1 198.17.1.1 2606:4700::2 2a00:1450::1 ::ffff:8.8.8.8".split(
      " ",
    ),
  )("but %s is", (text) => {
    expect(isNeverReached(address(text), own)).toBe(false);
  });
});

describe("a host that is asked for", () => {
  it.each([
    "127.1",
    "0x7f.0.0.1",
    "2130706433",
    "0177.0.0.1",
    "1.2.3.4.5",
    "0x7f000001",
    "example.0x1",
    "",
    ".",
    "a..b",
  ])("%s is neither a name nor an address", (text) => expect(hostOf(text)).toBeNull());
  it.each(["exa mple.com", "a/b", "a@b", "a:80", "fe80::1%eth0", "[::1", "[example.com]", "a\0b.com", "ä.com"])(
    "nor is %j",
    (text) => expect(hostOf(text)).toBeNull(),
  );
  it("is compared in one form", () => {
    expect(hostOf("EXAMPLE.com.")).toEqual({ kind: "name", name: "example.com" });
    expect(hostOf("[2606:4700::1]")).toEqual({ kind: "address", address: address("2606:4700::1") });
    expect(hostOf("_dmarc.example.com")).toEqual({ kind: "name", name: "_dmarc.example.com" });
    expect(namesHost(["*.Example.com"], "a.example.com")).toBe(true);
    expect(namesHost(["*.example.com"], "example.com")).toBe(false);
  });
});

describe("hosts of the operator", () => {
  it("are a name, or one port of it", () => {
    const hosts = OperatorHosts.parse('{"Models.lan":"192.168.1.10:11434","registry.lan:443":"[::1]:4873"}');
    expect(hosts.place("models.lan", 80)).toEqual({ address: "192.168.1.10", port: 11_434 });
    expect(hosts.place("registry.lan", 443)).toEqual({ address: "::1", port: 4873 });
    expect(hosts.place("registry.lan", 80)).toBeNull();
    expect(hosts.has("registry.lan")).toBe(true);
    expect(OperatorHosts.parse(undefined).has("a")).toBe(false);
  });

  it("are refused with all that is wrong with them", () => {
    expect(() => OperatorHosts.parse("{")).toThrow(/no JSON/);
    expect(() => OperatorHosts.parse("[1]")).toThrow(/object of texts/);
    expect(() => OperatorHosts.parse('{"10.0.0.1":"127.0.0.1:1","a.lan":"b.lan:1","c.lan:0":"127.0.0.1:1"}')).toThrow(
      /"10.0.0.1".*"b.lan:1".*"c.lan:0"/,
    );
  });

  it("have addresses that stand for them, the same in any order", () => {
    const one = new StandIns(["a.lan", "b.lan"]);
    const other = new StandIns(["b.lan", "a.lan", "b.lan"]);
    const found = one.of("b.lan");
    expect(found && formatAddress(found)).toBe("198.19.128.2");
    expect(other.of("b.lan")).toEqual(found);
    expect(found && other.nameOf(found)).toBe("b.lan");
    expect(one.nameOf(address("198.19.128.9"))).toBeNull();
  });
});
