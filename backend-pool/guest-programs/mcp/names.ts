/** What the tools of several servers are called at one URL. Pure. */

/** Names of servers have no underscore, so the first two of them end the server's. */
const BETWEEN = "__";

/** @param several whether there is more than one server; the only one's tools keep their names */
export function outerName(server: string, inner: string, several: boolean): string {
  return several ? `${server}${BETWEEN}${inner}` : inner;
}

/** null: it names no server. */
export function innerName(outer: string): { readonly server: string; readonly inner: string } | null {
  const at = outer.indexOf(BETWEEN);
  return at <= 0 ? null : { server: outer.slice(0, at), inner: outer.slice(at + BETWEEN.length) };
}
