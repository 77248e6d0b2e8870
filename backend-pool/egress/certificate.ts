/** Certificates (X.509) on the curve P-256: one that signs, and those that it signs for host names. */
import { createHash, createPublicKey, randomBytes, sign, type KeyObject } from "node:crypto";
import { bits, integer, octets, oid, sequence, set, text, time, tlv, yes } from "./der.ts";

const DAY_MS = 86_400_000;
/** Clocks of machines may be behind. */
const BACKDATED_MS = 2 * DAY_MS;
const AUTHORITY_MS = 3650 * DAY_MS;
export const LEAF_MS = 7 * DAY_MS;
/** Longest common name. */
const COMMON_NAME_MAX = 64;

const ids = {
  ecdsaWithSha256: "1.2.840.10045.4.3.2",
  commonName: "2.5.4.3",
  organisation: "2.5.4.10",
  subjectKey: "2.5.29.14",
  keyUsage: "2.5.29.15",
  alternativeNames: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  authorityKey: "2.5.29.35",
  extendedKeyUsage: "2.5.29.37",
  serverAuth: "1.3.6.1.5.5.7.3.1",
};

/** A certificate that signs itself, and may sign others but none that sign. PEM. */
export function issueAuthority(name: string, key: KeyObject, now: number): string {
  const subject = nameOf(name);
  return issue({
    ...{ subject, issuer: subject, publicKey: createPublicKey(key), key },
    ...{ from: now - BACKDATED_MS, to: now + AUTHORITY_MS },
    extensions: [
      extension(ids.basicConstraints, sequence(yes, integer(Buffer.from([0]))), true),
      // To sign certificates, and lists of those that are no good any more.
      extension(ids.keyUsage, bits(Buffer.from([0x06]), 1), true),
      extension(ids.subjectKey, octets(keyId(createPublicKey(key)))),
    ],
  });
}

/** For one host name. PEM. @param name in ASCII */
export function issueLeaf(
  name: string,
  publicKey: KeyObject,
  authority: { readonly name: string; readonly key: KeyObject },
  now: number,
): string {
  return issue({
    subject: name.length <= COMMON_NAME_MAX ? sequence(attribute(ids.commonName, name)) : sequence(),
    issuer: nameOf(authority.name),
    ...{ publicKey, key: authority.key },
    ...{ from: now - BACKDATED_MS, to: now - BACKDATED_MS + LEAF_MS },
    extensions: [
      extension(ids.basicConstraints, sequence(), true),
      extension(ids.keyUsage, bits(Buffer.from([0x80]), 7), true),
      extension(ids.extendedKeyUsage, sequence(oid(ids.serverAuth))),
      // Critical where the subject says nothing.
      extension(ids.alternativeNames, sequence(tlv(0x82, Buffer.from(name))), name.length > COMMON_NAME_MAX),
      extension(ids.subjectKey, octets(keyId(publicKey))),
      extension(ids.authorityKey, sequence(tlv(0x80, keyId(createPublicKey(authority.key))))),
    ],
  });
}

interface Issue {
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly publicKey: KeyObject;
  /** Signs. */
  readonly key: KeyObject;
  /** Unix milliseconds. */
  readonly from: number;
  readonly to: number;
  readonly extensions: readonly Buffer[];
}

function issue({ subject, issuer, publicKey, key, from, to, extensions }: Issue): string {
  const algorithm = sequence(oid(ids.ecdsaWithSha256));
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  const body = sequence(
    tlv(0xa0, integer(Buffer.from([2]))),
    integer(serial),
    algorithm,
    issuer,
    sequence(time(from), time(to)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    tlv(0xa3, sequence(...extensions)),
  );
  const der = sequence(body, algorithm, bits(sign("sha256", body, key)));
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function nameOf(commonName: string): Buffer {
  return sequence(attribute(ids.organisation, "Rouse"), attribute(ids.commonName, commonName));
}

function attribute(id: string, value: string): Buffer {
  return set(sequence(oid(id), text(value)));
}

function extension(id: string, value: Buffer, critical = false): Buffer {
  return critical ? sequence(oid(id), yes, octets(value)) : sequence(oid(id), octets(value));
}

function keyId(publicKey: KeyObject): Buffer {
  return createHash("sha1")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest();
}
