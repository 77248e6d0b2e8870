/** What the guest's resolver reads and writes, which names its addresses stand for, and how targets are written. */
import { describe, expect, it } from "vitest";
import { refusedDns } from "../../backend-pool/egress/dns-refusal.ts";
import { targetOf } from "../../backend-pool/egress/tunnel.ts";
import {
  codeOf,
  dnsCodes,
  dnsTypes,
  fitUdp,
  hasRecord,
  ipv4Bytes,
  readQuery,
  withType,
  writeAnswer,
} from "../../backend-pool/guest/dns-message.ts";
import { networkEnvironment } from "../../backend-pool/guest/environment.ts";
import { isSynthetic, Names, type NamesFile } from "../../backend-pool/guest/names.ts";
import { readFirstLine, readTarget, writeTarget } from "../../backend-pool/guest/targets.ts";

function query(name: string, type: number, extra = Buffer.alloc(0)): Buffer {
  const labels = name.split(".").map((label) => Buffer.from([label.length, ...Buffer.from(label)]));
  const head = Buffer.from("abcd01000001000000000000", "hex");
  if (extra.length > 0) head.writeUInt16BE(1, 10);
  return Buffer.concat([head, ...labels, Buffer.from([0, 0, type, 0, 1]), extra]);
}

/** A client that takes 1,232 bytes by UDP (RFC 6891). */
const OPT = Buffer.from("00002904d0000000000000", "hex");

describe("DNS messages", () => {
  it("reads a question, and answers it with addresses", () => {
    const asked = query("Api.Example.com", dnsTypes.A);
    const read = readQuery(asked);
    expect(read).toMatchObject({ name: "api.example.com", type: dnsTypes.A, udpBytes: 512 });
    const answer = writeAnswer(asked, read, { addresses: [ipv4Bytes("198.18.0.16")] });
    expect(answer.readUInt16BE(0)).toBe(0xabcd);
    expect(answer.readUInt16BE(2)).toBe(0x8180);
    expect(codeOf(answer)).toBe(dnsCodes.ok);
    expect(hasRecord(answer, dnsTypes.A)).toBe(true);
    expect(hasRecord(answer, dnsTypes.AAAA)).toBe(false);
    expect([...answer.subarray(-4)]).toEqual([198, 18, 0, 16]);
  });

  it("asks the same question for another type, and leaves the first as it was", () => {
    const asked = query("example.com", dnsTypes.AAAA, OPT);
    const read = readQuery(asked);
    expect(read?.udpBytes).toBe(1232);
    const other = read && readQuery(withType(asked, read, dnsTypes.A));
    expect(other).toMatchObject({ name: "example.com", type: dnsTypes.A, udpBytes: 1232 });
    expect(readQuery(asked)?.type).toBe(dnsTypes.AAAA);
  });

  it.for<[string, Buffer]>([
    ["nothing", Buffer.alloc(0)],
    ["a header alone", query("a.b", 1).subarray(0, 12)],
    ["a question that is cut off", query("example.com", 1).subarray(0, -3)],
    [
      "a label that is longer than the message",
      Buffer.concat([query("a", 1).subarray(0, 12), Buffer.from("3f6161", "hex")]),
    ],
    [
      "a pointer in place of a name",
      Buffer.concat([query("a", 1).subarray(0, 12), Buffer.from("c00c00010001", "hex")]),
    ],
    ["a dot within a label", query("a", 1).fill(0x2e, 13, 14)],
    ["an answer", Buffer.from(query("a.b", 1)).fill(0x81, 2, 3)],
  ])("takes %s for no query", ([, message]) => {
    expect(readQuery(message)).toBeNull();
    // Whoever sent it hears that all the same.
    expect(codeOf(writeAnswer(Buffer.concat([message, Buffer.alloc(12)]), null, { code: 1 }))).toBe(1);
  });

  it("finds records behind names with pointers, and none in what is cut off", () => {
    const asked = query("example.com", dnsTypes.A);
    const alias = Buffer.from("c00c000500010000003c0002c00c", "hex");
    const address = Buffer.from("c00c000100010000003c0004cb007107", "hex");
    const answer = Buffer.concat([asked, alias, address]);
    answer.writeUInt16BE(2, 6);
    expect(hasRecord(answer, dnsTypes.A)).toBe(true);
    expect(hasRecord(answer.subarray(0, asked.length + 8), dnsTypes.A)).toBe(false);
    expect(hasRecord(Buffer.alloc(4), dnsTypes.A)).toBe(false);
    for (let end = 0; end < answer.length; end++) expect(() => hasRecord(answer.subarray(0, end), 1)).not.toThrow();
  });

  it("says to ask by TCP where UDP has no room", () => {
    const asked = query("example.com", dnsTypes.A);
    const read = readQuery(asked);
    const long = Buffer.concat([writeAnswer(asked, read, {}), Buffer.alloc(600)]);
    const short = fitUdp(long, asked, read);
    expect(short.length).toBeLessThan(512);
    expect((short[2] ?? 0) & 2).toBe(2);
    expect(fitUdp(long.subarray(0, 400), asked, read)).toHaveLength(400);
  });

  it("refuses with the query's own id", () => {
    const refused = refusedDns(query("example.com", dnsTypes.A));
    expect(refused.readUInt16BE(0)).toBe(0xabcd);
    expect(codeOf(refused)).toBe(dnsCodes.refused);
  });
});

