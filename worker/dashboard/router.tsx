/** Views by path, and links between them that load nothing anew. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

const ROOT = "/dashboard";
const CHANGED = "rouse:path";

/** A path below `/dashboard`; the part behind it is encoded already. */
export const to = (path = ""): string => ROOT + path;

/** A sandbox is named in paths by its name, or by its id where it has none. */
export const toSandbox = (of: { name: string | null; id: string }, tab = ""): string =>
  to(`/sandboxes/${encodeURIComponent(of.name ?? of.id)}${tab === "" ? "" : `/${tab}`}`);

export function navigate(path: string): void {
  // The terminal is a page of its own, with rules of its own for what it may load.
  if (path.endsWith("/terminal") || location.pathname.endsWith("/terminal")) return location.assign(path);
  history.pushState(null, "", path);
  window.dispatchEvent(new Event(CHANGED));
  window.scrollTo(0, 0);
}

/** The parts of the path below `/dashboard`, decoded. */
export function usePath(): string[] {
  const [path, setPath] = useState(location.pathname);
  useEffect(() => {
    const look = () => setPath(location.pathname);
    for (const type of ["popstate", CHANGED]) window.addEventListener(type, look);
    return () => {
      for (const type of ["popstate", CHANGED]) window.removeEventListener(type, look);
    };
  }, []);
  return path
    .slice(ROOT.length)
    .split("/")
    .filter((part) => part !== "")
    .map((part) => decodeURIComponent(part));
}

interface LinkProps {
  readonly href: string;
  readonly class?: string;
  readonly "aria-current"?: "page" | undefined;
  readonly "aria-label"?: string;
  readonly children: ComponentChildren;
}

export function Link({ href, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return (
    <a href={href} onClick={follow} {...rest}>
      {children}
    </a>
  );
}
