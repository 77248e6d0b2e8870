/** What a sandbox may reach outside: the rules that its owner sets, and the pure reading of one target. */
import { z } from "zod";

export const networkLimits = { targetsMax: 256 } as const;

const NAME = /^(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * A host name (`api.example.com`: itself alone), all names below one (`*.example.com`: at any depth, not the name
 * itself), `*`, an address, or a range of addresses (`203.0.113.0/24`, `2001:db8::/32`).
 */
export const NetworkTarget = z
  .string()
  .min(1)
  .max(255)
  .transform((text) => text.toLowerCase().replace(/\.$/, ""))
  .refine(
    (text) => text === "*" || isAddressRange(text) || (NAME.test(text) && !/^[\d.]+$/.test(text)),
    "a host name, *.name, *, an IP address, or a range such as 203.0.113.0/24",
  );

/**
 * Rules of a sandbox. `deny` wins over `allow`, and `allow` over `internet: false`. Private, loopback, link-local and
 * metadata addresses are never reached, whatever the rules; they are looked at after a name is resolved.
 */
export const NetworkRules = z
  .strictObject({
    /** Whether what neither list names may be reached; yes unless said. */
    internet: z.boolean(),
    allow: z.array(NetworkTarget).max(networkLimits.targetsMax).optional(),
    deny: z.array(NetworkTarget).max(networkLimits.targetsMax).optional(),
  })
  .meta({ id: "NetworkRules" });
export type NetworkRules = z.infer<typeof NetworkRules>;

export const openNetwork: NetworkRules = { internet: true };

function isAddressRange(text: string): boolean {
  const [address = "", bits, more] = text.split("/");
  if (more !== undefined) return false;
  const isFour = z.ipv4().safeParse(address).success;
  if (!isFour && !z.ipv6().safeParse(address).success) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (isFour ? 32 : 128));
}
