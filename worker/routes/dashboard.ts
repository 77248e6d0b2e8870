/** The dashboard: its files, which are part of the Worker, so that each way to run it serves the same bytes (ADR 31). */
import { Hono } from "hono";
import { files, type BuiltFile } from "../dashboard/dist/files.js";
import { dashboardSession } from "./dashboard-session.ts";

interface DashboardEnv {
  readonly Bindings: Env;
}

export const dashboard = new Hono<DashboardEnv>();

const ROOT = "/dashboard";
/** The one view that is a page of its own: the terminal's library makes style sheets, which no other page may. */
const TERMINAL = /^\/dashboard\/sandboxes\/[^/]+\/terminal$/;

export function hasDashboard(env: Env): boolean {
  return env.ROUSE_DASHBOARD !== "off";
}

dashboard.get("/", (c) =>
  hasDashboard(c.env) && c.req.header("accept")?.includes("text/html") ? c.redirect(ROOT) : c.notFound(),
);

dashboard.use(`${ROOT}/*`, async (c, next) => (hasDashboard(c.env) ? next() : c.notFound()));
dashboard.route(`${ROOT}/session`, dashboardSession);
dashboard.get(ROOT, (c) => (hasDashboard(c.env) ? page(c.req.raw, ROOT) : c.notFound()));
dashboard.get(`${ROOT}/assets/:name`, (c) => {
  const file = files[`assets/${c.req.param("name")}`];
  // Its name has the hash of what it holds.
  return file
    ? fileResponse(c.req.raw, file, { "cache-control": "public, max-age=31536000, immutable" })
    : c.notFound();
});
// Every other path is a view, which the page itself shows.
dashboard.get(`${ROOT}/*`, (c) => page(c.req.raw, new URL(c.req.url).pathname));

async function page(request: Request, path: string): Promise<Response> {
  const file = files["index.html"];
  if (!file) throw new Error("the dashboard was built without its page");
  const isTerminal = TERMINAL.test(path);
  return fileResponse(request, file, {
    "cache-control": "no-cache",
    "content-security-policy": [
      "default-src 'none'",
      "script-src 'self'",
      `style-src 'self'${isTerminal ? " 'unsafe-inline'" : ""}`,
      "img-src 'self' data: blob:",
      "connect-src 'self'",
      "form-action 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "require-trusted-types-for 'script'",
    ].join("; "),
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
  });
}

async function fileResponse(request: Request, file: BuiltFile, extra: Record<string, string>): Promise<Response> {
  const headers = new Headers({
    ...extra,
    etag: file.etag,
    vary: "accept-encoding",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
  });
  const known = (request.headers.get("if-none-match") ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (known.includes(file.etag)) return new Response(null, { status: 304, headers });
  headers.set("content-type", file.type);
  const packed = Uint8Array.from(atob(file.gzip), (char) => char.charCodeAt(0));
  if (/\bgzip\b/.test(request.headers.get("accept-encoding") ?? "")) {
    headers.set("content-encoding", "gzip");
    return new Response(packed, { headers, encodeBody: "manual" });
  }
  const body = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(body, { headers });
}
