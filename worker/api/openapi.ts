/** The OpenAPI document of the operations table and of the routes beside it. Pure. */
import { z } from "zod";
import { errorCodes, hintOf, statusOf, type ErrorCode } from "../../sdk/contract/error-codes.ts";
import { ErrorBody } from "../../sdk/contract/errors.ts";
import { descriptions } from "./descriptions.ts";
import { codesOf } from "./error-answers.ts";
import { idOf, parts, takesIdempotencyKey, takesPrefer, titleOf } from "./names.ts";
import type { Operation } from "./operation.ts";
import { behindEnd, mcpAnswers, type PlainRoute } from "./plain-routes.ts";

type Json = Record<string, unknown>;

/** Of parameters of paths that do not say it by their names. */
const pathParameters: Readonly<Record<string, string>> = {
  id: "Id or name of the sandbox, percent-encoded.",
  key: "The rest of the path, slashes and colons included.",
  token: "A secret: whoever has the URL may use it.",
};

const headerParameters = {
  IdempotencyKey: {
    name: "Idempotency-Key",
    in: "header",
    required: false,
    schema: { type: "string", maxLength: 256 },
    description: "The same call under the same key is done once, and answered again for a day.",
  },
  Prefer: {
    name: "Prefer",
    in: "header",
    required: false,
    schema: { type: "string", examples: ["wait=60"] },
    description: "`wait=N`: seconds to wait until the change is done. Clients that say nothing wait for it.",
  },
};

/** OpenAPI 3.1; schemas with an id become components. */
export function openApi(operations: readonly Operation[], plain: readonly PlainRoute[]): Json {
  const schemas: Record<string, Json> = {};
  const paths: Record<string, Json> = {};
  const refer = (schema: z.ZodType, io: "input" | "output") => reference(schema, io, schemas);
  refer(ErrorBody, "output");
  for (const operation of operations) {
    (paths[operation.path.replace("*}", "}")] ??= {})[operation.method.toLowerCase()] = describe(operation, refer);
  }
  for (const route of plain) (paths[route.path] ??= {})[route.method.toLowerCase()] = describePlain(route);
  for (const [name, schema] of Object.entries(schemas)) explain(name, schema);
  return {
    openapi: "3.1.0",
    info: {
      title: "Rouse",
      version: "0.1.0",
      description: "Named Linux machines for AI agents that sleep with their RAM and wake on the first request.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ key: [] }],
    tags: parts.map((name) => ({ name })),
    paths,
    components: {
      schemas,
      parameters: headerParameters,
      responses: errorResponses(),
      securitySchemes: { key: { type: "http", scheme: "bearer", description: "An API key." } },
    },
    "x-error-codes": Object.fromEntries(
      errorCodes.map((code) => [code, { status: statusOf(code), hint: hintOf(code) }]),
    ),
  };
}

function describe(operation: Operation, refer: (schema: z.ZodType, io: "input" | "output") => Json): Json {
  const { body, answer, lines, also } = operation;
  const content: Json =
    answer === "bytes"
      ? { "*/*": {} }
      : { "application/json": { schema: answer === "any" ? {} : refer(answer, "output") } };
  if (lines) content["application/x-ndjson"] = { schema: refer(lines, "output") };
  if (also !== undefined) content[also] = { schema: { type: "string" } };
  const codes = codesOf(operation);
  return {
    operationId: idOf(operation),
    tags: [titleOf(operation)],
    summary: operation.summary,
    parameters: [
      ...inPath(operation.path),
      ...queryParameters(operation.query),
      ...(takesIdempotencyKey(operation) ? [{ $ref: "#/components/parameters/IdempotencyKey" }] : []),
      ...(takesPrefer(operation) ? [{ $ref: "#/components/parameters/Prefer" }] : []),
    ],
    ...(body
      ? {
          requestBody: {
            content:
              body === "bytes"
                ? { "application/octet-stream": {} }
                : { "application/json": { schema: refer(body, "input") } },
          },
        }
      : {}),
    responses: {
      ...(operation.socket
        ? { 101: { description: "The socket is open." } }
        : { 200: { description: "Done.", content } }),
      ...(operation.work === "objects" && answer === "bytes"
        ? {
            206: { description: "The range that was asked for.", content },
            304: { description: "It is the one that the client has." },
            416: behindEnd,
          }
        : {}),
      ...errorsOf(codes),
      ...(operation.path.endsWith("/memory/mcp") ? mcpAnswers : {}),
    },
    "x-error-codes": codes,
  };
}

function describePlain(route: PlainRoute): Json {
  const { method, path, id, summary, query = {}, body, answer, also = {}, any } = route;
  const codes: readonly ErrorCode[] = [...(route.codes ?? []), "internal_error"];
  return {
    operationId: id,
    tags: [route.key ? "MCP servers" : "Without a key"],
    summary,
    ...(route.key ? {} : { security: [] }),
    parameters: [
      ...inPath(path),
      ...Object.entries(query).map(([name, description]) => ({
        ...{ name, in: "query", required: method === "GET" && path.startsWith("/v1/"), description },
        schema: { type: "string" },
      })),
    ],
    ...(body ? { requestBody: { content: { [body[0]]: { schema: body[1] } } } } : {}),
    responses: {
      200: { description: "Done.", content: { [answer[0]]: { schema: answer[1] } } },
      ...errorsOf(codes),
      ...also,
      ...(any ? { default: { description: "What a program of the sandbox answered.", content: { "*/*": {} } } } : {}),
    },
    "x-error-codes": codes,
  };
}

function inPath(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\*?\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
    ...(pathParameters[name] === undefined ? {} : { description: pathParameters[name] }),
  }));
}

