/** Asking DNS: over HTTPS (RFC 8484), since a Worker has no other way to a resolver. */
import { readUpTo } from "../sandbox/request.ts";
import { encodeQuery, MESSAGE_MAX, readAnswer, type DnsAnswer, type RecordType } from "./dns-message.ts";

const DEFAULT_RESOLVER = "https://cloudflare-dns.com/dns-query";
const MEDIA = "application/dns-message";
/** Longest wait for an answer, milliseconds. */
const WAIT_MS = 5000;

/** What a resolver says of a name. A resolver that fails is a fault of the answer, and never a throw. */
export async function lookUp(env: Env, name: string, type: RecordType): Promise<DnsAnswer> {
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(), WAIT_MS);
  try {
    const response = await fetch(env.ROUSE_DNS_URL ?? DEFAULT_RESOLVER, {
      method: "POST",
      headers: { accept: MEDIA, "content-type": MEDIA },
      body: encodeQuery(name, type),
      redirect: "manual",
      signal: ending.signal,
    });
    const isAnswer = response.status === 200 && response.headers.get("content-type")?.split(";")[0]?.trim() === MEDIA;
    if (!isAnswer) {
      await response.body?.cancel();
      return { ok: false, fault: `status ${response.status}` };
    }
    const bytes = await readUpTo(response, MESSAGE_MAX);
    return bytes ? readAnswer(bytes, name, type) : { ok: false, fault: "too long" };
  } catch {
    return { ok: false, fault: "unreachable" };
  } finally {
    clearTimeout(timer);
  }
}
