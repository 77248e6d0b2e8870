/** Operations on share links. */
import { z } from "zod";
import { CreateLink, Link, LinkList } from "../../sdk/contract/link.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const LINKS = "/v1/sandboxes/{id}/links";

export const links: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: LINKS,
    summary: "Make a share link; the answer is the only place that shows its token.",
    query: NoQuery,
    body: CreateLink,
    answer: Link,
  },
  { method: "GET", path: LINKS, summary: "List share links, the newest first.", query: NoQuery, answer: LinkList },
  {
    method: "GET",
    path: `${LINKS}/{link}`,
    summary: "Read a share link and when it was used.",
    query: NoQuery,
    answer: Link,
  },
  {
    method: "DELETE",
    path: `${LINKS}/{link}`,
    summary: "Revoke a share link, at once, open connections too.",
    query: NoQuery,
    answer: Link,
  },
];
