/** The OpenAPI document of the operations table. Pure. */
import { z } from "zod";
import { errorCodes, hintOf, statusOf } from "../../sdk/contract/error-codes.ts";
import { ErrorBody } from "../../sdk/contract/errors.ts";
import type { Operation } from "./operation.ts";

type Json = Record<string, unknown>;

/** OpenAPI 3.1; schemas with an id become components. */
export function openApi(operations: readonly Operation[]): Json {
  const schemas: Json = {};
  const paths: Record<string, Json> = {};
  const refer = (schema: z.ZodType, io: "input" | "output") => reference(schema, io, schemas);
  refer(ErrorBody, "output");
  for (const operation of operations) {
    (paths[operation.path.replace("*}", "}")] ??= {})[operation.method.toLowerCase()] = describe(operation, refer);
  }
  paths["/healthz"] = {
    get: { summary: "Whether the edge answers.", security: [], responses: { 200: { description: "It does." } } },
  };
  paths["/v1/openapi.json"] = {
    get: { summary: "This document.", security: [], responses: { 200: { description: "OpenAPI 3.1." } } },
  };
  paths["/v1/domains/tls-check"] = {
    get: {
      summary: "Whether a proxy in front may get a certificate for a host name: 200, or 404.",
      security: [],
      parameters: [{ name: "domain", in: "query", required: true, schema: { type: "string" } }],
      responses: { 200: { description: "A domain of a sandbox, a named host, or the API." } },
    },
  };
  return {
    openapi: "3.1.0",
    info: { title: "Rouse", version: "0.1.0", description: "Named Linux machines that sleep with their RAM." },
    security: [{ key: [] }],
    paths,
    components: {
      schemas,
      securitySchemes: { key: { type: "http", scheme: "bearer" } },
    },
    "x-error-codes": Object.fromEntries(
      errorCodes.map((code) => [code, { status: statusOf(code), hint: hintOf(code) }]),
    ),
  };
}

function describe(operation: Operation, refer: (schema: z.ZodType, io: "input" | "output") => Json): Json {
  const inPath = [...operation.path.matchAll(/\{(\w+)\*?\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
    ...(name === "id" ? { description: "Id or name of the sandbox, percent-encoded." } : {}),
  }));
  const { body, answer, lines } = operation;
  const content: Json =
    answer === "bytes"
      ? { "application/octet-stream": {} }
      : { "application/json": { schema: answer === "any" ? {} : refer(answer, "output") } };
  if (lines) content["application/x-ndjson"] = { schema: refer(lines, "output") };
  return {
    summary: operation.summary,
    parameters: [...inPath, ...queryParameters(operation.query)],
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
      200: { description: "Done.", content },
      default: {
        description: "An error.",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
  };
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

function reference(schema: z.ZodType, io: "input" | "output", schemas: Json): Json {
  const json = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  const id = schema.meta()?.id;
  const own = rewrite(json, schemas);
  if (typeof id !== "string") return own;
  // A schema with an id may come as a reference to its own definition, which is among the components by now.
  if (!("$ref" in own)) schemas[id] = own;
  return { $ref: `#/components/schemas/${id}` };
}

/** Definitions inside a schema move to the components. */
function rewrite(json: object, schemas: Json): Json {
  const { $defs, $schema: _, id: _id, ...rest } = json as Json;
  for (const [name, schema] of Object.entries(($defs ?? {}) as Record<string, object>))
    schemas[name] = rewrite(schema, schemas);
  return JSON.parse(JSON.stringify(rest).replaceAll('"#/$defs/', '"#/components/schemas/')) as Json;
}
