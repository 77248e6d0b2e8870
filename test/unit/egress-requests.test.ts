import { execFileSync } from "node:child_process";
import { createPublicKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { issueAuthority, issueLeaf } from "../../backend-pool/egress/certificate.ts";
import { Counts } from "../../backend-pool/egress/counts.ts";
import {
  addressAnswer,
  BadQuery,
  emptyAnswer,
  nameBytes,
  readMessage,
  readQuery,
  writeQuery,
} from "../../backend-pool/egress/dns-wire.ts";
import { fitsPattern, isPlainPath } from "../../backend-pool/egress/path-pattern.ts";
import { held } from "../../backend-pool/egress/secret-word.ts";
import { sniff } from "../../backend-pool/egress/sniff.ts";
import { substitute } from "../../backend-pool/egress/substitute.ts";
import { EgressReport, egressReportLimits, type BrokeredSecret } from "../../sdk/contract/egress.ts";
import { seeded } from "../support/random.ts";
import { clientHello } from "../support/client-hello.ts";

const CANARY = "canary-7e1f";
const broker = (more: Partial<BrokeredSecret> = {}) =>
  held({
    ...{ name: "model", version: 1, hosts: ["api.example.com"], mode: "broker" },
    ...{ header: "Authorization", format: "Bearer {value}", value: CANARY },
    ...more,
  });
const placeholder = (more: Partial<BrokeredSecret> = {}) =>
  held({
    name: "token",
    version: 3,
    hosts: ["git.example.com"],
    mode: "placeholder",
    placeholder: "rouse-ph-1",
    value: "a/b c$&",
    ...more,
  });
const request = (more: Partial<Parameters<typeof substitute>[1]> = {}) => ({
  host: "api.example.com",
  method: "GET",
  path: "/v1/models?x=1",
  headers: ["accept", "*/*"],
  ...more,
});

describe("secrets of requests", () => {
  it("take the place of every header of their name, in any case", () => {
    const headers = ["AUTHORIZATION", "Bearer mine", "accept", "*/*", "authorization", "again"];
    const done = substitute([broker()], request({ headers }));
    expect(done).toMatchObject({ ok: true, headers: ["accept", "*/*", "Authorization", `Bearer ${CANARY}`] });
  });

  it("do not go where they are not for, and are no reason to refuse there", () => {
    const done = substitute([broker()], request({ host: "other.example.com", headers: ["authorization", "mine"] }));
    expect(done).toMatchObject({ ok: true, headers: ["authorization", "mine"], used: [] });
  });

  it("refuse a request that none of their rules fits", () => {
    const secrets = [broker({ rules: [{ methods: ["POST"], paths: ["/v1/messages", "/v1/files/*"] }] })];
    const ruleOf = (method: string, path: string) => {
      const done = substitute(secrets, request({ method, path }));
      return done.ok ? "ok" : done.rule;
    };
    expect(ruleOf("POST", "/v1/messages?beta=1")).toBe("ok");
    expect(ruleOf("POST", "/v1/files/7")).toBe("ok");
    for (const path of [
      "/v1/admin",
      "/v1/files/7/8",
      "/v1/files/..",
      "/v1/files/%2e%2E",
      "/v1/files/a%2fb",
      "/v1//messages",
    ])
      expect([path, ruleOf("POST", path)]).toEqual([path, "secret-rule:model"]);
    expect(ruleOf("GET", "/v1/messages")).toBe("secret-rule:model");
  });

  it("of several for one header, the one whose rules fit goes in", () => {
    const secrets = [
      broker({ name: "a", value: "one", rules: [{ paths: ["/a/**"] }] }),
      broker({ name: "b", value: "two", rules: [{ paths: ["/b/**"] }] }),
    ];
    expect(substitute(secrets, request({ path: "/b/x/y" }))).toMatchObject({
      headers: ["accept", "*/*", "Authorization", "Bearer two"],
    });
    expect(substitute(secrets, request({ path: "/c" }))).toEqual({ ok: false, rule: "secret-rule:a" });
  });

  it("stand in the place of their placeholder in headers and URL, as they are, and in Basic", () => {
    const basic = `Basic ${Buffer.from("user:rouse-ph-1").toString("base64")}`;
    const headers = ["authorization", basic, "x-key", "rouse-ph-1;rouse-ph-1"];
    const done = substitute([placeholder()], request({ host: "git.example.com", path: "/r?t=rouse-ph-1", headers }));
    expect(done).toMatchObject({
      ok: true,
      path: "/r?t=a%2Fb%20c%24%26",
      headers: ["authorization", `Basic ${Buffer.from("user:a/b c$&").toString("base64")}`, "x-key", "a/b c$&;a/b c$&"],
    });
  });

  it("refuse a placeholder that goes elsewhere, and a value that would make headers of its own", () => {
    const headers = ["x-key", "rouse-ph-1"];
    expect(substitute([broker(), placeholder()], request({ headers }))).toEqual({
      ok: false,
      rule: "placeholder:token",
    });
    expect(substitute([broker(), placeholder()], request({ path: "/rouse-ph-1" }))).toEqual({
      ok: false,
      rule: "placeholder:token",
    });
    expect(substitute([broker({ value: "a\r\nx-evil: 1" })], request())).toEqual({
      ok: false,
      rule: "secret-value:model",
    });
  });

  it("are in nothing that is printed", () => {
    const secret = broker();
    for (const shown of [
      inspect(secret, { depth: 9, showHidden: true }),
      JSON.stringify(secret),
      String(secret.word),
      `${secret.word}`,
    ])
      expect(shown).not.toContain(CANARY);
  });
});

describe("patterns of paths", () => {
  it.each([
    ["/v1/*", "/v1/a", true],
    ["/v1/*", "/v1/a/b", false],
    ["/v1/*", "/v1/", true],
    ["/v1/**", "/v1/a/b", true],
    ["/*/messages", "/v1/messages", true],
    ["/*/messages", "/v1/x/messages", false],
    ["**", "/anything/at/all", true],
    ["/v1.x", "/v1ax", false],
    ["/a*c*e", "/abcde", true],
  ])("%s and %s: %s", (pattern, path, fits) => {
    expect(fitsPattern(pattern, path)).toBe(fits);
  });

  it("agree with regular expressions", () => {
    const random = seeded(8);
    const any = (from: string, count: number) =>
      Array.from({ length: count }, () => from[Math.floor(random() * from.length)]).join("");
    for (let round = 0; round < 3000; round++) {
      const pattern = `/${any("ab/*", 6)}`;
      const path = `/${any("ab/", 5)}`;
      const source = pattern.replace(/\*\*+|\*/g, (stars) => (stars === "*" ? "[^/]*" : ".*"));
      expect([pattern, path, fitsPattern(pattern, path)]).toEqual([
        pattern,
        path,
        new RegExp(`^${source}$`).test(path),
      ]);
    }
  });

  it("do not answer for paths that servers read in more than one way", () => {
    for (const path of ["/a/../b", "/a/./b", "/a/%2e%2e", "/a/..", "/a%2Fb", "/a\\b", "//a", "a", "/a;b"])
      expect(isPlainPath(path)).toBe(false);
    for (const path of ["/", "/a.b/c..d", "/v1/a%20b", "/.well-known/x"]) expect(isPlainPath(path)).toBe(true);
  });
});

describe("the first bytes of a connection", () => {
  const kindOf = (text: string) => sniff(Buffer.from(text, "latin1"));

  it("say the name of a TLS greeting, also in pieces", () => {
    const hello = clientHello(["API.example.com."]);
    expect(sniff(hello)).toEqual({ kind: "tls", names: ["api.example.com"] });
    for (let at = 1; at < hello.length; at++) expect(sniff(hello.subarray(0, at))).toEqual({ kind: "more" });
    expect(sniff(clientHello([], 40))).toEqual({ kind: "tls", names: [] });
    expect(sniff(clientHello(["a.example.com"], 7))).toEqual({ kind: "tls", names: ["a.example.com"] });
    expect(sniff(clientHello(["a.example.com", "b.example.com"]))).toMatchObject({
      names: ["a.example.com", "b.example.com"],
    });
  });

  it("never make it fall over, whatever they are", () => {
    const random = seeded(9);
    const hello = clientHello(["api.example.com"]);
    for (let round = 0; round < 5000; round++) {
      const bytes = Buffer.from(hello);
      for (let n = 0; n < 3; n++) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      const found = sniff(bytes.subarray(0, Math.floor(random() * (bytes.length + 1))));
      expect(["more", "tls", "http", "other", "malformed"]).toContain(found.kind);
    }
    expect(sniff(Buffer.from([22, 3, 1, 0, 0]))).toEqual({ kind: "malformed" });
    expect(sniff(Buffer.from([22, 3, 1, 0, 4, 1, 255, 255, 255]))).toEqual({ kind: "malformed" });
  });

  it("say the host of a plain request", () => {
    expect(kindOf("GET / HTTP/1.1\r\nA: b\r\nHost: Example.com:80\r\n\r\n")).toEqual({
      kind: "http",
      names: ["example.com"],
    });
    expect(kindOf("GET http://u@other.com:80/x HTTP/1.1\r\nhost:example.com\r\n\r\n")).toMatchObject({
      names: ["other.com", "example.com"],
    });
    expect(kindOf("\r\nget /\xff HTTP/1.1\nHOST:\texample.com\n\nmore")).toMatchObject({ names: ["example.com"] });
    expect(kindOf("GET / HTTP/1.1\r\nHost: a.com\r\nHost: b.com\r\n\r\n")).toMatchObject({ names: ["a.com", "b.com"] });
    expect(kindOf("GET / HTTP/1.0\r\n\r\n")).toEqual({ kind: "http", names: [] });
    for (const text of ["GE", "GET /", "GET / HTTP/1.1\r\nHo", "GET / HTTP/1.1\r\nHost: a.com\r\n"])
      expect(kindOf(text).kind).toBe("more");
    for (const text of ["GET / HTTP/1.1\r\nHost : a\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n Host: c\r\n\r\n"])
      expect(kindOf(text).kind).toBe("malformed");
    for (const text of ["SSH-2.0-x\r\n", "\0\0\0\x08", "EHLO me\r\n", "AMQP\0\0\x09\x01"])
      expect(kindOf(text).kind).toBe("other");
  });
});

/** The kind of what reading throws. */
function faultOf(bytes: Buffer): unknown {
  try {
    readQuery(bytes);
    return null;
  } catch (fault) {
    return (fault as Error).constructor;
  }
}

describe("messages of DNS", () => {
  it("ask for one name, and nothing else", () => {
    const query = writeQuery(7, "api.example.com", 1);
    expect(readQuery(query)).toMatchObject({ id: 7, name: "api.example.com", type: 1 });
    for (let at = 0; at < 33; at++) expect(() => readQuery(query.subarray(0, at))).toThrow(BadQuery);
    expect(readMessage(query)).toBeNull();
  });

  it("answer with addresses", () => {
    const query = writeQuery(9, "a.lan", 1);
    const parsed = readQuery(query);
    const address = { family: 4, bits: 0xc6120001n } as const;
    expect(readMessage(addressAnswer(query, parsed, [address], 30))).toMatchObject({
      id: 9,
      code: 0,
      name: "a.lan",
      addresses: [address],
      ttl: 30,
    });
    expect(readMessage(addressAnswer(query, { ...parsed, type: 28 }, [address], 30))).toMatchObject({ addresses: [] });
    expect(emptyAnswer(Buffer.from([1]), 1, null)).toHaveLength(12);
  });

  it("that are malformed are none, and never make it fall over", () => {
    const random = seeded(10);
    const query = writeQuery(9, "api.example.com", 1);
    const answer = addressAnswer(query, readQuery(query), [{ family: 4, bits: 1n }], 30);
    for (let round = 0; round < 5000; round++) {
      const bytes = Buffer.from(round % 2 ? answer : query);
      for (let n = 0; n < 3; n++) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      readMessage(bytes.subarray(0, Math.floor(random() * (bytes.length + 1))));
      expect([null, BadQuery]).toContain(faultOf(bytes));
    }
    const looped = Buffer.concat([answer.subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1])]);
    expect(readMessage(looped)).toBeNull();
    expect(nameBytes("")).toEqual(Buffer.from([0]));
  });
});

