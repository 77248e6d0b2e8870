/** Operations on the account, its keys and members, and those of the operator. */
import { z } from "zod";
import {
  Account,
  AccountList,
  AddCredit,
  CreateAccount,
  CreateKey,
  CreateMember,
  Key,
  Me,
  Member,
  NewAccount,
  NewKey,
  Notice,
  UpdateAccount,
} from "../../sdk/contract/account.ts";
import { AddHost, DrainHost, Host, NewHost } from "../../sdk/contract/host.ts";
import { Usage, UsageQuery } from "../../sdk/contract/usage.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const listOf = (schema: z.ZodType) => z.object({ data: z.array(schema) });

export const account: readonly Omit<Operation, "work">[] = [
  { method: "GET", path: "/v1/me", summary: "Who the key belongs to.", answer: Me },
  {
    method: "GET",
    path: "/v1/usage",
    summary: "What the account's sandboxes used in a month, what it comes to, and the account's credit.",
    query: UsageQuery,
    answer: Usage,
    also: "text/csv",
  },
  {
    method: "GET",
    path: "/v1/account",
    summary: "The account: plan, quotas, credit.",
    query: NoQuery,
    answer: Account,
  },
  {
    method: "GET",
    path: "/v1/notices",
    summary: "What is about to happen: deletions, keys and credit that end.",
    query: NoQuery,
    answer: listOf(Notice),
  },
];

export const keys: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: "/v1/keys",
    summary: "Make an API key; the answer is the only place that shows it.",
    query: NoQuery,
    body: CreateKey,
    answer: NewKey,
  },
  { method: "GET", path: "/v1/keys", summary: "List keys, oldest first.", query: NoQuery, answer: listOf(Key) },
  { method: "DELETE", path: "/v1/keys/{key}", summary: "Revoke a key, at once.", query: NoQuery, answer: Key },
  {
    method: "POST",
    path: "/v1/members",
    summary: "Add a person to the account.",
    query: NoQuery,
    body: CreateMember,
    answer: Member,
  },
  { method: "GET", path: "/v1/members", summary: "List members.", query: NoQuery, answer: listOf(Member) },
  {
    method: "DELETE",
    path: "/v1/members/{member}",
    summary: "Remove a member and revoke their keys.",
    query: NoQuery,
    answer: Member,
  },
];

export const operator: readonly Omit<Operation, "work">[] = [
  { method: "GET", path: "/v1/hosts", summary: "The hosts, and whether they are live.", answer: listOf(Host) },
  {
    method: "POST",
    path: "/v1/hosts",
    summary: "Make the secrets of a host; of one that has some, anew, and the ones before are over.",
    query: NoQuery,
    body: AddHost,
    answer: NewHost,
  },
  {
    method: "POST",
    path: "/v1/hosts/{host}:drain",
    summary: "Let a host take no new machines, or with draining false take them again.",
    body: DrainHost,
    answer: Host,
  },
  {
    method: "DELETE",
    path: "/v1/hosts/{host}",
    summary: "Forget a host that does not report any more.",
    answer: z.object({ hostId: z.string(), removed: z.literal(true) }),
  },
  {
    method: "POST",
    path: "/v1/accounts",
    summary: "Open an account; the answer shows its first key.",
    query: NoQuery,
    body: CreateAccount,
    answer: NewAccount,
  },
  { method: "GET", path: "/v1/accounts", summary: "List accounts.", query: NoQuery, answer: AccountList },
  { method: "GET", path: "/v1/accounts/{account}", summary: "Read an account.", query: NoQuery, answer: Account },
  {
    method: "POST",
    path: "/v1/accounts/{account}:update",
    summary: "Change plan, quotas and limits, or suspend.",
    query: NoQuery,
    body: UpdateAccount,
    answer: Account,
  },
  {
    method: "POST",
    path: "/v1/accounts/{account}:key",
    summary: "Make a key of another account, for one that has lost its own.",
    query: NoQuery,
    body: CreateKey,
    answer: NewKey,
  },
  {
    method: "POST",
    path: "/v1/accounts/{account}:credit",
    summary: "Add prepaid credit.",
    query: NoQuery,
    body: AddCredit,
    answer: Account,
  },
];
