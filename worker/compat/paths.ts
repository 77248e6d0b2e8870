/** Which call of Rouse a call of Runtime's clients means. Most are the same call; the others are here. Pure. */

/** How an answer is rewritten, besides the spelling of ids. */
export type Shape = "secret" | "secrets" | "limits" | "events";

export interface Meant {
  /** As Rouse's own API has it. */
  readonly url: URL;
  /** null: only ids are spelled anew. */
  readonly shape: Shape | null;
}

/** Clients of that product name themselves with every call; nobody else sends the header. */
export function isRuntimeClient(headers: Headers): boolean {
  return headers.has("x-runtime-client");
}

/** null: Rouse has nothing of the kind. */
export function meantBy(method: string, given: URL): Meant | null {
  const url = new URL(given);
  const { pathname, searchParams } = url;
  if (isBelow(pathname, "/v1/egress-secrets")) {
    url.pathname = pathname.replace("/v1/egress-secrets", "/v1/secrets");
    return { url, shape: pathname === "/v1/egress-secrets" && method === "GET" ? "secrets" : "secret" };
  }
  // There, these are values that its jobs are given.
  if (isBelow(pathname, "/v1/secrets")) return null;
  if (pathname === "/v1/limits" && method === "GET") {
    url.pathname = "/v1/account";
    return { url, shape: "limits" };
  }
  const resource = searchParams.get("resourceId");
  if (pathname === "/v1/events" && method === "GET" && resource !== null) {
    url.pathname = `/v1/sandboxes/${encodeURIComponent(resource)}/events`;
    const [after, limit] = [searchParams.get("cursor"), searchParams.get("limit")];
    url.search = new URLSearchParams({ ...(after && { after }), ...(limit && { limit }) }).toString();
    return { url, shape: "events" };
  }
  return { url, shape: null };
}

function isBelow(pathname: string, root: string): boolean {
  return pathname === root || pathname.startsWith(`${root}/`);
}

const ID = "/v1/sandboxes/[^/]+";
const lacking: readonly (readonly [RegExp, string])[] = [
  [/^\/v1\/secrets\b/, "There are no secrets of jobs; PUT /v1/egress-secrets/{name} keeps one for requests."],
  [/^\/v1\/jobs?\b/, "There are no jobs; a schedule of a sandbox runs a command at its times."],
  [/^\/v1\/webhook/, "There are no webhooks of that kind; POST /v1/event-endpoints has events sent, signed otherwise."],
  [/^\/v1\/domains\b/, "A domain is a sandbox's own here: POST /v1/sandboxes/{id}/domains."],
  [/^\/v1\/images\b/, "Hosts bring their images; the API builds none."],
  [/^\/v1\/events$/, "Events are read of one sandbox: say by resourceId which."],
  [new RegExp(`^${ID}:(resize|switch-image)$`), "Size and image of a sandbox stay what they were at its creation."],
];

/** Why a call of that client is not there, and what there is in its place. */
export function whyMissing(pathname: string): string {
  return lacking.find(([pattern]) => pattern.test(pathname))?.[1] ?? "Rouse has nothing of the kind.";
}