describe("certificates", () => {
  const now = Date.now();
  const key = generateKeyPairSync("ec", { namedCurve: "prime256v1" }).privateKey;
  const leafKey = generateKeyPairSync("ec", { namedCurve: "prime256v1" }).privateKey;
  const authority = issueAuthority("Rouse egress test", key, now);
  const long = `${"a".repeat(60)}.${"b".repeat(60)}.example.com`;

  it.each(["api.example.com", long])("for %s are signed by the authority, for two days ago already", (name) => {
    const leaf = new X509Certificate(
      issueLeaf(name, createPublicKey(leafKey), { name: "Rouse egress test", key }, now),
    );
    const root = new X509Certificate(authority);
    expect(root.ca && leaf.checkIssued(root) && leaf.verify(root.publicKey)).toBe(true);
    expect(leaf.ca).toBe(false);
    expect(leaf.checkHost(name)).toBe(name);
    expect(leaf.checkHost("other.example.com")).toBeUndefined();
    expect(leaf.validFromDate.getTime()).toBeLessThan(now - 1.9 * 86_400_000);
    expect(leaf.validToDate.getTime() - leaf.validFromDate.getTime()).toBe(7 * 86_400_000);
  });

  it("are taken by other software", () => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-cert-"));
    try {
      writeFileSync(join(dir, "ca.pem"), authority);
      const leaf = issueLeaf(long, createPublicKey(leafKey), { name: "Rouse egress test", key }, now);
      writeFileSync(join(dir, "leaf.pem"), leaf);
      const args = ["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", long, "-CAfile"];
      expect(execFileSync("openssl", [...args, join(dir, "ca.pem"), join(dir, "leaf.pem")]).toString()).toMatch(/OK/);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});

describe("counts of a run", () => {
  it("are totals, with what is open, and stay within bounds", () => {
    let now = 1000;
    const counts = new Counts(() => now);
    const connection = { bytesRead: 5, bytesWritten: 7 };
    const { ended } = counts.opened(connection);
    connection.bytesRead = 50;
    expect(counts.report(3)).toMatchObject({ generation: 3, bytesIn: 50, bytesOut: 7 });
    ended();
    ended();
    connection.bytesRead = 99;
    expect(counts.report(3)).toMatchObject({ bytesIn: 50, bytesOut: 7 });
    counts.refused("internet-off", "a.com:443");
    now = 2000;
    counts.refused("internet-off", "a.com:443");
    counts.secretUsed("model", 1);
    expect(counts.report(3)).toMatchObject({
      refusals: [{ rule: "internet-off", target: "a.com:443", count: 2, lastAt: 2000 }],
      secretUses: [{ name: "model", version: 1, count: 1, lastAt: 2000 }],
    });
    for (let at = 0; at < 500; at++) counts.refused("internet-off", `${at}.${"x".repeat(400)}`);
    for (let at = 0; at < 500; at++) counts.secretUsed("model", at);
    const report = EgressReport.parse(counts.report(3));
    expect(report.refusals).toHaveLength(egressReportLimits.refusals);
    expect(report.refusals.reduce((sum, { count }) => sum + count, 0)).toBe(502);
  });
});
