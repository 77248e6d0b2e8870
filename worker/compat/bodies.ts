/** What a body of Runtime's clients means in the words of Rouse. Pure. */
import { z } from "zod";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { CreateSession } from "../../sdk/contract/session.ts";
import { EnvName } from "../../sdk/contract/variables.ts";
import type { Operation } from "../api/operation.ts";

type Body = Record<string, unknown>;

/** How long a session of that client's lasts when it says nothing. */
const SESSION_SECONDS = 3600;

/** Fields that ask for something that Rouse lacks, each with what it may be all the same. */
const lacking: Readonly<Record<string, (value: unknown) => boolean>> = {
  tailscale: (value) => value === null || value === undefined,
  cpu: (value) => value === "shared",
  shared: (value) => value === false,
  // Of a file watch: to be told by a request.
  webhook: (value) => value === null || value === undefined,
  embedOrigins: (value) => value === null || (Array.isArray(value) && value.length === 0),
};

/**
 * Fields that are not of the operation are left out: that client sends what older or newer servers of its own know.
 * @throws RouseFailure `unavailable` for a field that asks for what there is not
 */
export function bodyOf({ path, body: schema }: Operation, given: Body, params: readonly string[]): Body {
  for (const [field, isFine] of Object.entries(lacking))
    if (Object.hasOwn(given, field) && !isFine(given[field]))
      throw new RouseFailure("unavailable", `${field}: that is not offered.`, { details: { field } });
  if (path === "/v1/secrets/{name}") return secretOf(given, params[0] ?? "");
  if (schema === CreateSession) given = { ttlSeconds: SESSION_SECONDS, ...given };
  if (!(schema instanceof z.ZodObject)) return given;
  const known = Object.entries(given).filter(([field]) => Object.hasOwn(schema.shape, field));
  const body = Object.fromEntries(known);
  // That client has two words for one thing, and may say both.
  if (body["onLeaseEnd"] === body["onTimeout"]) delete body["onTimeout"];
  return body;
}

/** One with a header is put there by the host, any other is a placeholder that programs have in its place. */
function secretOf({ value, hosts, header, format, rules }: Body, name: string): Body {
  if (header !== undefined || format !== undefined) return { value, hosts, header, format, rules, mode: "broker" };
  // There, the variable is called as the secret is.
  const envName = EnvName.safeParse(name).success ? name : undefined;
  return { value, hosts, rules, mode: "placeholder", envName };
}
