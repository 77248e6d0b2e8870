/** Holds what the edge and the guest agent answer against the OpenAPI document: status, media type, code, each field. */
import { dereference, validate, type Schema } from "@cfworker/json-schema";
import { matcher, type Operation } from "../../worker/api/operation.ts";
import { operations } from "../../worker/api/operations.ts";
import { plainRoutes } from "../../worker/api/plain-routes.ts";
import openApi from "../../sdk/openapi.json" with { type: "json" };

interface Said {
  readonly $ref?: string;
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}

interface Described {
  readonly responses: Readonly<Record<string, Said>>;
  readonly "x-error-codes": readonly string[];
}

export interface SomeAnswer {
  readonly method: string;
  /** Of the API. */
  readonly pathname: string;
  readonly status: number;
  readonly type: string | null | undefined;
  json(): unknown;
}

const document = structuredClone(openApi) as unknown as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly responses: Readonly<Record<string, Said>> };
};
/** Each schema by its pointer. */
const lookup = dereference(document as unknown as Schema, {}, new URL("http://document.test/"));
const find = matcher([...operations, ...(plainRoutes as unknown as readonly Operation[])]);

/** @throws Error that says what of an answer the document does not have */
export async function assertDocumented(answer: SomeAnswer, skips?: (operation: Operation) => boolean): Promise<void> {
  const match = find(answer.method, answer.pathname);
  if (match === null || typeof match === "string" || skips?.(match.operation)) return;
  const { method, path } = match.operation;
  const { status } = answer;
  const [type = ""] = (answer.type ?? "").split(";");
  const body = type === "application/json" ? await answer.json() : null;
  const code = (body as { error?: { code?: unknown } } | null)?.error?.code;
  // It is no operation where it was asked.
  if (status === 405 || code === "route_not_found") return;
  const fail = (what: string): never => {
    throw new Error(`${method} ${path} answered ${status}, and the document has no such answer: ${what}`);
  };
  const described = document.paths[path.replace("*}", "}")]?.[method.toLowerCase()] ?? fail("no such operation");
  const { responses } = described;
  const said = responses[status] ?? responses["default"] ?? fail(`only ${Object.keys(responses).join(", ")}`);
  const content = (said.$ref ? document.components.responses[String(status)] : said)?.content ?? {};
  if (type !== "application/json" || content["*/*"]) return;
  const schema = content[type]?.schema ?? fail(`only ${Object.keys(content).join(", ") || "no content"}`);
  const { valid, errors } = validate(body, schema, "2020-12", lookup, false);
  if (!valid) fail(errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`).join("; "));
  if (typeof code === "string" && !described["x-error-codes"].includes(code)) fail(`the code ${code}`);
}
