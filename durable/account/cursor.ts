/** List cursors: opaque to callers. Pure. */
import type { Position } from "./store.ts";

export function toCursor({ createdAt, label }: Position): string {
  return btoa(`${createdAt} ${label}`).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** null when the text is no cursor of ours. */
export function fromCursor(text: string): Position | null {
  try {
    const [createdAt, label, ...rest] = atob(text.replaceAll("-", "+").replaceAll("_", "/")).split(" ");
    if (!createdAt || !label || rest.length > 0 || Number.isNaN(Date.parse(createdAt))) return null;
    return { createdAt, label };
  } catch {
    return null;
  }
}