/** A reference for each status that one of the codes has. */
function errorsOf(codes: readonly ErrorCode[]): Json {
  const statuses = [...new Set(codes.map(statusOf))].toSorted((a, b) => a - b);
  return Object.fromEntries(statuses.map((status) => [status, { $ref: `#/components/responses/${status}` }]));
}

/** An answer for each status of an error, with the codes that it can have. */
function errorResponses(): Json {
  const byStatus = Map.groupBy(errorCodes, statusOf);
  const content = { "application/json": { schema: { $ref: "#/components/schemas/Error" } } };
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      { description: codes.map((code) => `\`${code}\``).join(", "), content },
    ]),
  );
}

function queryParameters(query: z.ZodType | undefined): Json[] {
  if (!query) return [];
  const { properties = {}, required = [] } = z.toJSONSchema(query, { io: "input", unrepresentable: "any" });
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: "query",
    required: required.includes(name),
    schema,
  }));
}

function reference(schema: z.ZodType, io: "input" | "output", schemas: Record<string, Json>): Json {
  const json = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  const id = schema.meta()?.id;
  const own = rewrite(json, schemas);
  if (typeof id !== "string") return own;
  // A schema with an id may come as a reference to its own definition, which is among the components by now.
  if (!("$ref" in own)) schemas[id] = own;
  return { $ref: `#/components/schemas/${id}` };
}

/** Definitions inside a schema move to the components. */
function rewrite(json: object, schemas: Record<string, Json>): Json {
  const { $defs, $schema: _, id: _id, ...rest } = json as Json;
  for (const [name, schema] of Object.entries(($defs ?? {}) as Record<string, object>))
    schemas[name] = rewrite(schema, schemas);
  return JSON.parse(JSON.stringify(rest).replaceAll('"#/$defs/', '"#/components/schemas/')) as Json;
}

/** What the contract's comments say of a component and its fields. */
function explain(name: string, schema: Json): void {
  const own = descriptions[name];
  if (own !== undefined) schema["description"] ??= own;
  const properties = (schema["properties"] ?? {}) as Record<string, Json>;
  for (const [field, one] of Object.entries(properties)) {
    const said = descriptions[`${name}.${field}`];
    if (said !== undefined) one["description"] ??= said;
  }
}