describe("names of addresses", () => {
  it("keeps one address for each name, and the name for each address", () => {
    const names = new Names();
    const one = names.addressOf("one.test");
    expect(isSynthetic(one)).toBe(true);
    expect(names.addressOf("two.test")).not.toBe(one);
    expect(names.addressOf("one.test")).toBe(one);
    expect(names.nameOf(one)).toBe("one.test");
    expect(names.nameOf("198.19.255.255")).toBeNull();
    expect(names.nameOf("203.0.113.1")).toBeNull();
  });

  it("gives the address that was used longest ago to a new name, when all are taken", () => {
    const names = new Names(undefined, 3);
    const [one, two, three] = ["one", "two", "three"].map((name) => names.addressOf(name));
    names.nameOf(one ?? "");
    expect(names.addressOf("four")).toBe(two);
    expect(names.knows("two")).toBe(false);
    expect(names.nameOf(two ?? "")).toBe("four");
    expect(names.addressOf("five")).toBe(three);
    expect(names.nameOf(one ?? "")).toBe("one");
  });

  it("finds them again after a restart, whatever else is in the file", () => {
    let text = "";
    const file: NamesFile = {
      read: () => text,
      append: (more) => void (text += more),
      write: (all) => void (text = all),
    };
    const before = new Names(file, 3);
    const kept = ["one", "two", "three", "four"].map((name) => [name, before.addressOf(name)] as const);
    text += "nonsense\n-1 x\n999999 y\n3 early\n17";
    const after = new Names(file, 3);
    for (const [name, address] of kept.slice(1)) {
      expect(after.nameOf(address)).toBe(name);
      expect(after.addressOf(name)).toBe(address);
    }
    expect(after.knows("one")).toBe(false);
    // However often names come and go, the file stays short.
    for (let i = 0; i < 100; i++) after.addressOf(`name-${i}`);
    expect(text.split("\n").length).toBeLessThan(10);
  });
});

describe("targets", () => {
  it.for<[string, { host: string; port: number } | null]>([
    ["example.com:443", { host: "example.com", port: 443 }],
    ["EXAMPLE.com.:443", { host: "example.com", port: 443 }],
    ["203.0.113.7:1", { host: "203.0.113.7", port: 1 }],
    ["[2001:db8::1]:443", { host: "2001:db8::1", port: 443 }],
    ["example.com", null],
    ["example.com:0", null],
    ["example.com:65536", null],
    ["2001:db8::1:443", null],
    ["a b:443", null],
    ["a/b:443", null],
    [":443", null],
    ["-:443", null],
  ])("%s", ([text, target]) => {
    expect(readTarget(text)).toEqual(target);
    expect(targetOf(text)).toEqual(target);
    expect(readTarget(target ? writeTarget(target) : "")).toEqual(target);
  });

  it("takes from rouse-redirect addresses alone", () => {
    expect(readFirstLine("203.0.113.7:443")).toEqual({ host: "203.0.113.7", port: 443 });
    for (const line of ["example.com:443", "203.0.113.7", "", "[::1]:80"]) expect(readFirstLine(line)).toBeNull();
  });
});

it("programs are told of the proxy, and of certificates where there are some", () => {
  const env = networkEnvironment(10_801, true);
  expect(env).toMatchObject({
    ...{ HTTPS_PROXY: "http://127.0.0.1:10801", no_proxy: "localhost,127.0.0.1,::1,10.0.2.0/24" },
    ...{ SSL_CERT_FILE: "/etc/ssl/certs/ca-certificates.crt" },
  });
  expect(Object.keys(networkEnvironment(1, false)).filter((name) => /CA|CERT/.test(name))).toEqual([]);
});
