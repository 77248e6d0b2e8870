/** The API's document, for programs and to read. Both are made when they are first asked for. */
import { openApi } from "../api/openapi.ts";
import { operations } from "../api/operations.ts";
import { plainRoutes } from "../api/plain-routes.ts";
import { referenceScript, referenceStyle } from "../api/reference-assets.ts";
import { referencePage, type ReferenceDocument } from "../api/reference.ts";

const AGE = "public, max-age=300";

let text: string | undefined;
let page: { readonly html: string; readonly policy: string } | undefined;

export function openApiAnswer(): Response {
  text ??= JSON.stringify(openApi(operations, plainRoutes));
  return new Response(text, { headers: { "content-type": "application/json; charset=utf-8", "cache-control": AGE } });
}

/** A page that may do nothing but what stands in it. */
export async function referenceAnswer(): Promise<Response> {
  page ??= {
    html: referencePage(openApi(operations, plainRoutes) as unknown as ReferenceDocument),
    policy: [
      "default-src 'none'",
      `style-src '${await hashOf(referenceStyle)}'`,
      `script-src '${await hashOf(referenceScript)}'`,
      ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    ].join("; "),
  };
  return new Response(page.html, {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "cache-control": AGE,
      "content-security-policy": page.policy,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    },
  });
}

async function hashOf(content: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(content));
  return `sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}`;
}
