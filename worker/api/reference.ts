/** The OpenAPI document as one page to read: no program is needed to see it, and a small one searches it. Pure. */
import { usualCodes } from "./error-answers.ts";
import { codeText, escapeHtml as escape } from "./html.ts";
import { referenceScript, referenceStyle } from "./reference-assets.ts";

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly format?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly additionalProperties?: boolean | Schema;
}

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema?: Schema }>>;

interface Described {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description?: string; readonly content?: Content }>>;
  readonly "x-error-codes": readonly string[];
}

export interface ReferenceDocument {
  readonly info: { readonly title: string; readonly description: string };
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly parameters: Readonly<Record<string, Parameter>>;
  };
  readonly "x-error-codes": Readonly<Record<string, { readonly status: number; readonly hint: string }>>;
}

/** @param document as `openApi` makes it */
export function referencePage(document: ReferenceDocument): string {
  const { info, tags, paths, components } = document;
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  const parts = tags
    .map(({ name }) => ({ name, id: slug(name), those: all.filter(({ operation }) => operation.tags[0] === name) }))
    .filter(({ those }) => those.length > 0);
  const menu = [...parts.map(({ name, id }) => ({ name, id })), { name: "Schemas", id: "schemas" }, ERRORS];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(info.title)} API reference</title>
<style>${referenceStyle}</style>
</head>
<body>
<a class="skip" href="#main">To the content</a>
<header>
<h1>${escape(info.title)} API</h1>
<label for="search">Search</label>
<input id="search" type="search" placeholder="pause, /files, name_taken" autocomplete="off" aria-describedby="count" hidden>
<output id="count" for="search" role="status"></output>
</header>
<nav aria-label="Parts"><ul>${menu.map(({ name, id }) => `<li><a href="#${id}">${escape(name)}</a></li>`).join("")}</ul></nav>
<main id="main">
<p>${escape(info.description)} Send a key as <code>Authorization: Bearer &lt;key&gt;</code>. For programs: <a href="/v1/openapi.json">OpenAPI 3.1</a>.</p>
${parts.map(({ name, id, those }) => `<section aria-labelledby="${id}"><h2 id="${id}">${escape(name)}</h2>${those.map((one) => operationOf(one, components.parameters)).join("")}</section>`).join("\n")}
<section aria-labelledby="schemas"><h2 id="schemas">Schemas</h2>${Object.entries(components.schemas)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, schema]) => schemaOf(name, schema))
    .join("")}</section>
${errorsOf(document["x-error-codes"])}
</main>
<script>${referenceScript}</script>
</body>
</html>
`;
}

const usual: ReadonlySet<string> = new Set(usualCodes);
const ERRORS = { name: "Error codes", id: "errors" };

function operationOf(
  { method, path, operation }: { method: string; path: string; operation: Described },
  shared: Readonly<Record<string, Parameter>>,
): string {
  const { operationId: id, summary, requestBody, responses } = operation;
  const parameters = operation.parameters.map((one) => shared[one.$ref?.split("/").at(-1) ?? ""] ?? one);
  const codes = operation["x-error-codes"].filter((code) => !usual.has(code));
  return `<article id="${id}"><h3><a href="#${id}"><b class="${method}">${method}</b> <code>${breakable(path)}</code></a></h3>
<p>${codeText(summary)}</p>
${parameters.length === 0 ? "" : `<h4>Parameters</h4><dl>${parameters.map(parameterOf).join("")}</dl>`}
${requestBody ? `<h4>Body</h4>${contentOf(requestBody.content)}` : ""}
<h4>Answer</h4>${Object.entries(responses)
    .filter(([status]) => Number(status) < 400 || status === "default")
    .map(([status, { description = "", content = {} }]) => {
      const said = status === "200" ? "" : `<p><b>${status}</b> ${codeText(description)}</p>`;
      return said + (status === "206" ? "" : contentOf(content));
    })
    .join("")}
