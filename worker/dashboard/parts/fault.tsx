/** An error as the API gives it: what happened, what to do, and by which code to look it up. */
import type { ComponentChildren } from "preact";
import { RouseError } from "../../../sdk/src/errors.ts";

export function Fault({ of, children }: { of: unknown; children?: ComponentChildren }) {
  if (of === null || of === undefined) return null;
  const known = of instanceof RouseError ? of : null;
  const message = of instanceof Error ? of.message : String(of);
  const issues = issuesOf(known?.details);
  return (
    <div class="fault" role="alert">
      <p class="fault-message">{message}</p>
      {issues.length > 0 && (
        <ul>
          {issues.map(({ path, message: text }) => (
            <li key={path + text}>
              {path !== "" && <code>{path}</code>} {text}
            </li>
          ))}
        </ul>
      )}
      {known?.hint && <p>{known.hint}</p>}
      {known && (
        <p class="fault-code">
          <code>{known.code}</code>
          {known.requestId !== undefined && (
            <>
              {" "}
              · request <code>{known.requestId}</code>
            </>
          )}
        </p>
      )}
      {children}
    </div>
  );
}

function issuesOf(details: unknown): { path: string; message: string }[] {
  const issues = (details as { issues?: unknown } | undefined)?.issues;
  if (!Array.isArray(issues)) return [];
  return issues.map((one: { path?: unknown; message?: unknown }) => ({
    path: String(one.path ?? ""),
    message: String(one.message ?? ""),
  }));
}
