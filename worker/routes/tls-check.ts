/**
 * Whether a proxy in front may get a certificate for a host name. Whoever asks has no key: the answer says no more than a
 * visit to the name would, unless the operator has it say which named hosts there are, and asking wakes nothing.
 */
import { DomainName } from "../../sdk/contract/domain.ts";
import { errorResponse } from "../../sdk/contract/error-codes.ts";
import { isAtOrBelow } from "../../sdk/contract/hostname.ts";
import { BoundedMap } from "../bounded-map.ts";
import { factsOf, isAbsence, isPublic } from "../proxy/access.ts";
import { customDomain, hostnamePolicy } from "../proxy/custom-domain.ts";
import { parseTarget } from "../proxy/target.ts";

/** That there is nothing is believed for so long, milliseconds. */
const NOTHING_MS = 5000;
const nothing = new BoundedMap<number>(4096);

export async function tlsCheck(env: Env, url: URL, requestId: string): Promise<Response> {
  const parsed = DomainName.safeParse(url.searchParams.get("domain") ?? "");
  const isOurs = parsed.success && (await serves(env, parsed.data, Date.now()));
  const headers = { "cache-control": "no-store", "x-request-id": requestId };
  if (isOurs) return Response.json({ domain: parsed.data }, { headers });
  return errorResponse({ code: "not_found", message: "That host name leads nowhere here." }, requestId, headers);
}

async function serves(env: Env, hostname: string, now: number): Promise<boolean> {
  const { base, own } = hostnamePolicy(env, null);
  if (hostname === base || own.includes(hostname)) return true;
  if (base === null || !isAtOrBelow(hostname, base)) return (await customDomain(env, hostname, now)) !== null;
  const target = parseTarget(hostname, "/", base);
  if (!target || "fault" in target || now - (nothing.get(hostname) ?? 0) < NOTHING_MS) return false;
  try {
    const facts = await factsOf(env, target, now, false);
    return env.ROUSE_TLS_NAMED_HOSTS === "any" || isPublic(facts, target.port);
  } catch (fault) {
    if (!isAbsence(fault)) throw fault;
    nothing.set(hostname, now);
    return false;
  }
}
