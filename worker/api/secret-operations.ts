/** Operations on secrets, of the account and of a sandbox. */
import { z } from "zod";
import { DeletedSecret, PutSecret, Secret, SecretList, StoredSecret } from "../../sdk/contract/secret.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});

const under = (path: string, whose: string): readonly Omit<Operation, "work">[] => [
  { method: "GET", path, summary: `List ${whose} secrets by name; no values.`, query: NoQuery, answer: SecretList },
  {
    method: "GET",
    path: `${path}/{name}`,
    summary: `Read what is known of one of ${whose} secrets; not its value.`,
    query: NoQuery,
    answer: Secret,
  },
  {
    method: "PUT",
    path: `${path}/{name}`,
    summary: `Store one of ${whose} secrets, or put another in its place. Running sandboxes have it at once.`,
    query: NoQuery,
    body: PutSecret,
    answer: StoredSecret,
  },
  {
    method: "DELETE",
    path: `${path}/{name}`,
    summary: `Delete one of ${whose} secrets. Running sandboxes lose it at once.`,
    query: NoQuery,
    answer: DeletedSecret,
  },
];

export const secrets = under("/v1/secrets", "the account's");
export const sandboxSecrets = under("/v1/sandboxes/{id}/secrets", "a sandbox's own");
