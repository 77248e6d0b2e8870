/** Operations on the domains of a sandbox. */
import { z } from "zod";
import { CreateDomain, DeletedDomain, Domain, DomainList, UpdateDomain } from "../../sdk/contract/domain.ts";
import type { Operation } from "./operation.ts";

const Empty = z.strictObject({});
const NoQuery = z.strictObject({});
const D = "/v1/sandboxes/{id}/domains";
const ONE = `${D}/{domain}`;

export const domains: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: D,
    summary: "Claim a host name for the sandbox. The answer says which DNS records to set.",
    query: NoQuery,
    body: CreateDomain,
    answer: Domain,
  },
  { method: "GET", path: D, summary: "List domains, the oldest first.", query: NoQuery, answer: DomainList },
  { method: "GET", path: ONE, summary: "Read a domain.", query: NoQuery, answer: Domain },
  {
    method: "POST",
    path: `${ONE}:verify`,
    summary: "Look at its TXT record now, and at where the name leads.",
    query: NoQuery,
    body: Empty,
    answer: Domain,
  },
  {
    method: "POST",
    path: `${ONE}:update`,
    summary: "Change the port.",
    query: NoQuery,
    body: UpdateDomain,
    answer: Domain,
  },
  {
    method: "POST",
    path: `${ONE}:delete`,
    summary: "Give a domain up.",
    query: NoQuery,
    body: Empty,
    answer: DeletedDomain,
  },
  { method: "DELETE", path: ONE, summary: "Give a domain up.", query: NoQuery, answer: DeletedDomain },
];
