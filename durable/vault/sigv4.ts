/** Signatures of requests to an S3 (AWS Signature Version 4), in headers. */
import { hex, sha256Hex } from "../hash.ts";

export interface S3Credentials {
  readonly region: string;
  readonly keyId: string;
  readonly secret: string;
}

const encoder = new TextEncoder();

/**
 * All headers of a request, its signature among them. The URL has no query, and its path is percent-encoded already.
 * @param headers in small letters; they are signed too.
 * @param payloadHash SHA-256 of the body, hex; the S3 refuses another one.
 */
export async function signedHeaders(
  { region, keyId, secret }: S3Credentials,
  method: string,
  url: URL,
  headers: Readonly<Record<string, string>>,
  payloadHash: string,
  now: Date,
): Promise<Record<string, string>> {
  const time = `${now.toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;
  const all: Record<string, string> = { ...headers, "x-amz-content-sha256": payloadHash, "x-amz-date": time };
  const signed = Object.entries({ ...all, host: url.host }).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(";");
  const lines = signed.map(([name, value]) => `${name}:${value}\n`).join("");
  const request = [method, url.pathname, "", lines, names, payloadHash].join("\n");
  const scope = [time.slice(0, 8), region, "s3", "aws4_request"];
  const text = ["AWS4-HMAC-SHA256", time, scope.join("/"), await sha256Hex(request)].join("\n");
  let mac = await hmac(encoder.encode(`AWS4${secret}`), time.slice(0, 8));
  for (const part of [...scope.slice(1), text]) mac = await hmac(mac, part);
  const signature = hex(new Uint8Array(mac));
  const grant = `Credential=${keyId}/${scope.join("/")},SignedHeaders=${names},Signature=${signature}`;
  return { ...all, authorization: `AWS4-HMAC-SHA256 ${grant}` };
}

async function hmac(secret: ArrayBuffer | ArrayBufferView, text: string): Promise<ArrayBuffer> {
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return crypto.subtle.sign("HMAC", key, encoder.encode(text));
}