${codes.length === 0 ? "" : `<details><summary>${codes.length} error codes beside the <a href="#errors">usual</a></summary><p>${codes.map(codeLink).join(" ")}</p></details>`}
</article>`;
}

function parameterOf({ name, in: place, required, description, schema }: Parameter): string {
  const where = place === "path" ? "" : ` <i>${place}</i>`;
  const must = required && place !== "path" ? " <em>required</em>" : "";
  return `<dt><code>${escape(name)}</code>${where}${must} ${typeOf(schema)}</dt>${described(description ?? schema.description)}`;
}

function described(text = "", inner = ""): string {
  return text === "" && inner === "" ? "" : `<dd>${codeText(text)}${inner}</dd>`;
}

function codeLink(code: string): string {
  return `<a href="#e-${code}"><code>${code}</code></a>`;
}

function contentOf(content: Content): string {
  return Object.entries(content)
    .map(([type, { schema }]) => {
      const label = type === "application/json" ? "" : `<p class="type">${escape(type === "*/*" ? "bytes" : type)}</p>`;
      return label + (schema === undefined ? "" : bodyOf(schema));
    })
    .join("");
}

/** Fields of an object, or what kind of value it is. */
function bodyOf(schema: Schema): string {
  const { properties, required = [] } = schema;
  if (!properties) return `<p>${typeOf(schema)}</p>`;
  const rows = Object.entries(properties).map(([name, one]) => {
    const must = required.includes(name) ? " <em>required</em>" : "";
    const inner = one.properties ? bodyOf(one) : "";
    return `<dt><code>${escape(name)}</code>${must} ${typeOf(one)}</dt>${described(one.description, inner)}`;
  });
  return rows.length === 0 ? "<p>An empty object.</p>" : `<dl>${rows.join("")}</dl>`;
}

function schemaOf(name: string, schema: Schema): string {
  const kinds = schema.anyOf ?? schema.oneOf;
  return `<article id="s-${name}"><h3><a href="#s-${name}"><code>${escape(name)}</code></a></h3>
<p>${codeText(schema.description ?? "")}</p>
${kinds ? `<p>One of:</p>${kinds.map((kind) => `<div class="kind">${bodyOf(kind)}</div>`).join("")}` : bodyOf(schema)}
</article>`;
}

function errorsOf(codes: ReferenceDocument["x-error-codes"]): string {
  const rows = Object.entries(codes).map(
    ([code, { status, hint }]) =>
      `<tr id="e-${code}"><th scope="row"><code>${code}</code></th><td>${status}</td><td>${codeText(hint)}</td></tr>`,
  );
  return `<section aria-labelledby="${ERRORS.id}"><h2 id="${ERRORS.id}">${ERRORS.name}</h2>
<p>Each error is <code>{"error":{code, status, message, hint, details?, requestId, retryAfterMs?}}</code>. Usual, and not listed with each operation: ${[...usual].map(codeLink).join(" ")}</p>
<table><thead><tr><th scope="col">Code</th><th scope="col">Status</th><th scope="col">What to do</th></tr></thead><tbody>${rows.join("")}</tbody></table></section>`;
}

/** Such as `integer, 1 to 65535`, with links to components. */
function typeOf(schema: Schema): string {
  const { $ref, anyOf, oneOf, items, additionalProperties: more, properties } = schema;
  if ($ref !== undefined) {
    const name = $ref.split("/").at(-1) ?? "";
    return `<a href="#s-${name}">${escape(name)}</a>`;
  }
  const kinds = anyOf ?? oneOf;
  if (kinds) return [...new Set(kinds.map(typeOf))].join(" | ");
  if (schema.const !== undefined) return `<code>${escape(JSON.stringify(schema.const))}</code>`;
  if (schema.enum) return schema.enum.map((one) => `<code>${escape(JSON.stringify(one))}</code>`).join(" | ");
  if (items) return `list of ${typeOf(items)}${range(schema.minItems, schema.maxItems, " items")}`;
  if (typeof more === "object" && !properties) return `object of ${typeOf(more)}`;
  const type = typeof schema.type === "string" ? schema.type : (schema.type?.join(" | ") ?? "any");
  const format = schema.format === undefined ? "" : ` (${escape(schema.format)})`;
  const size = range(schema.minLength, schema.maxLength, " characters") || range(schema.minimum, schema.maximum, "");
  return `<span>${type}${format}${size}</span>`;
}

/** Limits that say something. */
function range(from: number | undefined, to: number | undefined, unit: string): string {
  const least = from === undefined || Math.abs(from) >= Number.MAX_SAFE_INTEGER ? undefined : from;
  const most = to === undefined || to >= Number.MAX_SAFE_INTEGER ? undefined : to;
  if (most !== undefined) return `, ${least === undefined ? "at most" : `${least} to`} ${most}${unit}`;
  return least === undefined || least === 0 ? "" : `, at least ${least}${unit}`;
}

/** Long paths break after slashes. */
function breakable(path: string): string {
  return escape(path).replaceAll("/", "/<wbr>");
}

function slug(name: string): string {
  return name.toLowerCase().replace(/[^a-z]+/g, "-");
}
