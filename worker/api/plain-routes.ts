/** Routes of the API host that are no operations: without a key, or with one of another kind. As OpenAPI says them. */
import type { ErrorCode } from "../../sdk/contract/error-codes.ts";

export interface PlainRoute {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  /** Parameters of the query. */
  readonly query?: Readonly<Record<string, string>>;
  /** Media type and schema of the body. */
  readonly body?: readonly [type: string, schema: object];
  /** Media type and schema of a 200. */
  readonly answer: readonly [type: string, schema: object];
  readonly codes?: readonly ErrorCode[];
  /** Other answers, by status. */
  readonly also?: Readonly<Record<string, { description: string; content?: object }>>;
  /** Whether a program of the sandbox answers, and so anything may be. */
  readonly any?: true;
  /** With the key of an account, as operations are. */
  readonly key?: true;
}

const text = { type: "string" };
const any = {};

function object(properties: Record<string, object>, required = Object.keys(properties)): object {
  return { type: "object", properties, required, additionalProperties: false };
}

const oauthError = {
  400: {
    description: "As OAuth says it (RFC 6749, 5.2).",
    content: {
      "application/json": { schema: object({ error: text, error_description: text }, ["error"]) },
    },
  },
};
const rpcError = {
  description: "A JSON-RPC error of the transport, or one of the API.",
  content: { "application/json": { schema: { type: "object" } } },
};
/** What MCP over HTTP answers beside results. */
export const mcpAnswers = {
  202: { description: "A notification, which has no answer." },
  ...{ 400: rpcError, 406: rpcError, 415: rpcError },
};
/** `invalid_request`, with the status that HTTP has for a range. */
export const behindEnd = {
  description: "The range is behind the object's end.",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};
const page = ["text/html", text] as const;

export const plainRoutes: readonly PlainRoute[] = [
  {
    method: "GET",
    path: "/healthz",
    id: "healthz",
    summary: "Whether the edge answers.",
    answer: ["application/json", object({ ok: { const: true } })],
  },
  {
    method: "GET",
    path: "/v1/openapi.json",
    id: "openapi",
    summary: "This document.",
    answer: ["application/json", { type: "object" }],
  },
  { method: "GET", path: "/docs/api", id: "reference", summary: "This document, to read.", answer: page },
  {
    method: "GET",
    path: "/v1/domains/tls-check",
    id: "domains.tlsCheck",
    summary: "Whether a proxy in front may get a certificate for a host name: 200, or 404.",
    query: { domain: "Host name" },
    answer: ["application/json", object({ domain: text })],
    codes: ["not_found"],
  },
  {
    method: "POST",
    path: "/mcp",
    id: "mcp.call",
    summary: "An MCP server (Streamable HTTP, without sessions) whose tools are the API's; a key as bearer.",
    body: ["application/json", { type: "object" }],
    answer: ["application/json", { type: "object" }],
    codes: ["unauthorized", "forbidden", "payload_too_large", "method_not_allowed", "rate_limited"],
    also: mcpAnswers,
    key: true,
  },
  {
    method: "POST",
    path: "/oauth/device_authorization",
    id: "oauth.begin",
    summary: "Begin a device login (RFC 8628): codes for the program, and for the person who approves.",
    body: [
      "application/x-www-form-urlencoded",
      object(
        { client_id: text, client_name: text, scope: { ...text, description: "`trial`: a trial account will do" } },
        [],
      ),
    ],
    answer: [
      "application/json",
      object({
        device_code: text,
        user_code: text,
        verification_uri: text,
        verification_uri_complete: text,
        expires_in: { type: "integer", description: "Seconds" },
        interval: { type: "integer", description: "Seconds between two polls" },
      }),
    ],
    codes: ["rate_limited"],
    also: oauthError,
  },
  {
    method: "POST",
    path: "/oauth/token",
    id: "oauth.token",
    summary: "Ask whether the person has approved; then the answer has the key.",
    body: [
      "application/x-www-form-urlencoded",
      object({ grant_type: { const: "urn:ietf:params:oauth:grant-type:device_code" }, device_code: text }),
    ],
    answer: ["application/json", object({ access_token: text, token_type: { const: "bearer" }, account: text })],
    codes: ["rate_limited"],
    also: oauthError,
  },
  {
    method: "GET",
    path: "/connect",
    id: "connect",
    summary: "The page on which a person approves a login.",
    query: { code: "Code that the program shows" },
    answer: page,
    codes: ["rate_limited"],
    also: { 404: { description: "The code is over, or never was.", content: { "text/html": {} } } },
  },
  {
    method: "POST",
    path: "/connect",
    id: "connect.decide",
    summary: "What the person decided; sent by that page.",
    body: [
      "application/x-www-form-urlencoded",
      object({ code: text, decision: text, api_key: text, access: text }, ["code"]),
    ],
    answer: page,
    codes: ["forbidden", "rate_limited"],
    also: { 404: { description: "The code is over, or never was.", content: { "text/html": {} } } },
  },
  {
    method: "POST",
    path: "/hooks/{token}",
    id: "hooks.receive",
    summary:
      "A webhook arrives: verified, stored, then acknowledged as its provider expects; a sync hook's program answers.",
    body: ["*/*", any],
    answer: ["*/*", any],
    codes: [
      ...([
        "invalid_request",
        "signature_invalid",
        "signature_expired",
        "hook_not_found",
        "method_not_allowed",
      ] as const),
      ...([
        "body_too_slow",
        "hook_disabled",
        "payload_too_large",
        "rate_limited",
        "inbox_full",
        "unavailable",
      ] as const),
    ],
    any: true,
  },
  {
    method: "GET",
    path: "/signed/objects/{token}",
    id: "objects.signedGet",
    summary: "Read an object by a signed URL.",
    answer: ["*/*", any],
    codes: [
      "invalid_request",
      "unauthorized",
      "object_not_found",
      "sandbox_gone",
      "method_not_allowed",
      "rate_limited",
    ],
    also: {
      206: { description: "A range of it." },
      304: { description: "It is the one that the client has." },
      416: behindEnd,
    },
  },
  {
    method: "HEAD",
    path: "/signed/objects/{token}",
    id: "objects.signedHead",
    summary: "What a signed URL to read with leads to.",
    answer: ["*/*", any],
    codes: ["unauthorized", "object_not_found", "sandbox_gone", "method_not_allowed", "rate_limited"],
    also: { 304: { description: "It is the one that the client has." } },
  },
  {
    method: "PUT",
    path: "/signed/objects/{token}",
    id: "objects.signedPut",
    summary: "Store an object by a signed URL.",
    body: ["*/*", any],
    answer: ["application/json", { $ref: "#/components/schemas/StoredObject" }],
    codes: [
      ...(["invalid_request", "unauthorized", "sandbox_gone", "method_not_allowed", "body_too_slow"] as const),
      ...(["version_mismatch", "payload_too_large", "storage_full", "rate_limited", "unavailable"] as const),
    ],
  },
];
